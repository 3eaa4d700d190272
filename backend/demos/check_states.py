"""Checks of a robot's record against its model: joints, limits and units, opening, tcp."""

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from backend.demos.problem import Problem, error, warning
from backend.demos.states import ArmLimits, arm_limits, joint_order, read_states
from backend.documents.demonstration import DemoRobot
from mjcf_export.errors import InputError
from mjcf_export.frames import Array

LIMIT_SLACK = 0.1
"""Radians (or metres) a recorded joint may lie outside the model's limits before it is refused."""
STROKE_SLACK = 0.002
"""Metres an opening may lie outside `[0, stroke]` before it is refused."""
_DEGREES = "{path}: `qpos` looks like degrees ({joint} reaches {value:.1f}); joint states are radians"
Arrays = dict[str, npt.NDArray[Any]]


def check_states(robot: DemoRobot, path: Path, root: Path, where: str, *, strict: bool) -> list[Problem]:
    """Every problem of one robot's record.

    Where not `strict` (a data set, whose robot model is a guess) an unknown robot and its limits are only warned of.
    """
    try:
        arrays = read_states(path)
    except InputError as problem:
        return [error(where, str(problem))]
    try:
        arm = arm_limits(robot.model, root)
    except InputError as problem:
        return [Problem("error" if strict else "warning", where, str(problem)), *_check_turns(arrays, path, where)]
    columns = arrays["qpos"].shape[1]
    if columns != len(arm.joints):
        names = ", ".join(arm.joints)
        return [error(where, f"{path}: `qpos` has {columns} joints, {robot.model} has {len(arm.joints)}: {names}")]
    try:
        qpos = arrays["qpos"][:, joint_order(path, arm.joints, arrays)]
    except InputError as problem:
        return [error(where, str(problem))]
    found = _check_limits(qpos, arm, path, where, strict)
    return found + _check_opening(arrays, arm, path, where) + _check_tcp(arrays, path, where)


def _check_turns(arrays: Arrays, path: Path, where: str) -> list[Problem]:
    """Degrees, where no model tells the limits: no arm turns a joint by more than two turns."""
    largest = float(np.abs(arrays["qpos"]).max())
    return [error(where, _DEGREES.format(path=path, joint="a joint", value=largest))] if largest > 4 * np.pi else []


def _check_limits(qpos: Array, arm: ArmLimits, path: Path, where: str, strict: bool) -> list[Problem]:
    lower, upper = arm.limits[:, 0], arm.limits[:, 1]
    over = np.maximum(lower - qpos, qpos - upper).max(axis=0)
    worst = int(over.argmax())
    if over[worst] <= 0:
        return []
    value = float(qpos[np.abs(qpos[:, worst]).argmax(), worst])
    radians = np.deg2rad(qpos)
    plausible = bool(((radians > lower - 0.2) & (radians < upper + 0.2)).all())
    if over[worst] > 1.0 and plausible:
        return [error(where, _DEGREES.format(path=path, joint=arm.joints[worst], value=value))]
    text = (
        f"{path}: joint {arm.joints[worst]} reaches {value:.3f}, "
        f"{over[worst]:.3f} beyond its limits [{lower[worst]:.3f}, {upper[worst]:.3f}]"
    )
    if strict and over[worst] > LIMIT_SLACK:
        return [error(where, f"{text}; is it the right robot?")]
    return [warning(where, text)]


def _check_opening(arrays: Arrays, arm: ArmLimits, path: Path, where: str) -> list[Problem]:
    opening = arrays.get("gripper_opening")
    if opening is None:
        return [warning(where, f"{path}: no `gripper_opening`; grasps cannot be measured from the robot's record")]
    low, high = float(opening.min()), float(opening.max())
    if low < -STROKE_SLACK:
        return [error(where, f"{path}: `gripper_opening` falls to {low:.4f} m; an opening is not negative")]
    if arm.stroke is None or high <= arm.stroke + STROKE_SLACK:
        return []
    hint = "it looks normalised or in millimetres; " if high > 0.3 else ""
    text = f"{path}: `gripper_opening` reaches {high:.4f} m, beyond the gripper's stroke of {arm.stroke:.4f} m; "
    return [error(where, f"{text}{hint}give metres between the finger pads")]


def _check_tcp(arrays: Arrays, path: Path, where: str) -> list[Problem]:
    poses = arrays.get("tcp_pose")
    if poses is None:
        return []
    rotation = poses[:, :3, :3]
    off = np.abs(rotation @ np.swapaxes(rotation, 1, 2) - np.eye(3)).max(axis=(1, 2))
    determinants = np.linalg.det(rotation)
    wrong = np.flatnonzero((off > 1e-3) | (determinants < 0))
    if not len(wrong):
        return []
    text = f"{path}: `tcp_pose` is no rigid right-handed transform at sample {wrong[0]}"
    return [error(where, f"{text} (determinant {determinants[wrong[0]]:.3f})")]
