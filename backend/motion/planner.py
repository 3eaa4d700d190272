"""Pick-and-place planned object-relatively: grasp, lift, carry over obstacles, place, let go, retreat, go home."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import mujoco
import numpy as np

from backend.documents.motion import Event, Motion, Relation
from backend.motion.clearance import Clearance
from backend.motion.grasps import Grasp, grasp_candidates
from backend.motion.kinematics import Kinematics
from backend.motion.trajectories import CONTROL_DT, LINEAR_SPEED, JointPath, UnreachableError, Waypoint, cartesian_path
from backend.motion.world import World
from mjcf_export.errors import InputError
from mjcf_export.export import build_spec
from mjcf_export.frames import Array, inverse, matrix_quaternion, rotation_angle, transform
from mjcf_export.gripper import Gripper
from mjcf_export.scene import Scene

PREGRASP = 0.10
"""Metres back along the approach before a grasp and after a release."""
_ROOM = 0.03
_CARRY_CLEARANCE = 0.05
_RAISES = (0.002, 0.005, 0.01, 0.02, 0.03, 0.045, 0.06, 0.08, 0.1)
_TRIES = 400
_FULL_TRIES = 24
_TILT_COST = 0.3
_TURN_COST = 0.05
_SETTLE = 0.4


@dataclass(frozen=True)
class Pick:
    """One thing to move: from where it stands to `goal`, its pose `(4, 4)` in the world when it is at rest again.

    `target` names what it is put into or onto; `inside` says which. With `free_yaw` it may be put down turned about
    the vertical.
    """

    body: str
    goal: Array
    target: str | None = None
    inside: bool = False
    free_yaw: bool = False


@dataclass(frozen=True)
class _Choice:
    """A grasp and a release that the arm can reach."""

    grasp: Grasp
    tcp: Array
    release: Array
    opening: float


def plan_pick_place(
    scene: Scene,
    scene_folder: Path,
    robot: str,
    picks: Sequence[Pick],
    *,
    model: mujoco.MjModel | None = None,
    start: Array | None = None,
    speed: float = LINEAR_SPEED,
) -> tuple[Motion, dict[str, Array]]:
    """Plan the moves one after another; every one ends back at the start posture.

    Args:
        scene: bodies stand where it says.
        scene_folder: where its files lie.
        robot: name of the robot in the scene.
        picks: what to move, in order.
        model: the compiled scene, compiled here when None.
        start: arm joints `(n,)` at the beginning; the scene's, else the robot's home, when None.
        speed: mean tcp speed in m/s.

    Returns:
        The motion with its events, and its arrays at 100 Hz as `Motion` documents them.

    Raises:
        InputError: no grasp fits the gripper, or none can be reached free of collisions; says which and why.
    """
    world = World(scene, scene_folder, model if model is not None else build_spec(scene, scene_folder).compile())
    if robot not in world.robots:
        raise InputError(f"robot {robot}: not in the scene; there are {', '.join(world.robots)}")
    item = next(item for item in scene.robots if item.name == robot)
    arm = Kinematics(world.robots[robot].robot, base=item.base.matrix)
    if start is None:
        start = arm.home if item.qpos is None else np.array(item.qpos)
    planner = _Planner(world, robot, arm, np.asarray(start, dtype=np.float64), speed)
    for pick in picks:
        planner.add(pick)
    return planner.motion()


class _Planner:
    def __init__(self, world: World, robot: str, arm: Kinematics, start: Array, speed: float) -> None:
        gripper = arm.robot.gripper
        if gripper is None:
            raise InputError(f"robot {robot}: {arm.robot.name} has no gripper to pick things up with")
        self._world, self._robot, self._arm, self._start, self._speed = world, robot, arm, start, speed
        self._gripper: Gripper = gripper
        self._clear = Clearance(world, robot)
        self._poses = {name: _initial(world, name) for name in world.bodies}
        self._paths: list[tuple[JointPath, Pick, Array]] = []

    def add(self, pick: Pick) -> None:
        """Plan one pick from where things stand now."""
        shape = self._world.scene.body(pick.body).shape
        grasps = grasp_candidates(shape, self._world.folder, self._gripper.stroke, self._gripper.pad_length / 2)
        if not grasps:
            raise InputError(
                f"body {pick.body}: no grasp narrower than the gripper's stroke of "
                f"{self._gripper.stroke * 1000:.0f} mm; use a wider gripper or another object"
            )
        body = self._poses[pick.body]
        rest = self._arm.tcp(self._start)[:3, :3]
        ranked = sorted(
            grasps,
            key=lambda g: (
                g.cost + _tilt(body @ g.frame) + _TURN_COST * rotation_angle(rest.T @ (body @ g.frame)[:3, :3])
            ),
        )
        reasons: dict[str, int] = {}
        complete = 0
        for grasp in islice((g for g in ranked if _tilt(body @ g.frame) < _TILT_COST * 2.0), _TRIES):
            choice = self._choose(pick, grasp, reasons)
            if choice is None:
                continue
            complete += 1
            path = self._path(pick, choice, reasons)
            if path is not None:
                self._accept(pick, choice, path)
                return
            if complete >= _FULL_TRIES:
                break
        why = "; ".join(f"{count}x {reason}" for reason, count in sorted(reasons.items(), key=lambda r: -r[1])[:4])
        raise InputError(f"robot {self._robot} cannot pick {pick.body} and place it: {why or 'no grasp from above'}")

    def motion(self) -> tuple[Motion, dict[str, Array]]:
        """The motion so far with its events and arrays."""
        paths = [path for path, _, _ in self._paths]
        offsets = np.concatenate([[0.0], np.cumsum([path.time[-1] + CONTROL_DT for path in paths])])
        arrays = {
            "time": np.concatenate([path.time + offset for path, offset in zip(paths, offsets, strict=False)]),
            f"{self._robot}/qpos": np.concatenate([path.qpos for path in paths]),
            f"{self._robot}/tcp": np.concatenate([path.tcp for path in paths]),
            f"{self._robot}/opening": np.concatenate([path.opening for path in paths]),
        }
        events: list[Event] = []
        poses = {name: _initial(self._world, name) for name in self._world.bodies}
        rows: dict[str, list[Array]] = {name: [] for name in poses}
        for (path, pick, offset), begin in zip(self._paths, offsets, strict=False):
            events += self._events(path, pick, float(begin), len(events))
            held = (path.time >= path.phases["close"][1]) & (path.time <= path.phases["open"][0])
            for name, pose in poses.items():
                row = np.tile(_row(pose), (len(path.time), 1))
                if name == pick.body:
                    row[held] = [_row(tcp @ offset) for tcp in path.tcp[held]]
                    row[path.time > path.phases["open"][0]] = _row(pick.goal)
                rows[name].append(row)
            poses[pick.body] = pick.goal
        arrays |= {f"object/{name}": np.concatenate(parts) for name, parts in rows.items()}
        motion = Motion(
            robots=(self._robot,), source="planned", duration=float(arrays["time"][-1]), events=tuple(events)
        )
        return motion, arrays

    def _choose(self, pick: Pick, grasp: Grasp, reasons: dict[str, int]) -> _Choice | None:
        """The grasp when its key postures can be reached without collision, with the lowest release that is clear."""
        back = transform((0.0, 0.0, -self._gripper.pad_offset(grasp.width)))
        body = self._poses[pick.body]
        tcp = body @ grasp.frame @ back
        opening = min(self._gripper.stroke, grasp.width + _ROOM)
        for name, pose in self._poses.items():
            self._clear.place(name, pose)
        taken = self._arm.solve(tcp, self._start, rest=self._start, restarts=4)
        if not taken.converged:
            _refuse(reasons, "grasp out of reach")
            return None
        hit = self._clear.worst(taken.qpos, opening)
        if hit is not None:
            _refuse(reasons, f"grasp: {hit.first} meets {hit.second}")
            return None
        for turn in _yaws(pick.free_yaw):
            goal = pick.goal @ turn
            for raised in _RAISES:
                lifted = transform((0.0, 0.0, raised)) @ goal
                release = lifted @ inverse(body) @ tcp
                given = self._arm.solve(release, taken.qpos, rest=self._start, restarts=4)
                if not given.converged:
                    _refuse(reasons, "release out of reach")
                    break
                hit = self._clear.carry(
                    given.qpos[None], grasp.width, (pick.body, inverse(tcp) @ body, release[None])
                ) or self._clear.worst(given.qpos, opening, frozenset((pick.body,)))
                self._clear.place(pick.body, body)
                if hit is None:
                    return _Choice(grasp, tcp, release, opening)
                if raised == _RAISES[-1]:
                    _refuse(reasons, f"release: {hit.first} meets {hit.second}")
        return None

    def _path(self, pick: Pick, choice: _Choice, reasons: dict[str, int]) -> JointPath | None:
        """The whole movement, or None when the arm leaves it or collides."""
        back = transform((0.0, 0.0, -PREGRASP))
        body = self._poses[pick.body]
        offset = inverse(choice.tcp) @ body
        high = self._carry_height(pick, choice)
        before, after = choice.tcp @ back, choice.release @ back
        pre = self._arm.solve(before, self._start, rest=self._start, restarts=8)
        if not pre.converged:
            _refuse(reasons, "pre-grasp out of reach")
            return None
        width, wide = choice.grasp.width, choice.opening
        slow = min(self._speed, 0.12)
        home = self._arm.tcp(self._start)
        waypoints = [
            Waypoint(before, wide, "approach", self._speed, joints=pre.qpos),
            Waypoint(choice.tcp, wide, "descend", slow, hold=0.1),
            Waypoint(choice.tcp, width, "close", hold=0.4),
            Waypoint(_at_height(choice.tcp, high), width, "lift", self._speed),
            Waypoint(_at_height(choice.release, max(high, choice.release[2, 3])), width, "carry", self._speed),
            Waypoint(choice.release, width, "lower", slow, hold=0.2),
            Waypoint(choice.release, wide, "open", hold=0.3),
            Waypoint(after, wide, "retract", slow),
            Waypoint(home, self._gripper.stroke, "home", self._speed, joints=self._start),
        ]
        try:
            path = cartesian_path(self._arm, self._start, waypoints, opening=self._gripper.stroke)
        except UnreachableError as error:
            _refuse(reasons, str(error).partition("cannot ")[2].partition(":")[0])
            return None
        hit = self._collisions(pick, choice, path, offset)
        if hit is not None:
            _refuse(reasons, hit)
            return None
        return path

    def _collisions(self, pick: Pick, choice: _Choice, path: JointPath, offset: Array) -> str | None:
        """The first collision along the movement, with what is held carried along, or None."""

        def part(*labels: str) -> slice:
            begin, end = path.phases[labels[0]][0], path.phases[labels[-1]][1]
            return slice(round(begin / CONTROL_DT), round(end / CONTROL_DT) + 1)

        for name, pose in self._poses.items():
            self._clear.place(name, pose)
        going, holding, leaving = part("approach", "descend"), part("lift", "lower"), part("retract", "home")
        hit = self._clear.path(path.qpos[going], path.opening[going])
        if hit is None:
            # The body rests on its support as the lift begins.
            held = slice(holding.start + 20, holding.stop)
            hit = self._clear.carry(path.qpos[held], choice.grasp.width, (pick.body, offset, path.tcp[held]))
        if hit is None:
            self._clear.place(pick.body, pick.goal)
            hit = self._clear.path(path.qpos[leaving], path.opening[leaving])
        return None if hit is None else f"on the way: {hit.first} meets {hit.second}"

    def _carry_height(self, pick: Pick, choice: _Choice) -> float:
        """Tcp height at which the carried body passes over everything that stands between."""
        model, tops = self._world.model, [0.0]
        data = self._world.initial_data()
        mujoco.mj_forward(model, data)
        for name in self._world.bodies:
            if name == pick.body or self._world.scene.body(name).static:
                continue
            for geom in self._world.geoms(name):
                corner = np.abs(data.geom_xmat[geom].reshape(3, 3)[2]) @ model.geom_aabb[geom, 3:]
                tops.append(float(data.geom_xpos[geom][2] + corner))
        lowest = min(choice.tcp[2, 3], choice.release[2, 3])
        below = choice.tcp[2, 3] - float(self._poses[pick.body][2, 3])
        return float(max(max(tops) + below + _CARRY_CLEARANCE, lowest + PREGRASP, choice.tcp[2, 3] + 0.05))

    def _accept(self, pick: Pick, choice: _Choice, path: JointPath) -> None:
        offset = inverse(choice.tcp) @ self._poses[pick.body]
        goal = choice.release @ offset
        goal[2, 3] = pick.goal[2, 3]
        self._poses[pick.body] = goal
        self._paths.append((path, replace(pick, goal=goal), offset))

    def _events(self, path: JointPath, pick: Pick, begin: float, count: int) -> list[Event]:
        phases = {label: (a + begin, b + begin) for label, (a, b) in path.phases.items()}
        robot, body = self._robot, pick.body
        close, opened = phases["close"], phases["open"]
        moments: list[tuple[Relation, str, str, float, float, float]] = [
            ("approach", robot, body, phases["approach"][0], phases["descend"][0], phases["descend"][1]),
            ("grasp", robot, body, close[0], close[0] + 0.2, close[1]),
            ("lift", body, robot, phases["lift"][0], phases["lift"][0] + 0.1, phases["lift"][1]),
            ("transport", body, robot, phases["carry"][0], sum(phases["carry"]) / 2, phases["carry"][1]),
        ]
        if pick.target is not None:
            made: Relation = "containment" if pick.inside else "support"
            moments.append((made, body, pick.target, phases["lower"][0], opened[0], opened[1] + _SETTLE))
        moments += [
            ("release", robot, body, opened[0], opened[0] + 0.1, opened[1]),
            ("retract", robot, body, phases["retract"][0], phases["retract"][1], phases["home"][1]),
        ]
        return [
            Event(
                id=f"e{count + index}", relation=relation, subject=subject, object=other, before=before, onset=onset,
                after=after, robot=robot, confidence=1.0, provenance="assumed",
            )
            for index, (relation, subject, other, before, onset, after) in enumerate(moments)
        ]  # fmt: skip


def _refuse(reasons: dict[str, int], reason: str) -> None:
    """Count one more candidate that failed for this reason."""
    reasons[reason] = reasons.get(reason, 0) + 1


def _tilt(tcp: Array) -> float:
    """Cost of an approach that is not straight down, per radian."""
    return _TILT_COST * float(np.arccos(np.clip(-tcp[2, 2], -1.0, 1.0)))


def _yaws(free: bool) -> list[Array]:
    """Turns about the body's own vertical to try at the goal."""
    angles = np.arange(8) * np.pi / 4 if free else np.zeros(1)
    return [transform((0, 0, 0), (float(np.cos(a / 2)), 0.0, 0.0, float(np.sin(a / 2)))) for a in angles]


def _at_height(pose: Array, height: float) -> Array:
    raised = pose.copy()
    raised[2, 3] = height
    return raised


def _row(pose: Array) -> Array:
    return np.concatenate([pose[:3, 3], matrix_quaternion(pose)])


def _initial(world: World, body: str) -> Array:
    data = world.initial_data()
    mujoco.mj_kinematics(world.model, data)
    index = world.bodies[body]
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = data.xmat[index].reshape(3, 3), data.xpos[index]
    return pose
