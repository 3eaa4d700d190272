"""Loading, checking and recording a demonstration, whatever its format."""

import atexit
import shutil
import tempfile
import zlib
from functools import cache
from pathlib import Path

from backend.demos.check import find_problems
from backend.demos.formats import format_of
from backend.demos.problem import Problem, error
from backend.demos.request import parse_request
from backend.documents.demonstration import Demonstration
from mjcf_export.document import atomic_path, resolve_inside
from mjcf_export.errors import InputError

LISTED = 5
"""How many errors one message lists."""


def load_demonstration(path: Path | str, episode: int | None = None) -> Demonstration:
    """Read and check a demonstration of any format.

    Args:
        path: a demonstration folder or its `demo.json`, a DROID raw episode folder, a LeRobot dataset folder
            (`folder#episode=3`), an EgoDex recording, or a video file.
        episode: which episode of a data set.

    Returns:
        The demonstration; warnings are among its `notes`. A run's own copy is read without checking it again.

    Raises:
        InputError: it cannot be used; the message lists up to five errors.
    """
    demo = _read(path, episode)
    if demo.source is not None:
        return demo
    problems = find_problems(demo)
    errors = [problem for problem in problems if problem.severity == "error"]
    if errors:
        more = f"; and {len(errors) - LISTED} more" if len(errors) > LISTED else ""
        raise InputError("; ".join(f"{item.where}: {item.message}" for item in errors[:LISTED]) + more)
    notes = (*demo.notes, *(str(problem) for problem in problems))
    return demo.model_copy(update={"notes": notes})


def check_demonstration(path: Path | str, episode: int | None = None) -> list[Problem]:
    """Every problem of a demonstration, errors first; empty when there is none."""
    try:
        return find_problems(_read(path, episode))
    except InputError as problem:
        return [error(Path(str(path)).name, str(problem))]


def save_demonstration(demo: Demonstration, folder: Path) -> Path:
    """Record a demonstration in a run: `demo.json` with absolute paths, arrays and camera paths copied beside it.

    Videos, image folders, depth and robot models stay where they are.

    Raises:
        MissingError: the folder cannot be written.
    """
    folder = folder.resolve()
    views = tuple(
        view.model_copy(
            update={
                "video": _keep(resolve_inside(demo.root, view.video), folder),
                "timestamps": _copy(demo, view.timestamps, folder, f"{view.name}_time"),
                "extrinsics": _copy(demo, view.extrinsics, folder, f"{view.name}_pose")
                if isinstance(view.extrinsics, str)
                else view.extrinsics,
                "depth": None if view.depth is None else str(resolve_inside(demo.root, view.depth)),
            }
        )
        for view in demo.views
    )
    robots = tuple(
        robot.model_copy(
            update={
                "model": _model(demo, robot.model),
                "states": _copy(demo, robot.states, folder, f"{robot.name}_states"),
            }
        )
        for robot in demo.robots
    )
    update = {"views": views, "robots": robots, "hands": _copy(demo, demo.hands, folder, "hands")}
    source = demo.source or str(demo.root.resolve())
    saved = demo.model_copy(update={**update, "source": source, "root": Path("/")})
    path = folder / "demo.json"
    saved.save(path)
    return path


def _read(path: Path | str, episode: int | None) -> Demonstration:
    request = parse_request(path, episode)
    scratch = Path(tempfile.mkdtemp(prefix="demo-", dir=_scratch()))
    return format_of(request.path).read(request, scratch)


@cache
def _scratch() -> Path:
    """A folder for converted arrays that lasts as long as this process."""
    folder = tempfile.mkdtemp(prefix="real2gym-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _copy(demo: Demonstration, relative: str | None, folder: Path, name: str) -> str | None:
    if relative is None:
        return None
    origin = resolve_inside(demo.root, relative)
    target = folder / (_file_name(name) + origin.suffix)
    if origin != target:
        with atomic_path(target) as temporary:
            shutil.copyfile(origin, temporary)
    return str(target)


def _keep(path: Path, folder: Path) -> str:
    """A video where it is; pictures that a loader unpacked are copied, since the scratch folder will go."""
    if not path.is_relative_to(_scratch().resolve()):
        return str(path)
    shutil.copytree(path, folder / path.name, dirs_exist_ok=True)
    return str(folder / path.name)


def _file_name(name: str) -> str:
    clean = "".join(letter if letter.isalnum() or letter in "-_" else "_" for letter in name)
    return clean if clean == name else f"{clean}-{zlib.crc32(name.encode()):08x}"


def _model(demo: Demonstration, model: str) -> str:
    return str(resolve_inside(demo.root, model)) if (demo.root / model).is_file() else model
