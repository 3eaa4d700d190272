"""The clean pictures of a performance: one Blender process, Cycles, resumed where it stopped."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import mujoco
import numpy as np
import numpy.typing as npt

from backend.blender import run_blender
from backend.documents.run import Progress
from backend.evaluate.worlds.expert import Performance
from backend.evaluate.worlds.layout import ROBOT
from backend.motion.world import World
from mjcf_export.document import save_arrays
from mjcf_export.errors import Real2GymError
from mjcf_export.frames import Array


@dataclass(frozen=True)
class Picture:
    """How the demonstration is filmed."""

    fps: float = 10.0
    samples: int = 4
    bounces: int = 2
    most_frames: int = 80


def frame_ticks(performance: Performance, picture: Picture) -> npt.NDArray[np.int64]:
    """Control steps `(F,)` that the video frames show."""
    step = 1 / picture.fps / float(np.diff(performance.time).mean())
    count = min(picture.most_frames, int((len(performance.time) - 1) / step) + 1)
    return np.round(np.arange(count) * step).astype(np.int64)


def robot_joints(world: World) -> npt.NDArray[np.int64]:
    """Addresses in `qpos` of all the robot's joints, in the order of the robot's own model."""
    model = world.model
    mine = [j for j in range(model.njnt) if model.joint(j).name.startswith(f"{ROBOT}/")]
    return np.array([int(model.jnt_qposadr[j]) for j in mine], dtype=np.int64)


def pose_arrays(world: World, performance: Performance, ticks: npt.NDArray[np.int64]) -> dict[str, Array]:
    """What moves, per frame: `body/<name>` `(F, 7)`, all joints and the opening of the robot."""
    free = [name for name in performance.bodies if world.free_joint(name) is not None]
    arrays = {f"body/{name}": performance.bodies[name][ticks] for name in free}
    arrays[f"{ROBOT}/qpos"] = performance.full[ticks][:, robot_joints(world)]
    arrays[f"{ROBOT}/opening"] = np.maximum(performance.opening[ticks], 0.0)
    return arrays


def render_frames(
    scene_folder: Path,
    arrays: dict[str, Array],
    cameras: Sequence[str],
    folder: Path,
    picture: Picture,
    progress: Progress | None = None,
) -> dict[str, npt.NDArray[np.uint8]]:
    """Frames `(F, H, W, 3)` by camera; pictures already in `folder` are kept.

    Args:
        scene_folder: the true scene.
        arrays: from `pose_arrays`.
        cameras: names.
        folder: where the pictures are kept; its name must depend on everything they show.
        picture: how they are filmed.
        progress: called after each picture.
    """
    count = len(next(iter(arrays.values())))
    paths = {name: [folder / name / "rgb" / f"{index:06d}.png" for index in range(count)] for name in cameras}
    missing = [i for i in range(count) if any(not paths[name][i].exists() for name in cameras)]
    if missing:
        poses = folder / "poses.npz"
        save_arrays(poses, arrays)
        run_blender(
            [
                "render-sequence", str(scene_folder), str(poses), str(folder), "--cameras", ",".join(cameras),
                "--samples", str(picture.samples), "--bounces", str(picture.bounces),
                "--frames", ",".join(map(str, missing)),
            ],
            progress,
        )  # fmt: skip
    return {name: np.stack([_read(path) for path in paths[name]]) for name in cameras}


def renderer_version() -> str:
    """What decides how the pictures look beside the scene: Blender's and MuJoCo's versions."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        blender = version("bpy")
    except PackageNotFoundError:
        blender = "found"
    return f"blender {blender}, mujoco {mujoco.__version__}"


def _read(path: Path) -> npt.NDArray[np.uint8]:
    image = cv2.imread(str(path), cv2.IMREAD_COLOR)
    if image is None:
        raise Real2GymError(f"{path}: Blender did not write this picture")
    return np.asarray(image[..., ::-1], dtype=np.uint8)
