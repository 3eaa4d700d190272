"""The checks of each stage: every one a single kind of value in its own unit, measured over one window."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from backend.documents.verdict import Check, Criteria, Stage
from backend.motion.holds import Hold
from backend.motion.kinematics import rotation_vector
from backend.motion.world import SIDES, World
from backend.physics.execute import Recording
from backend.physics.predicates import body_speed
from mjcf_export.frames import Array, inverse

BEARING = 0.5
"""Share of its weight that a body at rest must have borne by what it stands on."""
NORMAL_ANGLE = 0.8
"""Radians between a pad's contact normal and the closing direction."""
_LONGEST_LOSS = 0.03
"""Seconds that a pad may be unloaded without a break."""


@dataclass(frozen=True)
class Window:
    """Control steps `[begin, end)` of a stage."""

    stage: Stage
    begin: int
    end: int


class Checker:
    """Makes the checks of one recording so far."""

    def __init__(self, world: World, recording: Recording, criteria: Criteria) -> None:
        self.world, self.recording, self.criteria = world, recording, criteria
        self.dt = float(recording.time[1] - recording.time[0]) if recording.steps > 1 else 0.01

    def at_most(self, stage: Stage, name: str, value: float, limit: float, unit: str, detail: str = "") -> Check:
        """A check that passes when the value does not exceed the limit; not finite fails."""
        return _check(stage, name, value, "<=", limit, unit, detail)

    def at_least(self, stage: Stage, name: str, value: float, limit: float, unit: str, detail: str = "") -> Check:
        """A check that passes when the value reaches the limit; not finite fails."""
        return _check(stage, name, value, ">=", limit, unit, detail)

    def sound(self, window: Window) -> list[Check]:
        """Finite states and no solver warning so far."""
        checks = [self.at_most(window.stage, "finite states", 0.0 if self.recording.finite() else 1.0, 0.0, "")]
        total = float(sum(self.recording.warnings.values()))
        detail = ", ".join(f"{name} {count}" for name, count in self.recording.warnings.items())
        return [*checks, self.at_most(window.stage, "MuJoCo warnings", total, 0.0, "", detail)]

    def penetration(self, window: Window) -> list[Check]:
        """Deepest overlap per pair of entities that touched in the window."""
        pairs = self.recording.contacts.penetration(window.begin, window.end)
        return [
            self.at_most(window.stage, f"penetration {a} / {b}", depth, self.criteria.penetration, "m")
            for (a, b), depth in sorted(pairs.items())
        ]

    def still(self, window: Window, bodies: list[str]) -> list[Check]:
        """Linear and angular speed, each below its threshold without a break to the window's end."""
        begin = max(window.begin, window.end - round(self.criteria.still_time / self.dt))
        checks = []
        for body in bodies:
            linear, angular = body_speed(self.world, self.recording, body)
            speeds = (linear[begin : window.end], angular[begin : window.end])
            checks.append(
                self.at_most(window.stage, f"linear speed {body}", _top(speeds[0]), self.criteria.linear_speed, "m/s")
            )
            checks.append(
                self.at_most(
                    window.stage, f"angular speed {body}", _top(speeds[1]), self.criteria.angular_speed, "rad/s"
                )
            )
        return checks

    def support(self, window: Window, bodies: list[str]) -> list[Check]:
        """Share of each body's weight that other things than robots bear; summed per pair first."""
        begin = max(window.begin, window.end - round(self.criteria.still_time / self.dt))
        checks = []
        for body in bodies:
            partners = self.recording.contacts.partners(body, begin, window.end)
            shares = {
                other: float(self.recording.contacts.lift_force(body, other)[begin : window.end].mean())
                for other in partners
                if other not in self.world.robots
            }
            detail = ", ".join(f"{other} {force:.3f} N" for other, force in shares.items()) or "nothing bears it"
            share = sum(force for force in shares.values() if force > 0) / self.world.weight(body)
            checks.append(self.at_least(window.stage, f"support of {body}", share, BEARING, "", detail))
        return checks

    def shift(self, window: Window, bodies: list[str], reference: int) -> list[Check]:
        """How far each body has moved and turned since a step."""
        checks = []
        for body in bodies:
            change = inverse(self.recording.matrix(body, reference)) @ self.recording.matrix(body, window.end - 1)
            distance = float(np.linalg.norm(change[:3, 3]))
            angle = float(np.linalg.norm(rotation_vector(change[:3, :3])))
            checks.append(self.at_most(window.stage, f"shift of {body}", distance, self.criteria.tcp_error, "m"))
            checks.append(self.at_most(window.stage, f"turn of {body}", angle, self.criteria.upright_tilt, "rad"))
        return checks

    def tracking(self, window: Window, reference: dict[str, Array]) -> list[Check]:
        """Distance of each tcp from the path it was told to follow, `(N, 4, 4)` per control step."""
        checks = []
        for robot, wanted in reference.items():
            rows = slice(window.begin, window.end)
            error = np.linalg.norm(self.recording.tcp[robot][rows, :3, 3] - wanted[rows, :3, 3], axis=1)
            checks.append(self.at_most(window.stage, f"tcp error {robot}", _top(error), self.criteria.tcp_error, "m"))
        return checks

    def orientation(self, window: Window, hold: Hold) -> list[Check]:
        """Both pads touch the body from opposite sides, squarely."""
        checks = []
        gripper = self.world.robots[hold.robot].robot.gripper
        faces = {} if gripper is None else gripper.faces
        for side in faces:
            normals, forces, ticks = self.recording.contacts.pad_normals(
                hold.robot, side, hold.body, window.begin, window.end
            )
            if not len(forces):
                checks.append(
                    self.at_least(
                        window.stage, f"{side} pad touches {hold.body}", 0.0, 1.0, "", "no contact while closing"
                    )
                )
                continue
            checks.append(self.at_least(window.stage, f"{side} pad touches {hold.body}", 1.0, 1.0, ""))
            last = ticks == ticks[-1]
            closing = -faces[side].side * self.recording.tcp[hold.robot][int(ticks[-1]), :3, 1]
            mean = (normals[last] * forces[last, None]).sum(axis=0)
            angle = float(np.arccos(np.clip(mean @ closing / max(float(np.linalg.norm(mean)), 1e-12), -1.0, 1.0)))
            checks.append(self.at_most(window.stage, f"{side} normal on {hold.body}", angle, NORMAL_ANGLE, "rad"))
        return checks

    def closure(self, window: Window, hold: Hold) -> list[Check]:
        """Each pad's force when closing is over; the two sides are never added."""
        begin = max(window.begin, window.end - 5)
        checks = []
        for side in SIDES:
            force = self.recording.contacts.pad_force(hold.robot, side, hold.body)[begin : window.end]
            lowest = float(force.min(initial=np.inf)) if len(force) else 0.0
            checks.append(
                self.at_least(window.stage, f"{side} pad on {hold.body}", lowest, self.criteria.pad_force, "N")
            )
        return checks

    def load(self, window: Window, hold: Hold) -> list[Check]:
        """Each pad stays loaded, and the body does not slip in the hand."""
        checks = []
        for side in SIDES:
            force = self.recording.contacts.pad_force(hold.robot, side, hold.body)[window.begin : window.end]
            loaded = force >= self.criteria.pad_force
            longest = _longest(~loaded) * self.dt
            detail = f"lowest {force.min(initial=np.inf):.2f} N over {len(force) * self.dt:.2f} s"
            checks.append(self.at_most(window.stage, f"{side} pad unloaded", longest, _LONGEST_LOSS, "s", detail))
        return [*checks, self.slip(window, hold)]

    def slip(self, window: Window, hold: Hold) -> Check:
        """Largest motion of the body's origin in the tcp frame since the window's first step."""
        rows = self.recording.bodies[hold.body][window.begin : window.end, :3]
        frames = self.recording.tcp[hold.robot][window.begin : window.end]
        local = np.einsum("nji,nj->ni", frames[:, :3, :3], rows - frames[:, :3, 3])
        moved = np.linalg.norm(local - local[:1], axis=1) if len(local) else np.zeros(0)
        return self.at_most(window.stage, f"slip of {hold.body}", _top(moved), self.criteria.slip, "m")

    def let_go(self, window: Window, hold: Hold, opened: int) -> list[Check]:
        """Each pad's force from when the gripper is open to the window's end."""
        checks = []
        for side in SIDES:
            force = self.recording.contacts.pad_force(hold.robot, side, hold.body)[opened : window.end]
            checks.append(
                self.at_most(window.stage, f"{side} pad after release", _top(force), self.criteria.released_force, "N")
            )
        return checks


def _check(stage: Stage, name: str, value: float, comparison: str, limit: float, unit: str, detail: str) -> Check:
    holds = value <= limit if comparison == "<=" else value >= limit
    return Check(
        name=name,
        stage=stage,
        status="pass" if holds else "fail",
        value=float(value) if np.isfinite(value) else None,
        unit=unit,
        comparison="<=" if comparison == "<=" else ">=",
        threshold=limit,
        detail=detail if np.isfinite(value) else f"{detail} not finite".strip(),
    )


def _top(values: Array) -> float:
    return float(values.max(initial=0.0)) if np.isfinite(values).all() else float("inf")


def _longest(flags: npt.NDArray[np.bool_]) -> int:
    """Length of the longest run of True."""
    best = run = 0
    for flag in flags:
        run = run + 1 if flag else 0
        best = max(best, run)
    return best
