"""Task predicates evaluated on a native recording; each answers with one measured value against one threshold."""

from collections.abc import Callable
from dataclasses import dataclass

import mujoco
import numpy as np
import numpy.typing as npt

from backend.documents.verdict import Check, Criteria
from backend.motion.world import SIDES, World
from backend.physics.execute import Recording
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, apply, inverse
from mjcf_export.scene import Body, Predicate
from mjcf_export.shapes import Cavity, cavity, shape_mesh

_CARRIED = 0.05
_RETRACTED = 0.05
_INSERTED = 0.01
_POURED = 0.5
_BEARING = 0.5
"""Share of a body's weight that something must bear to support it."""


@dataclass(frozen=True)
class Measured:
    """A value against its threshold; `detail` says what was measured."""

    value: float
    comparison: str
    threshold: float
    unit: str = ""
    detail: str = ""

    @property
    def holds(self) -> bool:
        """Whether the value keeps the threshold; NaN never does."""
        if self.comparison == "<=":
            return self.value <= self.threshold
        return self.value >= self.threshold


class Judge:
    """Evaluates predicates on one recording.

    Args:
        world: the compiled scene.
        recording: the whole motion.
        criteria: thresholds used where a predicate gives none.
        begin: first control step after settling.
    """

    def __init__(self, world: World, recording: Recording, criteria: Criteria, begin: int) -> None:
        self._world, self._recording, self._criteria, self._begin = world, recording, criteria, begin
        self._last = recording.steps - 1
        dt = float(recording.time[1] - recording.time[0]) if recording.steps > 1 else 1.0
        self._still = max(0, recording.steps - round(criteria.still_time / dt))
        self._predicates: dict[str, Callable[..., Measured]] = {
            "inside": self.inside, "on": self.on, "upright": self.upright, "lifted": self.lifted,
            "carried": self.carried, "at": self.at, "open": self.opened, "closed": self.closed,
            "inserted": self.inserted, "poured": self.poured, "separated": self.separated,
            "released": self.released, "retracted": self.retracted, "stable": self.stable,
        }  # fmt: skip

    def check(self, predicate: Predicate) -> Check:
        """The predicate as a check of the whole motion.

        Raises:
            InputError: it names a body or joint that is not there, or has the wrong arguments.
        """
        try:
            measured = self._predicates[predicate.name](*predicate.args)
        except (TypeError, ValueError) as error:
            raise InputError(f"predicate {predicate}: wrong arguments ({error})") from error
        value = float(measured.value)
        return Check(
            name=str(predicate),
            stage="whole",
            status="pass" if measured.holds else "fail",
            value=value if np.isfinite(value) else None,
            unit=measured.unit,
            comparison="<=" if measured.comparison == "<=" else ">=",
            threshold=measured.threshold,
            detail=measured.detail,
        )

    def inside(self, a: str, b: str) -> Measured:
        """How far the whole of `a` sticks out of `b`'s cavity, in metres."""
        hollow = cavity(self._scene_body(b).shape, self._world.folder)
        if hollow is None:
            return Measured(float("inf"), "<=", self._criteria.penetration, "m", f"{b} has no cavity")
        outside = _excess(hollow, self._in_frame_of(a, b))
        return Measured(
            outside, "<=", self._criteria.penetration, "m", f"largest part of {a} outside the cavity of {b}"
        )

    def on(self, a: str, b: str) -> Measured:
        """Share of `a`'s weight that `b` bears at the end."""
        self._scene_body(b)
        force = self._recording.contacts.lift_force(self._moving(a), b)[self._still :]
        share = float(force.mean()) / self._world.weight(a)
        return Measured(share, ">=", _BEARING, "", f"share of the weight of {a} borne by {b}")

    def upright(self, a: str, max_tilt: float | None = None) -> Measured:
        """Angle between `a`'s z and the vertical at the end."""
        limit = self._criteria.upright_tilt if max_tilt is None else float(max_tilt)
        tilt = float(np.arccos(np.clip(self._pose(a)[2, 2], -1.0, 1.0)))
        return Measured(tilt, "<=", limit, "rad", f"tilt of {a}")

    def lifted(self, a: str, height: float | None = None) -> Measured:
        """Greatest rise of `a` while both pads load it and nothing but a robot touches it."""
        limit = self._criteria.lift_height if height is None else float(height)
        rise = self._recording.bodies[self._moving(a)][:, 2] - self._recording.bodies[a][self._begin, 2]
        free = np.ones(self._recording.steps, dtype=bool)
        for other in self._recording.contacts.partners(a, self._begin, self._recording.steps):
            if other not in self._world.robots:
                free &= self._recording.contacts.entity_force(a, other) <= self._criteria.released_force
        grasped = self._held(a) & free
        return Measured(float(rise[grasped].max(initial=0.0)), ">=", limit, "m", f"rise of {a} held by both pads only")

    def carried(self, a: str, distance: float | None = None) -> Measured:
        """Greatest displacement of `a` over one uninterrupted hold by both pads."""
        limit = _CARRIED if distance is None else float(distance)
        held = np.flatnonzero(self._held(self._moving(a)))
        far = 0.0
        for run in np.split(held, np.flatnonzero(np.diff(held) > 1) + 1) if len(held) else []:
            path = self._recording.bodies[a][run, :3]
            far = max(far, float(np.linalg.norm(path - path[0], axis=1).max()))
        return Measured(far, ">=", limit, "m", f"displacement of {a} with both pads loaded")

    def at(self, a: str, xyz: tuple[float, ...], tolerance: float) -> Measured:
        """Distance of `a`'s origin from a point at the end."""
        target = np.asarray(xyz, dtype=np.float64)
        if target.shape != (3,):
            raise ValueError("expected (x, y, z)")
        distance = float(np.linalg.norm(self._pose(a)[:3, 3] - target))
        return Measured(distance, "<=", float(tolerance), "m", f"distance of {a} from its place")

    def opened(self, joint: str, at_least: float) -> Measured:
        """Position of a joint at the end."""
        value, unit = self._joint(joint)
        return Measured(value, ">=", float(at_least), unit, f"position of {joint}")

    def closed(self, joint: str, at_most: float) -> Measured:
        """Position of a joint at the end."""
        value, unit = self._joint(joint)
        return Measured(value, "<=", float(at_most), unit, f"position of {joint}")

    def inserted(self, a: str, b: str, depth: float | None = None) -> Measured:
        """How deep `a` reaches below `b`'s rim, its part below the rim being within the cavity."""
        limit = _INSERTED if depth is None else float(depth)
        hollow = cavity(self._scene_body(b).shape, self._world.folder)
        if hollow is None:
            return Measured(0.0, ">=", limit, "m", f"{b} has no cavity")
        points = self._in_frame_of(a, b)
        below = points[points[:, 2] < hollow.rim]
        if not len(below) or _excess(hollow, below) > self._criteria.penetration:
            return Measured(0.0, ">=", limit, "m", f"{a} does not reach into {b}")
        return Measured(float(hollow.rim - below[:, 2].min()), ">=", limit, "m", f"depth of {a} below the rim of {b}")

    def poured(self, a: str, b: str, fraction: float | None = None) -> Measured:
        """Share of what was in `a` (or of the bodies called `a_...`) whose middle is in `b` at the end."""
        limit = _POURED if fraction is None else float(fraction)
        contents = [name for name in self._world.movable() if name.startswith(f"{a}_")]
        source = None if contents else cavity(self._scene_body(a).shape, self._world.folder)
        if source is not None:
            others = [name for name in self._world.movable() if name not in {a, b}]
            contents = [name for name in others if source.contains(self._middle(name, a, self._begin))[0]]
        target = cavity(self._scene_body(b).shape, self._world.folder)
        if not contents or target is None:
            return Measured(0.0, ">=", limit, "", f"{'nothing was in ' + a if not contents else b + ' has no cavity'}")
        count = sum(bool(target.contains(self._middle(name, b, self._last))[0]) for name in contents)
        return Measured(count / len(contents), ">=", limit, "", f"share of {len(contents)} bodies in {b}")

    def separated(self, a: str, b: str, distance: float | None = None) -> Measured:
        """Smallest gap between the collision geoms of two bodies at the end."""
        limit = 0.001 if distance is None else float(distance)
        self._scene_body(a), self._scene_body(b)
        model, data = self._world.model, mujoco.MjData(self._world.model)
        data.qpos[:] = self._recording.qpos[self._last]
        mujoco.mj_kinematics(model, data)
        line = np.zeros(6)
        gap = max(1.0, 2 * limit)
        for first in self._solid(a):
            for second in self._solid(b):
                gap = min(gap, float(mujoco.mj_geomDistance(model, data, int(first), int(second), gap, line)))
        return Measured(gap, ">=", limit, "m", f"gap between {a} and {b}")

    def released(self, a: str) -> Measured:
        """Largest force of any robot on `a` over the last moments."""
        force = sum(
            (self._recording.contacts.entity_force(self._moving(a), robot) for robot in self._world.robots),
            np.zeros(self._recording.steps),
        )
        worst = float(force[self._still :].max(initial=0.0))
        return Measured(worst, "<=", self._criteria.released_force, "N", f"force of the robot on {a} at the end")

    def retracted(self, distance: float | None = None) -> Measured:
        """Smallest distance of a tcp from where it last held something, at the end."""
        limit = _RETRACTED if distance is None else float(distance)
        nearest = float("inf")
        for robot, tcp in self._recording.tcp.items():
            held = np.zeros(self._recording.steps, dtype=bool)
            for body in self._world.movable():
                for side in self._world.robots[robot].pads:
                    held |= self._recording.contacts.pad_force(robot, side, body) > self._criteria.released_force
            if held.any():
                last = int(np.flatnonzero(held)[-1])
                nearest = min(nearest, float(np.linalg.norm(tcp[self._last, :3, 3] - tcp[last, :3, 3])))
        value = nearest if np.isfinite(nearest) else 0.0
        return Measured(value, ">=", limit, "m", "distance of the tcp from where it last held something")

    def stable(self, a: str) -> Measured:
        """Largest speed of `a` over the last moments, as a share of the linear and angular thresholds."""
        linear, angular = body_speed(self._world, self._recording, self._moving(a))
        shares = (
            float(linear[self._still :].max()) / self._criteria.linear_speed,
            float(angular[self._still :].max()) / self._criteria.angular_speed,
        )
        kind = "linear" if shares[0] >= shares[1] else "angular"
        return Measured(max(shares), "<=", 1.0, "", f"{kind} speed of {a} over its threshold")

    def _scene_body(self, name: str) -> Body:
        if name not in self._world.bodies:
            raise InputError(f"predicate: no body {name!r}; there are {', '.join(self._world.bodies)}")
        return self._world.scene.body(name)

    def _moving(self, name: str) -> str:
        self._scene_body(name)
        return name

    def _pose(self, name: str) -> Array:
        return self._recording.matrix(self._moving(name), self._last)

    def _in_frame_of(self, a: str, b: str) -> Array:
        """Vertices of `a` in `b`'s frame at the end."""
        vertices = shape_mesh(self._scene_body(a).shape, self._world.folder).vertices
        return apply(inverse(self._pose(b)) @ self._pose(a), vertices)

    def _middle(self, name: str, frame: str, tick: int) -> Array:
        vertices = shape_mesh(self._scene_body(name).shape, self._world.folder).vertices
        middle = (vertices.min(axis=0) + vertices.max(axis=0)) / 2
        return apply(inverse(self._recording.matrix(frame, tick)) @ self._recording.matrix(name, tick), middle[None])

    def _held(self, body: str) -> npt.NDArray[np.bool_]:
        """Steps after settling at which one robot's pads both load the body."""
        held = np.zeros(self._recording.steps, dtype=bool)
        for robot, parts in self._world.robots.items():
            if parts.pads:
                sides = [self._recording.contacts.pad_force(robot, side, body) for side in SIDES]
                held |= (sides[0] >= self._criteria.pad_force) & (sides[1] >= self._criteria.pad_force)
        held[: self._begin] = False
        return held

    def _solid(self, body: str) -> list[int]:
        geoms = self._world.geoms(body)
        return [int(g) for g in geoms if self._world.model.geom_contype[g] or self._world.model.geom_conaffinity[g]]

    def _joint(self, name: str) -> tuple[float, str]:
        known = {joint.name: joint for joint in self._world.scene.joints}
        if name not in known:
            raise InputError(f"predicate: no joint {name!r}; there are {', '.join(known) or 'none'}")
        address = int(self._world.model.joint(name).qposadr[0])
        return float(self._recording.qpos[self._last, address]), "m" if known[name].kind == "prismatic" else "rad"


def body_speed(world: World, recording: Recording, body: str) -> tuple[Array, Array]:
    """Linear (m/s, of the body's origin) and angular (rad/s) speed `(N,)` of a body."""
    joint = world.free_joint(body)
    if joint is not None:
        address = int(world.model.jnt_dofadr[joint])
        velocity = recording.qvel[:, address : address + 6]
        return np.linalg.norm(velocity[:, :3], axis=1), np.linalg.norm(velocity[:, 3:], axis=1)
    row = recording.bodies[body]
    dt = float(recording.time[1] - recording.time[0]) if recording.steps > 1 else 1.0
    linear = np.linalg.norm(np.gradient(row[:, :3], axis=0), axis=1) / dt if len(row) > 1 else np.zeros(len(row))
    dots = np.abs(np.einsum("ni,ni->n", row[1:, 3:], row[:-1, 3:]))
    angular = np.append(2 * np.arccos(np.clip(dots, 0.0, 1.0)) / dt, 0.0)
    return linear, angular


def _excess(hollow: Cavity, points: Array) -> float:
    """How far the worst of the points `(N, 3)` lies outside a cavity, in metres; 0 when all are within."""
    offset = points[:, :2] - np.array(hollow.centre)
    below, above = hollow.floor - points[:, 2], points[:, 2] - hollow.rim
    if hollow.half_extents is not None:
        sideways = (np.abs(offset) - np.array(hollow.half_extents)).max(axis=1)
    else:
        height = np.clip(points[:, 2], hollow.floor, hollow.rim)
        sideways = np.linalg.norm(offset, axis=1) - hollow.radius(height)
    return max(0.0, float(np.max([below, above, sideways])))
