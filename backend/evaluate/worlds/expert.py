"""The privileged expert: plans on the true scene and performs the task natively, by actuators and contact alone."""

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from backend.documents.verdict import Check, Criteria
from backend.evaluate.worlds.layout import MODEL, OPEN, ROBOT
from backend.evaluate.worlds.specs import Grip, Item, WorldSpec
from backend.evaluate.worlds.truth import TrueEvent
from backend.motion.kinematics import Kinematics
from backend.motion.trajectories import CONTROL_DT, JointPath, Waypoint, cartesian_path
from backend.motion.world import World
from backend.physics.controls import Controls
from backend.physics.execute import Executor, Recording
from backend.physics.predicates import Judge
from mjcf_export.errors import InputError, Real2GymError
from mjcf_export.export import build_spec
from mjcf_export.frames import Array, transform
from mjcf_export.gripper import Gripper
from mjcf_export.robots import load_robot
from mjcf_export.scene import Predicate, Scene

SETTLE = 1.0
CLEARANCE = 0.11
LONGEST = 5.2
"""Seconds the motion should take; the expert hurries up to twofold for it."""
START_TCP = (0.41, 0.0, 0.30)
"""Tcp at the start, above the table in front of the robot."""
START_CLOSING = -math.pi / 2
"""Direction about world z in which the fingers close at the start: the wrist's middle."""
PAD_LOAD = 0.5
"""Newtons on each finger that count as a grasp."""
TOUCH = 0.02
"""Newtons below which two things count as apart."""


@dataclass(frozen=True)
class Performance:
    """A native execution sampled at the control rate, N samples; time zero is the demonstration's first frame.

    Attributes:
        time: `(N,)` seconds.
        qpos: `(N, n)` arm joints.
        full: `(N, nq)` the whole model's positions.
        opening: `(N,)` metres between the pads.
        tcp: `(N, 4, 4)` in the world.
        bodies: by name `(N, 7)` position and wxyz of the body frame in the world.
        loads: `left`, `right` finger on the moved body, `target` and `table` under it: `(N,)` newtons.
        checks: the true predicates, judged on the whole execution.
    """

    time: Array
    qpos: Array
    full: Array
    opening: Array
    tcp: Array
    bodies: dict[str, Array]
    loads: dict[str, Array]
    checks: tuple[Check, ...] = ()


def down(point: Array, closing: float) -> Array:
    """Tcp `(4, 4)` at `point` looking straight down whose fingers close along `closing` radians about world z."""
    pose = np.eye(4)
    y = np.array([math.cos(closing), math.sin(closing), 0.0])
    z = np.array([0.0, 0.0, -1.0])
    pose[:3, :3] = np.column_stack([np.cross(y, z), y, z])
    pose[:3, 3] = point
    return pose


def start_joints(kinematics: Kinematics, height: float) -> Array:
    """Joints `(n,)` at which the gripper waits above the table."""
    result = kinematics.solve(down(np.array(START_TCP) + (0, 0, height), START_CLOSING), kinematics.home)
    if not result.converged:
        raise Real2GymError(f"world: the robot cannot wait at {START_TCP}")
    return result.qpos


def _body_matrix(item: Item, height: float) -> Array:
    return transform((*item.xy, height), (math.cos(item.yaw / 2), 0, 0, math.sin(item.yaw / 2)))


def _release_matrix(spec: WorldSpec) -> Array:
    """The moved body's frame in the world at the moment it is let go."""
    target = _body_matrix(spec.target, spec.table_height)
    xy = (target @ np.array([*spec.place_offset, 0, 1]))[:2]
    yaw = spec.place_yaw
    return transform((*xy, spec.table_height + spec.place_height), (math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)))


def _tcp_of(body: Array, grip: Grip, gripper: Gripper, flip: bool) -> Array:
    """Tcp that holds a body at `body` by `grip`; `flip` swaps the fingers."""
    yaw = math.atan2(body[1, 0], body[0, 0]) + grip.closing + (math.pi if flip else 0.0)
    pads = (body @ np.array([*grip.point, 1.0]))[:3]
    pose = down(pads, yaw)
    pose[:3, 3] = pads - gripper.pad_offset(grip.width) * pose[:3, 2]
    return pose


def _waypoints(spec: WorldSpec, gripper: Gripper, flip: bool, haste: float) -> list[Waypoint]:
    """Approach, take, lift, carry, lower, let go, retract."""
    grip = spec.grip
    take = _tcp_of(_body_matrix(spec.moved, spec.table_height), grip, gripper, flip)
    leave = _tcp_of(_release_matrix(spec), grip, gripper, flip)
    high = max(take[2, 3], leave[2, 3]) + CLEARANCE * 0.75

    def above(pose: Array, height: float) -> Array:
        raised = pose.copy()
        raised[2, 3] = height
        return raised

    wide = min(gripper.stroke, grip.width + grip.room)
    loose = min(gripper.stroke, grip.width + 0.75 * grip.room)
    return [
        Waypoint(above(take, take[2, 3] + CLEARANCE), wide, "approach", 0.22 * haste),
        Waypoint(take, wide, "descend", 0.13 * haste),
        Waypoint(take, 0.0, "close", hold=0.35),
        Waypoint(above(take, high), 0.0, "lift", 0.16 * haste),
        Waypoint(above(leave, high), 0.0, "carry", 0.22 * haste),
        Waypoint(leave, 0.0, "lower", 0.12 * haste, hold=0.12),
        Waypoint(leave, loose, "open", hold=0.3),
        Waypoint(above(leave, leave[2, 3] + CLEARANCE), gripper.stroke, "retract", 0.18 * haste, hold=0.7),
    ]


def plan(spec: WorldSpec, kinematics: Kinematics, start: Array) -> JointPath:
    """The expert's arm motion, about `LONGEST` long where the joints allow.

    Raises:
        Real2GymError: the robot cannot follow it either way round.
    """
    gripper = kinematics.robot.gripper
    if gripper is None:
        raise Real2GymError(f"robot {kinematics.robot.name}: the expert needs a gripper")
    failure: Real2GymError | None = None
    for flip in sorted((False, True), key=lambda flip: _turning(spec, flip)):
        haste = 1.0
        try:
            path = cartesian_path(kinematics, start, _waypoints(spec, gripper, flip, haste), opening=OPEN)
            while path.time[-1] > LONGEST and haste < 2.0:
                haste *= 1.15
                path = cartesian_path(kinematics, start, _waypoints(spec, gripper, flip, haste), opening=OPEN)
            return path
        except InputError as error:
            failure = failure or error
    raise failure or Real2GymError(f"world {spec.name}: no motion")


def _turning(spec: WorldSpec, flip: bool) -> float:
    """How far the wrist turns from its middle at the grasp and at the release, radians."""
    offset = spec.grip.closing + (math.pi if flip else 0.0) - START_CLOSING
    return sum(abs(math.remainder(yaw + offset, 2 * math.pi)) for yaw in (spec.moved.yaw, spec.place_yaw))


def true_world(scene: Scene, scene_folder: Path) -> World:
    """The true scene compiled."""
    return World(scene, scene_folder, build_spec(scene, scene_folder).compile())


def perform(spec: WorldSpec, world: World, path: JointPath) -> Performance:
    """Execute `path` in the true world after settling; nothing but the controls is ever written.

    Raises:
        Real2GymError: the solver warned, a state is not finite, or a true predicate fails.
    """
    parts = world.robots[ROBOT]
    gripper = parts.robot.gripper
    if gripper is None or parts.hand is None:
        raise Real2GymError(f"robot {parts.robot.name}: the expert needs a gripper")
    settle = round(SETTLE / CONTROL_DT)
    data = world.initial_data()
    parts.robot.place(world.model, data, ROBOT, path.qpos[0], float(path.opening[0]))
    ctrl = np.tile(data.ctrl, (settle + len(path.time), 1))
    ctrl[settle:, parts.actuators] = path.qpos
    ctrl[settle:, parts.hand] = [gripper.command(float(opening)) for opening in path.opening]
    executor = Executor(world, Controls(ctrl, data.qpos.copy(), SETTLE))
    executor.run(len(ctrl))
    seen = executor.recording()
    if not seen.finite() or seen.warnings:
        raise Real2GymError(
            f"world {spec.name}: the simulation became unstable while the expert performed {seen.warnings}"
        )
    moved, contacts = spec.moved.name, seen.contacts
    loads = {side: contacts.pad_force(ROBOT, side, moved) for side in ("left", "right")}
    loads |= {"target": contacts.entity_force(moved, spec.target.name), "table": contacts.entity_force(moved, "table")}
    return Performance(
        time=np.arange(len(path.time)) * CONTROL_DT,
        qpos=seen.qpos[settle:, parts.qpos],
        full=seen.qpos[settle:],
        opening=seen.opening[ROBOT][settle:],
        tcp=seen.tcp[ROBOT][settle:],
        bodies={name: poses[settle:] for name, poses in seen.bodies.items()},
        loads={key: values[settle:] for key, values in loads.items()},
        checks=_judge(spec, world, seen, settle),
    )


def _judge(spec: WorldSpec, world: World, seen: Recording, settle: int) -> tuple[Check, ...]:
    """The task's true predicates and what every pick-and-place must do.

    Raises:
        Real2GymError: one fails; the message gives its value and threshold.
    """
    moved = spec.moved.name
    general = [Predicate(name=name, args=(moved,)) for name in ("lifted", "carried", "released", "stable")]
    judge = Judge(world, seen, Criteria(), settle)
    checks = tuple(judge.check(predicate) for predicate in (*world.scene.task.predicates, *general))
    failed = [f"{check.name} {check.value} {check.comparison} {check.threshold} {check.unit}" for check in checks
              if check.status != "pass"]  # fmt: skip
    if failed:
        raise Real2GymError(f"world {spec.name}: the expert failed: {'; '.join(failed)}")
    return checks


def true_events(spec: WorldSpec, performance: Performance) -> tuple[TrueEvent, ...]:
    """Onset times of the relations, from true contacts.

    Grasp: both fingers loaded. Lift: the table carries nothing any more while held. Support or containment: the
    target first carries it. Release: no finger load any more.
    """
    loads, time = performance.loads, performance.time
    moved, target = spec.moved.name, spec.target.name
    held = np.flatnonzero((loads["left"] > PAD_LOAD) & (loads["right"] > PAD_LOAD))
    if not len(held):
        raise Real2GymError(f"world {spec.name}: the expert never held {moved}")
    first, last = int(held[0]), int(held[-1])
    standing = np.flatnonzero(loads["table"][first:last] >= TOUCH)
    carried = np.flatnonzero(loads["target"][first:] > TOUCH)
    free = np.flatnonzero(np.maximum(loads["left"], loads["right"])[last:] < TOUCH)
    if not (len(standing) and len(carried) and len(free)):
        raise Real2GymError(f"world {spec.name}: the expert did not lift, place and release {moved}")
    relation = "containment" if spec.predicates[0][0] == "inside" else "support"
    return (
        TrueEvent(relation="grasp", subject=ROBOT, object=moved, onset=float(time[first])),
        TrueEvent(relation="lift", subject=moved, object="table", onset=float(time[first + standing[-1] + 1])),
        TrueEvent(relation="release", subject=ROBOT, object=moved, onset=float(time[last + free[0]])),
        TrueEvent(relation=relation, subject=moved, object=target, onset=float(time[first + carried[0]])),
    )


def kinematics_of(scene: Scene | None = None) -> Kinematics:
    """The expert's arm at the scene's robot base, or at the world's origin."""
    base = np.eye(4) if scene is None else scene.robots[0].base.matrix
    return Kinematics(load_robot(MODEL), base=base)
