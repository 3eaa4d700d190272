"""The files a demonstration is made of: what tells that it changed, before and after it is loaded."""

import hashlib
import json
from pathlib import Path

from backend.demos.clip import is_clip
from backend.demos.request import parse_request


def listing(demonstration: str, run: Path) -> str:
    """SHA-256 over names, sizes and times of all files of a demonstration, whatever its format and size.

    Args:
        demonstration: as the user named it (`folder`, `folder#episode=3`, a file: then all that lies beside it).
        run: the run's folder; left out where it lies inside.

    Raises:
        InputError: there is no such demonstration.
    """
    path = parse_request(demonstration).path.resolve()
    folder = path if path.is_dir() else path.parent
    mine = run.resolve()
    digest = hashlib.sha256()
    for file in sorted(folder.glob("*") if is_clip(path) else folder.rglob("*")):
        if file.is_file() and not file.is_relative_to(mine):
            state = file.stat()
            digest.update(f"{file.relative_to(folder)} {state.st_size} {state.st_mtime_ns}\n".encode())
    return digest.hexdigest()


def named_files(demo: Path) -> tuple[Path, ...]:
    """The videos, image folders, depth and robot models that a run's own `demo.json` names; none before it is there."""
    if not demo.is_file():
        return ()
    raw = json.loads(demo.read_text(encoding="utf-8"))
    names = [view[key] for view in raw["views"] for key in ("video", "depth") if view.get(key)]
    names += [robot["model"] for robot in raw["robots"]]
    return tuple(path for path in map(Path, names) if path.is_absolute() and path.exists())
