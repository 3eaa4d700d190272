"""Timed paths: quintic Cartesian segments, joint paths within limits, resampling."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from backend.motion.kinematics import ACCELERATION_LIMIT, VELOCITY_LIMIT, Kinematics, rotation_vector
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, rotation_about

CONTROL_DT = 0.01
"""Control period in seconds."""
LINEAR_SPEED = 0.2
"""Default mean tcp speed in m/s."""
ANGULAR_SPEED = 1.0
"""Default mean tcp turning speed in rad/s."""
_MIN_DURATION = 0.2
_MOST_SLOWED = 12.0
"""A segment that would have to run this much slower passes a singularity."""


class UnreachableError(InputError):
    """The robot cannot bring its tcp along the path."""


@dataclass(frozen=True)
class Waypoint:
    """Where the tcp goes next, and how.

    Attributes:
        pose: tcp `(4, 4)` in the world.
        opening: metres between the pads on arrival; reached linearly over the segment.
        label: the phase this segment belongs to.
        speed: mean m/s; peak is 1.875 times it.
        hold: seconds to wait after arrival.
        joints: go to these joints `(n,)` along a straight line in joint space instead; `pose` is where they lead.
    """

    pose: Array
    opening: float
    label: str = ""
    speed: float = LINEAR_SPEED
    hold: float = 0.0
    joints: Array | None = None


@dataclass(frozen=True)
class JointPath:
    """A timed arm motion: `time` `(N,)`, `qpos` `(N, n)`, `tcp` `(N, 4, 4)`, `opening` `(N,)`.

    `phases` maps each label to its start and end time.
    """

    time: Array
    qpos: Array
    tcp: Array
    opening: Array
    phases: dict[str, tuple[float, float]] = field(default_factory=dict)


def quintic(fraction: npt.ArrayLike) -> Array:
    """Minimum-jerk progress `10 u^3 - 15 u^4 + 6 u^5` of `u` in 0..1."""
    u = np.clip(np.asarray(fraction, dtype=np.float64), 0.0, 1.0)
    progress: Array = u**3 * (10 - 15 * u + 6 * u * u)
    return progress


def interpolate_pose(start: npt.ArrayLike, end: npt.ArrayLike, progress: npt.ArrayLike) -> Array:
    """Poses `(N, 4, 4)`: straight line and slerp between two poses at progress `(N,)` in 0..1."""
    a, b = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    s = np.atleast_1d(np.asarray(progress, dtype=np.float64))
    vector = rotation_vector(b[:3, :3] @ a[:3, :3].T)
    angle = float(np.linalg.norm(vector))
    poses = np.tile(np.eye(4), (len(s), 1, 1))
    poses[:, :3, 3] = a[:3, 3] + s[:, None] * (b[:3, 3] - a[:3, 3])
    if angle < 1e-9:
        poses[:, :3, :3] = a[:3, :3]
    else:
        poses[:, :3, :3] = [rotation_about(vector, angle * value) @ a[:3, :3] for value in s]
    return poses


def segment_duration(
    start: Array, end: Array, speed: float = LINEAR_SPEED, angular_speed: float = ANGULAR_SPEED
) -> float:
    """Seconds for a quintic segment at the given mean speeds (m/s, rad/s)."""
    distance = float(np.linalg.norm(end[:3, 3] - start[:3, 3]))
    angle = float(np.linalg.norm(rotation_vector(end[:3, :3] @ start[:3, :3].T)))
    return max(_MIN_DURATION, distance / speed, angle / angular_speed)


def segment(start: Array, end: Array, duration: float, dt: float = CONTROL_DT) -> Array:
    """Quintic poses `(N, 4, 4)` from `start` (excluded) to `end` (included), one every `dt` seconds."""
    count = max(1, round(duration / dt))
    return interpolate_pose(start, end, quintic(np.arange(1, count + 1) / count))


def limit_factor(
    qpos: Array,
    dt: float,
    velocity: float | Array = VELOCITY_LIMIT,
    acceleration: float | Array = ACCELERATION_LIMIT,
) -> float:
    """How much slower joints `(N, n)` sampled every `dt` must run to keep the limits; 1 when they already do."""
    if len(qpos) < 3:
        return 1.0
    speed = np.abs(np.diff(qpos, axis=0)) / dt
    change = np.abs(np.diff(qpos, 2, axis=0)) / dt**2
    return max(1.0, float((speed / velocity).max()), float(np.sqrt((change / acceleration).max())))


def resample(time: Array, values: Array, at: Array) -> Array:
    """Linear interpolation of samples `(N, ...)` at `time` `(N,)` to the times `at` `(M,)`; ends are held."""
    flat = values.reshape(len(values), -1)
    columns = [np.interp(at, time, flat[:, column]) for column in range(flat.shape[1])]
    return np.stack(columns, axis=1).reshape(len(at), *values.shape[1:])


def time_scale(
    time: Array,
    qpos: Array,
    velocity: float | Array = VELOCITY_LIMIT,
    acceleration: float | Array = ACCELERATION_LIMIT,
) -> tuple[Array, float]:
    """New times `(N,)` at which the same joints keep the limits, stretched only where they do not.

    Args:
        time: `(N,)` increasing seconds.
        qpos: `(N, n)` joints.
        velocity: rad/s, one for all or `(n,)`.
        acceleration: rad/s², one for all or `(n,)`.

    Returns:
        The times and the largest local stretch (1 when nothing changed).
    """
    if len(time) < 3:
        return time, 1.0
    steps = np.diff(time)
    scale = np.ones(len(steps))
    for _ in range(20):
        local = steps * scale
        speed = np.diff(qpos, axis=0) / local[:, None]
        over = np.maximum(1.0, (np.abs(speed) / velocity).max(axis=1))
        middle = (local[1:] + local[:-1]) / 2
        change = np.abs(np.diff(speed, axis=0)) / middle[:, None]
        jump = np.sqrt(np.maximum(1.0, (change / acceleration).max(axis=1)))
        over[1:] = np.maximum(over[1:], jump)
        over[:-1] = np.maximum(over[:-1], jump)
        if over.max() < 1.001:
            break
        scale *= over
    return np.concatenate([time[:1], time[0] + np.cumsum(steps * scale)]), float(scale.max())


def cartesian_path(
    kinematics: Kinematics,
    start: npt.ArrayLike,
    waypoints: Sequence[Waypoint],
    *,
    opening: float,
    dt: float = CONTROL_DT,
    tolerance: float = 1e-3,
) -> JointPath:
    """Follow waypoints with straight quintic segments, each slowed until the joints keep their limits.

    Args:
        kinematics: the arm.
        start: joints `(n,)` at time zero.
        waypoints: where to go, in order.
        opening: metres between the pads at time zero.
        dt: sample period in seconds.
        tolerance: largest tcp error accepted along the way, metres (and 10 times it in radians).

    Raises:
        UnreachableError: the arm leaves the path; the message names the phase and the error.
    """
    q = np.asarray(start, dtype=np.float64)
    pose, width = kinematics.tcp(q), opening
    joints, openings = [q[None]], [np.array([width])]
    phases: dict[str, tuple[float, float]] = {}
    count = 0
    for index, waypoint in enumerate(waypoints):
        moved, why = _tracked(kinematics, q, pose, waypoint, dt=dt, tolerance=tolerance)
        if why:
            where = ", ".join(f"{value:.3f}" for value in waypoint.pose[:3, 3])
            raise UnreachableError(
                f"robot {kinematics.robot.name} cannot reach ({where}) m in phase {waypoint.label or index}: {why}"
            )
        ramp = width + (waypoint.opening - width) * np.arange(1, len(moved) + 1) / len(moved)
        rest = round(waypoint.hold / dt)
        joints += [moved, np.tile(moved[-1], (rest, 1))]
        openings += [ramp, np.full(rest, waypoint.opening)]
        label = waypoint.label or str(index)
        phases[label] = (phases.get(label, (count * dt, 0.0))[0], (count + len(moved) + rest) * dt)
        count += len(moved) + rest
        q, pose, width = moved[-1], waypoint.pose, waypoint.opening
    qpos = np.concatenate(joints)
    return JointPath(np.arange(len(qpos)) * dt, qpos, kinematics.tcp(qpos), np.concatenate(openings), phases)


def _tracked(
    kinematics: Kinematics, q: Array, pose: Array, waypoint: Waypoint, *, dt: float, tolerance: float
) -> tuple[Array, str]:
    """Joints of one segment, slowed until they keep the limits, and why they cannot be used, or ""."""
    if waypoint.joints is not None:
        return joint_segment(q, waypoint.joints, dt), ""
    duration = segment_duration(pose, waypoint.pose, waypoint.speed)
    for _ in range(4):
        block = kinematics.track(segment(pose, waypoint.pose, duration, dt), q)
        position, rotation = block.worst()
        if position > tolerance or rotation > 10 * tolerance:
            return block.qpos, f"tcp error {position * 1000:.1f} mm, {np.degrees(rotation):.1f} deg"
        factor = limit_factor(np.vstack([q, q, block.qpos, block.qpos[-1]]), dt)
        if factor <= 1.01:
            break
        if factor > _MOST_SLOWED:
            return block.qpos, f"a joint would have to be {factor:.0f} times faster than it can"
        duration *= 1.02 * factor
    return block.qpos, ""


def joint_segment(start: Array, end: Array, dt: float = CONTROL_DT, share: float = 0.5) -> Array:
    """Quintic joints `(N, n)` from `start` (excluded) to `end`, at most `share` of the limits."""
    distance = float(np.abs(end - start).max())
    duration = max(_MIN_DURATION, 1.875 * distance / (share * VELOCITY_LIMIT))
    duration = max(duration, float(np.sqrt(5.774 * distance / (share * ACCELERATION_LIMIT))))
    count = max(1, round(duration / dt))
    progress = quintic(np.arange(1, count + 1) / count)
    joints: Array = start + progress[:, None] * (end - start)
    return joints
