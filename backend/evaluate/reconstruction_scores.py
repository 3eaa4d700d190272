"""How far a reconstruction is from the hidden truth: one function per figure, blind to shape families.

Bodies are compared by their surfaces in the world, so that a square box turned by 90 degrees, or a cup fitted by
another family, is not punished for its frame.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.motion import Event
from backend.documents.observations import Masks
from backend.evaluate.worlds.truth import TrueEvent
from mjcf_export.frames import Array, apply, inverse, rotation_angle
from mjcf_export.scene import Body, Camera
from mjcf_export.shapes import cavity, shape_mesh

MIN_AREA = 40
"""Pixels a true mask must have to count."""
DIRECTIONS = 720


@dataclass(frozen=True)
class Placed:
    """A body's surface in the world: `vertices` `(V, 3)`, its pose `(4, 4)`, and its cavity's opening half sizes."""

    vertices: Array
    pose: Array
    opening: tuple[float, float] | None

    @property
    def centre(self) -> Array:
        """Middle `(3,)` of the surface's box in the world."""
        middle: Array = (self.vertices.min(axis=0) + self.vertices.max(axis=0)) / 2
        return middle

    @property
    def size(self) -> Array:
        """Long and short side of the smallest rectangle around the footprint, and the height, metres."""
        _, sides, _ = cv2.minAreaRect((self.vertices[:, :2] * 1000).astype(np.float32))
        return np.array([max(sides) / 1000, min(sides) / 1000, float(np.ptp(self.vertices[:, 2]))])


def placed(body: Body, folder: Path, pose: Array | None = None) -> Placed:
    """The surface of `body` at `pose` `(4, 4)`, or where the scene has it; `folder` is the scene's."""
    matrix = body.pose.matrix if pose is None else pose
    hollow = cavity(body.shape, folder)
    return Placed(
        vertices=apply(matrix, shape_mesh(body.shape, folder).vertices),
        pose=matrix,
        opening=None if hollow is None else hollow.opening,
    )


def position_error(truth: Placed, found: Placed) -> float:
    """Metres between the centres."""
    return float(np.linalg.norm(truth.centre - found.centre))


def size_error(truth: Placed, found: Placed) -> float:
    """Mean relative error of the three extents."""
    return float((np.abs(truth.size - found.size) / truth.size).mean())


def rotation_error(truth: Placed, found: Placed) -> float:
    """Radians: the larger of tilt and turn. The turn is the one that best lays one footprint on the other."""
    tilt = float(np.arccos(np.clip(truth.pose[:3, 2] @ found.pose[:3, 2], -1, 1)))
    angles = np.arange(DIRECTIONS) * 2 * np.pi / DIRECTIONS
    wanted, given = _support(truth, angles), _support(found, angles)
    misfit = np.array([np.abs(np.roll(given, shift) - wanted).mean() for shift in range(DIRECTIONS)])
    lowest = (misfit <= np.roll(misfit, 1)) & (misfit <= np.roll(misfit, -1))
    good = np.flatnonzero(lowest & (misfit <= max(1.1 * misfit.min(), misfit.min() + 2e-4)))
    turn = float(np.abs((angles[good] + np.pi) % (2 * np.pi) - np.pi).min())
    return max(tilt, turn)


def _support(body: Placed, angles: Array) -> Array:
    """How far the footprint reaches from its centre in each direction, metres."""
    offset = body.vertices[:, :2] - body.centre[:2]
    reach: Array = (offset @ np.array([np.cos(angles), np.sin(angles)])).max(axis=0)
    return reach


def opening_error(truth: Placed, found: Placed) -> float | None:
    """Metres between the cavities' opening radii (half sides of a tray); all of it when the found one is closed."""
    if truth.opening is None:
        return None
    wanted = np.sort(truth.opening)
    given = np.zeros(2) if found.opening is None else np.sort(found.opening)
    return float(np.abs(wanted - given).mean())


def camera_error(truth: Camera, found: Camera) -> tuple[float, float]:
    """Metres and radians between two camera poses."""
    delta = inverse(truth.pose.matrix) @ found.pose.matrix
    return float(np.linalg.norm(delta[:3, 3])), rotation_angle(delta)


def mask_iou(truth: Masks, found: Masks, key: str) -> float | None:
    """Mean IoU over the frames where the true mask is large enough; None when it never is."""
    if key not in truth:
        return None
    wanted = truth[key]
    area = wanted.sum(axis=(1, 2))
    frames = np.flatnonzero(area >= MIN_AREA)
    if not len(frames):
        return None
    if key not in found:
        return 0.0
    given = found[key]
    scores = [_iou(wanted[i], given[i]) if i < len(given) else 0.0 for i in frames]
    return float(np.mean(scores))


def _iou(a: npt.NDArray[np.bool_], b: npt.NDArray[np.bool_]) -> float:
    union = int((a | b).sum())
    return float((a & b).sum()) / union if union else 1.0


def event_errors(truth: Sequence[TrueEvent], events: Sequence[Event]) -> dict[str, float | None]:
    """Seconds from each true event to the nearest found one of its relation and pair; None where there is none."""
    result: dict[str, float | None] = {}
    for wanted in truth:
        gaps = [abs(event.onset - wanted.onset) for event in events if _same(wanted, event)]
        result[wanted.relation] = min(gaps) if gaps else None
    return result


def _same(wanted: TrueEvent, event: Event) -> bool:
    things = {event.subject, event.object}
    if wanted.relation in {"grasp", "release"}:
        broken = event.relation == "release" or (event.relation == "grasp" and not event.made)
        made = event.relation == "grasp" and event.made
        return (broken if wanted.relation == "release" else made) and wanted.object in things
    if wanted.relation == "lift":
        left = event.relation == "lift" or (event.relation == "support" and not event.made)
        return left and wanted.subject in things
    kinds = {"support", "containment"}
    return event.relation in kinds and event.made and {wanted.subject, wanted.object} == things
