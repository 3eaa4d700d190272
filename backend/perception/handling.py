"""Which object each hold took, and where the robot's record says a held object must appear."""

from collections.abc import Mapping

import cv2
import numpy as np

from backend.documents.observations import Hold, Mask
from backend.perception.carry import Hull, carve
from backend.perception.embedded import Guide
from backend.perception.footage import SETTLING, Footage, ViewFootage, may_move
from backend.perception.metrology import tcp_at
from mjcf_export.frames import Array, apply, inverse

TAKEN_WITHIN = 0.07
"""Metres from the tcp at the grasp within which an object can have been taken."""


def assign_holds(
    footage: Footage, masks: Mapping[str, Mapping[str, Mask]], candidates: tuple[str, ...]
) -> dict[str, list[Hold]]:
    """Holds by object.

    Args:
        footage: views and holds.
        masks: per object and view, its first mask `(H, W)`.
        candidates: the objects that can have been taken.
    """
    taken: dict[str, list[Hold]] = {}
    for hold in footage.holds:
        gaps = {name: _gap(footage, masks.get(name, {}), hold, taken.get(name, [])) for name in candidates}
        near = {name: gap for name, gap in gaps.items() if gap < TAKEN_WITHIN}
        if near:
            taken.setdefault(min(near, key=lambda name: near[name]), []).append(hold)
    return taken


def guides(footage: Footage, masks: Mapping[str, Mask], holds: list[Hold], moves: bool | None) -> dict[str, Guide]:
    """What the record says of one object in every view.

    Args:
        footage: views, robots and holds.
        masks: the object's first mask `(H, W)` per view.
        holds: the holds that took it, in order.
        moves: what is known otherwise.
    """
    if not holds:
        return {view: Guide(moves=moves) for view in footage.views}
    predicted = _predictions(footage, masks, holds)
    result = {}
    for name, view in footage.views.items():
        reach = max(4.0, 0.012 * _pixels_per_metre(view, holds[0])) if view.camera is not None else 6.0
        result[name] = Guide(True, ~may_move(view, holds), predicted.get(name, {}), reach)
    return result


def _gap(footage: Footage, masks: Mapping[str, Mask], hold: Hold, before: list[Hold]) -> float:
    """Metres between the tcp at a grasp and an object: from its last release, else from its masks."""
    tcp = np.array(hold.grasp_tcp)
    if before:
        return float(np.linalg.norm(tcp[:3, 3] - np.array(before[-1].release_tcp)[:3, 3]))
    gaps = []
    for name, view in footage.views.items():
        mask = masks.get(name)
        if view.camera is None or mask is None or not mask.any():
            continue
        pixel, depth = view.camera.pixels(tcp[None, :3, 3], view.frame_at(hold.grasp))
        if depth[0] <= 0.02:
            continue
        distance = cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, 5)
        x, y = np.clip(np.round(pixel[0]).astype(int), 0, np.array(mask.shape[::-1]) - 1)
        outside = float(np.hypot(*(pixel[0] - [x, y])))
        gaps.append((float(distance[y, x]) + outside) / _pixels_per_metre(view, hold))
    return float(np.max(gaps)) if gaps else float("inf")


def _pixels_per_metre(view: ViewFootage, hold: Hold) -> float:
    assert view.camera is not None
    _, depth = view.camera.pixels(np.array(hold.grasp_tcp)[None, :3, 3], view.frame_at(hold.grasp))
    return float(view.camera.intrinsics[0, 0] / max(0.05, abs(float(depth[0]))))


def _predictions(footage: Footage, masks: Mapping[str, Mask], holds: list[Hold]) -> dict[str, dict[int, Mask]]:
    """Silhouettes per view and frame from the first closing to the last settling."""
    cameras = {name: view.camera for name, view in footage.views.items() if view.camera is not None}
    fixed = {name: masks[name] for name in masks if name in cameras and footage.views[name].static}
    first = np.array(holds[0].grasp_tcp)
    hull = carve(fixed, cameras, {name: 0 for name in fixed}, first, holds[0].width)
    if hull is None:
        return {}
    resting = apply(first, hull.points)
    predicted: dict[str, dict[int, Mask]] = {name: {} for name in cameras}
    for number, hold in enumerate(holds):
        until = holds[number + 1].grasp if number + 1 < len(holds) else hold.open_end + SETTLING
        held = apply(inverse(np.array(hold.grasp_tcp)), resting)
        for name, camera in cameras.items():
            view = footage.views[name]
            for frame in view.between(hold.close_start - 0.1, until):
                pose = _held_pose(footage, hold, float(view.times[frame]))
                shape = Hull(held, hull.side)
                predicted[name][int(frame)] = shape.silhouette(camera, int(frame), pose, view.size)
        resting = apply(np.array(hold.release_tcp), held)
    return predicted


def _held_pose(footage: Footage, hold: Hold, time: float) -> Array:
    robot = next(item for item in footage.robots if item.name == hold.robot)
    assert robot.states.tcp is not None
    return tcp_at(robot.states.time, robot.states.tcp, float(np.clip(time, hold.grasp, hold.release)))
