"""Where a held object must appear: its visual hull at the grasp, carried by the recorded tcp."""

from collections.abc import Mapping
from dataclasses import dataclass

import cv2
import numpy as np

from backend.documents.observations import Mask
from backend.perception.cameras import CameraPath
from mjcf_export.frames import Array, apply, inverse

REACH = 0.09
"""Half the side (m) of the cube around the tcp in which a hull is sought first; doubled while the hull touches it."""
STEPS = 48
"""Voxels along each side of the cube."""


@dataclass(frozen=True)
class Hull:
    """Voxel centres `(N, 3)` of a body in the tcp frame at the grasp, and the voxels' side in metres."""

    points: Array
    side: float

    def silhouette(self, camera: CameraPath, frame: int, tcp: Array, size: tuple[int, int]) -> Mask:
        """`(H, W)` where the body appears when the gripper is at `tcp` `(4, 4)`, nothing in front of it."""
        world = apply(tcp, self.points)
        pixels, depth = camera.pixels(world, frame)
        return splat(pixels[depth > 0.02], self.side * camera.intrinsics[0, 0] / max(0.02, float(depth.mean())), size)


def carve(
    masks: Mapping[str, Mask], cameras: Mapping[str, CameraPath], frame: Mapping[str, int], tcp: Array, width: float
) -> Hull | None:
    """The hull around the tcp that all masks allow; None when they share no voxel there.

    Args:
        masks: per view, the whole object at rest `(H, W)`.
        cameras: per view.
        frame: per view, the frame of the mask (for moving cameras).
        tcp: `(4, 4)` at the grasp.
        width: metres between the pads: a single view is clipped to this depth (plus a margin) about the tcp.
    """
    views = [view for view in masks if view in cameras and masks[view].any()]
    if not views:
        return None
    reach = REACH
    for _ in range(3):
        axis = (np.arange(STEPS) + 0.5) / STEPS * 2 * reach - reach
        grid = np.stack(np.meshgrid(axis, axis, axis, indexing="ij"), axis=-1).reshape(-1, 3)
        inside = np.ones(len(grid), dtype=bool)
        for view in views:
            inside &= _seen(apply(tcp, grid), masks[view], cameras[view], frame[view])
        if len(views) == 1:
            inside &= _near_depth(apply(tcp, grid), cameras[views[0]], frame[views[0]], tcp, width)
        if not inside.any():
            return None
        hull = Hull(grid[inside], 2 * reach / STEPS)
        if np.abs(hull.points).max() < reach * 0.97:
            return hull
        reach *= 2
    return hull


def splat(pixels: Array, diameter: float, size: tuple[int, int]) -> Mask:
    """A mask of points `(N, 2)`, each as wide as a voxel, without gaps."""
    picture = np.zeros(size, dtype=np.uint8)
    at = np.round(pixels).astype(int)
    good = (at >= 0).all(axis=1) & (at[:, 0] < size[1]) & (at[:, 1] < size[0])
    picture[at[good, 1], at[good, 0]] = 1
    radius = max(1, int(np.ceil(diameter * 0.6)))
    kernel = np.ones((2 * radius + 1, 2 * radius + 1), np.uint8)
    return np.asarray(cv2.morphologyEx(picture, cv2.MORPH_CLOSE, kernel) > 0)


def shift_between(camera: CameraPath, frame: int, before: Array, after: Array) -> Array:
    """Pixels `(2,)` by which a point at the tcp moves between two tcp poses."""
    pixels, _ = camera.pixels(np.array([before[:3, 3], after[:3, 3]]), frame)
    moved: Array = pixels[1] - pixels[0]
    return moved


def _seen(points: Array, mask: Mask, camera: CameraPath, frame: int) -> Mask:
    pixels, depth = camera.pixels(points, frame)
    at = np.round(pixels).astype(int)
    good = (depth > 0.02) & (at >= 0).all(axis=1) & (at[:, 0] < mask.shape[1]) & (at[:, 1] < mask.shape[0])
    inside = np.zeros(len(points), dtype=bool)
    inside[good] = mask[at[good, 1], at[good, 0]]
    return inside


def _near_depth(points: Array, camera: CameraPath, frame: int, tcp: Array, width: float) -> Mask:
    to_camera = inverse(camera.pose(frame))
    depth = apply(to_camera, points)[:, 2]
    middle = float(apply(to_camera, tcp[None, :3, 3])[0, 2])
    return np.asarray(np.abs(depth - middle) < max(0.6 * width, 0.02))
