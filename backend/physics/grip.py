"""The squeeze of every hold, set as a force-controlled gripper sets it: press, feel, press more or less."""

import numpy as np

from backend.documents.motion import Motion
from backend.documents.verdict import Criteria
from backend.motion.holds import Hold, motion_holds
from backend.motion.world import SIDES, World
from backend.physics.controls import SQUEEZE_STEPS, Controls, build_controls, grip_force
from backend.physics.execute import Executor
from mjcf_export.frames import Array

_ROUNDS = 3
_CLOSE_ENOUGH = 0.1
"""Share by which a pad's force may differ from the wanted one."""
_FELT = 0.05
"""Newtons below which a pad feels nothing."""
_FURTHER = 4.0
"""Newtons to close with more when neither pad feels anything: some 3 mm."""


def felt_controls(
    world: World, motion: Motion, arrays: dict[str, Array], criteria: Criteria, squeeze: float = 1.0
) -> Controls:
    """Controls under which each hold presses with the force asked for, whatever the exact width of the body is.

    Takes what `build_controls` takes. The record tells the opening, not the force; on a body some millimetres wider
    or narrower than the hold, the same opening would press far too much or not at all.
    """
    holds = motion_holds(motion, arrays, set(world.bodies))
    trims = [0.0] * len(holds)
    controls = build_controls(world, motion, arrays, criteria, squeeze)
    for index, hold in enumerate(holds):
        for _ in range(_ROUNDS):
            change = _change(world, controls, hold, squeeze * grip_force(world, hold.body))
            if change == 0.0:
                break
            trims[index] += change
            controls = build_controls(world, motion, arrays, criteria, squeeze, trims)
    return controls


def _change(world: World, controls: Controls, hold: Hold, wanted: float) -> float:
    """Newtons per finger to press more, by what the pads feel once the gripper is closed."""
    if not world.robots[hold.robot].pads:
        return 0.0
    executor = Executor(world, controls)
    end = min(controls.tick(hold.held) + SQUEEZE_STEPS, controls.steps)
    executor.run(end)
    contacts = executor.recording().contacts
    felt = [float(contacts.pad_force(hold.robot, side, hold.body)[end - 5 : end].mean()) for side in SIDES]
    if max(felt) < _FELT:
        return _FURTHER
    if min(felt) < _FELT or abs(np.mean(felt) - wanted) <= _CLOSE_ENOUGH * wanted:
        return 0.0
    return wanted - float(np.mean(felt))
