"""A view's calibrated camera over the frames: projection with lens distortion, rays, triangulation."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np

from mjcf_export.frames import Array, inverse


@dataclass(frozen=True)
class CameraPath:
    """Intrinsics `(3, 3)`, distortion, and camera-to-world: `(4, 4)` or one per frame `(T, 4, 4)`."""

    intrinsics: Array
    distortion: tuple[float, ...]
    poses: Array

    @property
    def static(self) -> bool:
        """Whether the camera stands still."""
        return self.poses.ndim == 2

    def pose(self, frame: int) -> Array:
        """Camera-to-world `(4, 4)` at a frame."""
        return self.poses if self.static else self.poses[min(frame, len(self.poses) - 1)]

    def pixels(self, points: Array, frame: int) -> tuple[Array, Array]:
        """Pixels `(N, 2)` with lens distortion and optical depths `(N,)` in metres of world points `(N, 3)`."""
        world_to_camera = inverse(self.pose(frame))
        local = points @ world_to_camera[:3, :3].T + world_to_camera[:3, 3]
        depth = local[:, 2].copy()
        local[:, 2] = np.where(np.abs(depth) < 1e-6, 1e-6, depth)
        if not any(self.distortion):
            projected = local @ self.intrinsics.T
            return projected[:, :2] / projected[:, 2:], depth
        pixels, _ = cv2.projectPoints(local, np.zeros(3), np.zeros(3), self.intrinsics, np.array(self.distortion))
        return pixels.reshape(-1, 2), depth

    def ray(self, pixel: tuple[float, float], frame: int) -> tuple[Array, Array]:
        """Origin `(3,)` and unit direction `(3,)` in the world of the ray seen at a pixel."""
        ideal = cv2.undistortPoints(np.array([[pixel]]), self.intrinsics, np.array(self.distortion or (0.0,) * 4))
        pose = self.pose(frame)
        direction: Array = pose[:3, :3] @ np.append(ideal.reshape(2), 1.0)
        return pose[:3, 3].copy(), direction / np.linalg.norm(direction)


def triangulate(rays: Sequence[tuple[Array, Array]]) -> tuple[Array, float]:
    """The point nearest to all rays `(3,)` and its largest distance from one, in metres."""
    origins, directions = np.array([ray[0] for ray in rays]), np.array([ray[1] for ray in rays])
    projectors = np.eye(3) - directions[:, :, None] * directions[:, None, :]
    point = np.linalg.lstsq(projectors.sum(axis=0), (projectors @ origins[:, :, None]).sum(axis=0)[:, 0], rcond=None)[0]
    gaps = np.linalg.norm((projectors @ (point - origins)[:, :, None])[:, :, 0], axis=1)
    return point, float(gaps.max())
