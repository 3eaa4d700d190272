"""What the pictures say of one object at rest: fused masks and their outlines, with what hides it set aside."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.observations import Masks, Observations
from backend.reconstruct.lens import Lens
from backend.reconstruct.silhouettes import Polygons, samples_each
from mjcf_export.frames import Array

Mask = npt.NDArray[np.bool_]
MARGIN = 48
REACH = 24.0
MAX_FRAMES = 10
MAX_POINTS = 160


@dataclass(frozen=True)
class Window:
    """A stretch of time, in seconds, in which an object rests."""

    start: float
    end: float


@dataclass(frozen=True)
class Outline:
    """The fused outline of one object in one view over one window of rest."""

    lens: Lens
    window: int
    frames: tuple[int, ...]
    mask: Mask
    hidden: Mask
    corner: tuple[int, int]
    distance: npt.NDArray[np.float32]
    points: Array
    weights: Array

    def residuals(self, outline: Polygons) -> tuple[Array, Array]:
        """Distances in pixels between a predicted outline and the seen one, both ways, with their weights.

        First every predicted contour point to the seen outline, then every seen point to the predicted one.
        """
        contour, weight = outline.contour()
        ahead = self._lookup(contour)
        back = np.clip(outline.signed(self.points), -REACH, REACH)
        residual = np.concatenate([ahead, back])
        share = np.concatenate([weight * self._visible(contour), self.weights / max(len(self.points), 1)])
        return residual, share

    def length(self, parts: Sequence[Array]) -> int:
        """How many residuals an outline of these parts has."""
        return len(parts) * samples_each(len(parts)) + len(self.points)

    def _lookup(self, points: Array) -> Array:
        local = points - self.corner
        sampled = cv2.remap(
            self.distance,
            local[:, 0].astype(np.float32)[None],
            local[:, 1].astype(np.float32)[None],
            cv2.INTER_LINEAR,
            borderMode=cv2.BORDER_REPLICATE,
        )[0]
        return np.asarray(sampled, dtype=np.float64)

    def _visible(self, points: Array) -> Array:
        width, height = self.lens.size
        inside = (points > 1.5).all(axis=1) & (points[:, 0] < width - 2.5) & (points[:, 1] < height - 2.5)
        column = np.clip(np.round(points[:, 0]).astype(int), 0, width - 1)
        row = np.clip(np.round(points[:, 1]).astype(int), 0, height - 1)
        return np.where(inside & ~self.hidden[row, column], 1.0, 0.0)

    @property
    def centre(self) -> Array:
        """Centroid `(u, v)` of the mask."""
        rows, columns = np.nonzero(self.mask)
        return np.array([columns.mean(), rows.mean()])

    @property
    def box(self) -> tuple[float, float, float, float]:
        """Bounds `(u0, v0, u1, v1)` of the mask at pixel edges."""
        rows, columns = np.nonzero(self.mask)
        return columns.min() - 0.5, rows.min() - 0.5, columns.max() + 0.5, rows.max() + 0.5


def outline_of(lens: Lens, window: int, frames: Sequence[int], mask: Mask, hidden: Mask) -> Outline | None:
    """The outline of one mask; None when there is too little of it to fit anything.

    Args:
        lens: the view.
        window: which window of rest it belongs to.
        frames: the frames it was fused from.
        mask: `(H, W)` the object.
        hidden: `(H, W)` what may hide it: the robot, other objects.
    """
    kept = largest_piece(mask)
    if np.count_nonzero(kept) < 12:
        return None
    height, width = kept.shape
    rows, columns = np.nonzero(kept)
    x0, y0 = max(int(columns.min()) - MARGIN, 0), max(int(rows.min()) - MARGIN, 0)
    x1, y1 = min(int(columns.max()) + MARGIN + 1, width), min(int(rows.max()) + MARGIN + 1, height)
    crop = kept[y0:y1, x0:x1]
    near = cv2.dilate(hidden.astype(np.uint8), np.ones((5, 5), np.uint8)).astype(bool) & ~kept
    distance = signed_distance(crop)
    points = contour_points(crop) + (x0, y0)
    if len(points) > MAX_POINTS:
        points = points[:: len(points) // MAX_POINTS + 1]
    border = (points < 1.5).any(axis=1) | (points[:, 0] > width - 2.5) | (points[:, 1] > height - 2.5)
    touching = near[np.clip(np.round(points[:, 1]).astype(int), 0, height - 1),
                    np.clip(np.round(points[:, 0]).astype(int), 0, width - 1)]  # fmt: skip
    beside = cv2.dilate(near.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    touching |= beside[np.clip(np.round(points[:, 1]).astype(int), 0, height - 1),
                       np.clip(np.round(points[:, 0]).astype(int), 0, width - 1)]  # fmt: skip
    weights = np.where(border | touching, 0.0, 1.0)
    return Outline(lens, window, tuple(frames), kept, near, (x0, y0), distance, points, weights)


def signed_distance(mask: Mask) -> npt.NDArray[np.float32]:
    """Signed distance in pixels to the mask's edge, negative inside, clipped to `REACH`."""
    padded = np.pad(mask.astype(np.uint8), 1)
    inside = cv2.distanceTransform(padded, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    outside = cv2.distanceTransform(1 - padded, cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    distance = np.where(padded > 0, 0.5 - inside, outside - 0.5)[1:-1, 1:-1]
    return np.clip(distance, -REACH, REACH).astype(np.float32)


def contour_points(mask: Mask) -> Array:
    """Points `(N, 2)` on the mask's edge, between inside and outside pixels."""
    smooth = cv2.GaussianBlur(mask.astype(np.float32), (0, 0), 0.8)
    field = np.pad(smooth, 1)
    points = []
    for axis in (0, 1):
        first = field[:-1] if axis == 0 else field[:, :-1]
        second = field[1:] if axis == 0 else field[:, 1:]
        crossing = (first >= 0.5) != (second >= 0.5)
        rows, columns = np.nonzero(crossing)
        a, b = first[rows, columns], second[rows, columns]
        part = (0.5 - a) / (b - a)
        shift = np.column_stack([columns + (part if axis == 1 else 0.0), rows + (part if axis == 0 else 0.0)])
        points.append(shift - 1.0)
    return np.vstack(points).astype(np.float64)


def largest_piece(mask: Mask) -> Mask:
    """The largest connected piece, with its holes filled."""
    count, labels, stats, _ = cv2.connectedComponentsWithStats(mask.astype(np.uint8), connectivity=8)
    if count <= 1:
        return np.zeros_like(mask)
    piece = (labels == 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))).astype(np.uint8)
    contours, _ = cv2.findContours(piece, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    filled = np.zeros_like(piece)
    cv2.drawContours(filled, contours, -1, 1, thickness=cv2.FILLED)
    return filled.astype(bool)


def frames_within(times: Array, window: Window) -> list[int]:
    """Frames whose time lies in the window."""
    return [int(index) for index in np.nonzero((times >= window.start) & (times <= window.end))[0]]


def gather(
    name: str, windows: Sequence[Window], lenses: Sequence[Lens], observations: Observations, masks: Masks
) -> list[Outline]:
    """The fused outlines of an object over its windows of rest, in every view that saw it."""
    outlines = []
    others = [item.name for item in observations.objects if item.name != name]
    for lens in lenses:
        key = f"mask/{lens.name}/{name}"
        if key not in masks:
            continue
        for index, window in enumerate(windows):
            frames = _usable(name, lens, window, observations, masks)
            if not frames:
                continue
            mask, hidden = fuse(key, lens, frames, others, masks)
            outline = outline_of(lens, index, frames, mask, hidden)
            if outline is not None:
                outlines.append(outline)
    return outlines


def _usable(name: str, lens: Lens, window: Window, observations: Observations, masks: Masks) -> list[int]:
    times = np.array(observations.times[lens.name])
    frames = frames_within(times, window)
    track = next(
        (t for item in observations.objects if item.name == name for t in item.tracks if t.view == lens.name), None
    )
    if track is not None:
        frames = [frame for frame in frames if frame < len(track.confidence) and track.confidence[frame] > 0]
    key = f"mask/{lens.name}/{name}"
    areas = {frame: int(np.count_nonzero(masks.frame(key, frame))) for frame in frames}
    frames = [frame for frame in frames if areas[frame] >= 12]
    if not frames:
        return []
    full = float(np.percentile([areas[frame] for frame in frames], 70))
    frames = [frame for frame in frames if 0.75 * full <= areas[frame] <= 1.35 * full] or frames
    if len(frames) > MAX_FRAMES:
        frames = [frames[int(i)] for i in np.linspace(0, len(frames) - 1, MAX_FRAMES)]
    return frames


def fuse(key: str, lens: Lens, frames: Sequence[int], others: Sequence[str], masks: Masks) -> tuple[Mask, Mask]:
    """The object's mask by vote over frames, and the pixels where something may hide it."""
    height, width = lens.size[1], lens.size[0]
    votes = np.zeros((height, width), dtype=np.float32)
    known = np.zeros((height, width), dtype=np.float32)
    robot_key = f"robot/{lens.name}"
    for frame in frames:
        mask = masks.frame(key, frame)
        clear = np.ones_like(mask)
        if robot_key in masks:
            clear = ~cv2.dilate(masks.frame(robot_key, frame).astype(np.uint8), np.ones((5, 5), np.uint8)).astype(bool)
        votes += mask & clear
        known += clear
    seen = known >= max(1.0, 0.2 * len(frames))
    mask = seen & (votes > 0.5 * known)
    hidden = ~seen
    for other in others:
        other_key = f"mask/{lens.name}/{other}"
        if other_key in masks:
            hidden |= masks.frame(other_key, frames[len(frames) // 2])
    return mask, hidden & ~mask
