"""Object poses over time: at rest, carried with the tcp, set down; on the robot's clock."""

from collections.abc import Mapping, Sequence

import numpy as np

from backend.demos.states import RobotStates
from backend.reconstruct.placement import Fitted, carried_pose
from mjcf_export.frames import Array, matrix_quaternion, quaternion_matrix

FALL = 0.15
"""Seconds an object takes from the hand to its rest."""


def object_track(fitted: Fitted, states: Mapping[str, RobotStates], time: Array) -> Array:
    """Pose `(N, 7)` (position, wxyz) of a body at each time: resting, then rigid in the tcp while held.

    Args:
        fitted: the object with its rests and holds.
        states: the robots' records.
        time: `(N,)` seconds.
    """
    matrices = np.repeat(fitted.initial[None], len(time), axis=0)
    for index, grip in enumerate(fitted.grips):
        rest, following = fitted.poses[index], fitted.poses[min(index + 1, len(fitted.poses) - 1)]
        relative = carried_pose(grip, rest, fitted.candidate)
        held = (time >= grip.hold.grasp) & (time < grip.hold.release)
        record = states[grip.hold.robot]
        if record.tcp is not None:
            matrices[held] = tcp_at(record, time[held]) @ relative
        matrices[time >= grip.hold.release + FALL] = following
        left = grip.release @ relative
        falling = (time >= grip.hold.release) & (time < grip.hold.release + FALL)
        part = (time[falling] - grip.hold.release) / FALL
        matrices[falling] = np.stack([blend(left, following, float(p)) for p in part]) if falling.any() else left
    return pose_rows(matrices)


def tcp_at(record: RobotStates, time: Array) -> Array:
    """The tcp `(N, 4, 4)` at times within the record, by linear and spherical interpolation."""
    if record.tcp is None:
        raise ValueError("the tcp in the world is unknown: the robot's base is not known")
    after = np.clip(np.searchsorted(record.time, time), 1, len(record.time) - 1)
    before = after - 1
    span = record.time[after] - record.time[before]
    part = np.clip((time - record.time[before]) / np.maximum(span, 1e-9), 0, 1)
    return np.stack(
        [
            blend(record.tcp[b], record.tcp[a], float(p))
            for b, a, p in zip(before, after, part, strict=True)
        ]
    ) if len(time) else np.zeros((0, 4, 4))  # fmt: skip


def blend(start: Array, end: Array, part: float) -> Array:
    """The pose `part` of the way from `start` to `end`: straight line and normalised quaternions."""
    first, second = matrix_quaternion(start), matrix_quaternion(end)
    if first @ second < 0:
        second = -second
    pose = np.eye(4)
    pose[:3, :3] = quaternion_matrix((1 - part) * first + part * second)
    pose[:3, 3] = (1 - part) * start[:3, 3] + part * end[:3, 3]
    return pose


def pose_rows(matrices: Array) -> Array:
    """Transforms `(N, 4, 4)` as rows `(N, 7)` of position and wxyz, without sign jumps."""
    rows = np.array([[*m[:3, 3], *matrix_quaternion(m)] for m in matrices])
    for index in range(1, len(rows)):
        if rows[index, 3:] @ rows[index - 1, 3:] < 0:
            rows[index, 3:] *= -1
    return rows


def pose_matrix(row: Array) -> Array:
    """The transform of one row of position and wxyz."""
    matrix = np.eye(4)
    matrix[:3, :3] = quaternion_matrix(row[3:])
    matrix[:3, 3] = row[:3]
    return matrix


def motion_arrays(objects: Sequence[Fitted], states: Mapping[str, RobotStates], frame_times: Array) -> dict[str, Array]:
    """The arrays of the Motion document, on the clock of the longest robot record, else of the pictures."""
    time = max((record.time for record in states.values()), key=len) if states else frame_times
    arrays: dict[str, Array] = {"time": time}
    for name, record in states.items():
        columns = [np.interp(time, record.time, column) for column in record.qpos.T]
        arrays[f"{name}/qpos"] = np.stack(columns, axis=1)
        if record.tcp is not None:
            arrays[f"{name}/tcp"] = tcp_at(record, time)
        if record.opening is not None:
            arrays[f"{name}/opening"] = np.interp(time, record.time, record.opening)
    for fitted in objects:
        arrays[f"object/{fitted.name}"] = object_track(fitted, states, time)
    return arrays
