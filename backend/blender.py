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

from backend.documents.run import Progress
from mjcf_export.errors import InputError, MissingError, Real2GymError

MARK = "real2gym:"
OLDEST = (4, 2)
HOW_TO_INSTALL = (
    "run `pip install real2gym[blender]`, or install Blender 4.2 or newer with the Real2Gym extension and put it on "
    "PATH (or name it in the environment variable REAL2GYM_BLENDER)"
)


def blender_command() -> tuple[str, ...]:
    """The words that a Blender command starts with on this machine.

    Raises:
        MissingError: neither bpy nor Blender 4.2 or newer is here; the message says how to install it.
    """
    if find_spec("bpy") is not None:
        return (sys.executable, "-m", "blender_addon")
    named = os.environ.get("REAL2GYM_BLENDER")
    program = named or shutil.which("blender")
    if program is None:
        raise MissingError(f"Blender: neither the bpy package nor a `blender` program is here; {HOW_TO_INSTALL}")
    version = _version(program)
    if version is None:
        raise MissingError(f"{program}: does not answer `--version` like Blender; {HOW_TO_INSTALL}")
    if version < OLDEST:
        raise MissingError(f"{program}: is Blender {version[0]}.{version[1]}; {HOW_TO_INSTALL}")
    return (program, "--background", "--command", "real2gym")


def run_blender(arguments: Sequence[str], progress: Progress | None = None) -> tuple[str, ...]:
    """Run `build`, `read`, `animate`, `render` or `render-sequence` and wait for it.

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
    if not errors and any("real2gym" in line and "command" in line.lower() for line in tail):
        return MissingError(f"Blender does not know the command real2gym; {HOW_TO_INSTALL}")
    what = f"Blender {arguments[0]}" if arguments else "Blender"
    if code < 0 or code > 128:
        signal = -code if code < 0 else code - 128
        return MissingError(
            f"{what}: was ended by signal {signal} (out of memory, or a graphics library it lacks): {message}"
        )
    return Real2GymError(f"{what}: failed with exit code {code}: {message}")


@lru_cache(maxsize=4)
def _version(program: str) -> tuple[int, int] | None:
    try:
        answer = subprocess.run(
            [program, "--version"], capture_output=True, text=True, errors="replace", timeout=60, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = re.search(r"Blender (\d+)\.(\d+)", answer.stdout)
    return (int(found[1]), int(found[2])) if found else None
