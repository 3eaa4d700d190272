"""Focal length and attitude of one camera from the straight edges in its picture.

Rooms and tables are full of lines along three directions at right angles, one of them upright. The attitude whose
vanishing points explain most of the lines is weighed against what is usual, and as much is believed as the lines tell.
"""

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from mjcf_export.frames import Array, rotation_about

SHORTEST = 0.06
"""Lines shorter than this share of the picture's width are left out."""
WIDE = 640
"""Pixels across to which larger pictures are shrunk: fine grain breaks lines up."""
MOST_LINES = 100
ANGLE_SIGMA = np.radians(0.7)
STRAY = 0.5
"""Share of lines that follow none of the three directions."""
EVIDENCE = 24.0
"""Lines are never counted as more than so many independent ones: many are copies of each other."""
STEPS = (11, 13, 7, 24)
"""Grid of focal lengths, pitches, rolls and yaws."""
REACH = 2.3
"""Standard deviations either way that the grid spans."""
BLURS = (3.0, 1.5, 1.0)
"""The grid is searched once for each: it narrows round what the lines say, taken with so many times their error."""
SUREST = np.array([0.08, np.radians(1.5), np.radians(1.0)])
"""No picture's lines say more than this: rooms are not quite square, lenses not quite free of distortion."""


@dataclass(frozen=True)
class Usual:
    """Means and standard deviations of log focal length in pixels, pitch down and roll (radians)."""

    mean: Array
    sigma: Array


def looking(pitch: float, roll: float, height: float) -> Array:
    """Camera-to-world of a camera over the origin that looks along +Y, `pitch` down, `height` above the support."""
    c, s = np.cos(pitch), np.sin(pitch)
    pose = np.eye(4)
    pose[:3, :3] = np.array([[1, 0, 0], [0, -s, c], [0, -c, -s]]) @ rotation_about((0, 0, 1), roll)
    pose[2, 3] = height
    return pose


def line_segments(picture: npt.NDArray[np.uint8]) -> Array:
    """Straight edges `(N, 4)` as `(u0, v0, u1, v1)`, the longest first."""
    grey = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    shrink = max(1.0, grey.shape[1] / WIDE)
    grey = cv2.resize(grey, None, fx=1 / shrink, fy=1 / shrink, interpolation=cv2.INTER_AREA)
    found = cv2.createLineSegmentDetector().detect(grey)[0]
    if found is None:
        return np.zeros((0, 4))
    lines = found[:, 0].astype(np.float64)
    length = np.hypot(lines[:, 2] - lines[:, 0], lines[:, 3] - lines[:, 1])
    order = np.argsort(-length)
    kept = lines[order[length[order] > SHORTEST * grey.shape[1]]][:MOST_LINES]
    return np.asarray((kept + 0.5) * shrink - 0.5)


def attitude(lines: Array, centre: Array, usual: Usual) -> Usual:
    """What the lines and the usual together say of log focal length, pitch and roll.

    Args:
        lines: straight edges `(N, 4)`.
        centre: principal point `(2,)`.
        usual: what is believed without the picture.
    """
    if len(lines) < 3:
        return usual
    spans = [np.linspace(-REACH, REACH, count) for count in STEPS[:3]]
    yaws = np.arange(STEPS[3]) * np.pi / 2 / STEPS[3]
    middle, scale, told = usual.mean, usual.sigma, usual
    for blur in BLURS:
        grid = np.stack(np.meshgrid(*(m + s * span for m, s, span in zip(middle, scale, spans, strict=True))), axis=-1)
        grid = grid.reshape(-1, 3)
        weight = _log_posterior(grid, yaws, lines, centre, usual, blur)
        share = np.exp(weight - weight.max())
        share /= share.sum()
        mean = share @ grid
        spread = np.sqrt(share @ (grid - mean) ** 2)
        told = Usual(mean, np.minimum(np.maximum(spread, SUREST), usual.sigma))
        step = scale * [span[1] - span[0] for span in spans]
        middle, scale = grid[int(np.argmax(weight))], np.minimum(scale, 1.2 * spread + 0.5 * step)
    return told


def _log_posterior(grid: Array, yaws: Array, lines: Array, centre: Array, usual: Usual, blur: float) -> Array:
    """Of each `(log focal, pitch, roll)` in `grid` `(N, 3)`, the best over the yaws."""
    length = np.hypot(lines[:, 2] - lines[:, 0], lines[:, 3] - lines[:, 1])
    weight = length / length.sum() * min(EVIDENCE, len(lines))
    middle = (lines[:, :2] + lines[:, 2:]) / 2 - centre
    along = (lines[:, 2:] - lines[:, :2]) / length[:, None]
    outlier = STRAY * 2 / np.pi
    sigma = blur * ANGLE_SIGMA
    peak = (1 - STRAY) / 3 * 2 / (np.sqrt(2 * np.pi) * sigma)
    total = np.empty(len(grid))
    for index, (log_focal, pitch, roll) in enumerate(grid):
        axes = _directions(pitch, roll, yaws)
        aim = np.exp(log_focal) * axes[..., None, :2] - axes[..., None, 2:] * middle
        cross = aim[..., 0] * along[:, 1] - aim[..., 1] * along[:, 0]
        sine = cross / np.maximum(np.linalg.norm(aim, axis=-1), 1e-9)
        likelihood = outlier + peak * np.exp(-0.5 * (sine / sigma) ** 2).sum(axis=1)
        total[index] = (np.log(likelihood) @ weight).max()
    prior = -0.5 * (((grid - usual.mean) / usual.sigma) ** 2).sum(axis=1)
    return np.asarray(total + prior)


def _directions(pitch: float, roll: float, yaws: Array) -> Array:
    """The upright and two level directions seen by the camera, `(Y, 3, 3)`."""
    a, b, zero = np.cos(yaws), np.sin(yaws), np.zeros_like(yaws)
    world = np.stack([np.stack(axis, -1) for axis in ((zero, zero, zero + 1), (a, b, zero), (-b, a, zero))], axis=1)
    return np.asarray(world @ looking(pitch, roll, 0.0)[:3, :3])
