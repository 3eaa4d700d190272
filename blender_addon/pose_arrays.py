"""Poses over time in `.npz` files: what stands where, as world matrices of bodies and robot links."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mjcf_export.errors import InputError
from mjcf_export.frames import Array, transform
from mjcf_export.scene import Robot, Scene

from .robot_figure import RobotFigure


def pose_matrices(poses: Array) -> Array:
    """World matrices `(F, 4, 4)` of positions and wxyz quaternions `(F, 7)`."""
    return np.array([transform(pose[:3], pose[3:]) for pose in poses])


def sequence_worlds(scene: Scene, folder: Path, arrays: Mapping[str, Any]) -> tuple[dict[str, Array], int]:
    """World poses `(F, 4, 4)` of `body/<name>` and `<robot>/<link>`, and F.

    Args:
        scene: whose bodies and robots are moved.
        folder: its folder.
        arrays: `body/<name>` `(F, 7)`, `<robot>/qpos` `(F, n)`, optionally `<robot>/opening` `(F,)`; others are
            only checked.

    Raises:
        InputError: arrays that are not finite, or of another length or width.
    """
    lengths = {name: len(values) for name, values in arrays.items() if values.ndim}
    if len(set(lengths.values())) != 1:
        raise InputError(f"poses: every array needs one row for each frame; lengths are {lengths}")
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise InputError(f"poses: {name} holds values that are not finite")
    count = next(iter(lengths.values()))
    worlds: dict[str, Array] = {}
    for name, values in arrays.items():
        if name.startswith("body/"):
            if values.shape != (count, 7):
                raise InputError(f"poses: {name} has shape {values.shape}, expected ({count}, 7)")
            worlds[name] = pose_matrices(values.astype(np.float64))
    for robot in scene.robots:
        if f"{robot.name}/qpos" in arrays:
            worlds |= _robot_worlds(robot, folder, arrays, count)
    return worlds, count


def _robot_worlds(robot: Robot, folder: Path, arrays: Mapping[str, Any], count: int) -> dict[str, Array]:
    figure = RobotFigure.load(robot.model, folder)
    base = robot.base.matrix
    openings = arrays.get(f"{robot.name}/opening")
    found: dict[str, list[Array]] = {f"{robot.name}/{link.name}": [] for link in figure.links}
    for row in range(count):
        opening = robot.opening if openings is None else float(openings[row])
        poses = figure.link_poses(arrays[f"{robot.name}/qpos"][row].astype(np.float64), opening)
        for name, values in found.items():
            values.append(base @ poses[name.split("/", 1)[1]])
    return {name: np.array(values) for name, values in found.items()}
