"""The demonstration folder: `demo.json` and the files beside it (docs/demonstration.md)."""

import json
from pathlib import Path
from typing import Any, NoReturn

from backend.demos.request import Request
from backend.documents.demonstration import Demonstration
from mjcf_export.errors import InputError

FILE = "demo.json"


def is_folder(path: Path) -> bool:
    """Whether `path` is a demonstration folder or its JSON file."""
    return (path / FILE).is_file() if path.is_dir() else path.suffix == ".json"


def read_folder(request: Request, scratch: Path) -> Demonstration:
    """Read a demonstration folder.

    Raises:
        InputError: the JSON is broken (with its line) or breaks the schema, or an absolute path is named.
    """
    path = request.path / FILE if request.path.is_dir() else request.path
    raw = read_json(path)
    demo = Demonstration.parse(raw, path)
    if demo.source is not None:
        if not (path.parent.parent / "run.json").is_file():
            raise InputError(f"{path}: `source` belongs to a run's own copy; remove it and use relative paths")
        return demo.model_copy(update={"root": Path("/")})
    return demo.model_copy(update={"root": path.parent.resolve(), "loader": "folder"})


def read_json(path: Path) -> Any:
    """Strict JSON: no comments, no NaN, no key twice.

    Raises:
        InputError: with the line and column of the fault.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{path}: cannot be read as UTF-8 text ({problem})") from problem
    try:
        return json.loads(
            text, parse_constant=lambda name: _refuse_constant(path, name), object_pairs_hook=_unique(path)
        )
    except json.JSONDecodeError as problem:
        lines = text.splitlines() or [""]
        line = lines[min(problem.lineno, len(lines)) - 1].strip()
        hint = "; JSON has no comments" if line.startswith(("//", "#", "/*")) or " //" in line else ""
        raise InputError(
            f"{path}:{problem.lineno}:{problem.colno}: not valid JSON ({problem.msg}){hint}: {line[:80]}"
        ) from problem


def _refuse_constant(path: Path, name: str) -> NoReturn:
    raise InputError(f"{path}: {name} is not a number in JSON; leave a field out when it is not known")


def _unique(path: Path) -> Any:
    def build(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for key, value in pairs:
            if key in result:
                raise InputError(f"{path}: the key {key!r} is given twice in one object")
            result[key] = value
        return result

    return build
