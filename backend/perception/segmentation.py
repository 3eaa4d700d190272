"""One image and a prompt in, one mask and a confidence out."""

from dataclasses import dataclass
from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.observations import Mask
from backend.perception.appearance import Appearance, Floats, Image, histogram, lab, separability

Box = tuple[float, float, float, float]
Labels = npt.NDArray[np.uint8]

DETAIL = 160
"""Crops with a shorter side than this many pixels are enlarged before GrabCut, for boundaries finer than a pixel."""

WIDE = 0.6
"""A box of which the object's own bounds cover less than this share was drawn wide."""
NOTHING = 0.12
"""Below this colour separability a prompt is taken to lie on nothing."""


@dataclass(frozen=True)
class Region:
    """Where an object is: a box `(x0, y0, x1, y1)` and/or points `(N, 2)` with labels (1 on it, 0 off it)."""

    box: Box | None = None
    points: tuple[tuple[float, float], ...] = ()
    labels: tuple[int, ...] = ()

    def on(self) -> npt.NDArray[np.int64]:
        """The points on the object, as pixels `(N, 2)`."""
        labels = self.labels or (1,) * len(self.points)
        return np.array([p for p, k in zip(self.points, labels, strict=True) if k == 1], dtype=np.int64).reshape(-1, 2)

    def off(self) -> npt.NDArray[np.int64]:
        """The points off the object, as pixels `(N, 2)`."""
        labels = self.labels or (1,) * len(self.points)
        return np.array([p for p, k in zip(self.points, labels, strict=True) if k == 0], dtype=np.int64).reshape(-1, 2)


@dataclass(frozen=True)
class Segmentation:
    """A mask `(H, W)` and how sure it is, 0..1. A confidence under `NOTHING` means nothing stands out there."""

    mask: Mask
    confidence: float


class Segmenter(Protocol):
    """Finds the object that a prompt points at."""

    def segment(self, image: Image, region: Region, exclude: Mask | None = None) -> Segmentation:
        """The mask of the object in `image` `(H, W, 3)` that `region` points at; never inside `exclude`."""
        ...


@dataclass(frozen=True)
class Crop:
    """A window of an image, enlarged by an integer `scale` for work at sub-pixel detail."""

    x0: int
    y0: int
    x1: int
    y1: int
    scale: int

    @classmethod
    def around(cls, box: Box, margin: float, shape: tuple[int, ...], detail: int = DETAIL) -> "Crop":
        """The window around `box` grown by `margin` pixels, inside an image of `shape`."""
        x0, y0 = max(0, int(np.floor(box[0] - margin))), max(0, int(np.floor(box[1] - margin)))
        x1 = min(shape[1], int(np.ceil(box[2] + margin)))
        y1 = min(shape[0], int(np.ceil(box[3] + margin)))
        x0, y0 = min(x0, shape[1] - 2), min(y0, shape[0] - 2)
        x1, y1 = max(x1, x0 + 2), max(y1, y0 + 2)
        scale = int(np.clip(round(detail / min(x1 - x0, y1 - y0)), 1, 4))
        return cls(x0, y0, x1, y1, scale)

    @property
    def window(self) -> tuple[slice, slice]:
        """Index of the window in an image."""
        return slice(self.y0, self.y1), slice(self.x0, self.x1)

    def image(self, image: Image) -> Image:
        """The window of an RGB image, enlarged."""
        cut = image[self.window]
        if self.scale == 1:
            return np.ascontiguousarray(cut)
        enlarged: Image = cv2.resize(cut, None, fx=self.scale, fy=self.scale, interpolation=cv2.INTER_CUBIC)
        return enlarged

    def mask(self, mask: Mask) -> Mask:
        """The window of a mask, enlarged with a smooth boundary."""
        cut = mask[self.window].astype(np.float32)
        if self.scale == 1:
            return cut > 0.5
        enlarged = cv2.resize(cut, None, fx=self.scale, fy=self.scale, interpolation=cv2.INTER_LINEAR)
        return np.asarray(enlarged > 0.5)

    def restore(self, mask: Mask, shape: tuple[int, ...]) -> Mask:
        """A mask of the enlarged window put back into an empty image of `shape`: pixels at least half covered."""
        size = (self.x1 - self.x0, self.y1 - self.y0)
        small = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_AREA)
        result = np.zeros(shape[:2], dtype=bool)
        result[self.window] = small >= 0.5
        return result


class GrabCutSegmenter:
    """Graph cut on colour, seeded by the prompt; no weights."""

    def segment(self, image: Image, region: Region, exclude: Mask | None = None) -> Segmentation:
        """See `Segmenter`; small objects are cut on an enlarged window, and again where the box was drawn wide."""
        box = region.box or self._grow(image, region)
        found = self._segment_in(image, region, box, exclude)
        tight = mask_box(found.mask)
        if tight is None or found.confidence < NOTHING or _area(tight) > WIDE * _area(box):
            return found
        closer = self._segment_in(image, region, outward(tight, 0.0, image.shape), exclude)
        return closer if closer.confidence >= found.confidence else found

    def _segment_in(self, image: Image, region: Region, box: Box, exclude: Mask | None) -> Segmentation:
        side = max(box[2] - box[0], box[3] - box[1])
        crop = Crop.around(box, max(8.0, 0.5 * side), image.shape)
        picture = crop.image(image)
        values = lab(picture)
        inside = _box_mask(box, crop)
        hidden = crop.mask(exclude) if exclude is not None else np.zeros_like(inside)
        ring = ~inside & ~hidden
        if not ring.any() or not (inside & ~hidden).any():
            return Segmentation(np.zeros(image.shape[:2], dtype=bool), 0.0)
        best = self._cut_box(picture, values, inside, hidden, ring, region, crop)
        mask = crop.restore(best, image.shape)
        if exclude is not None:
            mask &= ~exclude
        return Segmentation(mask, self._confidence(values, best, ring, inside))

    def _cut_box(
        self, picture: Image, values: Floats, inside: Mask, hidden: Mask, ring: Mask, region: Region, crop: Crop
    ) -> Mask:
        """GrabCut with seeds from how unlike the ring the pixels of the box are; the box's corners weigh less."""
        model = Appearance.learn(values[inside & ~hidden], values[ring])
        likely = model.posterior(values)
        core = cv2.erode(inside.astype(np.uint8), np.ones((3, 3), np.uint8), iterations=max(1, _side(inside) // 6)) > 0
        labels = np.full(inside.shape, cv2.GC_BGD, dtype=np.uint8)
        labels[inside] = np.where(likely[inside] > 0.4, cv2.GC_PR_FGD, cv2.GC_PR_BGD)
        labels[core & (likely > 0.35)] = cv2.GC_PR_FGD
        labels[hidden] = cv2.GC_BGD
        _stamp(labels, region.on(), crop, cv2.GC_FGD)
        _stamp(labels, region.off(), crop, cv2.GC_BGD)
        mask = grab_cut(picture, labels, 5)
        return keep_main(mask, _box_center(inside))

    def _confidence(self, values: Floats, mask: Mask, ring: Mask, inside: Mask) -> float:
        share = mask.sum() / max(1, inside.sum())
        if share < 0.03:
            return 0.0
        near = ring & (cv2.dilate(mask.astype(np.uint8), np.ones((3, 3), np.uint8), iterations=12) > 0)
        apart = separability(histogram(values[mask]), histogram(values[near if near.any() else ring]))
        edge = contrast(values, mask)
        return float(np.clip(0.5 * apart + 0.5 * min(1.0, edge / 14), 0, 1))

    def _grow(self, image: Image, region: Region) -> Box:
        """A box around points alone: the connected pixels coloured like the points' neighbourhoods."""
        points = region.on()
        values = lab(image)
        height, width = image.shape[:2]
        x, y = points[:, 0].clip(1, width - 2), points[:, 1].clip(1, height - 2)
        patches = np.concatenate(
            [values[j - 1 : j + 2, i - 1 : i + 2].reshape(-1, 3) for i, j in zip(x, y, strict=True)]
        )
        nearest = np.min(
            [np.linalg.norm(values - sample, axis=-1) for sample in np.unique(patches.round(), axis=0)], axis=0
        )
        for limit in (14.0, 9.0, 6.0):
            _, labels = cv2.connectedComponents((nearest < limit).astype(np.uint8))
            found = np.isin(labels, np.unique(labels[y, x])) & (labels > 0)
            if found.mean() < 0.05:
                break
        rows, columns = np.nonzero(found)
        if len(rows) == 0:
            rows, columns = y, x
        pad = 3
        return (
            float(max(0, columns.min() - pad)),
            float(max(0, rows.min() - pad)),
            float(min(width, columns.max() + 1 + pad)),
            float(min(height, rows.max() + 1 + pad)),
        )


def grab_cut(picture: Image, labels: Labels, rounds: int) -> Mask:
    """OpenCV's GrabCut from a label image; deterministic, and empty where either side has no seed."""
    on = (labels == cv2.GC_FGD) | (labels == cv2.GC_PR_FGD)
    if on.sum() < 12 or (~on).sum() < 12:
        return np.asarray(on)
    cv2.setRNGSeed(7)
    work = labels.copy()
    cv2.grabCut(picture, work, None, np.zeros((1, 65)), np.zeros((1, 65)), rounds, cv2.GC_INIT_WITH_MASK)
    return np.asarray((work == cv2.GC_FGD) | (work == cv2.GC_PR_FGD))


def refine(image: Image, mask: Mask, appearance: Appearance | None, exclude: Mask | None, reach: float) -> Mask:
    """GrabCut in the ring of `reach` pixels on both sides of a mask's boundary, on an enlarged window."""
    box = mask_box(mask)
    if box is None:
        return mask
    crop = Crop.around(box, max(8.0, 3 * reach), image.shape)
    picture = crop.image(image)
    start = crop.mask(mask)
    step = max(1, round(reach * crop.scale))
    inner = _shrink(start, step)
    outer = cv2.dilate(start.astype(np.uint8), _disc(step)) > 0
    labels = np.full(start.shape, cv2.GC_BGD, dtype=np.uint8)
    labels[outer] = cv2.GC_PR_BGD
    labels[start] = cv2.GC_PR_FGD
    labels[inner] = cv2.GC_FGD
    if appearance is not None:
        likely = appearance.posterior(lab(picture))
        ring = outer & ~inner
        labels[ring & (likely > 0.8)] = cv2.GC_PR_FGD
        labels[ring & (likely < 0.2)] = cv2.GC_PR_BGD
        labels[inner & (likely < 0.05)] = cv2.GC_PR_FGD
    if exclude is not None:
        labels[crop.mask(exclude)] = cv2.GC_BGD
    return crop.restore(grab_cut(picture, labels, 3), image.shape)


def contrast(values: Floats, mask: Mask) -> float:
    """Median Lab difference across a mask's boundary, two pixels in and out."""
    kernel = np.ones((3, 3), np.uint8)
    inner = mask & ~(cv2.erode(mask.astype(np.uint8), kernel, iterations=4) > 0)
    outer = (cv2.dilate(mask.astype(np.uint8), kernel, iterations=4) > 0) & ~mask
    if not inner.any() or not outer.any():
        return 0.0
    local_in = _local_mean(values, inner)
    edge = outer & np.isfinite(local_in[..., 0])
    return float(np.median(np.linalg.norm(values[edge] - local_in[edge], axis=-1))) if edge.any() else 0.0


def mask_box(mask: Mask) -> Box | None:
    """The box `(x0, y0, x1, y1)` around a mask, ends exclusive; None when it is empty."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    if len(rows) == 0:
        return None
    return float(columns[0]), float(rows[0]), float(columns[-1] + 1), float(rows[-1] + 1)


def _area(box: Box) -> float:
    return (box[2] - box[0]) * (box[3] - box[1])


def outward(box: Box, share: float, shape: tuple[int, ...]) -> Box:
    """A box grown by a share of its size (at least 2 pixels) inside a picture of `shape`."""
    dx, dy = max(2.0, share * (box[2] - box[0])), max(2.0, share * (box[3] - box[1]))
    return (
        max(0.0, box[0] - dx),
        max(0.0, box[1] - dy),
        min(float(shape[1]), box[2] + dx),
        min(float(shape[0]), box[3] + dy),
    )


def keep_main(mask: Mask, center: tuple[float, float] | None = None, share: float = 0.25) -> Mask:
    """Components of at least `share` of the best one's area (nearness to `center` counts); small holes filled."""
    count, labels, stats, centroids = cv2.connectedComponentsWithStats(mask.astype(np.uint8))
    if count <= 1:
        return mask
    area = stats[1:, cv2.CC_STAT_AREA].astype(float)
    score = area.copy()
    if center is not None:
        distance = np.hypot(*(centroids[1:] - np.array(center)).T)
        score *= np.exp(-distance / (np.hypot(mask.shape[0], mask.shape[1]) * 0.35))
    keep = 1 + np.flatnonzero(score >= share * score.max())
    return fill_holes(np.isin(labels, keep), 0.06)


def fill_holes(mask: Mask, share: float) -> Mask:
    """`mask` with holes smaller than `share` of its area filled."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats((~mask).astype(np.uint8), connectivity=4)
    result = mask.copy()
    limit = share * mask.sum()
    height, width = mask.shape
    for k in range(1, count):
        x, y, w, h, area = stats[k]
        if area <= limit and x > 0 and y > 0 and x + w < width and y + h < height:
            result[labels == k] = True
    return result


def _local_mean(values: Floats, mask: Mask) -> Floats:
    weight = cv2.blur(mask.astype(np.float32), (13, 13))
    total = cv2.blur(values * mask[..., None].astype(np.float32), (13, 13))
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = np.where(weight[..., None] > 1e-3, total / weight[..., None], np.nan)
    return result


def _shrink(mask: Mask, step: int) -> Mask:
    """Erosion that never eats a thin object whole."""
    distance = cv2.distanceTransform(np.pad(mask, 1).astype(np.uint8), cv2.DIST_L2, 3)[1:-1, 1:-1]
    return np.asarray(distance > min(float(step), 0.6 * float(distance.max())))


def _disc(radius: int) -> npt.NDArray[np.uint8]:
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1)), dtype=np.uint8)


def _box_mask(box: Box, crop: Crop) -> Mask:
    inside = np.zeros(((crop.y1 - crop.y0) * crop.scale, (crop.x1 - crop.x0) * crop.scale), dtype=bool)
    x0, y0, x1, y1 = (
        round((box[0] - crop.x0) * crop.scale),
        round((box[1] - crop.y0) * crop.scale),
        round((box[2] - crop.x0) * crop.scale),
        round((box[3] - crop.y0) * crop.scale),
    )
    inside[max(0, y0) : max(1, y1), max(0, x0) : max(1, x1)] = True
    return inside


def _box_center(inside: Mask) -> tuple[float, float]:
    box = mask_box(inside)
    return ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2) if box else (0.0, 0.0)


def _side(mask: Mask) -> int:
    box = mask_box(mask)
    return int(min(box[2] - box[0], box[3] - box[1])) if box else 0


def _stamp(labels: Labels, points: npt.NDArray[np.int64], crop: Crop, value: int) -> None:
    for x, y in points:
        center = (int((x - crop.x0 + 0.5) * crop.scale), int((y - crop.y0 + 0.5) * crop.scale))
        cv2.circle(labels, center, crop.scale, int(value), -1)
