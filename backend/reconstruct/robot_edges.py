"""The robot's silhouette against the picture: how far each of its contour points lies from the edge really seen."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from backend.reconstruct.lens import Lens
from backend.reconstruct.stage import Shot
from mjcf_export.frames import Array

POINTS = 150
CONTRAST = 18.0
"""Least step, of 255, across an edge that counts."""


@dataclass(frozen=True)
class Contour:
    """Contour points of a drawn robot: where they are in the world and in which frame they were drawn."""

    points: Array
    normals: Array
    frame: int


def contour_of(shot: Shot, robots: Sequence[int], lens: Lens, frame: int, generator: np.random.Generator) -> Contour:
    """Points on the robots' outline against the background, in the world, with outward pixel normals.

    Args:
        shot: drawn with depth.
        robots: the stage's numbers of the robots.
        lens: what it was drawn through.
        frame: source frame.
        generator: picks `POINTS` of them.
    """
    assert shot.depth is not None
    robot = np.isin(shot.owner, robots)
    soft = cv2.GaussianBlur(robot.astype(np.float32), (0, 0), 1.5)
    edge = robot & ~cv2.erode(robot.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    edge[:3], edge[-3:], edge[:, :3], edge[:, -3:] = False, False, False, False
    rows, columns = np.nonzero(edge)
    if len(rows) > POINTS:
        chosen = generator.choice(len(rows), POINTS, replace=False)
        rows, columns = rows[chosen], columns[chosen]
    if not len(rows):
        return Contour(np.zeros((0, 3)), np.zeros((0, 2)), frame)
    across = -np.column_stack(
        [cv2.Sobel(soft, cv2.CV_32F, 1, 0)[rows, columns], cv2.Sobel(soft, cv2.CV_32F, 0, 1)[rows, columns]]
    ).astype(np.float64)
    length = np.linalg.norm(across, axis=1)
    good = length > 1e-3
    rows, columns, across, length = rows[good], columns[good], across[good], length[good]
    normals = across / length[:, None]
    pixels = np.column_stack([columns, rows]).astype(np.float64) + 0.5 * normals
    depth = shot.depth[rows, columns].astype(np.float64)
    origin, directions = lens.rays(pixels)
    along = directions @ lens.pose[:3, 2]
    return Contour(origin + directions * (depth / along)[:, None], normals, frame)


def edge_offsets(
    contour: Contour, lens: Lens, picture: npt.NDArray[np.float32], reach: float
) -> tuple[Array, Array, Array]:
    """Signed pixel offsets along the normals to the strongest edge near each point.

    Args:
        contour: points in the world and their normals in the picture.
        lens: the camera to test.
        picture: `(H, W, 3)` float picture in which the robot's edge shows.
        reach: how far to look on both sides, pixels.

    Returns:
        Projected points `(N, 2)`, offsets `(N,)` (positive outwards), weights `(N,)` (0 where no edge shows).
    """
    pixels, depth = lens.project(contour.points)
    steps = np.arange(-reach, reach + 0.5, 1.0)
    along = pixels[:, None] + contour.normals[:, None] * steps[None, :, None]
    profile = cv2.remap(
        picture, along[..., 0].astype(np.float32), along[..., 1].astype(np.float32), cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )  # fmt: skip
    profile = profile.reshape(len(pixels), len(steps), -1)
    change = np.linalg.norm(profile[:, 2:] - profile[:, :-2], axis=2)
    merit = change * np.exp(-0.5 * (steps[1:-1] / (0.6 * reach)) ** 2)
    best = np.argmax(merit, axis=1)
    row = np.arange(len(best))
    left, middle, right = (merit[row, np.clip(best + k, 0, merit.shape[1] - 1)] for k in (-1, 0, 1))
    bend = left - 2 * middle + right
    shift = np.where(np.abs(bend) > 1e-6, 0.5 * (left - right) / np.where(np.abs(bend) > 1e-6, bend, 1), 0.0)
    offset = steps[1:-1][best] + np.clip(shift, -0.5, 0.5)
    width, height = lens.size
    inside = (pixels > 2).all(axis=1) & (pixels[:, 0] < width - 3) & (pixels[:, 1] < height - 3) & (depth > 0.05)
    strength = change[row, best]
    weight = np.where(inside & (strength > CONTRAST), 1.0, 0.0)
    return pixels, offset, weight


def moving_picture(
    picture: npt.NDArray[np.uint8], still: npt.NDArray[np.uint8], moving: bool
) -> npt.NDArray[np.float32]:
    """The picture in which edges are looked for: the difference to the still one, or the picture itself."""
    smooth = cv2.GaussianBlur(picture, (0, 0), 0.8).astype(np.float32)
    if not moving:
        return smooth
    return np.abs(smooth - cv2.GaussianBlur(still, (0, 0), 0.8).astype(np.float32))
