"""EgoDex recordings: `NAME.hdf5` with hand and camera poses beside `NAME.mp4`.

Poses are 4x4 in ARKit's origin frame, whose Y axis points up; camera poses are optical frames. The world here is
that frame turned so that Z points up.
"""

from pathlib import Path
from typing import Any

import h5py
import numpy as np

from backend.demos.request import Request
from backend.documents.demonstration import Demonstration, Matrix3, View
from mjcf_export.document import save_arrays, write_atomically
from mjcf_export.errors import InputError
from mjcf_export.frames import Array

FPS = 30.0
Z_UP = np.array([[1.0, 0, 0, 0], [0, 0, -1, 0], [0, 1, 0, 0], [0, 0, 0, 1]])
_FINGERS = ("Thumb", "IndexFinger", "MiddleFinger", "RingFinger", "LittleFinger")
_JOINTS = ("Knuckle", "IntermediateBase", "IntermediateTip", "Tip")


def is_egodex(path: Path) -> bool:
    """Whether `path` is one recording: the HDF5 file, or its MP4 with the HDF5 beside it."""
    return path.is_file() and path.suffix in (".hdf5", ".mp4") and path.with_suffix(".hdf5").is_file()


def landmark_names(side: str) -> tuple[str, ...]:
    """The 21 EgoDex joints of a hand in MediaPipe's landmark order."""
    return (f"{side}Hand", *(f"{side}{finger}{joint}" for finger in _FINGERS for joint in _JOINTS))


def read_egodex(request: Request, scratch: Path) -> Demonstration:
    """Read one recording; hands, camera path and times are written to `scratch`.

    Raises:
        InputError: the HDF5 cannot be read or lacks the camera or the hands, or the MP4 is missing.
    """
    path = request.path.resolve().with_suffix(".hdf5")
    video = path.with_suffix(".mp4")
    if not video.is_file():
        raise InputError(f"{video}: no such file; an EgoDex recording is NAME.hdf5 beside NAME.mp4")
    try:
        with h5py.File(path, "r") as file:
            return _read(path, video, file, scratch)
    except OSError as problem:
        raise InputError(f"{path}: not a readable HDF5 file ({problem})") from problem


def _read(path: Path, video: Path, file: Any, scratch: Path) -> Demonstration:
    camera = Z_UP @ _transforms(path, file, "camera")
    time = np.arange(len(camera)) / FPS
    poses, clock, hands = scratch / "camera_pose.npy", scratch / "time.npy", scratch / "hands.npz"
    write_atomically(poses, lambda stream: np.save(stream, camera))
    write_atomically(clock, lambda stream: np.save(stream, time))
    arrays = {"time": time}
    for side in ("left", "right"):
        points = [_transforms(path, file, name)[:, :3, 3] for name in landmark_names(side)]
        arrays[side] = np.stack(points, axis=1) @ Z_UP[:3, :3].T
        name = f"confidences/{side}Hand"
        if name in file:
            arrays[f"{side}_confidence"] = np.asarray(file[name][()], dtype=np.float64)
    save_arrays(hands, arrays)
    if "camera/intrinsic" not in file:
        raise InputError(f"{path}: no dataset camera/intrinsic; expected an EgoDex recording")
    matrix = np.asarray(file["camera/intrinsic"][()], dtype=np.float64)
    attributes = dict(file.attrs.items())
    task = attributes.get("llm_description") or attributes.get("description") or ""
    return Demonstration(
        task=task.decode() if isinstance(task, bytes) else str(task),
        actor="human",
        views=(
            View(
                name="head",
                video=str(video),
                timestamps=str(clock),
                intrinsics=_matrix3(matrix),
                extrinsics=str(poses),
            ),
        ),
        hands=str(hands),
        loader="egodex",
        root=Path("/"),
    )


def _matrix3(matrix: Array) -> Matrix3:
    a, b, c = ((float(x), float(y), float(z)) for x, y, z in matrix)
    return a, b, c


def _transforms(path: Path, file: Any, name: str) -> Array:
    key = f"transforms/{name}"
    if key not in file:
        raise InputError(f"{path}: no dataset {key}; expected an EgoDex recording")
    values = np.asarray(file[key][()], dtype=np.float64)
    if values.ndim != 3 or values.shape[1:] != (4, 4):
        raise InputError(f"{path}: {key} has shape {values.shape}, expected (N, 4, 4)")
    return values
