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
MOVED = 22.0
"""Least difference to the still picture, of 255, that counts as something moved."""
CLEAR = 30
"""Pixels outside a contour point that must be free of the robot itself."""
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
    rows, columns = np.nonzero(edge & _open_outside(robot, soft))
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


def _open_outside(robot: npt.NDArray[np.bool_], soft: npt.NDArray[np.float32]) -> npt.NDArray[np.bool_]:
    """Whether the way outwards from each pixel soon leaves the robot for good."""
    across = np.stack([-cv2.Sobel(soft, cv2.CV_32F, 1, 0), -cv2.Sobel(soft, cv2.CV_32F, 0, 1)], axis=-1)
    across /= np.maximum(np.linalg.norm(across, axis=-1, keepdims=True), 1e-6)
    rows, columns = np.indices(robot.shape, dtype=np.float32)
    free = np.ones(robot.shape, dtype=bool)
    body = robot.astype(np.uint8)
    for step in range(4, CLEAR, 3):
        x, y = columns + step * across[..., 0], rows + step * across[..., 1]
        free &= cv2.remap(body, x, y, cv2.INTER_NEAREST) == 0
    return free


def edge_offsets(
    contour: Contour, lens: Lens, picture: npt.NDArray[np.uint8], reach: float
) -> tuple[Array, Array, Array]:
    """Signed pixel offsets along the normals to the strongest edge of the picture near each point.

    Args:
        contour: points in the world and their normals in the picture.
        lens: the camera to test.
        picture: `(H, W, 3)`.
        reach: how far to look on both sides, pixels.

    Returns:
        Projected points `(N, 2)`, offsets `(N,)` (positive outwards), weights `(N,)` (0 where no edge shows).
    """
    smooth = cv2.GaussianBlur(picture, (0, 0), 0.8).astype(np.float32)
    pixels, profile, steps, inside = _profiles(contour, lens, smooth, reach)
    change = np.linalg.norm(profile[:, 2:] - profile[:, :-2], axis=2)
    merit = change * np.exp(-0.5 * (steps[1:-1] / (0.6 * reach)) ** 2)
    best = np.argmax(merit, axis=1)
    row = np.arange(len(best))
    left, middle, right = (merit[row, np.clip(best + k, 0, merit.shape[1] - 1)] for k in (-1, 0, 1))
    bend = left - 2 * middle + right
    shift = np.where(np.abs(bend) > 1e-6, 0.5 * (left - right) / np.where(np.abs(bend) > 1e-6, bend, 1), 0.0)
    offset = steps[1:-1][best] + np.clip(shift, -0.5, 0.5)
    return pixels, offset, np.where(inside & (change[row, best] > CONTRAST), 1.0, 0.0)


def outer_offsets(
    contour: Contour, lens: Lens, picture: npt.NDArray[np.uint8], still: npt.NDArray[np.uint8], reach: float
) -> tuple[Array, Array, Array]:
    """Signed pixel offsets along the normals to where what moved begins, coming from outside; see `edge_offsets`."""
    moved = np.abs(
        cv2.GaussianBlur(picture, (0, 0), 0.8).astype(np.float32) - cv2.GaussianBlur(still, (0, 0), 0.8)
    ).max(axis=2)
    pixels, profile, steps, inside = _profiles(contour, lens, moved, reach)
    inward = profile[:, ::-1, 0]
    there = (inward[:, :-2] > MOVED) & (inward[:, 1:-1] > MOVED) & (inward[:, 2:] > MOVED)
    first = np.argmax(there, axis=1)
    found = there.any(axis=1) & (first > 0)
    row = np.arange(len(first))
    before, after = inward[row, np.maximum(first - 1, 0)], inward[row, first]
    part = np.clip((MOVED - before) / np.maximum(after - before, 1e-6), 0, 1)
    offset = steps[::-1][np.maximum(first - 1, 0)] - part
    return pixels, offset, np.where(inside & found, 1.0, 0.0)


def _profiles(
    contour: Contour, lens: Lens, picture: npt.NDArray[np.float32], reach: float
) -> tuple[Array, npt.NDArray[np.float32], Array, npt.NDArray[np.bool_]]:
    pixels, depth = lens.project(contour.points)
    steps = np.arange(-reach, reach + 0.5, 1.0)
    along = pixels[:, None] + contour.normals[:, None] * steps[None, :, None]
    profile = cv2.remap(
        picture, along[..., 0].astype(np.float32), along[..., 1].astype(np.float32), cv2.INTER_LINEAR,
        borderMode=cv2.BORDER_REPLICATE,
    )  # fmt: skip
    width, height = lens.size
    inside = (pixels > 2).all(axis=1) & (pixels[:, 0] < width - 3) & (pixels[:, 1] < height - 3) & (depth > 0.05)
    return pixels, profile.reshape(len(pixels), len(steps), -1), steps, inside
