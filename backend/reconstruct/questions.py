"""The five questions, each answered by a measured figure at one keyframe in one view."""

from dataclasses import dataclass, field

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.diagnosis import Answer
from backend.documents.motion import Event
from backend.reconstruct.case import Case
from backend.reconstruct.lens import Lens
from backend.reconstruct.robot_edges import contour_of, outer_offsets
from backend.reconstruct.silhouettes import fill, iou, polygons
from backend.reconstruct.stage import Shot, Stage
from backend.reconstruct.touching import deepest, pad_gaps
from mjcf_export.frames import Array
from mjcf_export.scene import Body

DIFFERENT = 22.0
"""Lab distance from which a pixel counts as different."""
DIFFERENCE_SHARE = 8.0
"""Largest different region, per cent of what is drawn."""
CAMERA_SHARE = 0.008
"""Robot outline offset, of the picture's width."""
OUTLINE_FLOOR = 0.8
OUTLINE_RATIO = 1.5
OUTLINE_MARGIN = 0.25
"""An outline may miss by `OUTLINE_RATIO` times the fit's own residual plus the margin, at least the floor (pixels)."""
INFLATION = 0.022
"""Mean outward miss of an outline over all views, of the object's size in the picture."""
HELD_IOU = 0.35
PAD_GAP = 0.008
PAD_DEPTH = 0.006
SUPPORT_GAP = 0.004
SUPPORT_DEPTH = 0.002
LATER_DEPTH = 0.004
"""After it was set down a body's pose is inferred, not an initial state of the physics."""
APPEARANCE = 28.0
"""Mean Lab distance within an object's mask."""
MIN_AREA = 30


@dataclass
class Frame:
    """One keyframe in one view, drawn."""

    event: Event
    view: str
    index: int
    time: float
    lens: Lens
    shot: Shot
    picture: npt.NDArray[np.uint8]
    misses: dict[str, "Miss"] = field(default_factory=dict)


@dataclass(frozen=True)
class Miss:
    """How one object's outline misses what was seen."""

    rms: float
    inflation: float
    size: float
    overlap: float
    centre: float
    millimetres: float
    held: bool


def difference(case: Case, stage: Stage, frame: Frame) -> Answer:
    """The largest region in which the drawn picture differs from the real one, of what the scene draws."""
    assert frame.shot.image is not None
    drawn = frame.shot.owner >= 0
    distance = lab_distance(frame.picture, frame.shot.image)
    far = ((distance > DIFFERENT) & drawn).astype(np.uint8)
    far = cv2.morphologyEx(far, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, labels, stats, centres = cv2.connectedComponentsWithStats(far)
    if not drawn.any():
        return Answer(question="difference", status="not evaluated", detail="the scene draws nothing here")
    if count <= 1:
        return Answer(question="difference", status="pass", value=0.0, unit="%", threshold=DIFFERENCE_SHARE)
    best = 1 + int(np.argmax(stats[1:, cv2.CC_STAT_AREA]))
    share = 100.0 * float(stats[best, cv2.CC_STAT_AREA]) / float(drawn.sum())
    owners = frame.shot.owner[(labels == best) & drawn]
    subject = stage.names[int(np.bincount(owners).argmax())]
    u, v = centres[best]
    return Answer(
        question="difference", status="pass" if share <= DIFFERENCE_SHARE else "fail", value=round(share, 2), unit="%",
        threshold=DIFFERENCE_SHARE, subject=subject, detail=f"largest at ({u:.0f}, {v:.0f}), mostly {subject}",
    )  # fmt: skip


def lab_distance(first: npt.NDArray[np.uint8], second: npt.NDArray[np.uint8]) -> npt.NDArray[np.float32]:
    """Distance in CIE Lab of two pictures, smoothed by a pixel."""
    pair = [
        cv2.cvtColor(cv2.GaussianBlur(item, (0, 0), 1.0).astype(np.float32) / 255, cv2.COLOR_RGB2LAB)
        for item in (first, second)
    ]
    return np.asarray(np.linalg.norm(pair[0] - pair[1], axis=2), dtype=np.float32)


def camera(case: Case, stage: Stage, frame: Frame) -> Answer:
    """The offset of the robot's drawn outline to the edge of what moved; else a shift all objects share."""
    limit = round(CAMERA_SHARE * frame.lens.size[0], 2)
    offset = robot_offset(case, stage, frame)
    basis = "robot outline"
    if offset is None:
        offset = _common_shift(frame)
        basis = "shift shared by the objects"
    if offset is None:
        return Answer(
            question="camera", status="not evaluated", unit="px", threshold=limit,
            detail="too little of the robot or of resting objects shows",
        )  # fmt: skip
    return Answer(
        question="camera", status="pass" if offset <= limit else "fail", value=round(offset, 2), unit="px",
        threshold=limit, subject=frame.view, detail=f"{basis}; camera pose {frame.lens.trust}",
    )  # fmt: skip


def robot_offset(case: Case, stage: Stage, frame: Frame) -> float | None:
    """Median distance in pixels of the robots' outline to the edge of what moved; None when too little shows."""
    if not stage.robots or not any(f"{name}/qpos" in case.arrays for name in stage.robots):
        return None
    numbers = [stage.index(name) for name in stage.robots]
    contour = contour_of(frame.shot, numbers, frame.lens, frame.index, np.random.default_rng(frame.index))
    if len(contour.points) < 25:
        return None
    _, offset, weight = outer_offsets(contour, frame.lens, frame.picture, case.pictures.still(frame.view), 30.0)
    seen = weight > 0
    return float(np.median(np.abs(offset[seen]))) if seen.sum() >= 20 else None


def _common_shift(frame: Frame) -> float | None:
    resting = [miss for miss in frame.misses.values() if not miss.held]
    return float(np.median([miss.centre for miss in resting])) if len(resting) >= 2 else None


def miss_of(case: Case, body: Body, frame: Frame) -> Miss | None:
    """How a body's outline misses the picture: the fused outline while it rests, this frame's mask while held."""
    window = case.window_at(body.name, frame.time)
    parts = case.parts(body)
    pose = case.pose(body, frame.time)
    drawn = polygons(parts, pose, frame.lens)
    if drawn is None:
        return None
    if window is None:
        return _held_miss(case, body, frame, drawn) if case.held_at(body.name, frame.time) else None
    outline = next((item for item in case.outlines(body.name, frame.view) if item.window == window), None)
    if outline is None or outline.weights.sum() < 0.35 * len(outline.weights):
        return None
    residual, share = outline.residuals(drawn)
    seen = share > 0
    if seen.sum() < 20:
        return None
    rms = float(np.sqrt(np.mean(np.minimum(np.abs(residual[seen]), np.quantile(np.abs(residual[seen]), 0.95)) ** 2)))
    points = len(outline.points)
    outward = -residual[-points:][share[-points:] > 0]
    everything = np.vstack(drawn.corners)
    size = float(np.sqrt(np.prod(np.ptp(everything, axis=0))))
    mask = fill(drawn, frame.lens.size, 2) & ~outline.hidden
    centre = _centre_distance(mask, outline.mask & ~outline.hidden)
    return Miss(
        rms, float(np.mean(np.clip(outward, -6, 6))) if len(outward) else 0.0, size, iou(mask, outline.mask), centre,
        1000 * centre * frame.lens.pixel_size(pose[:3, 3]), False,
    )  # fmt: skip


def _held_miss(case: Case, body: Body, frame: Frame, drawn: object) -> Miss | None:
    key = f"mask/{frame.view}/{body.name}"
    if key not in case.masks:
        return None
    seen = case.masks.frame(key, frame.index)
    robot = f"robot/{frame.view}"
    hidden = case.masks.frame(robot, frame.index) if robot in case.masks else np.zeros_like(seen)
    mask = fill(drawn, frame.lens.size, 2) & ~hidden  # type: ignore[arg-type]
    seen = seen & ~hidden
    if min(mask.sum(), seen.sum()) < MIN_AREA:
        return None
    centre = _centre_distance(mask, seen)
    size = float(np.sqrt(mask.sum()))
    pose = case.pose(body, frame.time)
    return Miss(centre, 0.0, size, iou(mask, seen), centre, 1000 * centre * frame.lens.pixel_size(pose[:3, 3]), True)


def _centre_distance(first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_]) -> float:
    if not first.any() or not second.any():
        return float("inf")
    return float(np.linalg.norm(np.argwhere(first).mean(axis=0) - np.argwhere(second).mean(axis=0)))


def outline_limit(body: Body) -> float:
    """How far a body's outline may miss, in pixels: what its own fit left, with room."""
    fitted = body.residuals.get("outline_px", OUTLINE_FLOOR)
    return max(OUTLINE_FLOOR, OUTLINE_RATIO * fitted + OUTLINE_MARGIN)


def placement(case: Case, frame: Frame, inflation: dict[tuple[str, int], float]) -> Answer:
    """The object whose outline misses what was seen by most, of what its own fit allows.

    Args:
        case: the reconstruction.
        frame: the keyframe with its misses.
        inflation: mean outward miss over all views, of the object's size, by object and window of rest.
    """
    if case.missing():
        return absence(case.missing()[0])
    worst: tuple[float, str, Miss, float] | None = None
    for name, miss in frame.misses.items():
        body = case.scene.body(name)
        limit = outline_limit(body)
        if miss.held:
            limit = max(0.6 * miss.size, 6.0)
            ratio = max(miss.rms / limit, HELD_IOU / max(miss.overlap, 0.01) if miss.rms > 0.3 * limit else 0.0)
        else:
            window = case.window_at(name, frame.time)
            grown = abs(inflation.get((name, -1 if window is None else window), 0.0))
            ratio = max(miss.rms / limit, grown / INFLATION if miss.rms > 0.6 * limit else 0.0)
        if worst is None or ratio > worst[0]:
            worst = (ratio, name, miss, limit)
    if worst is None:
        return Answer(question="placement", status="not evaluated", unit="px", detail="no object shows enough outline")
    ratio, name, miss, limit = worst
    return Answer(
        question="placement", status="pass" if ratio <= 1 else "fail", value=round(miss.rms, 3), unit="px",
        threshold=round(limit, 3), subject=name,
        detail=f"IoU {miss.overlap:.2f}, centre off {miss.centre:.1f} px ({miss.millimetres:.1f} mm), outward "
               f"{miss.inflation:+.2f} px{', held' if miss.held else ''}",
    )  # fmt: skip


def absence(name: str) -> Answer:
    """The placement of an object that the demonstration names and the scene does not have."""
    return Answer(question="placement", status="fail", subject=name, detail=f"{name} was not found in any view")


def contact(case: Case, stage: Stage, frame: Frame) -> Answer:
    """Whether pads touch what they grasp, and whether a resting body stands on something without sinking in."""
    event = frame.event
    if event.relation == "grasp" and event.robot in stage.robots:
        gaps = pad_gaps(stage, event.robot, event.subject)
        if not gaps or not all(np.isfinite(gap) for gap in gaps.values()):
            return Answer(question="contact", status="not evaluated", detail="the gripper has no pads to measure")
        worst = max(gaps.values(), key=lambda gap: max(gap / PAD_GAP, -gap / PAD_DEPTH))
        good = -PAD_DEPTH <= worst <= PAD_GAP
        said = ", ".join(f"{side} {1000 * gap:+.1f} mm" for side, gap in gaps.items())
        return _contact_answer(worst, PAD_GAP if worst > 0 else -PAD_DEPTH, good, event.subject, f"pads: {said}")
    window = case.window_at(event.subject, frame.time)
    if window is None or event.relation == "lift":
        return Answer(question="contact", status="not evaluated", unit="mm", detail="nothing rests or is grasped here")
    gap, other = deepest(stage, event.subject)
    depth = SUPPORT_DEPTH if window == 0 else LATER_DEPTH
    good = -depth <= gap <= SUPPORT_GAP
    return _contact_answer(
        gap, SUPPORT_GAP if gap > 0 else -depth, good, event.subject, f"nearest body {other or 'none'}"
    )


def _contact_answer(value: float, threshold: float, good: bool, subject: str, detail: str) -> Answer:
    return Answer(
        question="contact", status="pass" if good else "fail",
        value=round(1000 * float(np.clip(value, -1, 1)), 2), unit="mm", threshold=1000 * threshold, subject=subject,
        detail=detail,
    )  # fmt: skip


def appearance(case: Case, stage: Stage, frame: Frame) -> Answer:
    """The object whose colours differ most from the picture where both show it."""
    assert frame.shot.image is not None
    distance = lab_distance(frame.picture, frame.shot.image)
    worst: tuple[float, str] | None = None
    for body in case.objects():
        key = f"mask/{frame.view}/{body.name}"
        settled = case.window_at(body.name, frame.time) is not None or case.held_at(body.name, frame.time)
        if key not in case.masks or not settled:
            continue
        both = case.masks.frame(key, frame.index) & (frame.shot.owner == stage.index(body.name))
        if both.sum() >= MIN_AREA and (worst is None or float(distance[both].mean()) > worst[0]):
            worst = (float(distance[both].mean()), body.name)
    if worst is None:
        return Answer(question="appearance", status="not evaluated", detail="no object shows enough")
    value, name = worst
    return Answer(
        question="appearance", status="pass" if value <= APPEARANCE else "fail", value=round(value, 2), unit="Lab",
        threshold=APPEARANCE, subject=name, detail="mean over the pixels both show",
    )  # fmt: skip


def inflations(case: Case, frames: list[Frame]) -> dict[tuple[str, int], float]:
    """Mean outward miss over all views, of the object's size in the picture, by object and window of rest."""
    found: dict[tuple[str, int], dict[str, float]] = {}
    for frame in frames:
        for name, miss in frame.misses.items():
            window = case.window_at(name, frame.time)
            if window is not None:
                found.setdefault((name, window), {})[frame.view] = miss.inflation / max(miss.size, 1.0)
    return {key: float(np.mean(list(views.values()))) for key, views in found.items()}


def pose_stage(case: Case, stage: Stage, time: float) -> None:
    """Robots from the motion, bodies from the case, at a time."""
    from backend.reconstruct.tracks import pose_rows

    stage.pose(case.posed(), time, bodies=False)
    for body in case.scene.bodies:
        row: Array = pose_rows(case.pose(body, time)[None])[0]
        stage.put(body.name, row)
    stage.settle()
