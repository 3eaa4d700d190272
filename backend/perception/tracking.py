"""Objects in motion: follow masks from frame to frame by colour, change and optical flow; notice loss; find again."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.observations import Mask
from backend.documents.run import Progress
from backend.perception.appearance import Appearance, Floats, Image, difference, lab
from backend.perception.segmentation import Crop, Region, grab_cut, keep_main, mask_box

TRUSTED = 0.5
"""Confidence under which a mask found in motion is dropped and the object counts as lost."""


@dataclass(frozen=True)
class Target:
    """What a tracker is asked to follow in one view: a frame and where the object is in it."""

    name: str
    frame: int
    region: Region


@dataclass
class TrackResult:
    """One object's masks `(T, H, W)`, confidence `(T,)`, and the frames where it was lost and found again."""

    masks: Mask
    confidence: Floats
    lost: list[int] = field(default_factory=list)
    recovered: list[int] = field(default_factory=list)


class Tracker(Protocol):
    """Follows several objects through a whole video at once."""

    def track(
        self, images: Image, targets: Sequence[Target], hidden: Mask | None, progress: Progress
    ) -> dict[str, TrackResult]:
        """Masks of every target over `images` `(T, H, W, 3)`; `hidden` `(T, H, W)` shows the robot."""
        ...


@dataclass(frozen=True)
class Candidate:
    """A mask proposed for one frame, and how well it fits."""

    mask: Mask
    score: float


@dataclass(frozen=True)
class Follower:
    """Follows one object away from where it rested.

    Attributes:
        appearance: its colours and those around its resting place.
        plate: `(H, W, 3)` Lab picture of the scene before it moved; None under a moving camera.
        area: its area at rest in pixels.
    """

    appearance: Appearance
    plate: Floats | None
    area: float

    def follow(
        self,
        images: Image,
        start: Mask,
        frames: Sequence[int],
        hidden: Mask | None,
        others: Mask | None,
        already: Mapping[int, Candidate] | None = None,
    ) -> dict[int, Candidate]:
        """Masks for consecutive `frames`; the object is at `start` in the frame before the first of them.

        Args:
            images: `(T, H, W, 3)`.
            start: `(H, W)`.
            frames: increasing or decreasing by one.
            hidden: `(T, H, W)` the robot, or None.
            others: `(T, H, W)` pixels that show objects that stay where they are, or None.
            already: what is known of these frames; following stops where it is known well.
        """
        found: dict[int, Candidate] = {}
        sure = 0
        last, area, missed = start, float(start.sum()), 0
        step = frames[1] - frames[0] if len(frames) > 1 else 1
        for t in frames:
            before = images[int(np.clip(t - step, 0, len(images) - 1))]
            candidates = self._candidates(images, before, t, last, hidden, others, missed)
            best = max(candidates, key=lambda item: item.score, default=None)
            if best is None or best.score < TRUSTED or self._collapsed(best.mask, area, missed):
                missed += 1
            else:
                found[t] = best
                known = (already or {}).get(t)
                sure = sure + 1 if known is not None and known.score > 0.65 else 0
                if sure >= 4:
                    break
                last, area, missed = best.mask, 0.7 * area + 0.3 * float(best.mask.sum()), 0
        return found

    def locate(
        self, image: Image, hidden: Mask | None, near: Mask | None, others: Mask | None, window: Crop | None = None
    ) -> list[Candidate]:
        """Where in a frame (or a window of it) the object's colours show on something new, best three, unjudged."""
        crop = window or Crop(0, 0, image.shape[1], image.shape[0], 1)
        values = lab(np.ascontiguousarray(image[crop.window]))
        close = near[crop.window] if near is not None else np.zeros(values.shape[:2], dtype=bool)
        changed = close | self._changed(values, crop)
        likely = self.appearance.against(self._passing(values, changed & ~close)).posterior(values)
        likely = cv2.GaussianBlur(likely, (0, 0), max(0.6, np.sqrt(self.area) / 25))
        pixels = changed & (likely > 0.6)
        for blocked in (hidden, others):
            if blocked is not None:
                pixels &= ~blocked[crop.window]
        size = 3 if self.area > 80 else 1
        closed = cv2.morphologyEx(pixels.astype(np.uint8), cv2.MORPH_CLOSE, np.ones((size, size), np.uint8))
        count, labels, stats, _ = cv2.connectedComponentsWithStats(closed)
        areas = stats[:, cv2.CC_STAT_AREA]
        order = sorted(range(1, count), key=lambda k: -float(min(areas[k], 1.5 * self.area)))[:3]
        found = []
        for k in order:
            if areas[k] >= max(6, 0.06 * self.area):
                mask = np.zeros(image.shape[:2], dtype=bool)
                mask[crop.window] = labels == k
                found.append(Candidate(mask, 0.0))
        return found

    def judge(self, image: Image, mask: Mask, predicted: tuple[float, float] | None) -> float:
        """How well a mask fits, 0..1: its colours, its area, its distance from where it was expected."""
        area = float(mask.sum())
        if area < max(6.0, 0.05 * self.area):
            return 0.0
        box = mask_box(mask)
        assert box is not None
        crop = Crop.around(box, 1, image.shape, 1)
        values = lab(np.ascontiguousarray(image[crop.window]))[mask[crop.window]]
        likeness = float(np.clip((self.appearance.similarity(values) - 0.15) / 0.6, 0, 1))
        likeness = np.sqrt(likeness * self.appearance.resemblance(values))
        purity = float(np.clip(self.appearance.posterior(values).mean() / 0.8, 0, 1))
        size = np.exp(-(max(0.0, abs(np.log(area / self.area)) - 0.5) ** 2) / 1.2)
        close = 1.0
        if predicted is not None:
            gap = float(np.hypot(*(np.array(center(mask)) - predicted)))
            close = float(np.exp(-((gap / (6 * np.sqrt(self.area) + 20)) ** 2)))
        return float(np.sqrt(likeness * purity) * (0.4 + 0.6 * size) * (0.5 + 0.5 * close))

    def _candidates(
        self,
        images: Image,
        before: Image,
        t: int,
        last: Mask,
        hidden: Mask | None,
        others: Mask | None,
        missed: int,
    ) -> list[Candidate]:
        """Masks proposed by the flow of the last one and by colour, each cut by GrabCut and judged."""
        robot = hidden[t] if hidden is not None else None
        fixed = others[t] if others is not None else None
        proposals = []
        predicted: tuple[float, float] | None = center(last)
        if missed == 0:
            warped, agreement = warp(before, images[t], last)
            if warped.any() and agreement > 0.5:
                proposals.append(warped)
                predicted = center(warped)
        near = cv2.dilate((proposals or [last])[0].astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
        box = mask_box(near)
        window = Crop.around(box, 4 * np.sqrt(self.area) + 30, last.shape, 1) if box and missed < 2 else None
        for item in self.locate(images[t], robot, near, fixed, window):
            if not any(overlap(item.mask, other) > 0.4 for other in proposals):
                proposals.append(item.mask)
        judged = []
        for proposal in proposals:
            mask = self.cut(images[t], proposal, robot, fixed)
            judged.append(Candidate(mask, self.judge(images[t], mask, predicted if missed < 4 else None)))
        return judged

    def cut(self, image: Image, proposal: Mask, robot: Mask | None, others: Mask | None) -> Mask:
        """GrabCut of a proposal within a margin, with seeds from the object's colours."""
        box = mask_box(proposal)
        if box is None:
            return proposal
        reach = float(np.clip(0.35 * np.sqrt(self.area), 3, 20))
        crop = Crop.around(box, 2.2 * reach, image.shape)
        picture = crop.image(image)
        values = lab(picture)
        near = crop.mask(proposal)
        allowed = cv2.dilate(near.astype(np.uint8), _disc(max(1, round(reach * crop.scale)))) > 0
        changed = self._changed(values, crop)
        likely = self.appearance.against(values[changed & ~allowed]).posterior(values)
        labels = np.full(near.shape, cv2.GC_BGD, dtype=np.uint8)
        labels[allowed] = cv2.GC_PR_BGD
        labels[allowed & (likely > 0.6) & (changed | near)] = cv2.GC_PR_FGD
        labels[near & (likely > 0.3)] = cv2.GC_PR_FGD
        labels[near & (likely > 0.95)] = cv2.GC_FGD
        for blocked in (robot, others):
            if blocked is not None:
                labels[crop.mask(blocked)] = cv2.GC_BGD
        mask = crop.restore(keep_main(grab_cut(picture, labels, 2), _centre_in(near)), image.shape)
        return mask

    def cut_near(self, image: Image, expected: Mask, reach: float, robot: Mask | None, others: Mask | None) -> Mask:
        """GrabCut of the visible part of an object whose whole silhouette is known to within `reach` pixels.

        Inside the silhouette the robot may be behind or before the object, so colour decides there.
        """
        box = mask_box(expected)
        if box is None:
            return expected
        crop = Crop.around(box, 3 * reach + 6, image.shape)
        picture = crop.image(image)
        values = lab(picture)
        near = crop.mask(expected)
        allowed = cv2.dilate(near.astype(np.uint8), _disc(max(1, round(reach * crop.scale)))) > 0
        arm = crop.mask(robot) if robot is not None else np.zeros_like(near)
        model = self.appearance.against(values[(arm & ~near) | ~allowed])
        likely = cv2.GaussianBlur(model.posterior(values), (0, 0), 0.7 * crop.scale)
        labels = np.full(near.shape, cv2.GC_BGD, dtype=np.uint8)
        labels[allowed] = cv2.GC_PR_BGD
        labels[allowed & (likely > 0.6)] = cv2.GC_PR_FGD
        labels[near & (likely > 0.4)] = cv2.GC_PR_FGD
        labels[near & (likely > 0.9) & ~arm] = cv2.GC_FGD
        labels[arm & ~near] = cv2.GC_BGD
        labels[allowed & (likely < 0.04)] = cv2.GC_BGD
        if others is not None:
            labels[crop.mask(others)] = cv2.GC_BGD
        cut = grab_cut(picture, labels, 2) & ~(arm & (likely < 0.5))
        return crop.restore(keep_main(cut, _centre_in(near), 0.12), image.shape)

    def _changed(self, values: Floats, crop: Crop) -> Mask:
        """Pixels of a window that differ from the plate; all of them under a moving camera."""
        if self.plate is None:
            return np.ones(values.shape[:2], dtype=bool)
        return np.asarray(difference(values, _enlarged(self.plate, crop)) > 9)

    def _passing(self, values: Floats, elsewhere: Mask) -> Floats:
        """Colours of what moves and is not near the object: the robot."""
        pixels = values[elsewhere]
        if self.plate is None or len(pixels) < 200:
            return np.zeros((0, 3), np.float32)
        chosen: Floats = pixels[:: max(1, len(pixels) // 20000)]
        return chosen

    def _collapsed(self, mask: Mask, area: float, missed: int) -> bool:
        """Whether the area jumps more than an occlusion or a step explains."""
        ratio = float(mask.sum()) / max(1.0, area)
        return missed == 0 and ratio > 3.0


def warp(before: Image, after: Image, mask: Mask) -> tuple[Mask, float]:
    """A mask carried by dense optical flow, and the share of its pixels that the backward flow confirms."""
    box = mask_box(mask)
    if box is None:
        return mask, 0.0
    crop = Crop.around(box, 2.5 * max(box[2] - box[0], box[3] - box[1]) + 24, before.shape, 1)
    first = cv2.cvtColor(np.ascontiguousarray(before[crop.window]), cv2.COLOR_RGB2GRAY)
    second = cv2.cvtColor(np.ascontiguousarray(after[crop.window]), cv2.COLOR_RGB2GRAY)
    if min(first.shape) < 16:
        return mask, 0.0
    flow = cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_MEDIUM)
    forward, backward = flow.calc(first, second, None), flow.calc(second, first, None)
    rows, columns = np.nonzero(mask[crop.window])
    grid = np.stack(np.meshgrid(np.arange(first.shape[1]), np.arange(first.shape[0])), axis=-1).astype(np.float32)
    landed = grid + forward
    returned = cv2.remap(backward, landed[..., 0], landed[..., 1], cv2.INTER_LINEAR)
    agreement = float((np.linalg.norm(forward + returned, axis=2)[rows, columns] < 1.5).mean())
    source = grid + backward
    inside = mask[crop.window].astype(np.float32)
    carried = cv2.remap(inside, source[..., 0], source[..., 1], cv2.INTER_LINEAR) > 0.5
    result = np.zeros_like(mask)
    result[crop.window] = carried
    return result, agreement


def overlap(first: Mask, second: Mask) -> float:
    """Intersection over union of two masks; 0 when both are empty."""
    union = float((first | second).sum())
    return float((first & second).sum()) / union if union else 0.0


def center(mask: Mask) -> tuple[float, float]:
    """Centroid `(x, y)` of a mask that is not empty."""
    rows, columns = np.nonzero(mask)
    return float(columns.mean()), float(rows.mean())


def _enlarged(plate: Floats, crop: Crop) -> Floats:
    """The window of a Lab picture, enlarged as the crop is."""
    cut = plate[crop.window]
    if crop.scale == 1:
        return cut
    enlarged: Floats = cv2.resize(cut, None, fx=crop.scale, fy=crop.scale, interpolation=cv2.INTER_LINEAR)
    return enlarged


def _disc(radius: int) -> npt.NDArray[np.uint8]:
    return np.asarray(cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * radius + 1, 2 * radius + 1)), dtype=np.uint8)


def _centre_in(mask: Mask) -> tuple[float, float] | None:
    return center(mask) if mask.any() else None
