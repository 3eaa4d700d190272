"""Regions that could be objects: what vanished or appeared, and what stands out from its surroundings."""

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.observations import Mask
from backend.perception.appearance import Floats, Image, chroma, difference, lab
from backend.perception.segmentation import Box, mask_box

CHANGE = 12.0
"""Lab difference (lightness halved) that counts as a change between two still pictures."""
SHADOW = 0.95
"""A change of log lightness up to this, without a change of chroma, can be a shadow."""
SMALLEST, LARGEST = 0.0003, 0.06
"""Share of the picture that a proposal covers at least and at most."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """A region `(H, W)` of a still picture, its box, centroid `(x, y)`, and median Lab colour `(3,)`."""

    mask: Mask
    box: Box
    center: tuple[float, float]
    color: Floats


def changed_regions(before: Image, after: Image, hidden: Mask | None) -> list[Proposal]:
    """Where two still pictures differ by more than light; pixels of `hidden` `(H, W)` in either are left out."""
    first, second = lab(before), lab(after)
    tint = np.linalg.norm(chroma(first) - chroma(second), axis=-1)
    light = np.abs(np.log((first[..., 0] + 8) / (second[..., 0] + 8)))
    changed = (difference(first, second) > CHANGE) & ((tint > 5) | (light > SHADOW))
    if hidden is not None:
        changed &= ~(cv2.dilate(hidden.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0)
    return components(changed, first)


def standing_out(picture: Image, near: npt.NDArray[np.float64], radius: float, hidden: Mask | None) -> list[Proposal]:
    """Regions within `radius` pixels of the points `near` `(N, 2)` whose colour is not that of the ground there.

    The ground is the most common colour around the points, allowed to change slowly over the picture.
    """
    values = lab(picture)
    height, width = picture.shape[:2]
    grid = np.stack(np.meshgrid(np.arange(width), np.arange(height)), axis=-1).reshape(-1, 1, 2)
    distance = np.linalg.norm(grid - near[None], axis=-1).min(axis=1).reshape(height, width)
    zone = distance < radius
    valid = zone if hidden is None else zone & ~hidden
    if valid.sum() < 50:
        return []
    ground = ground_color(values, valid)
    like = (difference(values, np.broadcast_to(ground, values.shape).astype(np.float32)) < 22) & valid
    local = _spread(values, like, max(9, round(radius / 3) | 1))
    tint = np.linalg.norm(chroma(values) - chroma(local), axis=-1)
    light = np.log((values[..., 0] + 8) / (local[..., 0] + 8))
    apart = (tint > 9) | (light < -SHADOW) | (values[..., 0] > local[..., 0] + 14)
    return components(apart & valid, values)


def ground_color(values: Floats, valid: Mask) -> Floats:
    """The most common Lab colour `(3,)` among the valid pixels."""
    pixels = values[valid]
    bins = np.round(pixels / np.array([8, 6, 6])).astype(np.int64)
    keys = (bins[:, 0] * 1000 + bins[:, 1]) * 1000 + bins[:, 2]
    unique, counts = np.unique(keys, return_counts=True)
    chosen = pixels[keys == unique[counts.argmax()]]
    result: Floats = np.median(chosen, axis=0).astype(np.float32)
    return result


def components(pixels: Mask, values: Floats) -> list[Proposal]:
    """Connected regions of plausible size, specks removed and gaps closed, largest first."""
    size = max(2, round(pixels.shape[1] / 240))
    work = cv2.morphologyEx(pixels.astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
    work = cv2.morphologyEx(work, cv2.MORPH_CLOSE, np.ones((size + 1, size + 1), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(work)
    found = []
    for k in range(1, count):
        area = int(stats[k, cv2.CC_STAT_AREA])
        if not SMALLEST * pixels.size <= area <= LARGEST * pixels.size:
            continue
        mask = labels == k
        found += [_proposal(part, values) for part in (mask, *split_by_color(mask, values)) if _thick(part)]
    return sorted(found, key=lambda item: -int(item.mask.sum()))


def split_by_color(mask: Mask, values: Floats) -> list[Mask]:
    """The parts of a region with two clearly different chromas: things that touch in the picture, or one pattern."""
    pixels = chroma(values[mask]).astype(np.float32)
    if len(pixels) < 40:
        return []
    cv2.setRNGSeed(7)
    stop = (cv2.TERM_CRITERIA_EPS + cv2.TERM_CRITERIA_MAX_ITER, 20, 0.5)
    _, assigned, centers = cv2.kmeans(pixels, 2, np.empty((0, 1), np.int32), stop, 3, cv2.KMEANS_PP_CENTERS)
    share = float(assigned.mean())
    if np.linalg.norm(centers[0] - centers[1]) < 25 or not 0.12 < share < 0.88:
        return []
    parts = []
    for label in (0, 1):
        part = np.zeros_like(mask)
        part[mask] = assigned[:, 0] == label
        opened = cv2.morphologyEx(part.astype(np.uint8), cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
        count, labels, stats, _ = cv2.connectedComponentsWithStats(opened)
        parts += [labels == k for k in range(1, count) if stats[k, cv2.CC_STAT_AREA] > 0.1 * mask.sum()]
    return [part for part in parts if part.sum() >= SMALLEST * mask.size]


def _thick(mask: Mask) -> bool:
    box = mask_box(mask)
    return box is not None and min(box[2] - box[0], box[3] - box[1]) >= 4


def _proposal(mask: Mask, values: Floats) -> Proposal:
    box = mask_box(mask)
    assert box is not None
    rows, columns = np.nonzero(mask)
    center = (float(columns.mean()), float(rows.mean()))
    return Proposal(mask, box, center, np.median(values[mask], axis=0).astype(np.float32))


def alike(first: Floats, second: Floats) -> float:
    """How alike two median Lab colours are, 0..1; chroma counts more than light, as views are lit differently."""
    tint = float(np.linalg.norm(chroma(first) - chroma(second)))
    light = float(first[0] - second[0])
    return float(np.exp(-((tint / 16) ** 2) - (light / 40) ** 2))


def _spread(values: Floats, like: Mask, size: int) -> Floats:
    """The ground's colour carried over what stands on it: a wide average of the ground's own pixels."""
    weight = like.astype(np.float32)
    total, count = cv2.blur(values * weight[..., None], (size, size)), cv2.blur(weight, (size, size))
    mean = values[like].mean(axis=0) if like.any() else values.reshape(-1, 3).mean(axis=0)
    blend = np.clip(count / 0.15, 0, 1)[..., None]
    local: Floats = np.where(count[..., None] > 1e-3, total / np.maximum(count, 1e-3)[..., None], mean)
    result: Floats = (blend * local + (1 - blend) * mean).astype(np.float32)
    return result
