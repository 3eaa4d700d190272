"""One camera sees a held object from many sides: what moves with the tcp looks as if the camera moved around it."""

from dataclasses import replace

import cv2
import numpy as np

from backend.demos.states import RobotStates
from backend.documents.observations import Masks, Observations
from backend.reconstruct.evidence import Outline, outline_of
from backend.reconstruct.lens import Lens
from backend.reconstruct.metrology import Grip
from backend.reconstruct.tracks import tcp_at
from mjcf_export.frames import Array, inverse

VIEWS = 6
APART = 0.03
"""Frames between which the tcp moved less than this (metres) show the same."""
CLOSED = 0.1
"""Seconds after closing and before opening in which an object may still slip."""
BESIDE = 9
"""Pixels across which a robot's mask is grown: at its edge the fingers cut the object's outline."""
SHOWN = 0.35
"""Least share of an outline that the robot leaves free."""


def held_outlines(
    grip: Grip, record: RobotStates, lens: Lens, observations: Observations, masks: Masks
) -> list[Outline]:
    """Outlines of a held object as of window 0: each held frame seen by a camera moved with the tcp back to the grasp.

    Args:
        grip: the object's first hold.
        record: the states of the robot that held it.
        lens: the view.
        observations: its times.
        masks: the object's and the robot's masks.
    """
    key, robot = f"mask/{lens.name}/{grip.name}", f"robot/{lens.name}"
    if record.tcp is None or key not in masks:
        return []
    times = np.array(observations.times[lens.name])
    inside = np.flatnonzero((times > grip.hold.grasp + CLOSED) & (times < grip.hold.release - CLOSED))
    if not len(inside):
        return []
    tcp = tcp_at(record, times[inside])
    found = []
    for index in _spread(tcp):
        frame = int(inside[index])
        arm = masks.frame(robot, frame) if robot in masks else np.zeros(lens.size[::-1], dtype=bool)
        hidden = cv2.dilate(arm.astype(np.uint8), np.ones((BESIDE, BESIDE), np.uint8)) > 0
        mask = masks.frame(key, frame) & ~hidden
        moved = replace(lens, pose=grip.grasp @ inverse(tcp[index]) @ lens.pose)
        outline = outline_of(moved, 0, (frame,), mask, hidden)
        if outline is not None and outline.weights.mean() > SHOWN:
            found.append(outline)
    return found


def _spread(tcp: Array) -> list[int]:
    """Up to `VIEWS` samples of a path `(N, 4, 4)` that lie `APART` and as far from each other as can be."""
    places = tcp[:, :3, 3]
    distance = np.linalg.norm(places - places[0], axis=1)
    chosen: list[int] = []
    while len(chosen) < VIEWS:
        best = int(np.argmax(distance))
        if distance[best] < APART:
            break
        chosen.append(best)
        distance = np.minimum(distance, np.linalg.norm(places - places[best], axis=1))
    return sorted(chosen)
