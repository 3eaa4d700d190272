"""Which of the product's own source files a function depends on, so that a change of the code reruns what it made."""

import hashlib
import inspect
import re
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("backend", "mjcf_export", "blender_addon")
_FROM = re.compile(r"^[ \t]*from[ \t]+([\w.]+)[ \t]+import[ \t]+(\([^)]*\)|[^\n]*)", re.MULTILINE)
_IMPORT = re.compile(r"^[ \t]*import[ \t]+([^\n]*)", re.MULTILINE)


def source_hash(function: Callable[..., Any], programs: tuple[str, ...] = ()) -> str:
    """SHA-256 over the source of `function` and of every module of the product that it imports, however indirectly.

    Args:
        function: a function whose imports may stand in its own body.
        programs: packages that it runs in another process, which no import shows.
    """
    text = inspect.getsource(function)
    files = set(module_closure(imported_modules(text)))
    for program in programs:
        files |= set((PACKAGE_ROOT / program).rglob("*.py"))
    digest = hashlib.sha256(text.encode())
    for file in sorted(files):
        digest.update(str(file.relative_to(PACKAGE_ROOT)).encode())
        digest.update(file.read_bytes())
    return digest.hexdigest()


def module_closure(start: set[Path]) -> set[Path]:
    """The files of `start` and all files of the product that they import."""
    found: set[Path] = set()
    waiting = list(start)
    while waiting:
        file = waiting.pop()
        if file not in found:
            found.add(file)
            waiting += _imports_of(file)
    return found


def imported_modules(text: str) -> set[Path]:
    """Files of the product's modules that a piece of source code imports anywhere in it."""
    return {file for name in _names(text) for file in _files(name)}


@cache
def _imports_of(file: Path) -> frozenset[Path]:
    return frozenset(imported_modules(file.read_text(encoding="utf-8")))


def _names(text: str) -> Iterator[str]:
    for package, names in _FROM.findall(text):
        yield package
        yield from (f"{package}.{name}" for name in re.findall(r"\w+", names))
    for names in _IMPORT.findall(text):
        yield from re.findall(r"[\w.]+", names)


def _files(name: str) -> Iterator[Path]:
    """A module's file and those of the packages it lies in, which are imported with it."""
    parts = name.split(".")
    if parts[0] not in PACKAGES:
        return
    for length in range(1, len(parts) + 1):
        place = PACKAGE_ROOT.joinpath(*parts[:length])
        for file in (place / "__init__.py", place.with_suffix(".py")):
            if file.is_file():
                yield file
