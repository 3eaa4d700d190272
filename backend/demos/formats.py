"""The input formats, in the order in which they are tried on a path."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from backend.demos.clip import is_clip, read_clip
from backend.demos.droid import is_droid, read_droid
from backend.demos.egodex import is_egodex, read_egodex
from backend.demos.folder import is_folder, read_folder
from backend.demos.lerobot import is_lerobot, read_lerobot
from backend.demos.request import Request
from backend.documents.demonstration import Demonstration
from mjcf_export.errors import InputError


@dataclass(frozen=True)
class Format:
    """One input format.

    Attributes:
        name: as recorded in `Demonstration.loader`.
        looks_like: whether a path is of this format, from names alone.
        read: reads it; arrays it has to convert are written to the scratch folder.
        expected: what a path of this format looks like, for messages.
    """

    name: str
    looks_like: Callable[[Path], bool]
    read: Callable[[Request, Path], Demonstration]
    expected: str


FORMATS: tuple[Format, ...] = (
    Format("folder", is_folder, read_folder, "a folder with demo.json"),
    Format("droid", is_droid, read_droid, "a DROID raw episode (trajectory.h5, recordings/MP4)"),
    Format("lerobot", is_lerobot, read_lerobot, "a LeRobot dataset (meta/info.json)"),
    Format("egodex", is_egodex, read_egodex, "an EgoDex recording (NAME.hdf5 beside NAME.mp4)"),
    Format("video", is_clip, read_clip, "a video file"),
)


def format_of(path: Path) -> Format:
    """The format of `path`.

    Raises:
        InputError: none fits.
    """
    for item in FORMATS:
        if item.looks_like(path):
            return item
    raise InputError(f"{path}: not a demonstration; expected " + ", ".join(item.expected for item in FORMATS))
