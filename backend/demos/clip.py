"""A bare video: a demonstration of one view that says which hints it lacks."""

from pathlib import Path

from backend.demos.request import Request
from backend.documents.demonstration import Demonstration, View

SUFFIXES = (".mp4", ".mov", ".mkv", ".webm", ".avi", ".m4v")
MISSING = (
    "no task text: give `task` or predicates, else the goal is derived from the final relations",
    "no object prompts: give a box for each object in one frame",
    "no robot: name its `model`",
    "no intrinsics: they will be assumed",
    "no known size: give one object's `size`, or clicks on the support, else the scale is assumed",
)


def is_clip(path: Path) -> bool:
    """Whether `path` is a single video file."""
    return path.is_file() and path.suffix.lower() in SUFFIXES


def read_clip(request: Request, scratch: Path) -> Demonstration:
    """A one-view demonstration of a bare video."""
    hint = f'write a demo.json beside it, with "video": "{request.path.name}"'
    return Demonstration(
        views=(View(name="video", video=request.path.name),),
        loader="video",
        notes=(*MISSING, f"to add any of these, {hint}"),
        root=request.path.parent.resolve(),
    )
