"""Contact correction: one hypothesis at a time, kept only when the execution gets further."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backend.documents.motion import Motion
from backend.documents.run import Progress
from backend.documents.verdict import STAGES, Criteria
from backend.motion.kinematics import Kinematics
from backend.motion.world import World
from backend.physics.controls import Controls
from backend.physics.grip import felt_controls
from backend.physics.hypotheses import Attempt, Bench, hypotheses, severity
from backend.physics.staged import Outcome, execute_stages, make_plan
from mjcf_export.frames import Array

MAX_EXECUTIONS = 45
MAX_ROUNDS = 6


@dataclass(frozen=True)
class Corrected:
    """The best attempt, its controls, and what its execution came to."""

    attempt: Attempt
    controls: Controls
    outcome: Outcome
    executions: int


def correct_motion(
    world: World, motion: Motion, arrays: dict[str, Array], criteria: Criteria, progress: Progress, allowed: bool = True
) -> Corrected:
    """Execute a motion; while it fails and `allowed`, try bounded local corrections in the calibration order.

    The world's model keeps the friction of the attempt that is returned.
    """
    friction = world.model.geom_friction.copy()

    def set_friction(attempt: Attempt) -> None:
        world.model.geom_friction[:] = friction
        for body, value in attempt.friction.items():
            world.model.geom_friction[world.geoms(body), 0] = value

    def run(attempt: Attempt) -> Corrected:
        set_friction(attempt)
        controls = felt_controls(world, motion, attempt.arrays, criteria, attempt.squeeze)
        outcome = execute_stages(world, make_plan(world, motion, attempt.arrays, controls), criteria)
        return Corrected(attempt, controls, outcome, 1)

    best = run(Attempt(dict(arrays)))
    count = 1
    if allowed and best.outcome.failed is not None:
        arms = {
            item.name: Kinematics(world.robots[item.name].robot, base=item.base.matrix)
            for item in world.scene.robots
            if item.name in motion.robots
        }
        bench = Bench(world, motion, arms)
        for _ in range(MAX_ROUNDS):
            better, count = _improve(bench, best, run, count, progress)
            if better is None:
                break
            best = better
            if best.outcome.failed is None:
                break
        set_friction(best.attempt)
    return Corrected(best.attempt, best.controls, best.outcome, count)


def _improve(
    bench: Bench, best: Corrected, run: Callable[[Attempt], Corrected], count: int, progress: Progress
) -> tuple[Corrected | None, int]:
    """The first hypothesis that passes, else the one that got furthest, if any got further."""
    reached, kept = _reach(best.outcome), None
    for attempt in hypotheses(bench, best.attempt, best.outcome):
        if count >= MAX_EXECUTIONS:
            break
        made = run(attempt)
        count += 1
        progress(min(0.8, 0.1 + 0.7 * count / MAX_EXECUTIONS), attempt.notes[-1])
        got = _reach(made.outcome)
        if got > reached:
            reached, kept = got, made
            if made.outcome.failed is None:
                break
    return kept, count


def _reach(outcome: Outcome) -> tuple[int, int, float]:
    """How far an execution got: holds passed, stage of the failed one, and minus how badly it failed (coarsely)."""
    if outcome.failed is None:
        return (1_000, 0, 0.0)
    passed = sum(name.startswith("release ") for name in outcome.windows)
    stage = STAGES.index(outcome.failed)
    worst = sum(severity(check) for check in outcome.failures)
    return (passed - (outcome.failed == "release"), stage, -float(np.round(worst, 1)))
