"""Joint states of a LeRobot episode: which columns are arms, and in which unit."""

import re
from pathlib import Path
from typing import Any

import numpy as np

from backend.demos.droid import STROKE
from backend.documents.demonstration import DemoRobot
from mjcf_export.document import save_arrays
from mjcf_export.errors import InputError
from mjcf_export.frames import Array

MODELS = {"panda": "panda_hand", "franka": "panda_hand", "fr3": "fr3_hand", "ur5e": "ur5e_robotiq_2f85"}
"""Robot models assumed for a `robot_type`; the data set does not record the gripper."""
DROID_MODEL = "panda_robotiq_2f85"
_STATE_KEYS = ("observation.state", "state", "observation.qpos", "qpos")
_DROID_JOINTS = ("observation.state.joint_position", "observation.state.joint_positions", "observation.joint_position")
_DROID_GRIPPER = ("observation.state.gripper_position", "observation.gripper_position")


class StateTable:
    """The rows of one episode and what `info.json` says of their columns."""

    def __init__(self, info: dict[str, Any], table: Any, root: Path) -> None:
        self.info = info
        self.root = root
        self.table = table

    def column(self, key: str) -> Array:
        """A column as `(N, ...)` float64."""
        values = np.array(self.table[key].to_pylist(), dtype=np.float64)
        return values if values.ndim > 1 else values.reshape(len(values), -1)

    def times(self) -> Array:
        """`(N,)` seconds since the episode's first frame."""
        if "timestamp" in self.table.column_names:
            stamps = self.column("timestamp")[:, 0]
            relative: Array = stamps - stamps[0]
            return relative
        return np.arange(self.table.num_rows) / float(self.info["fps"])

    def first(self, keys: tuple[str, ...]) -> str | None:
        """The first of `keys` that is a column."""
        return next((key for key in keys if key in self.table.column_names), None)

    def names(self, key: str, width: int) -> list[str]:
        """The names of a state's components."""
        names = self.info["features"].get(key, {}).get("names")
        if isinstance(names, dict):
            names = [item for part in names.values() for item in (part if isinstance(part, list) else [])] or None
        if names is None:
            return [f"joint_{index + 1}" for index in range(width)]
        if len(names) != width:
            raise InputError(f"{self.root / 'meta' / 'info.json'}: {len(names)} names for {width} components of {key}")
        return [str(name) for name in names]


def robots_of(states: StateTable, scratch: Path, notes: list[str]) -> tuple[DemoRobot, ...]:
    """The arms of an episode; their joint states are written to `scratch`."""
    kind = str(states.info.get("robot_type") or "unknown")
    droid = states.first(_DROID_JOINTS)
    if droid is not None:
        return (_droid_robot(states, droid, scratch, notes),)
    key = states.first(_STATE_KEYS)
    if key is None:
        notes.append(f"no joint states: none of {', '.join(_STATE_KEYS)} is a column")
        return ()
    values = states.column(key)
    names = states.names(key, values.shape[1])
    robots = []
    for side, columns in _arms(names).items():
        joints = [index for index in columns if not re.search(r"gripper|hand|finger|tcp|pose", names[index].lower())]
        others = [index for index in columns if index not in joints]
        if not joints:
            continue
        model = MODELS.get(kind.lower(), kind)
        if model != kind:
            notes.append(f"robot {side}: model {model} assumed from robot_type {kind}; give --robot if it is another")
        arrays = {
            "time": states.times(),
            "qpos": _radians(values[:, joints], side, notes),
            "joint_names": np.array([names[index] for index in joints]),
        }
        if others:
            arrays["end_effector"] = values[:, others]
            arrays["end_effector_names"] = np.array([names[index] for index in others])
            notes.append(
                f"robot {side}: {len(others)} hand or gripper values kept as recorded, not as an opening in metres "
                "(the data set does not say their range)"
            )
        path = scratch / f"{side}.npz"
        save_arrays(path, arrays)
        robots.append(DemoRobot(name=side, model=model, states=str(path)))
    return tuple(robots)


def _arms(names: list[str]) -> dict[str, list[int]]:
    sides: dict[str, list[int]] = {}
    for index, name in enumerate(names):
        match = re.match(r"(left|right)", name.lower())
        sides.setdefault(match.group(1) if match else "robot", []).append(index)
    return sides


def _radians(values: Array, side: str, notes: list[str]) -> Array:
    largest = float(np.abs(values).max())
    if largest <= 2 * np.pi + 1:
        return values
    notes.append(f"robot {side}: joint values reach {largest:.1f}, taken as degrees and converted (estimated)")
    return np.deg2rad(values)


def _droid_robot(states: StateTable, key: str, scratch: Path, notes: list[str]) -> DemoRobot:
    arrays = {"time": states.times(), "qpos": states.column(key)}
    gripper = states.first(_DROID_GRIPPER)
    if gripper is not None:
        arrays["gripper_opening"] = STROKE * (1 - np.clip(states.column(gripper)[:, 0], 0, 1))
        notes.append(f"gripper opening estimated as {STROKE} m x (1 - gripper_position)")
    path = scratch / "robot.npz"
    save_arrays(path, arrays)
    notes.append(f"robot: model {DROID_MODEL} assumed from the DROID columns")
    return DemoRobot(name="robot", model=DROID_MODEL, states=str(path))
