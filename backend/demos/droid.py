"""DROID raw episodes: `trajectory.h5`, `recordings/MP4/<serial>.mp4` and `metadata_*.json`.

Cameras are ZED stereo; the MP4 shows the left eye. Extrinsics are `[x, y, z, roll, pitch, yaw]` camera-to-base
(extrinsic xyz Euler angles), camera times are host milliseconds, and the gripper position is the closed fraction.
"""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from backend.demos.pictures import frame_count
from backend.demos.request import Request
from backend.documents.demonstration import Demonstration, DemoRobot, Matrix3, Matrix4, Mount, View, ViewTrust
from mjcf_export.document import save_arrays, write_atomically
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, rotation_about

STROKE = 0.085
"""Metres between the pads of the open Robotiq 2F-85, which every DROID robot carries."""
FLANGE = 0.107
"""Metres from the frame of link 7 to link 8, the frame of DROID's cartesian positions."""
MODELS = {"fr3": ("fr3_robotiq_2f85",), "panda": ("panda_robotiq_2f85", "fr3_robotiq_2f85")}
"""Robot models in order of preference; FR3 and Panda share their link lengths."""
_STATE = "observation/robot_state"
_CLOCK = "observation/timestamp"


def is_droid(path: Path) -> bool:
    """Whether `path` is the folder of one raw episode."""
    return path.is_dir() and (path / "trajectory.h5").is_file()


def pose_matrix(vector: Array) -> Array:
    """The `(4, 4)` of a DROID pose `[x, y, z, roll, pitch, yaw]`."""
    roll, pitch, yaw = (float(v) for v in vector[3:6])
    matrix = np.eye(4)
    matrix[:3, :3] = rotation_about((0, 0, 1), yaw) @ rotation_about((0, 1, 0), pitch) @ rotation_about((1, 0, 0), roll)
    matrix[:3, 3] = vector[:3]
    return matrix


def read_droid(request: Request, scratch: Path) -> Demonstration:
    """Read one raw episode; joint states and camera times are written to `scratch`.

    Raises:
        InputError: a file, a dataset of the HDF5 or every video is missing.
    """
    root = request.path.resolve()
    try:
        with h5py.File(root / "trajectory.h5", "r") as file:
            return _Episode(root, file, scratch).demonstration()
    except OSError as problem:
        raise InputError(f"{root / 'trajectory.h5'}: not a readable HDF5 file ({problem})") from problem


class _Episode:
    """One raw episode being read: its folder, open HDF5, metadata, and what the user should know of it."""

    def __init__(self, root: Path, file: Any, scratch: Path) -> None:
        self.root = root
        self.file = file
        self.scratch = scratch
        self.metadata = _metadata(root)
        self.notes = [f"gripper opening estimated as {STROKE} m x (1 - gripper_position)"]

    def demonstration(self) -> Demonstration:
        """The whole episode. Time zero is the first picture of the earliest camera."""
        serials = self.serials()
        stamps = {serial: self.camera_times(serial) for serial in serials.values()}
        clock = self.robot_times()
        starts = [float(times[0]) for times in stamps.values() if times is not None and len(times)]
        zero = min(starts) if starts else float(clock[0])
        model = self.model()
        views = tuple(self.view(name, serial, stamps[serial], zero) for name, serial in serials.items())
        mounted = tuple(
            view.model_copy(update={"mount": self.wrist_mount(serials[view.name], model)})
            if view.name == "wrist"
            else view
            for view in views
        )
        task = self.metadata.get("current_task") or self.file.attrs.get("current_task") or ""
        return Demonstration(
            task=task.decode() if isinstance(task, bytes) else str(task),
            views=tuple(mounted),
            robots=(DemoRobot(name="robot", model=model, states=str(self.write_states(clock - zero))),),
            world="robot",
            loader="droid",
            notes=tuple(self.notes),
            root=Path("/"),
        )

    def model(self) -> str:
        """The robot model: FR3 or Panda by the serial number, whichever of these this installation knows."""
        from mjcf_export.robots import known_robots

        kind = "fr3" if "fr3" in str(self.metadata.get("robot_serial", "")).lower() else "panda"
        chosen = next((name for name in MODELS[kind] if name in known_robots()), MODELS[kind][0])
        if chosen != MODELS[kind][0]:
            self.notes.append(f"robot: {chosen} stands in for {MODELS[kind][0]}, whose links have the same lengths")
        return chosen

    def dataset(self, name: str) -> Array:
        """A dataset of the HDF5 as float64."""
        if name not in self.file:
            raise InputError(f"{self.root / 'trajectory.h5'}: no dataset {name}; expected a DROID raw episode")
        return np.asarray(self.file[name][()], dtype=np.float64)

    def serials(self) -> dict[str, str]:
        """View name to camera serial, for the cameras whose MP4 is there."""
        folder = self.root / "recordings" / "MP4"
        videos = {item.stem for item in folder.glob("*.mp4")}
        keys = {name: f"{name}_cam_serial" for name in ("ext1", "ext2", "wrist")}
        named = {name: str(self.metadata[key]) for name, key in keys.items() if key in self.metadata}
        if not named and "observation/camera_type" in self.file:
            external = iter(("ext1", "ext2", "ext3", "ext4"))
            for serial in sorted(self.file["observation/camera_type"]):
                kind = int(self.file[f"observation/camera_type/{serial}"][0])
                named["wrist" if kind == 0 else next(external)] = serial
        if not named:
            named = {stem: stem for stem in sorted(videos) if not stem.endswith("-stereo")}
        present = {name: serial for name, serial in named.items() if serial in videos}
        if not present:
            raise InputError(f"{folder}: no videos of the cameras {sorted(named.values())}; expected <serial>.mp4")
        self.notes += [f"view {name}: no video {named[name]}.mp4; left out" for name in named if name not in present]
        return present

    def camera_times(self, serial: str) -> Array | None:
        """Seconds at which each step's picture was taken, on the host's clock."""
        for kind in ("estimated_capture", "frame_received"):
            name = f"{_CLOCK}/cameras/{serial}_{kind}"
            if name in self.file:
                return self.dataset(name) / 1000
        return None

    def robot_times(self) -> Array:
        """Seconds at which each robot state was read, on the host's clock."""
        start, end = f"{_CLOCK}/robot_state/read_start", f"{_CLOCK}/robot_state/read_end"
        if start in self.file and end in self.file:
            return (self.dataset(start) + self.dataset(end)) / 2000
        if f"{_CLOCK}/control/step_start" in self.file:
            return self.dataset(f"{_CLOCK}/control/step_start") / 1000
        self.notes.append("no times of the robot states; a constant 15 Hz is assumed")
        return np.arange(len(self.dataset(f"{_STATE}/joint_positions"))) / 15.0

    def write_states(self, time: Array) -> Path:
        """Joint states and openings as `robot.npz`."""
        qpos = self.dataset(f"{_STATE}/joint_positions")
        closed = self.dataset(f"{_STATE}/gripper_position").reshape(-1)
        if qpos.ndim != 2 or len(qpos) != len(closed) or len(qpos) != len(time):
            raise InputError(
                f"{self.root / 'trajectory.h5'}: joint_positions {qpos.shape}, gripper_position {closed.shape} and "
                f"timestamps ({len(time)},) disagree"
            )
        arrays = {"time": time, "qpos": qpos, "gripper_opening": STROKE * (1 - np.clip(closed, 0, 1))}
        if f"{_STATE}/joint_velocities" in self.file:
            arrays["qvel"] = self.dataset(f"{_STATE}/joint_velocities")
        path = self.scratch / "robot.npz"
        save_arrays(path, arrays)
        return path

    def view(self, name: str, serial: str, stamps: Array | None, zero: float) -> View:
        """One camera. A wrist camera's recorded path is left to its mount."""
        video = self.root / "recordings" / "MP4" / f"{serial}.mp4"
        count = frame_count(video)
        sidecar = video.with_name(f"{serial}_timestamps.json")
        times = _sidecar_times(sidecar) if sidecar.is_file() else stamps
        frames, path = None, None
        if times is None:
            self.notes.append(f"view {name}: the trajectory holds no times of this camera; the video's clock is used")
        else:
            used = min(count, len(times))
            self.compare_counts(video, name, count, len(times))
            frames = (0, used) if used < count else None
            path = self.scratch / f"{name}_time.npy"
            chosen = times[:used] - zero
            write_atomically(path, lambda stream: np.save(stream, chosen))
        return View(
            name=name,
            video=str(video),
            frames=frames,
            timestamps=None if path is None else str(path),
            intrinsics=self.intrinsics(serial),
            extrinsics=None if name == "wrist" else self.extrinsics(name, serial),
            trust=ViewTrust(extrinsics="estimated"),
        )

    def compare_counts(self, video: Path, name: str, frames: int, times: int) -> None:
        """Note a few frames too many or too few; refuse a video that is not of this trajectory."""
        if abs(frames - times) > max(3, times // 20):
            raise InputError(f"{video}: {frames} frames, but the trajectory has {times} times of this camera")
        if frames != times:
            self.notes.append(
                f"view {name}: {frames} frames and {times} times; the first {min(frames, times)} are used"
            )

    def extrinsics(self, name: str, serial: str) -> Matrix4 | None:
        """Camera-to-base of an external camera, as estimated by DROID."""
        vector = self.metadata.get(f"{name}_cam_extrinsics")
        recorded = f"observation/camera_extrinsics/{serial}_left"
        if vector is None and recorded in self.file:
            vector = self.file[recorded][0]
        if vector is None:
            return None
        values = np.asarray(vector, dtype=np.float64).reshape(-1)
        if len(values) != 6:
            raise InputError(
                f"{self.root}: {name}_cam_extrinsics has {len(values)} numbers, expected x y z roll pitch yaw"
            )
        return _matrix4(pose_matrix(values))

    def wrist_mount(self, serial: str, model: str) -> Mount | None:
        """The wrist camera in link 7: DROID records it in the frame of its cartesian positions, link 8."""
        name = f"observation/camera_extrinsics/{serial}_left_gripper_offset"
        if name not in self.file:
            return None
        flange = np.eye(4)
        flange[2, 3] = FLANGE
        pose = flange @ pose_matrix(self.dataset(name).reshape(-1, 6)[0])
        return Mount(link="fr3_link7" if model.startswith("fr3") else "panda_link7", pose=_matrix4(pose))

    def intrinsics(self, serial: str) -> Matrix3 | None:
        """Intrinsics where the recording holds them (newer DROID releases)."""
        name = f"observation/camera_intrinsics/{serial}_left"
        if name not in self.file:
            return None
        a, b, c = ((float(x), float(y), float(z)) for x, y, z in self.dataset(name).reshape(-1, 3, 3)[0])
        return a, b, c


def _metadata(root: Path) -> dict[str, Any]:
    files = sorted(root.glob("metadata_*.json"))
    if not files:
        return {}
    try:
        raw = json.loads(files[0].read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InputError(f"{files[0]}: not readable JSON ({problem})") from problem
    if not isinstance(raw, dict):
        raise InputError(f"{files[0]}: expected a JSON object")
    return raw


def _sidecar_times(path: Path) -> Array:
    try:
        return np.array(json.loads(path.read_text(encoding="utf-8")), dtype=np.float64).reshape(-1) / 1000
    except (OSError, ValueError, TypeError) as problem:
        raise InputError(f"{path}: expected a JSON list of milliseconds, one for each frame ({problem})") from problem


def _matrix4(matrix: Array) -> Matrix4:
    a, b, c, d = ((float(x), float(y), float(z), float(w)) for x, y, z, w in matrix)
    return a, b, c, d
