"""Carry a recorded motion over to another robot: the same tcp path and opening, a base placed by reach."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from backend.motion.kinematics import Kinematics
from backend.motion.trajectories import interpolate_pose, time_scale
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, transform
from mjcf_export.robots import RobotModel

_KEYS = 14
_DENSITY = 3
_TOLERANCE = (1e-3, 0.01)
_RADII = (0.5, 0.42, 0.58, 0.35, 0.66)


@dataclass(frozen=True)
class Carried:
    """The motion on the target robot: `time` `(N,)`, `qpos` `(N, n)`, `tcp` `(N, 4, 4)`, `opening` `(N,)`.

    `stretch` is how much slower the slowest part runs; `clipped` says whether the opening was cut to the stroke.
    """

    base: Array
    time: Array
    qpos: Array
    tcp: Array
    opening: Array
    stretch: float
    clipped: bool


def pad_aligned(tcp: Array, opening: Array, source: RobotModel | None, target: RobotModel) -> Array:
    """Tcp poses `(N, 4, 4)` at which the target's pads are where the source's pads were."""
    if source is None or source.gripper is None or target.gripper is None:
        return tcp
    result = tcp.copy()
    for index, width in enumerate(opening):
        offset = source.gripper.pad_offset(float(width)) - target.gripper.pad_offset(float(width))
        result[index, :3, 3] += offset * tcp[index, :3, 2]
    return result


def base_candidates(points: Array, height: float, first: Array | None = None) -> Iterator[Array]:
    """Base poses `(4, 4)` to try: the given one, then upright round the workspace, facing its middle.

    Args:
        points: `(N, 3)` where the tcp has to go.
        height: z of the base in metres.
        first: the recorded robot's base, tried first.
    """
    if first is not None:
        yield first
    middle = (points[:, :2].min(axis=0) + points[:, :2].max(axis=0)) / 2
    towards = middle - first[:2, 3] if first is not None else np.array([1.0, 0.0])
    heading = float(np.arctan2(towards[1], towards[0])) if np.linalg.norm(towards) > 1e-6 else 0.0
    for turn in (0.0, 0.6, -0.6, np.pi / 2, -np.pi / 2, 2.4, -2.4, np.pi):
        angle = heading + turn
        direction = np.array([np.cos(angle), np.sin(angle)])
        for radius in _RADII:
            x, y = middle - radius * direction
            yield transform((x, y, height), (np.cos(angle / 2), 0.0, 0.0, np.sin(angle / 2)))


def carry_over(arm: Kinematics, time: Array, tcp: Array, opening: Array, held: list[float]) -> Carried:
    """The joints of `arm`, on its base, that follow a tcp path, re-timed within its limits.

    Args:
        arm: the target robot at the base to try.
        time: `(N,)` seconds.
        tcp: `(N, 4, 4)` for the target's pads.
        opening: `(N,)` metres.
        held: widths of what is held, metres.

    Raises:
        InputError: something held is wider than the gripper, or the path cannot be followed; says where.
    """
    gripper = arm.robot.gripper
    if gripper is None:
        raise InputError(f"robot {arm.robot.name}: has no gripper to carry the motion over to")
    if held and max(held) > gripper.stroke:
        raise InputError(
            f"robot {arm.robot.name}: opens {gripper.stroke * 1000:.0f} mm, but the demonstration holds something "
            f"{max(held) * 1000:.0f} mm wide; choose a gripper with more stroke"
        )
    if not reachable(arm, tcp):
        raise InputError(f"robot {arm.robot.name}: part of the demonstrated path is out of reach from this base")
    qpos = _follow(arm, tcp)
    slowed, stretch = time_scale(time, qpos)
    return Carried(
        arm.base, slowed, qpos, arm.tcp(qpos), np.minimum(opening, gripper.stroke), stretch,
        bool((opening > gripper.stroke + 1e-4).any()),
    )  # fmt: skip


def reachable(arm: Kinematics, tcp: Array) -> bool:
    """Whether a handful of poses along the path can be reached at all."""
    rows = np.unique(np.linspace(0, len(tcp) - 1, _KEYS).round().astype(int))
    seed = arm.home
    for row in rows:
        result = arm.solve(tcp[row], seed, rest=arm.home, restarts=6)
        if not result.converged:
            return False
        seed = result.qpos
    return True


def _follow(arm: Kinematics, tcp: Array) -> Array:
    """Joints `(N, n)` along the whole path without a jump, from the first start posture that leads to its end."""
    worst = ""
    starts = [arm.solve(tcp[0], arm.home, rest=arm.home, restarts=8, random_seed=seed) for seed in range(6)]
    for start in (result for result in starts if result.converged):
        block = arm.track(_dense(tcp), start.qpos, rest=arm.home)
        rows = np.arange(len(tcp)) * _DENSITY
        position, rotation = block.worst()
        if position <= _TOLERANCE[0] and rotation <= _TOLERANCE[1]:
            qpos: Array = block.qpos[rows]
            return qpos
        x, y, z = _dense(tcp)[int(np.argmax(block.position_error + 0.1 * block.rotation_error)), :3, 3]
        worst = f"nearest ({x:.2f}, {y:.2f}, {z:.2f}) m it is off by {position * 1000:.0f} mm"
    raise InputError(f"robot {arm.robot.name}: cannot follow the demonstrated path from this base; {worst}")


def _dense(tcp: Array) -> Array:
    """The path with poses added in between, so that tracking never jumps."""
    parts = [tcp[:1]]
    steps = np.arange(1, _DENSITY + 1) / _DENSITY
    parts += [interpolate_pose(a, b, steps) for a, b in zip(tcp[:-1], tcp[1:], strict=True)]
    return np.concatenate(parts)
