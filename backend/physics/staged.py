"""Execute a motion stage by stage: settle, approach, orientation, closure, load, transport, release, whole."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from backend.documents.motion import Motion
from backend.documents.verdict import STAGES, Check, Criteria, Stage
from backend.motion.holds import Hold, motion_holds
from backend.motion.kinematics import Kinematics
from backend.motion.trajectories import resample
from backend.motion.world import World
from backend.physics.checks import Checker, Window
from backend.physics.controls import SQUEEZE_STEPS, Controls
from backend.physics.execute import Executor, Recording
from backend.physics.predicates import Judge
from mjcf_export.frames import Array

_LIFTED = 0.03
"""A tcp this far (m) from where it grasped has taken the load off the support."""
_OPEN_MARGIN = 0.25
"""Seconds a gripper may take to be open after its command."""


@dataclass(frozen=True)
class Outcome:
    """What a staged execution came to.

    Attributes:
        checks: in order, up to and with those of the failed stage.
        failed: the first failed stage, or None.
        hold: the hold it failed at, if any.
        recording: everything up to where it stopped.
        windows: start and end in rollout seconds of every stage that ran, first hold's name first.
    """

    checks: tuple[Check, ...]
    failed: Stage | None
    hold: Hold | None
    recording: Recording
    windows: dict[str, tuple[float, float]]

    @property
    def failures(self) -> list[Check]:
        """The failed checks."""
        return [check for check in self.checks if check.status == "fail"]

    def message(self) -> str:
        """Which stage failed by how much, in one sentence; empty when none did."""
        parts = []
        for check in self.failures[:3]:
            value = "not finite" if check.value is None else f"{check.value:.4g} {check.unit}".strip()
            limit = "" if check.threshold is None else f", needs {check.comparison} {check.threshold:.4g} {check.unit}"
            parts.append(f"{check.name}: {value}{limit}".rstrip() + (f" ({check.detail})" if check.detail else ""))
        return f"{self.failed}: " + "; ".join(parts) if parts else ""


@dataclass(frozen=True)
class Plan:
    """What is to be executed: controls, the holds in it, and the tcp paths asked for per control step."""

    controls: Controls
    holds: list[Hold]
    reference: dict[str, Array]
    marks: dict[str, int]
    duration: float


def make_plan(world: World, motion: Motion, arrays: dict[str, Array], controls: Controls) -> Plan:
    """Bind a motion's events and paths to the control steps of its controls."""
    holds = motion_holds(motion, arrays, set(world.bodies))
    clock = np.arange(controls.steps) * controls.dt - controls.start
    time = np.asarray(arrays["time"], dtype=np.float64)
    reference = {}
    for item in world.scene.robots:
        if item.name in motion.robots:
            arm = Kinematics(world.robots[item.name].robot, base=item.base.matrix)
            tcp = arm.tcp(np.asarray(arrays[f"{item.name}/qpos"], dtype=np.float64))
            reference[item.name] = resample(time, tcp, clock)
    marks = {"settled": controls.tick(0.0)} | {event.id: controls.tick(event.onset) for event in motion.events}
    return Plan(controls, holds, reference, marks, motion.duration)


def execute_stages(world: World, plan: Plan, criteria: Criteria) -> Outcome:
    """Run until the end or the first failed stage."""
    return _Run(world, plan, criteria).outcome()


class _Run:
    def __init__(self, world: World, plan: Plan, criteria: Criteria) -> None:
        self._world, self._plan, self._criteria = world, plan, criteria
        self._controls = plan.controls
        self._executor = Executor(world, plan.controls, plan.marks)
        self._checks: list[Check] = []
        self._windows: dict[str, tuple[float, float]] = {}

    def outcome(self) -> Outcome:
        """The staged execution."""
        failed, hold = self._stages()
        for stage in _after(failed):
            self._checks.append(Check(name=stage, stage=stage, status="not evaluated", detail=f"stopped at {failed}"))
        return Outcome(tuple(self._checks), failed, hold, self._executor.recording(), self._windows)

    def _stages(self) -> tuple[Stage | None, Hold | None]:
        if self._fails(self._settle()):
            return "settle", None
        holds = self._plan.holds
        if not holds:
            for stage in STAGES[1:-1]:
                detail = "the motion has no grasp event"
                self._checks.append(Check(name=stage, stage=stage, status="not evaluated", detail=detail))
        begin = self._controls.tick(0.0)
        for index, hold in enumerate(holds):
            following = [other.close_start for other in holds[index + 1 :] if other.robot == hold.robot]
            end = self._controls.tick(following[0]) if following else self._controls.steps
            for checks in self._hold(hold, begin, end):
                if self._fails(checks):
                    return checks[0].stage, hold
            begin = end
        if self._fails(self._whole()):
            return "whole", holds[-1] if holds else None
        return None, None

    def _fails(self, checks: list[Check]) -> bool:
        self._checks += checks
        return any(check.status == "fail" for check in checks)

    def _advance(self, stage: Stage, begin: int, end: int, hold: Hold | None = None) -> tuple[Window, Checker]:
        end = min(max(end, begin + 1), self._controls.steps)
        self._executor.run(end)
        name = stage if hold is None else f"{stage} {hold.body}"
        self._windows[name] = (begin * self._controls.dt, end * self._controls.dt)
        checker = Checker(self._world, self._executor.recording(), self._criteria)
        return Window(stage, begin, end), checker

    def _settle(self) -> list[Check]:
        end = self._controls.tick(0.0)
        window, checker = self._advance("settle", 0, end)
        late = Window("settle", max(0, end - round(self._criteria.still_time / self._controls.dt)), end)
        bodies = self._world.movable()
        return [
            *checker.sound(window),
            *checker.still(window, bodies),
            *checker.support(window, bodies),
            *checker.shift(window, bodies, 0),
            *checker.penetration(late),
            *checker.tracking(late, self._plan.reference),
        ]

    def _hold(self, hold: Hold, begin: int, end: int) -> Iterator[list[Check]]:
        """The stages of one hold, each executed only when asked for."""
        tick = self._controls.tick
        others = [name for name in self._world.movable() if name != hold.body]
        window, checker = self._advance("approach", begin, tick(hold.close_start), hold)
        yield [
            *checker.sound(window),
            *checker.tracking(window, self._plan.reference),
            *checker.shift(window, [hold.body, *others], window.begin),
            *checker.penetration(window),
        ]
        closed = tick(hold.held) + SQUEEZE_STEPS
        window, checker = self._advance("orientation", window.end, closed, hold)
        yield checker.orientation(window, hold)
        self._windows[f"closure {hold.body}"] = self._windows[f"orientation {hold.body}"]
        closure = Window("closure", window.begin, window.end)
        yield [*checker.sound(closure), *checker.closure(closure, hold), *checker.penetration(closure)]
        release = max(tick(hold.release), window.end + 2)
        lifted = min(self._lifted(hold, window.end, release), release - 1)
        window, checker = self._advance("load", window.end, lifted, hold)
        yield [*checker.sound(window), *checker.load(window, hold), *checker.penetration(window)]
        window, checker = self._advance("transport", window.end, release, hold)
        yield [
            *checker.sound(window),
            *checker.load(window, hold),
            *checker.tracking(window, self._plan.reference),
            *checker.penetration(window),
        ]
        if hold.release >= self._plan.duration - 1e-6:
            detail = "the motion ends while the body is held"
            yield [Check(name="release", stage="release", status="not evaluated", detail=detail)]
            return
        opened = min(tick(hold.open_end + _OPEN_MARGIN), end - 1)
        window, checker = self._advance("release", window.end, end, hold)
        yield [
            *checker.sound(window),
            *checker.let_go(window, hold, opened),
            *checker.support(window, [hold.body]),
            *checker.still(window, [hold.body]),
            *checker.penetration(window),
        ]

    def _lifted(self, hold: Hold, begin: int, end: int) -> int:
        """The step at which the asked-for tcp has left the place of the grasp."""
        path = self._plan.reference[hold.robot][begin:end, :3, 3]
        away = np.flatnonzero(np.linalg.norm(path - path[:1], axis=1) > _LIFTED)
        return begin + int(away[0]) if len(away) else (begin + end) // 2

    def _whole(self) -> list[Check]:
        begin = self._controls.tick(0.0)
        window, checker = self._advance("whole", begin, self._controls.steps)
        judge = Judge(self._world, checker.recording, self._criteria, begin)
        checks = [
            *checker.sound(window),
            *checker.penetration(window),
            *checker.still(window, self._world.movable()),
            *checker.tracking(window, self._plan.reference),
            *(judge.check(predicate) for predicate in self._criteria.predicates),
        ]
        if not self._criteria.predicates:
            checks.append(checker.at_least("whole", "predicates", 0.0, 1.0, "", "the task states no goal"))
        return checks


def _after(stage: Stage | None) -> list[Stage]:
    return [] if stage is None else list(STAGES)[STAGES.index(stage) + 1 :]
