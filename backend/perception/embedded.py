"""The embedded provider: rest, departure, motion and arrival of each object in one view, without weights."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.observations import Mask
from backend.documents.run import Progress
from backend.perception.appearance import Floats, Image, lab
from backend.perception.motion_region import still_picture
from backend.perception.rest import MOVED_EDGE, PRESENT, Presence, Rest, put, settle, watch
from backend.perception.segmentation import GrabCutSegmenter, Segmentation, Segmenter
from backend.perception.tracking import TRUSTED, Candidate, Follower, Target, TrackResult

GONE_SHARE = 0.35
"""An object is gone for good when less than this share of its place looks as before at the end."""


@dataclass(frozen=True)
class Guide:
    """What is known of an object beforehand.

    Attributes:
        moves: True, False, or None when the pictures must say.
        still: `(T,)` frames in which it cannot move, because no robot touches it; None when unknown.
        predicted: silhouettes `(H, W)` by frame while it is carried.
        reach: pixels by which a prediction may be off.
    """

    moves: bool | None = None
    still: Mask | None = None
    predicted: Mapping[int, Mask] = field(default_factory=dict)
    reach: float = 6.0


@dataclass
class Start:
    """An object's first rest, how sure its segmentation is, and what was seen of the rest over time."""

    rest: Rest
    confidence: float
    frame: int
    presence: Presence


def begin(
    images: Image, target: Target, hidden: Mask | None, segmenter: Segmenter, *, static: bool = True
) -> tuple[Segmentation, Start | None]:
    """Segment a target in its frame and fuse its first rest; None when nothing stands out there.

    Without a `static` camera nothing can be fused: the rest is the one frame.
    """
    exclude = hidden[target.frame] if hidden is not None else None
    found = segmenter.segment(images[target.frame], target.region, exclude)
    if not found.mask.any():
        return found, None
    candidates = np.arange(len(images)) if static else np.array([target.frame])
    rest = settle(images, found.mask, target.frame, hidden, candidates)
    return found, Start(rest, found.confidence, target.frame, watch(images, rest, hidden))


def departs(start: Start, guide: Guide) -> bool:
    """Whether the object left its first place."""
    if guide.moves is not None:
        return guide.moves
    length = max(3, len(start.presence.same) // 10)
    same, edge = _known(start.presence.same[-length:]), _known(start.presence.edge[-length:])
    gone = len(same) > 0 and float(np.median(same)) < GONE_SHARE
    return bool(gone or (len(edge) > 0 and float(np.median(edge)) < MOVED_EDGE))


def stay(start: Start, shape: tuple[int, ...]) -> TrackResult:
    """The track of an object that never moved: its fused mask where it is seen."""
    count = len(start.presence.seen)
    result = TrackResult(np.zeros((count, *shape), dtype=bool), np.zeros(count, np.float32))
    _show(result, start.rest, start.presence, range(count), start.confidence)
    _note_losses(result)
    return result


def follow(
    images: Image, start: Start, hidden: Mask | None, guide: Guide, others: Mask | None, progress: Progress
) -> TrackResult:
    """The track of an object that leaves its first place: rest, motion, and rest again where it is found."""
    count, shape = len(images), images.shape[1:3]
    result = TrackResult(np.zeros((count, *shape), dtype=bool), np.zeros(count, np.float32))
    last = _departure(start, guide, count)
    follower = _follower(images, start, hidden, last)
    _show(result, start.rest, start.presence, range(last + 1), start.confidence)
    moving = range(last + 1, count)
    found: dict[int, Candidate] = {}
    if guide.predicted:
        found = _follow_prediction(images, follower, hidden, guide, others, moving)
    else:
        origin = result.masks[last] if result.masks[last].any() else start.rest.mask
        found = follower.follow(images, origin, moving, hidden, others)
    progress(0.5, "motion followed")
    end = _arrival(images, follower, found, hidden, guide, others, last)
    if end is not None:
        rest, presence, first = end
        back = (
            follower.follow(images, rest.mask, range(first - 1, last, -1), hidden, others, found)
            if not guide.predicted
            else {}
        )
        for t, candidate in back.items():
            if t not in found or candidate.score > found[t].score:
                found[t] = candidate
        _show(result, rest, presence, range(first, count), start.confidence)
        moving = range(last + 1, first)
    for t in moving:
        if t in found:
            result.masks[t] = found[t].mask
            result.confidence[t] = found[t].score
    _note_losses(result)
    progress(1.0, "followed")
    return result


def roam(images: Image, start: Start, hidden: Mask | None, progress: Progress) -> TrackResult:
    """The track of an object under a moving camera: followed both ways from its first frame by flow and colour."""
    count, shape = len(images), images.shape[1:3]
    result = TrackResult(np.zeros((count, *shape), dtype=bool), np.zeros(count, np.float32))
    follower = Follower(start.rest.appearance, None, float(start.rest.mask.sum()))
    result.masks[start.frame], result.confidence[start.frame] = start.rest.mask, start.confidence
    for frames in (range(start.frame + 1, count), range(start.frame - 1, -1, -1)):
        for t, candidate in follower.follow(images, start.rest.mask, frames, hidden, None).items():
            result.masks[t], result.confidence[t] = candidate.mask, candidate.score
        progress(0.5, "followed")
    _note_losses(result)
    return result


class EmbeddedTracker:
    """`Tracker` without weights; the pictures alone say what moves."""

    def __init__(self, segmenter: Segmenter | None = None) -> None:
        self._segmenter = segmenter or GrabCutSegmenter()

    def track(
        self, images: Image, targets: Sequence[Target], hidden: Mask | None, progress: Progress
    ) -> dict[str, TrackResult]:
        """See `Tracker`; a target that is not found gets an empty track."""
        starts, results = {}, {}
        for target in targets:
            _, start = begin(images, target, hidden, self._segmenter)
            if start is None:
                shape = images.shape[:3]
                results[target.name] = TrackResult(np.zeros(shape, dtype=bool), np.zeros(shape[0], np.float32))
            else:
                starts[target.name] = start
        guide = Guide()
        staying = {name: stay(start, images.shape[1:3]) for name, start in starts.items() if not departs(start, guide)}
        results |= staying
        fixed = union([track.masks for track in staying.values()])
        for number, (name, start) in enumerate(starts.items()):
            if name not in results:
                results[name] = follow(images, start, hidden, guide, fixed, lambda _, text: None)
            progress((number + 1) / len(starts), name)
        return {target.name: results[target.name] for target in targets}


def union(stacks: Sequence[Mask]) -> Mask | None:
    """Pixels of any of the stacks `(T, H, W)`; None when there are none."""
    if not stacks:
        return None
    result = stacks[0].copy()
    for stack in stacks[1:]:
        result |= stack
    return result


def _known(values: Floats) -> Floats:
    result: Floats = values[np.isfinite(values)]
    return result


def _run(flags: Mask, index: int) -> npt.NDArray[np.int64]:
    """Indices of the unbroken run of `flags` around `index` (only `index` when it is not flagged)."""
    if not flags[index]:
        return np.array([index])
    low = high = index
    while low > 0 and flags[low - 1]:
        low -= 1
    while high + 1 < len(flags) and flags[high + 1]:
        high += 1
    return np.arange(low, high + 1)


def _departure(start: Start, guide: Guide, count: int) -> int:
    """The last frame in which the object is at its first place."""
    present = np.flatnonzero(start.presence.present())
    present = present[present < count]
    seen = int(present[-1]) if len(present) else start.frame
    if guide.still is not None:
        certain = int(_run(guide.still, start.frame)[-1]) if guide.still[start.frame] else start.frame
        later = np.flatnonzero(guide.still[certain + 1 :])
        limit = certain + int(later[0]) if len(later) else count - 1
        touched = present[(present > certain) & (present <= limit)]
        return int(touched[-1]) if len(touched) else certain
    return min(seen, count - 1)


def _follower(images: Image, start: Start, hidden: Mask | None, last: int) -> Follower:
    plate = still_picture(images, np.arange(0, last + 1), hidden)
    return Follower(start.rest.appearance, lab(plate), float(start.rest.mask.sum()))


def _follow_prediction(
    images: Image,
    follower: Follower,
    hidden: Mask | None,
    guide: Guide,
    others: Mask | None,
    frames: range,
) -> dict[int, Candidate]:
    """Masks of a carried object: cut by colour near where the robot's record says it is."""
    found = {}
    for t in frames:
        expected = guide.predicted.get(t)
        if expected is None or not expected.any():
            continue
        candidate = cut_expected(images[t], follower, expected, guide.reach, _at(hidden, t), _at(others, t))
        if candidate.score >= 0.25:
            found[t] = candidate
    return found


def cut_expected(
    image: Image, follower: Follower, expected: Mask, reach: float, robot: Mask | None, others: Mask | None
) -> Candidate:
    """The visible part of an object near its expected silhouette, and how well it fits."""
    mask = follower.cut_near(image, expected, reach, robot, others)
    share = float((mask & cv2_dilate(expected, reach)).sum()) / max(1.0, float(expected.sum()))
    if share < 0.08:
        return Candidate(mask, 0.0)
    score = follower.judge(image, mask, None)
    return Candidate(mask, float(np.clip(0.4 + 0.6 * score, 0, 1)) if score > 0.2 else score)


def cv2_dilate(mask: Mask, radius: float) -> Mask:
    """A mask grown by `radius` pixels."""
    size = 2 * max(1, round(radius)) + 1
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (size, size))
    return np.asarray(cv2.dilate(mask.astype(np.uint8), kernel) > 0)


def _arrival(
    images: Image,
    follower: Follower,
    found: Mapping[int, Candidate],
    hidden: Mask | None,
    guide: Guide,
    others: Mask | None,
    last: int,
) -> tuple[Rest, Presence, int] | None:
    """The object's final rest, how it is seen, and its first frame; None when it is not found at the end."""
    count = len(images)
    seed = _final_seed(images, follower, found, hidden, guide, others)
    if seed is None:
        return None
    frame, mask = seed
    candidates = _run(guide.still, frame) if guide.still is not None else np.arange(last + 1, count)
    candidates = candidates[candidates > last]
    if len(candidates) == 0:
        return None
    rest = settle(images, mask, frame, hidden, candidates)
    presence = watch(images, rest, hidden)
    first = frame
    for t in range(frame, last, -1):
        if np.isfinite(presence.same[t]) and presence.same[t] < max(PRESENT, 0.65):
            break
        if np.isfinite(presence.same[t]) and presence.seen[t] > 0.3:
            first = t
    if guide.still is not None and guide.still[frame]:
        first = min(first, max(int(_run(guide.still, frame)[0]), last + 1))
    return rest, presence, first


def _final_seed(
    images: Image,
    follower: Follower,
    found: Mapping[int, Candidate],
    hidden: Mask | None,
    guide: Guide,
    others: Mask | None,
) -> tuple[int, Mask] | None:
    """The best mask in the last frames: the followed one, or one found by colour."""
    count = len(images)
    expected = guide.predicted[max(guide.predicted)] if guide.predicted else None
    best: tuple[float, int, Mask] | None = None
    for t in range(count - 1, max(count - 1 - max(3, count // 12), 0), -1):
        options = [found[t]] if t in found and not guide.predicted else []
        robot, fixed = _at(hidden, t), _at(others, t)
        if expected is not None:
            proposals = [item.mask for item in follower.locate(images[t], robot, None, fixed)]
            allowed = cv2_dilate(expected, 0.6 * np.sqrt(follower.area) + guide.reach)
            proposals = [item & allowed for item in proposals if (item & allowed).sum() > 0.5 * item.sum()]
            options.append(cut_expected(images[t], follower, expected, guide.reach, robot, fixed))
        else:
            proposals = [item.mask for item in follower.locate(images[t], robot, None, fixed)]
        for proposal in proposals:
            mask = follower.cut(images[t], proposal, robot, fixed)
            options.append(Candidate(mask, follower.judge(images[t], mask, None)))
        for option in options:
            if option.score >= TRUSTED and (best is None or option.score > best[0] + 0.05):
                best = (option.score, t, option.mask)
    return None if best is None else (best[1], best[2])


def _show(result: TrackResult, rest: Rest, presence: Presence, frames: range, confidence: float) -> None:
    for t in frames:
        seen = float(presence.seen[t]) if not presence.edge[t] < 0.25 else 0.0
        if seen >= 0.03:
            result.masks[t] = put(presence.visible[t], rest.crop, result.masks.shape[1:])
            result.confidence[t] = confidence * (0.5 + 0.5 * min(1.0, seen / 0.8))


def _note_losses(result: TrackResult) -> None:
    found = result.confidence > 0
    changes = np.flatnonzero(np.diff(found.astype(np.int8)))
    result.lost = [int(t) + 1 for t in changes if found[t]]
    result.recovered = [int(t) + 1 for t in changes if not found[t]]


def _at(stack: Mask | None, frame: int) -> Mask | None:
    return None if stack is None else stack[frame]
