"""When an object was carried, from the pictures alone: for videos without a robot's record."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from backend.documents.observations import Masks, Observations
from backend.reconstruct.evidence import Window
from backend.reconstruct.metrology import Grip, rest_windows
from mjcf_export.frames import Array

STRAY = 0.3
"""An object has left its place when its mask's centre moved by this share of its size."""
LEAST = 4.0
"""Pixels below which a mask's centre has not moved."""
SCRAP = 0.2
"""A mask smaller than this share of the object's first is too little to say where the object is."""


@dataclass(frozen=True)
class Span:
    """One carry in one view: the last frame at rest, the first moved, the last moving, the first at rest again.

    `settled` is None where the object was not seen again after it was let go (inside something, or hidden).
    """

    view: str
    rest: int
    taken: int
    left: int
    settled: int | None


def carried_span(name: str, view: str, observations: Observations, masks: Masks) -> Span | None:
    """When an object was carried in a view; None when it stays where it is or is not followed."""
    key = f"mask/{view}/{name}"
    if key not in masks:
        return None
    count = observations.frames[view]
    centres, areas = mask_centres(key, count, masks)
    seen = np.flatnonzero(np.isfinite(centres[:, 0]))
    if len(seen) < 3:
        return None
    whole = float(np.median(areas[seen[:3]]))
    seen = seen[areas[seen] >= SCRAP * whole]
    limit = max(LEAST, STRAY * float(np.sqrt(whole)))
    start = np.median(centres[seen[: min(3, len(seen))]], axis=0)
    away = np.linalg.norm(centres - start, axis=1) > limit
    moved = [int(frame) for frame in seen if away[frame]]
    if not moved:
        return None
    taken = moved[0]
    rest = max((int(frame) for frame in seen if frame < taken), default=0)
    last = int(seen[-1])
    still = _still_from(centres, seen, limit)
    if still is not None and still < last and last >= count - 2:
        return Span(view, rest, taken, max(taken, int(still) - 1), int(still))
    return Span(view, rest, taken, last, None)


def mask_centres(key: str, count: int, masks: Masks) -> tuple[Array, npt.NDArray[np.int64]]:
    """Centre `(u, v)` of an object's mask in every frame, NaN where it is not seen, and the mask's area in pixels."""
    centres, areas = np.full((count, 2), np.nan), np.zeros(count, dtype=np.int64)
    for frame in range(count):
        rows, columns = np.nonzero(masks.frame(key, frame))
        areas[frame] = len(rows)
        if len(rows) >= 12:
            centres[frame] = columns.mean(), rows.mean()
    return centres, areas


def _still_from(centres: Array, seen: npt.NDArray[np.intp], limit: float) -> int | None:
    """The first frame from which on the object stays where it ends."""
    end = np.median(centres[seen[-min(3, len(seen)) :]], axis=0)
    near = np.linalg.norm(centres[seen] - end, axis=1) <= limit
    first: int | None = None
    for frame, close in zip(seen[::-1], near[::-1], strict=True):
        if not close:
            break
        first = int(frame)
    return first


def resting(
    name: str, spans: Mapping[str, Span], grips: Sequence[Grip], observations: Observations, end: float
) -> list[Window]:
    """When an object rests, in seconds: around its carry where one was read off the pictures, else around its holds."""
    if name not in spans:
        return rest_windows(name, grips, end)
    span = spans[name]
    times = observations.times[span.view]
    windows = [Window(0.0, float(times[span.rest]))]
    if span.settled is not None:
        windows.append(Window(float(times[span.settled]), float(times[-1])))
    return windows


def carried_spans(observations: Observations, masks: Masks, views: Sequence[str]) -> Mapping[str, Span]:
    """The carry of each object that moved, in the first of `views` that shows it."""
    found: dict[str, Span] = {}
    for item in observations.objects:
        if set(item.roles) & {"support", "fixed", "container"} and "moved" not in item.roles:
            continue
        for view in views:
            span = carried_span(item.name, view, observations, masks)
            if span is not None:
                found[item.name] = span
                break
    return found
