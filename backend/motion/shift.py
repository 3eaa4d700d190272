"""Local, bounded changes of a recorded arm motion: a tcp shift blended in and out around an event."""

import numpy as np

from backend.motion.kinematics import Kinematics
from backend.motion.trajectories import quintic
from mjcf_export.frames import Array


def blend_weights(time: Array, window: tuple[float, float, float, float]) -> Array:
    """Weight `(N,)` that rises smoothly from the first to the second time, and falls from the third to the fourth."""
    begin, full, last, end = window
    rising = quintic((time - begin) / max(full - begin, 1e-9))
    falling = quintic((end - time) / max(end - last, 1e-9))
    weights: Array = np.minimum(rising, falling)
    return weights


def shift_tcp(
    arm: Kinematics, time: Array, qpos: Array, shift: Array, window: tuple[float, float, float, float]
) -> tuple[Array, float]:
    """Joints `(N, n)` whose tcp is moved by `shift` `(3,)` world metres within a time window.

    Args:
        arm: the kinematics.
        time: `(N,)` seconds.
        qpos: `(N, n)` joints as recorded.
        shift: world metres at full weight.
        window: times at which the shift begins, is complete, begins to fade and is gone.

    Returns:
        The joints, and the largest tcp error left in metres.
    """
    weights = blend_weights(time, window)
    result, worst = qpos.copy(), 0.0
    change = np.zeros(qpos.shape[1])
    for index in np.flatnonzero(weights > 1e-6):
        target = arm.tcp(qpos[index])
        target[:3, 3] += weights[index] * shift
        solved = arm.solve(target, qpos[index] + change, restarts=0, iterations=50)
        result[index] = solved.qpos
        change = solved.qpos - qpos[index]
        worst = max(worst, solved.position_error)
    return result, worst
