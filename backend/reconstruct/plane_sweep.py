"""The support's height from its own texture: the plane on which two calibrated views show the same picture.

Plane sweep (Collins, "A space-sweep approach to true multi-image matching", CVPR 1996) over horizontal planes, scored
by the correlation of what each view shows around every ground point.
"""

from collections.abc import Sequence
from itertools import combinations

import cv2
import numpy as np
import numpy.typing as npt

from backend.reconstruct.lens import Lens
from backend.reconstruct.pictures import Pictures, in_view, sample
from mjcf_export.frames import Array

CELL = 0.004
REACH = 0.36
"""Half the side of the square of ground that is compared (metres)."""
SWEEP = 0.06
"""How far above and below the guess planes are tried (metres)."""
STEP = 0.0025
WINDOW = 4.0
"""Standard deviation of the neighbourhood that is compared, cells."""
BLOCKS = 3
"""The square is cut into this many blocks a side, each of which has its own say."""
ALIKE = 0.35
"""Least correlation of a block at its best plane."""
CLEAR = 0.12
"""How much better than on the usual plane."""
SHOWN = 0.3
"""Least share of a block that two views must see."""
SURE = 0.0008
"""No plane is known better than this (metres, one standard deviation)."""


def support_height(
    lenses: Sequence[Lens], pictures: Pictures, middle: Array, guess: float
) -> tuple[float, float] | None:
    """Height of the support around `middle` and its standard deviation, metres; None where no texture tells.

    Args:
        lenses: calibrated views; fewer than two tell nothing.
        pictures: their pictures.
        middle: ground point `(2,)` between the objects.
        guess: height the sweep is centred on.
    """
    heights = guess + np.arange(-SWEEP, SWEEP + STEP / 2, STEP)
    bare = {lens.name: pictures.bare(lens.name) for lens in lenses}
    found: list[float] = []
    for pair in combinations(lenses, 2):
        scores = np.stack([_correlation(pair, bare, middle, height) for height in heights])
        found.extend(peak for peak in (_peak(heights, column) for column in scores.T) if peak is not None)
    if len(found) < 2:
        return None
    height = float(np.median(found))
    spread = 1.48 * float(np.median(np.abs(np.array(found) - height)))
    return (height, max(SURE, spread / np.sqrt(len(found)))) if spread < 0.006 else None


def _correlation(
    pair: Sequence[Lens], bare: dict[str, tuple[npt.NDArray[np.uint8], npt.NDArray[np.bool_]]], middle: Array,
    height: float,
) -> Array:  # fmt: skip
    """Correlation `(BLOCKS²,)` of what two views show on the plane at `height`; NaN where too little is seen."""
    steps = np.arange(-REACH, REACH, CELL)
    ground = np.stack(np.meshgrid(steps, steps, indexing="xy"), axis=-1) + middle
    points = np.column_stack([ground.reshape(-1, 2), np.full(ground[..., 0].size, height)])
    seen = np.ones(ground.shape[:2], dtype=bool)
    shown = []
    for lens in pair:
        picture, hidden = bare[lens.name]
        pixels, depth = lens.project(points)
        column = np.clip(np.round(pixels[:, 0]).astype(int), 0, lens.size[0] - 1)
        row = np.clip(np.round(pixels[:, 1]).astype(int), 0, lens.size[1] - 1)
        seen &= (in_view(lens, pixels, depth) & ~hidden[row, column]).reshape(seen.shape)
        shown.append(sample(picture, pixels).mean(axis=1).reshape(seen.shape))
    weight = seen.astype(np.float64)
    share = np.maximum(_blur(weight), 1e-6)
    means = [_blur(image * weight) / share for image in shown]
    first, second = (image - mean for image, mean in zip(shown, means, strict=True))
    inner = weight * (share > 0.5)
    sums = [_blocks(value * inner) for value in (first * second, first**2, second**2, np.ones_like(first))]
    enough = sums[3] > SHOWN * (len(steps) / BLOCKS) ** 2
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.where(enough, sums[0] / np.sqrt(sums[1] * sums[2]), np.nan)


def _blur(image: Array) -> Array:
    return np.asarray(cv2.GaussianBlur(image, (0, 0), WINDOW))


def _blocks(image: Array) -> Array:
    """Sums over the blocks of a square, row by row."""
    return np.array([part.sum() for rows in np.array_split(image, BLOCKS) for part in np.array_split(rows, BLOCKS, 1)])


def _peak(heights: Array, scores: Array) -> float | None:
    """The height of the best plane, between samples; None where none stands out."""
    if not np.isfinite(scores).any():
        return None
    best = int(np.nanargmax(scores))
    if not 0 < best < len(scores) - 1 or scores[best] < max(ALIKE, float(np.nanmedian(scores)) + CLEAR):
        return None
    left, middle, right = scores[best - 1 : best + 2]
    bend = left - 2 * middle + right
    return float(heights[best] + (0.5 * (left - right) / bend * STEP if np.isfinite(bend) and bend < 0 else 0.0))
