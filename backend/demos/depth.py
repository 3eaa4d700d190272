"""Recorded depth: a folder of 16-bit PNG in millimetres, one for each frame of its view."""

from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from backend.demos.pictures import image_files
from mjcf_export.errors import InputError

Depth = npt.NDArray[np.float32]


def read_depth(path: Path) -> Depth:
    """One depth picture `(H, W)` in metres of optical z; 0 where nothing was measured.

    Raises:
        InputError: the file is not a 16-bit single-channel PNG.
    """
    data = np.frombuffer(path.read_bytes(), dtype=np.uint8)
    raw = cv2.imdecode(data, cv2.IMREAD_UNCHANGED) if data.size else None
    if raw is None:
        raise InputError(f"{path}: not a readable picture; depth is 16-bit PNG in millimetres")
    if raw.dtype != np.uint16 or raw.ndim != 2:
        raise InputError(
            f"{path}: depth is 16-bit single-channel PNG in millimetres, this is {raw.dtype} with shape {raw.shape}"
        )
    metres: Depth = raw.astype(np.float32) / np.float32(1000)
    return metres


def depth_files(folder: Path, frames: int) -> list[Path]:
    """The depth pictures of a view of `frames` frames.

    Raises:
        InputError: it is no folder, or their number is another.
    """
    if not folder.is_dir():
        raise InputError(f"{folder}: depth is a folder of 16-bit PNG, one for each frame")
    files = image_files(folder)
    if len(files) != frames:
        raise InputError(f"{folder}: {len(files)} depth pictures for {frames} frames; there must be one for each frame")
    return files


def check_depth(folder: Path, frames: int, width: int, height: int) -> None:
    """Refuse a depth folder that does not belong to a view of this size.

    Raises:
        InputError: count, format or size is wrong.
    """
    for path in depth_files(folder, frames):
        depth = read_depth(path)
        if depth.shape != (height, width):
            raise InputError(
                f"{path}: depth is {depth.shape[1]}x{depth.shape[0]}, its view is {width}x{height}; "
                "register and resample it to the view"
            )
        if not depth.any():
            raise InputError(f"{path}: the depth picture is empty (all zero)")
