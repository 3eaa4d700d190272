"""Wall thickness of hollow bodies: from a rim grasp, else from the inner edge of the rim, else assumed."""

from collections.abc import Mapping, Sequence

import cv2
import numpy as np
import numpy.typing as npt

from backend.reconstruct.evidence import Outline
from backend.reconstruct.families import WALL
from backend.reconstruct.fitting import Candidate
from backend.reconstruct.metrology import Grip, held_by_rim
from mjcf_export.document import Provenance
from mjcf_export.frames import Array, apply

WALLS = np.arange(0.0015, 0.0105, 0.0005)
CONTRAST = 1.5
"""How far the best inner edge must stand out from the middle of all tried."""
PIXELS = 1.2
"""A wall thinner than this many pixels cannot be told from the rim's outer edge."""


def wall_of(
    candidate: Candidate,
    outlines: Sequence[Outline],
    images: Mapping[tuple[str, int], npt.NDArray[np.uint8]],
    grips: Sequence[Grip],
) -> tuple[float, Provenance]:
    """Wall thickness in metres and where it came from.

    Args:
        candidate: a hollow body.
        outlines: where it was seen.
        images: fused pictures by view and window.
        grips: the holds on it.
    """
    across = float(min(candidate.extents[:2]))
    for grip in grips:
        if held_by_rim(candidate, grip) and 0.0008 <= grip.hold.width <= 0.3 * across:
            return float(grip.hold.width), "measured"
    if candidate.family.turned:
        found = _from_edges(candidate, outlines, images)
        if found is not None and found < 0.25 * across:
            return found, "estimated"
    return min(WALL, 0.2 * across), "assumed"


def _from_edges(
    candidate: Candidate, outlines: Sequence[Outline], images: Mapping[tuple[str, int], npt.NDArray[np.uint8]]
) -> float | None:
    radius, height = float(candidate.extents[0]) / 2, float(candidate.extents[2])
    total = np.zeros(len(WALLS))
    weight = 0.0
    for outline in outlines:
        picture = images.get((outline.lens.name, outline.window))
        if picture is None:
            continue
        pose = candidate.pose(outline.window)
        size = outline.lens.pixel_size(pose[:3, 3])
        if WALLS[-1] / size < 2 * PIXELS:
            continue
        strengths = np.array([_edge(outline, picture, pose, radius - wall, height) for wall in WALLS])
        strengths[size * PIXELS > WALLS] = np.nan
        if np.isfinite(strengths).sum() < 4:
            continue
        total += np.where(np.isfinite(strengths), strengths, 0) / np.nanmedian(strengths)
        weight += 1
    if not weight:
        return None
    best = int(np.argmax(total))
    return float(WALLS[best]) if total[best] / weight > CONTRAST and 0 < best < len(WALLS) - 1 else None


def _edge(outline: Outline, picture: npt.NDArray[np.uint8], pose: Array, radius: float, height: float) -> float:
    """Mean contrast across a circle at the rim's height, over the part of it that is not hidden."""
    angles = np.linspace(0, 2 * np.pi, 72, endpoint=False)
    circle = np.column_stack([radius * np.cos(angles), radius * np.sin(angles), np.full(72, height)])
    middle, _ = outline.lens.project(apply(pose, circle))
    outward, _ = outline.lens.project(apply(pose, circle * (1 + 1e-3 / radius, 1 + 1e-3 / radius, 1)))
    step = outward - middle
    step /= np.maximum(np.linalg.norm(step, axis=1, keepdims=True), 1e-9)
    smooth = cv2.GaussianBlur(picture, (0, 0), 0.7).astype(np.float32)
    sides = [_sample(smooth, middle + sign * 0.75 * step) for sign in (-1, 1)]
    shown = _sample(outline.hidden.astype(np.float32)[..., None], middle)[:, 0] < 0.5
    contrast = np.linalg.norm(sides[1] - sides[0], axis=1)
    return float(np.median(contrast[shown])) if shown.sum() > 12 else float("nan")


def _sample(image: npt.NDArray[np.float32], points: Array) -> npt.NDArray[np.float32]:
    sampled = cv2.remap(
        image, points[:, 0].astype(np.float32)[None], points[:, 1].astype(np.float32)[None], cv2.INTER_LINEAR
    )
    return np.asarray(sampled.reshape(len(points), -1), dtype=np.float32)
