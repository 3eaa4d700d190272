"""The robot's own record: joints, gripper opening and tcp over time, on its own clock."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from backend.documents.demonstration import Demonstration, DemoRobot
from mjcf_export.document import load_arrays, resolve_inside
from mjcf_export.errors import InputError
from mjcf_export.frames import Array

_SHAPES = {"time": "(T,)", "qpos": "(T, n)", "gripper_opening": "(T,)", "tcp_pose": "(T, 4, 4)", "qvel": "(T, n)"}


@dataclass(frozen=True)
class RobotStates:
    """One robot's record, N samples.

    Attributes:
        time: `(N,)` seconds, same zero as the videos.
        qpos: `(N, n)` radians or metres in the arm's joint order.
        opening: `(N,)` metres between the finger pads, or None.
        tcp: `(N, 4, 4)` tcp in the world, or None when the robot's base is not known.
        qvel: `(N, n)`, or None.
    """

    time: Array
    qpos: Array
    opening: Array | None = None
    tcp: Array | None = None
    qvel: Array | None = None


@dataclass(frozen=True)
class ArmLimits:
    """What the checks need of a robot model: joint names, their limits `(n, 2)`, and the gripper's stroke in metres."""

    joints: tuple[str, ...]
    limits: Array
    stroke: float | None


def base_of(demo: Demonstration, robot: DemoRobot) -> Array | None:
    """Base-to-world `(4, 4)` of a robot; None when it is not known."""
    if robot.base is not None:
        return np.array(robot.base)
    return np.eye(4) if demo.world == robot.name else None


def arm_limits(model: str, root: Path) -> ArmLimits:
    """Joint names and limits of a robot model.

    Raises:
        InputError: the robot is not known or cannot be read.
    """
    from backend.motion.kinematics import Kinematics

    arm = Kinematics(model, root)
    gripper = arm.robot.gripper
    return ArmLimits(
        tuple(arm.robot.arm_joints),
        np.column_stack([arm.lower, arm.upper]),
        None if gripper is None else float(gripper.stroke),
    )


def read_states(path: Path) -> dict[str, npt.NDArray[Any]]:
    """The arrays of a `robot.npz`, with shapes that fit together and finite values.

    Raises:
        InputError: an array is missing, misshapen or holds NaN.
    """
    arrays = load_arrays(path)
    for name in ("time", "qpos"):
        if name not in arrays:
            raise InputError(f"{path}: no array `{name}` {_SHAPES[name]}; it holds {sorted(arrays)}")
    ranks = {"time": 1, "qpos": 2, "gripper_opening": 1, "tcp_pose": 3, "qvel": 2}
    count = len(arrays["time"]) if arrays["time"].ndim else 0
    for name, rank in ranks.items():
        if name not in arrays:
            continue
        array = arrays[name]
        if not np.issubdtype(array.dtype, np.number):
            raise InputError(f"{path}: `{name}` holds {array.dtype}, expected numbers {_SHAPES[name]}")
        if array.ndim != rank or len(array) != count or count == 0:
            raise InputError(f"{path}: `{name}` has shape {array.shape}, expected {_SHAPES[name]} with T = {count} > 0")
        arrays[name] = array.astype(np.float64)
        if not np.isfinite(arrays[name]).all():
            sample = int(np.argwhere(~np.isfinite(arrays[name]))[0][0])
            raise InputError(f"{path}: `{name}` is not a finite number at sample {sample} (NaN or infinite)")
    if "tcp_pose" in arrays and arrays["tcp_pose"].shape[1:] != (4, 4):
        raise InputError(f"{path}: `tcp_pose` has shape {arrays['tcp_pose'].shape}, expected (T, 4, 4)")
    if not_rising(arrays["time"]) is not None:
        raise InputError(f"{path}: `time` does not increase at sample {not_rising(arrays['time'])}")
    return arrays


def not_rising(times: Array) -> int | None:
    """The first sample whose time is not later than the one before; None when all increase."""
    wrong = np.flatnonzero(np.diff(times) <= 0)
    return int(wrong[0]) + 1 if len(wrong) else None


def load_states(demo: Demonstration, robot_name: str) -> RobotStates:
    """A robot's record, in the arm's joint order, with the tcp in the world.

    Where `tcp_pose` is not recorded it is computed from the joints.

    Raises:
        InputError: the record is missing, does not fit the robot, or the robot is not known.
    """
    robot = next((item for item in demo.robots if item.name == robot_name), None)
    if robot is None:
        raise InputError(f"no robot {robot_name} in the demonstration; there are {[item.name for item in demo.robots]}")
    if robot.states is None:
        raise InputError(f"robot {robot_name}: the demonstration has no joint states (`states`)")
    path = resolve_inside(demo.root, robot.states)
    arrays = read_states(path)
    order = _order(path, robot, demo.root, arrays)
    qpos = arrays["qpos"][:, order]
    opening = arrays.get("gripper_opening")
    base = base_of(demo, robot)
    tcp = None
    if base is not None:
        tcp = base @ arrays["tcp_pose"] if "tcp_pose" in arrays else _forward(robot.model, demo.root, base, qpos)
    qvel = arrays["qvel"][:, order] if "qvel" in arrays else None
    return RobotStates(arrays["time"], qpos, None if opening is None else np.maximum(opening, 0.0), tcp, qvel)


def joint_order(path: Path, joints: tuple[str, ...], arrays: dict[str, npt.NDArray[Any]]) -> list[int]:
    """Columns of `qpos` in the arm's order: by `joint_names` where they name the arm's joints, else as they are.

    Raises:
        InputError: `joint_names` does not fit.
    """
    columns = arrays["qpos"].shape[1]
    names = [str(name) for name in arrays.get("joint_names", np.array([]))]
    if not names:
        return list(range(columns))
    if len(names) != columns:
        raise InputError(f"{path}: {len(names)} `joint_names` for {columns} joints in `qpos`")
    if set(names) == set(joints):
        return [names.index(joint) for joint in joints]
    return list(range(columns))


def _order(path: Path, robot: DemoRobot, root: Path, arrays: dict[str, npt.NDArray[Any]]) -> list[int]:
    if "joint_names" not in arrays:
        return list(range(arrays["qpos"].shape[1]))
    return joint_order(path, arm_limits(robot.model, root).joints, arrays)


def _forward(model: str, root: Path, base: Array, qpos: Array) -> Array:
    from backend.motion.kinematics import Kinematics

    arm = Kinematics(model, root, base)
    if qpos.shape[1] != arm.size:
        raise InputError(f"`qpos` has {qpos.shape[1]} joints, {model} has {arm.size}")
    return np.stack([arm.tcp(row) for row in qpos])
