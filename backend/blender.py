"""Blender work from the backend: the command runs in a subprocess, in the bpy module or in a found Blender."""

import os
import re
import shutil
import subprocess
import sys
from collections import deque
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from backend.documents.run import Progress
from mjcf_export.errors import InputError, MissingError, Real2GymError

MARK = "real2gym:"
OLDEST = (4, 2)
NAMED = "REAL2GYM_BLENDER"
HOW_TO_INSTALL = (
    "run `pip install 'real2gym[blender]'`, or install Blender 4.2 or newer from blender.org and put it on PATH (or "
    f"name it in the environment variable {NAMED})"
)
_PROBE = (
    "import bpy, sys; print('probe', *sys.version_info[:2], "
    "any(name.split('.')[-1] == 'real2gym' for name in bpy.context.preferences.addons.keys()))"
)
_START = (
    "import runpy, sys; sys.path += {paths!r}; sys.argv = ['real2gym', *sys.argv[sys.argv.index('--') + 1:]]; "
    "runpy.run_module('blender_addon', run_name='__main__')"
)


def blender_command() -> tuple[str, ...]:
    """The words that a Blender command starts with on this machine.

    A Blender named in the environment comes first, then the bpy package, then a `blender` on PATH. A Blender that has
    the Real2Gym extension runs its command; any other borrows the packages of this Python, which must be its own kind.

    Raises:
        MissingError: neither bpy nor a usable Blender 4.2 or newer is here; the message says how to get it.
    """
    named = os.environ.get(NAMED)
    if not named and find_spec("bpy") is not None:
        return (sys.executable, "-m", "blender_addon")
    program = shutil.which(named or "blender")
    if program is None:
        raise MissingError(
            f"{named}: {NAMED} names no program; {HOW_TO_INSTALL}"
            if named
            else f"Blender: neither the bpy package nor a `blender` program is here; {HOW_TO_INSTALL}"
        )
    version = _version(program)
    if version is None:
        raise MissingError(f"{program}: does not answer `--version` like Blender; {HOW_TO_INSTALL}")
    if version < OLDEST:
        raise MissingError(f"{program}: is Blender {version[0]}.{version[1]}; {HOW_TO_INSTALL}")
    return _found_command(program, ".".join(map(str, version)))


def _found_command(program: str, version: str) -> tuple[str, ...]:
    python, extended = _probe(program)
    if extended:
        return (program, "--background", "--command", "real2gym")
    if python != sys.version_info[:2]:
        theirs, ours = (".".join(map(str, item[:2])) for item in (python, sys.version_info))
        raise MissingError(
            f"{program}: Blender {version} has Python {theirs}, this environment Python {ours}, and the Real2Gym "
            f"extension is not enabled in it; {HOW_TO_INSTALL}, one with Python {ours}"
        )
    start = _START.format(paths=_package_paths())
    return (program, "--background", "--factory-startup", "--python-exit-code", "4", "--python-expr", start, "--")


def _package_paths() -> list[str]:
    """Where this Python finds the product and what it imports, without the standard library."""
    product = str(Path(__file__).resolve().parent.parent)
    return [product, *(path for path in sys.path if Path(path).name in {"site-packages", "dist-packages"})]


def run_blender(arguments: Sequence[str], progress: Progress | None = None) -> tuple[str, ...]:
    """Run `build`, `read`, `animate`, `render`, `render-shots` or `render-sequence` and wait for it.

    Args:
        arguments: as after `python -m blender_addon`.
        progress: called with the fraction done as pictures are finished.

    Returns:
        Notes: what could not be kept or was substituted, one sentence each.

    Raises:
        InputError: the command refused its input.
        MissingError: Blender, its extension, or a library it needs is not here, or it was killed for memory.
        Real2GymError: it failed otherwise; the message ends with what it printed last.
    """
    words = [*blender_command(), *arguments]
    notes: list[str] = []
    errors: list[str] = []
    tail: deque[str] = deque(maxlen=15)
    with subprocess.Popen(
        words,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    ) as process:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                if line.startswith(MARK):
                    _take(line[len(MARK) :].rstrip("\n"), notes, errors, progress)
                elif line.strip():
                    tail.append(line.rstrip())
            code = process.wait()
        except BaseException:
            process.terminate()
            raise
    if code != 0:
        raise _failure(code, errors, tail, arguments)
    return tuple(notes)


def _take(line: str, notes: list[str], errors: list[str], progress: Progress | None) -> None:
    kind, _, text = line.partition(" ")
    if kind == "note":
        notes.append(text)
    elif kind == "error":
        errors.append(text)
    elif kind == "progress" and progress is not None:
        fraction, _, message = text.partition(" ")
        progress(float(fraction), message)


def _failure(code: int, errors: list[str], tail: Sequence[str], arguments: Sequence[str]) -> Real2GymError:
    message = errors[-1] if errors else "\n".join(tail)
    if code == InputError.exit_code:
        return InputError(message)
    if code == MissingError.exit_code:
        return MissingError(message)
    what = f"Blender {arguments[0]}" if arguments else "Blender"
    if code < 0 or code > 128:
        signal = -code if code < 0 else code - 128
        return MissingError(
            f"{what}: was ended by signal {signal} (out of memory, or a graphics library it lacks): {message}"
        )
    return Real2GymError(f"{what}: failed with exit code {code}: {message}")


@lru_cache(maxsize=4)
def _version(program: str) -> tuple[int, int] | None:
    found = re.search(r"Blender (\d+)\.(\d+)", _answer(program, "--version"))
    return (int(found[1]), int(found[2])) if found else None


@lru_cache(maxsize=4)
def _probe(program: str) -> tuple[tuple[int, int], bool]:
    """Blender's Python version, and whether the extension is enabled in it."""
    answer = _answer(program, "--background", "--python-expr", _PROBE)
    found = re.search(r"^probe (\d+) (\d+) (True|False)$", answer, re.MULTILINE)
    if found is None:
        raise MissingError(f"{program}: cannot run Python in the background; {HOW_TO_INSTALL}")
    return (int(found[1]), int(found[2])), found[3] == "True"


def _answer(program: str, *arguments: str) -> str:
    """What the program prints, or nothing when it cannot be run."""
    try:
        done = subprocess.run(
            [program, *arguments], capture_output=True, text=True, errors="replace", timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout
