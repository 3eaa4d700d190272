"""From a motion to actuator controls at 100 Hz, computed before the run."""

from collections.abc import Sequence
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt
from scipy.interpolate import PchipInterpolator
from scipy.signal import savgol_filter

from backend.documents.motion import Motion
from backend.documents.verdict import Criteria
from backend.motion.holds import Hold, motion_holds
from backend.motion.trajectories import CONTROL_DT, resample
from backend.motion.world import RobotParts, World
from mjcf_export.errors import InputError
from mjcf_export.frames import Array
from mjcf_export.gripper import Gripper

_SQUEEZE_RAMP = 0.15
"""Seconds over which a closed gripper builds up its squeeze."""
_WEIGHTS = 8.0
"""Grip force per finger in weights of the held body: slips below a friction of 1 / 16."""
_LEAST_FORCE = 2.5
_NARROWER = 0.002
"""Metres by which a body may be narrower than the recorded hold and still be pressed."""
SQUEEZE_STEPS = 15
"""Control steps after closing in which the squeeze builds up."""
_SMOOTHING = 13
"""Control steps over which the speed of the recorded opening is taken."""


@dataclass(frozen=True)
class Controls:
    """Everything a run needs beside the model.

    Attributes:
        ctrl: `(N, nu)`, each row held for one control period.
        qpos: `(nq,)` the initial state; velocities start at zero.
        start: seconds of settling before the motion's clock starts.
        dt: control period in seconds.
    """

    ctrl: Array
    qpos: Array
    start: float
    dt: float = CONTROL_DT

    @property
    def steps(self) -> int:
        """Control steps N."""
        return len(self.ctrl)

    def tick(self, time: float) -> int:
        """Control step at a time on the motion's clock, within the run."""
        return int(np.clip(round((self.start + time) / self.dt), 0, self.steps))


def build_controls(
    world: World,
    motion: Motion,
    arrays: dict[str, Array],
    criteria: Criteria,
    squeeze: float = 1.0,
    trims: Sequence[float] = (),
) -> Controls:
    """Settle at the first recorded pose, stream the recorded joints, hold the last pose until everything is still.

    A servo lags its target by `kv / kp` seconds times the speed; that is added to the arm's and the gripper's
    targets. While a body is held, the gripper is told to close further than the record shows: a stalled opening
    means force.

    Args:
        world: the compiled scene.
        motion: whose events say when something is held.
        arrays: `time`, `<robot>/qpos`, `<robot>/opening`.
        criteria: gives the settling time, which is also the time to come to rest at the end.
        squeeze: share of the usual force per finger, see `grip_force`.
        trims: newtons per finger by which to press otherwise, hold by hold; see `backend.physics.grip`.

    Raises:
        InputError: the motion lacks a robot's joints, or they do not fit the robot.
    """
    time = np.asarray(arrays.get("time", ()), dtype=np.float64)
    if len(time) < 2 or (np.diff(time) <= 0).any():
        raise InputError("motion.npz: `time` needs at least two increasing values")
    holds = motion_holds(motion, arrays, set(world.bodies))
    count = round((2 * criteria.settle_time + float(time[-1])) / CONTROL_DT)
    clock = np.arange(count) * CONTROL_DT - criteria.settle_time
    data = world.initial_data()
    ctrl = np.tile(data.ctrl, (count, 1))
    for name, parts in world.robots.items():
        if name not in motion.robots:
            continue
        joints = _joints(parts, arrays)
        target, speed = _smooth(time, joints, clock)
        ctrl[:, parts.actuators] = target + speed * _lag(world.model, parts)
        opening = arrays.get(f"{name}/opening")
        parts.robot.place(world.model, data, name, joints[0], None if opening is None else float(opening[0]))
        if parts.hand is not None and opening is not None:
            wanted = resample(time, np.asarray(opening, dtype=np.float64), clock)
            forces = [squeeze * grip_force(world, hold.body) for hold in holds]
            forces[: len(trims)] = [force + trim for force, trim in zip(forces, trims, strict=False)]
            mine = [pair for pair in zip(holds, forces, strict=True) if pair[0].robot == name]
            ctrl[:, parts.hand] = _grip(world, parts, wanted, clock, mine)
    return Controls(ctrl, data.qpos.copy(), criteria.settle_time)


def _joints(parts: RobotParts, arrays: dict[str, Array]) -> Array:
    joints = arrays.get(f"{parts.name}/qpos")
    if joints is None:
        raise InputError(f"motion.npz: no `{parts.name}/qpos`; robot {parts.name} needs joints to be executed")
    joints = np.asarray(joints, dtype=np.float64)
    if joints.ndim != 2 or joints.shape[1] != len(parts.joints):
        raise InputError(
            f"motion.npz: `{parts.name}/qpos` has shape {joints.shape}; "
            f"robot {parts.name} has {len(parts.joints)} joints"
        )
    if not np.isfinite(joints).all():
        raise InputError(f"motion.npz: `{parts.name}/qpos` holds values that are not finite")
    return joints


def _smooth(time: Array, values: Array, at: Array) -> tuple[Array, Array]:
    """Values and their speed at the times `at`; ends are held."""
    curve = PchipInterpolator(time, values, axis=0)
    inside = np.clip(at, time[0], time[-1])
    speed = curve.derivative()(inside)
    speed[(at < time[0]) | (at > time[-1])] = 0.0
    return np.asarray(curve(inside)), np.asarray(speed)


def _lag(model: mujoco.MjModel, parts: RobotParts) -> Array:
    """Seconds by which each position servo trails a moving target: damping over stiffness."""
    return _trail(model, parts.actuators, model.dof_damping[model.jnt_dofadr[parts.joints]])


def _trail(model: mujoco.MjModel, actuators: npt.NDArray[np.int64], damping: Array) -> Array:
    stiffness = -model.actuator_biasprm[actuators, 1]
    total = damping - model.actuator_biasprm[actuators, 2]
    trail: Array = np.where(stiffness > 0, total / np.maximum(stiffness, 1e-9), 0.0)
    return trail


def _grip(world: World, parts: RobotParts, wanted: Array, clock: Array, holds: list[tuple[Hold, float]]) -> Array:
    """Gripper controls `(N,)`: the recorded opening, and beyond it while something is held with a force."""
    gripper = parts.robot.gripper
    if gripper is None:
        raise InputError(f"robot {parts.name}: has no gripper, but its motion has an opening")
    ctrl = _leading(world.model, parts, np.array([gripper.command(float(value)) for value in wanted]))
    for hold, force in holds:
        held = (clock >= hold.grasp) & (clock < hold.release)
        if not held.any():
            continue
        width = float(np.median(wanted[held])) if hold.width is None else hold.width
        narrow = max(width - _NARROWER, 1e-4)
        squeezed = gripper.command(narrow) + _effort(world.model, parts, gripper, narrow, force)
        ramp = np.clip((clock[held] - hold.grasp) / _SQUEEZE_RAMP, 0.0, 1.0)
        ctrl[held] = np.array([gripper.command(max(min(float(v), width), 1e-4)) for v in wanted[held]])
        ctrl[held] += ramp * (squeezed - ctrl[held])
    return ctrl


def _leading(model: mujoco.MjModel, parts: RobotParts, ctrl: Array) -> Array:
    """Gripper controls `(N,)` ahead of those wanted by what the servo trails, within its range."""
    hand = np.array([parts.hand])
    ahead = _trail(model, hand, np.zeros(1))[0] * savgol_filter(ctrl, _SMOOTHING, 2, deriv=1, delta=CONTROL_DT)
    low, high = model.actuator_ctrlrange[hand[0]] if model.actuator_ctrllimited[hand[0]] else (-np.inf, np.inf)
    led: Array = np.clip(ctrl + ahead, low, high)
    return led


def grip_force(world: World, body: str) -> float:
    """Newtons per finger that hold a body safely at ordinary friction, and never at next to none."""
    return max(_LEAST_FORCE, _WEIGHTS * world.weight(body))


def _effort(model: mujoco.MjModel, parts: RobotParts, gripper: Gripper, width: float, force: float) -> float:
    """Change of control that presses each pad with `force` newtons on something `width` metres wide.

    By virtual work: a pad's force is the actuator's times the change of its length per metre of opening. A servo at
    rest has `gain * control = -bias * length`, so that change follows from the gripper's own table.
    """
    hand = parts.hand
    gain, bias = float(model.actuator_gainprm[hand, 0]), float(model.actuator_biasprm[hand, 1])
    step = 0.002
    near, far = gripper.command(max(width - step, 1e-4)), gripper.command(width + step)
    slope = (near - far) / (width + step - max(width - step, 1e-4))
    room = gripper.closed_control - gripper.command(max(width, 1e-4))
    length = abs(gain / bias * slope) if bias else 0.0
    if length < 1e-9 or gain == 0.0:
        return room
    wanted = force / (length * abs(gain))
    return float(np.sign(room)) * min(abs(room), wanted)
