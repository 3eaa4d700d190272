"""A view's frames, times, depth and camera path, as arrays."""

from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from backend.demos.depth import depth_files, read_depth
from backend.demos.pictures import decode, frame_count
from backend.documents.demonstration import Demonstration, View
from mjcf_export.document import resolve_inside
from mjcf_export.errors import InputError
from mjcf_export.frames import Array

MEMORY_BUDGET = 2 * 1024**3
"""Bytes of pictures one view may take before frames are left out."""


@dataclass(frozen=True)
class ViewFrames:
    """The frames of one view.

    Attributes:
        images: `(T, H, W, 3)` uint8 RGB.
        times: `(T,)` seconds since the demonstration's first frame, `time_scale` applied.
        depth: `(T, H, W)` float32 metres of optical z, 0 where nothing was measured; None when not recorded.
        indices: `(T,)` source frame of each picture; `0..T-1` unless frames were left out.
        notes: what the user should know, such as frames left out.
    """

    images: npt.NDArray[np.uint8]
    times: Array
    depth: npt.NDArray[np.float32] | None = None
    indices: npt.NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    notes: tuple[str, ...] = ()

    def at(self, frame: int) -> int:
        """Position in these arrays of the picture nearest to source frame `frame`."""
        return int(np.abs(self.indices - frame).argmin())


def load_view(demo: Demonstration, view_name: str, budget: int = MEMORY_BUDGET) -> ViewFrames:
    """Decode a view of the demonstration.

    When the pictures would take more than `budget` bytes, every n-th frame is kept and `notes` says so.

    Raises:
        InputError: the video, its timestamps or its depth cannot be read.
        KeyError: there is no such view.
    """
    view = demo.view(view_name)
    path = resolve_inside(demo.root, view.video)
    total = frame_count(path)
    if total == 0:
        raise InputError(f"{path}: the video holds no frames")
    first, stop = view.frames or (0, total)
    _, sample = next(decode(path, range(first, first + 1)), (None, None))
    if sample is None:
        raise InputError(f"{path}: frame {first} cannot be decoded; the video holds {total} frames")
    size = sample.nbytes + (sample.nbytes // 3 * 4 if view.depth else 0)
    step = max(1, -(-size * (stop - first) // budget))
    images, stamps = [], []
    for time, image in decode(path, range(first, stop, step)):
        images.append(image)
        stamps.append(time)
    indices = np.arange(len(images), dtype=np.int64) * step
    times = _select(demo, view, stamps, indices, stop - first)
    notes = () if step == 1 else (
        f"view {view.name}: {stop - first} frames exceed the memory budget; every {step}. frame is used",
    )  # fmt: skip
    depth = None
    if view.depth is not None:
        files = depth_files(resolve_inside(demo.root, view.depth), stop - first)
        depth = np.stack([read_depth(files[index]) for index in indices])
    return ViewFrames(np.stack(images), times, depth, indices, notes)


def read_timestamps(path: Path) -> Array:
    """A view's own timestamps `(T,)` in seconds.

    Raises:
        InputError: the file is not a vector of finite numbers.
    """
    times = _array(path)
    if times.ndim != 1 or not np.issubdtype(times.dtype, np.number):
        raise InputError(f"{path}: timestamps are a vector (T,) of seconds, this has shape {times.shape}")
    times = times.astype(np.float64)
    if not np.isfinite(times).all():
        raise InputError(f"{path}: timestamp {int(np.argmin(np.isfinite(times)))} is not a finite number")
    return times


def load_poses(demo: Demonstration, view_name: str) -> Array | None:
    """Camera-to-world of a view: `(4, 4)` when it stands still, `(T, 4, 4)` per source frame, None when not given.

    Raises:
        InputError: the file is missing or not an array of 4x4 transforms.
    """
    view = demo.view(view_name)
    if view.extrinsics is None:
        return None
    if not isinstance(view.extrinsics, str):
        return np.array(view.extrinsics)
    path = resolve_inside(demo.root, view.extrinsics)
    poses = _array(path)
    if poses.ndim != 3 or poses.shape[1:] != (4, 4):
        raise InputError(f"{path}: camera poses are (T, 4, 4) camera-to-world, this has shape {poses.shape}")
    return poses.astype(np.float64)


def constant_times(count: int, fps: float) -> Array:
    """Times of `count` frames at a constant rate."""
    return np.arange(count) / fps


def own_times(demo: Demonstration, view: View, count: int, clock: Array | None) -> Array:
    """Times `(count,)` of a view before `time_scale`: its timestamps file, else its own clock, else its `fps`.

    Raises:
        InputError: there is none of these.
    """
    if view.timestamps is not None:
        return read_timestamps(resolve_inside(demo.root, view.timestamps))
    if clock is not None:
        return clock
    if view.fps is not None:
        return constant_times(count, view.fps)
    raise InputError(f"view {view.name}: {view.video} carries no times; give `timestamps` or `fps`")


def _select(
    demo: Demonstration, view: View, stamps: list[float | None], indices: npt.NDArray[np.int64], count: int
) -> Array:
    known = [stamp for stamp in stamps if stamp is not None]
    clock = np.array(known) - known[0] if known and len(known) == len(stamps) else None
    if view.timestamps is None and clock is not None:
        return clock * demo.time_scale
    times = own_times(demo, view, count, None)
    if len(times) <= indices[-1]:
        raise InputError(f"view {view.name}: {len(times)} timestamps for {count} frames; there must be one a frame")
    chosen: Array = times[indices] * demo.time_scale
    return chosen


def _array(path: Path) -> npt.NDArray[np.float64]:
    try:
        array = np.load(path, allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise InputError(f"{path}: not a readable .npy array ({error})") from error
    if not isinstance(array, np.ndarray):
        raise InputError(f"{path}: expected a .npy array, this is an archive of several")
    return array
