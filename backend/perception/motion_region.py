"""What moves in a view whose robot is not known: everything large that differs from the still scene."""

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.observations import Mask
from backend.perception.appearance import Floats, Image, difference, lab

PLATE_FRAMES = 15
"""Frames that a still picture is the median of."""
CHANGED = 12.0
"""Lab difference (lightness halved) from which a pixel shows something else."""


def still_picture(images: Image, frames: npt.NDArray[np.int64], hidden: Mask | None) -> Image:
    """Median RGB picture `(H, W, 3)` of some frames; pixels of `hidden` `(T, H, W)` count only where always hidden."""
    chosen = frames[np.unique(np.linspace(0, len(frames) - 1, min(PLATE_FRAMES, len(frames))).round().astype(int))]
    if hidden is None or not hidden[chosen].any():
        return median_picture(images[chosen])
    result = median_picture(images[chosen])
    touched = hidden[chosen].any(axis=0) & ~hidden[chosen].all(axis=0)
    stack = images[chosen][:, touched].astype(np.float32)
    stack[hidden[chosen][:, touched]] = np.nan
    result[touched] = np.nanmedian(stack, axis=0).round().astype(np.uint8)
    return result


def median_picture(stack: Image) -> Image:
    """Per-pixel median `(H, W, 3)` of pictures `(N, H, W, 3)`."""
    middle = len(stack) // 2
    result: Image = np.partition(stack, middle, axis=0)[middle]
    return result


def moving_region(images: Image, plate: Floats) -> Mask:
    """`(T, H, W)` where each frame differs from the Lab `plate`, without specks."""
    size = max(3, round(images.shape[2] / 160) | 1)
    kernel = np.ones((size, size), np.uint8)
    result = np.zeros(images.shape[:3], dtype=bool)
    for t, image in enumerate(images):
        changed = (difference(lab(image), plate) > CHANGED).astype(np.uint8)
        changed = cv2.morphologyEx(changed, cv2.MORPH_OPEN, np.ones((2, 2), np.uint8))
        result[t] = cv2.morphologyEx(changed, cv2.MORPH_CLOSE, kernel) > 0
    return result


def large_region(moving: Mask, share: float = 0.006) -> Mask:
    """Components of a `(H, W)` map that cover at least `share` of the picture: the arm, not what it carries."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(moving.astype(np.uint8))
    keep = [k for k in range(1, count) if stats[k, cv2.CC_STAT_AREA] >= share * moving.size]
    return np.isin(labels, keep)
