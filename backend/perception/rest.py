"""Objects at rest: a precise mask fused from many frames, and when and how much of it is seen."""

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.observations import Mask
from backend.perception.appearance import Appearance, Floats, Image, chroma, difference, lab
from backend.perception.segmentation import Box, Crop, mask_box, refine

SAME = 9.0
"""Lab difference (lightness halved) up to which a pixel shows the same thing as in the fused picture."""
FUSED_FRAMES = 15
"""Frames that a fused picture is the median of."""
PRESENT = 0.5
"""Share of the unhidden pixels of an object that must look the same for it to be still there."""


MOVED_EDGE = 0.45
"""Share of the unhidden boundary band that must look the same for the object to be where it was."""


@dataclass(frozen=True)
class Rest:
    """An object standing still in one view.

    Attributes:
        mask: `(H, W)` the whole object, as if nothing hid it.
        crop: the window that the fused picture covers.
        picture: RGB of that window, the median of the clean frames.
        frames: the frames that were fused.
        appearance: the colours on the object and just around it.
    """

    mask: Mask
    crop: Crop
    picture: Image
    frames: tuple[int, ...]
    appearance: Appearance


@dataclass(frozen=True)
class Presence:
    """How an object at rest is seen over time.

    Attributes:
        same: `(T,)` share of its unhidden pixels that look as in the fused picture; NaN when all are hidden.
        edge: the same in a band along its boundary, both sides: it falls when the object is nudged.
        seen: `(T,)` share of its pixels that are visible and unchanged.
        visible: `(T, h, w)` the visible part inside the rest's crop.
    """

    same: Floats
    edge: Floats
    seen: Floats
    visible: Mask

    def present(self) -> Mask:
        """`(T,)` frames in which the object is certainly there."""
        with np.errstate(invalid="ignore"):
            return np.asarray((self.same >= PRESENT) & (self.seen >= 0.3) & ~(self.edge < MOVED_EDGE))


def settle(images: Image, seed: Mask, frame: int, hidden: Mask | None, frames: npt.NDArray[np.int64]) -> Rest:
    """Fuse the frames in which the object of `seed` looks as in `frame`, and cut its mask out of their median.

    Args:
        images: `(T, H, W, 3)`.
        seed: `(H, W)` mask in `frame`.
        frame: where the seed was found.
        hidden: `(T, H, W)` pixels known to show something else (the robot), or None.
        frames: candidates, those in which the object may stand where it does in `frame`.
    """
    box = mask_box(seed)
    assert box is not None
    crop = _window(box, images.shape[1:])
    clean = _clean_frames(images, seed, frame, hidden, frames, crop)
    picture = _median(images, clean, hidden, crop)
    mask = seed
    canvas = images[frame].copy()
    canvas[crop.window] = picture
    values = lab(picture)
    for reach in (3.0, 2.0):
        appearance = _learn(values, mask[crop.window])
        step = min(reach * max(1.0, np.sqrt(mask.sum()) / 40), 6.0)
        refined = refine(canvas, mask, appearance, None, step)
        if 0.5 * mask.sum() < refined.sum() < 1.8 * mask.sum():
            mask = refined
    return Rest(mask, crop, picture, tuple(int(t) for t in clean), _learn(values, mask[crop.window]))


def watch(images: Image, rest: Rest, hidden: Mask | None) -> Presence:
    """Compare every frame with the fused picture inside the mask."""
    inside = rest.mask[rest.crop.window]
    reference = lab(rest.picture)
    count = len(images)
    same, edge, seen = (
        np.full(count, np.nan, np.float32),
        np.full(count, np.nan, np.float32),
        np.zeros(count, np.float32),
    )
    band = _band(inside)
    visible = np.zeros((count, *inside.shape), dtype=bool)
    area = max(1, int(inside.sum()))
    for t in range(count):
        covered = hidden[t][rest.crop.window] if hidden is not None else np.zeros_like(inside)
        values = lab(np.ascontiguousarray(images[t][rest.crop.window]))
        equal = unchanged(values, reference)
        free = inside & ~covered
        if free.sum() >= max(6, 0.03 * area):
            same[t] = float((equal & free).sum() / free.sum())
        bare = band & ~covered
        if bare.sum() >= max(6, 0.2 * band.sum()):
            edge[t] = float((equal & bare).sum() / bare.sum())
        shown = inside & ~covered & _smooth(equal | _own_color(values, reference, rest.appearance), area)
        visible[t] = shown
        seen[t] = shown.sum() / area
    return Presence(same, edge, seen, visible)


def unchanged(values: Floats, reference: Floats) -> Mask:
    """Pixels that show the same surface: same colour, or the same chroma under a soft change of light."""
    ratio = (values[..., 0] + 8) / (reference[..., 0] + 8)
    tint = np.linalg.norm(chroma(values) - chroma(reference), axis=-1)
    strength = np.linalg.norm(chroma(reference), axis=-1)
    colored = (strength > 14) & (ratio > 0.55) & (ratio < 1.4) & (tint < 5 + 0.12 * strength)
    pale = (ratio > 0.78) & (ratio < 1.2) & (tint < 6)
    return np.asarray((difference(values, reference) < SAME) | colored | pale)


def _own_color(values: Floats, reference: Floats, appearance: Appearance) -> Mask:
    """Pixels of a coloured object that changed but still show its colour: it was nudged, or lit otherwise."""
    if np.linalg.norm(chroma(appearance.typical)) < 18:
        return np.zeros(values.shape[:2], dtype=bool)
    ratio = (values[..., 0] + 8) / (reference[..., 0] + 8)
    return np.asarray((appearance.posterior(values) > 0.85) & (ratio > 0.45) & (ratio < 1.6))


def put(mask: Mask, crop: Crop, shape: tuple[int, ...]) -> Mask:
    """A mask of the crop's window in an empty image."""
    result = np.zeros(shape[:2], dtype=bool)
    result[crop.window] = mask
    return result


def _window(box: Box, shape: tuple[int, ...]) -> Crop:
    side = max(box[2] - box[0], box[3] - box[1])
    return Crop.around(box, max(10.0, 0.5 * side), shape)


def _clean_frames(
    images: Image, seed: Mask, frame: int, hidden: Mask | None, frames: npt.NDArray[np.int64], crop: Crop
) -> npt.NDArray[np.int64]:
    """Frames in which nothing hides or moved the object, spread over the interval; at least `frame` itself."""
    inside = seed[crop.window]
    ring = cv2.dilate(inside.astype(np.uint8), np.ones((7, 7), np.uint8)) > 0
    reference = lab(images[frame][crop.window])
    good = []
    for t in frames:
        if hidden is not None and hidden[t][crop.window][ring].mean() > 0.02:
            continue
        delta = difference(lab(images[t][crop.window]), reference)
        if (delta[ring] < SAME).mean() > 0.93:
            good.append(int(t))
    if not good:
        good = [frame]
    chosen = np.unique(np.linspace(0, len(good) - 1, min(FUSED_FRAMES, len(good))).round().astype(int))
    result: npt.NDArray[np.int64] = np.array(good, dtype=np.int64)[chosen]
    return result


def _median(images: Image, frames: npt.NDArray[np.int64], hidden: Mask | None, crop: Crop) -> Image:
    stack = images[frames][:, crop.window[0], crop.window[1]].astype(np.float32)
    if hidden is None or len(frames) < 3:
        plain: Image = np.median(stack, axis=0).round().astype(np.uint8)
        return plain
    covered = hidden[frames][:, crop.window[0], crop.window[1]]
    stack[covered & ~covered.all(axis=0)] = np.nan
    result: Image = np.nanmedian(stack, axis=0).round().astype(np.uint8)
    return result


def _learn(values: Floats, inside: Mask) -> Appearance:
    kernel = np.ones((3, 3), np.uint8)
    side = max(1, round(np.sqrt(inside.sum()) / 12))
    core = cv2.erode(inside.astype(np.uint8), kernel, iterations=side) > 0
    near = cv2.dilate(inside.astype(np.uint8), kernel, iterations=3) > 0
    return Appearance.learn(values[core if core.sum() > 20 else inside], values[~near])


def _band(inside: Mask) -> Mask:
    """Pixels within a few of the boundary, about a tenth of the object's size."""
    kernel = np.ones((3, 3), np.uint8)
    step = int(np.clip(np.sqrt(inside.sum()) / 12, 1, 4))
    grown = cv2.dilate(inside.astype(np.uint8), kernel, iterations=step) > 0
    return np.asarray(grown & ~(cv2.erode(inside.astype(np.uint8), kernel, iterations=step) > 0))


def _smooth(equal: Mask, area: int) -> Mask:
    """Remove speckle from the unchanged pixels at the object's own scale."""
    size = 3 if area < 2500 else 5
    kernel = np.ones((size, size), np.uint8)
    closed = cv2.morphologyEx(equal.astype(np.uint8), cv2.MORPH_CLOSE, kernel)
    return np.asarray(cv2.morphologyEx(closed, cv2.MORPH_OPEN, kernel) > 0)
