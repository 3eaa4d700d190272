"""The motion that pictures of a run show: the native rollout, or the reference motion when nothing was executed."""

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from backend.documents.run import RunFolder
from backend.documents.verdict import Rollout
from backend.motion.world import World
from mjcf_export.document import load_arrays, save_arrays
from mjcf_export.errors import InputError
from mjcf_export.frames import Array
from mjcf_export.scene import Scene

_TOLERANCE = 0.05
"""Seconds a source frame may lie past the motion's end and still show its last state."""


@dataclass(frozen=True)
class ShownMotion:
    """A model on disk, and joint positions `(N, nq)` at `time` `(N,)` on the motion's clock.

    `executed` says whether physics ran it; otherwise it is what would have been executed.
    """

    model: Path
    time: npt.NDArray[np.float64]
    qpos: npt.NDArray[np.float64]
    executed: bool = True

    def row(self, time: float) -> int | None:
        """The row nearest to a motion time; None when the motion ended before."""
        if time > self.time[-1] + _TOLERANCE:
            return None
        return int(np.abs(self.time - time).argmin())


def shown_motion(run: RunFolder) -> ShownMotion:
    """The rollout of a run, or its reference motion when it has none.

    Raises:
        InputError: the model, the rollout or the motion is missing or broken.
    """
    return executed_motion(run) if run.rollout.exists() else reference_motion(run)


def executed_motion(run: RunFolder) -> ShownMotion:
    """The native rollout of a run; see `shown_motion` for the errors."""
    record, arrays = Rollout.load(run.rollout), load_arrays(run.rollout_arrays)
    for name in ("time", "qpos"):
        if name not in arrays:
            raise InputError(f"{run.rollout_arrays}: no array {name}; validate the run again")
    return ShownMotion(run.mjcf, arrays["time"] - record.start, arrays["qpos"])


def reference_motion(run: RunFolder) -> ShownMotion:
    """The reference motion of a run, set into its model without physics; see `shown_motion` for the errors."""
    world = World.load(run.executed.scene_folder, run.mjcf_folder)
    poses = reference_poses(world.scene, load_arrays(run.executed.motion_arrays))
    start = world.initial_data()
    qpos = np.tile(start.qpos, (len(poses["time"]), 1))
    for row, positions in enumerate(qpos):
        _set_robots(world, start, poses, row)
        positions[:] = start.qpos
    for name in world.movable():
        joint = world.free_joint(name)
        if joint is not None and f"body/{name}" in poses:
            first = int(world.model.jnt_qposadr[joint])
            qpos[:, first : first + 7] = poses[f"body/{name}"]
    return ShownMotion(run.mjcf, poses["time"], qpos, executed=False)


def write_reference_poses(run: RunFolder, path: Path) -> Path:
    """Write the reference motion as the Blender half reads it, and return `path`."""
    scene = Scene.load(run.executed.scene)
    save_arrays(path, reference_poses(scene, load_arrays(run.executed.motion_arrays)))
    return path


def reference_poses(scene: Scene, arrays: dict[str, Array]) -> dict[str, Array]:
    """`time` `(F,)`, `body/<name>` `(F, 7)` of what moves freely, `<robot>/qpos` and `<robot>/opening`, all finite.

    Where an object was not seen it stays where it was seen before.

    Raises:
        InputError: the motion has no clock.
    """
    if "time" not in arrays:
        raise InputError("motion.npz: no array time; reconstruct the demonstration again")
    poses = {"time": np.asarray(arrays["time"], dtype=np.float64)}
    for robot in scene.robots:
        for part in ("qpos", "opening"):
            values = _filled(arrays.get(f"{robot.name}/{part}"))
            if values is not None:
                poses[f"{robot.name}/{part}"] = values
    for body in scene.bodies:
        values = _filled(arrays.get(f"object/{body.name}"))
        if values is not None and not body.static and body.parent is None:
            poses[f"body/{body.name}"] = values
    return poses


def _filled(values: Array | None) -> Array | None:
    """The values with every row that is not finite taken from the last finite one; None when there is none."""
    if values is None:
        return None
    rows = np.asarray(values, dtype=np.float64)
    known = np.flatnonzero(np.isfinite(rows.reshape(len(rows), -1)).all(axis=1))
    if not len(known):
        return None
    latest = np.clip(np.searchsorted(known, np.arange(len(rows)), side="right") - 1, 0, None)
    return rows[known[latest]]


def _set_robots(world: World, data: mujoco.MjData, poses: dict[str, Array], row: int) -> None:
    for name, parts in world.robots.items():
        if f"{name}/qpos" in poses:
            openings = poses.get(f"{name}/opening")
            opening = None if openings is None else float(openings[row])
            parts.robot.place(world.model, data, name, poses[f"{name}/qpos"][row], opening)
