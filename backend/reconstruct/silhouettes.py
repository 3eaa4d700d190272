"""Silhouettes without a renderer: convex parts projected to polygons, signed distances, filled masks."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from backend.reconstruct.lens import Lens
from mjcf_export.frames import Array, apply
from mjcf_export.scene import Box, Cylinder, Extrusion, Lathe, Mesh, Shape, Tray

SEGMENTS = 40
SAMPLES = 64
_ANGLES = np.arange(SEGMENTS) * 2 * np.pi / SEGMENTS
_RING = np.column_stack([np.cos(_ANGLES), np.sin(_ANGLES)])
_CORNERS = np.array([(x, y, z) for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (0.0, 1.0)])


def box_parts(size: Sequence[float] | Array) -> list[Array]:
    """The corners of a box on its bottom."""
    return [_CORNERS * np.asarray(size)]


def ring(radius: float, height: float) -> Array:
    """Points `(SEGMENTS, 3)` of a horizontal circle."""
    return np.column_stack([_RING * radius, np.full(SEGMENTS, height)])


def frusta(profile: Array) -> list[Array]:
    """One convex frustum a step of a turned profile `(N, 2)` of (radius, z)."""
    rings = [ring(float(r), float(z)) for r, z in profile]
    return [np.vstack(pair) for pair in zip(rings[:-1], rings[1:], strict=True)]


def lathe_parts(profile: Array) -> list[Array]:
    """Convex frusta of a turned profile `(N, 2)`; neighbours that stay convex are merged."""
    parts: list[Array] = []
    start = 0
    for end in range(1, len(profile)):
        if end + 1 < len(profile) and _convex(profile[start : end + 2]):
            continue
        parts.append(np.vstack([ring(float(r), float(z)) for r, z in profile[start : end + 1]]))
        start = end
    return parts


def _convex(profile: Array) -> bool:
    slopes = np.diff(profile[:, 0]) / np.maximum(np.diff(profile[:, 1]), 1e-9)
    return bool((np.diff(slopes) <= 1e-9).all())


def shape_parts(shape: Shape, vertices: Array | None = None) -> list[Array]:
    """Convex vertex sets `(V, 3)` in the body frame whose union has the shape's silhouette.

    Args:
        shape: the shape; a hollow body looks like its outer surface.
        vertices: the vertices of a mesh shape (its convex hull stands for it).
    """
    match shape:
        case Box() | Tray():
            return box_parts(shape.size)
        case Cylinder():
            return [np.vstack([ring(shape.radius, 0), ring(shape.radius, shape.height)])]
        case Lathe():
            return lathe_parts(np.array(shape.outer))
        case Extrusion():
            return _prisms(np.array(shape.polygon), shape.height)
        case Mesh():
            if vertices is None:
                raise ValueError("a mesh needs its vertices")
            return [vertices]


def _prisms(polygon: Array, height: float) -> list[Array]:
    hull = cv2.convexHull(polygon.astype(np.float32))[:, 0]
    if len(hull) == len(polygon):
        pieces = [polygon]
    else:
        from trimesh.creation import triangulate_polygon  # noqa: PLC0415
        from trimesh.path.polygons import Polygon  # noqa: PLC0415

        points, faces = triangulate_polygon(Polygon(polygon), engine="manifold")
        pieces = [points[face] for face in faces]
    return [np.vstack([np.column_stack([piece, np.full(len(piece), z)]) for z in (0.0, height)]) for piece in pieces]


@dataclass(frozen=True)
class Polygons:
    """Convex image polygons, one a part: the union is the silhouette."""

    corners: list[Array]

    def signed(self, points: Array) -> Array:
        """Signed distance in pixels of points `(N, 2)`: negative inside the union."""
        best = np.full(len(points), np.inf)
        for polygon in self.corners:
            best = np.minimum(best, _signed_convex(points, polygon))
        return best

    def contour(self, samples: int = SAMPLES) -> tuple[Array, Array]:
        """Points `(N, 2)` along the outline of the union and their weights, which sum to about 1.

        `N` depends on the number of parts only and points move smoothly with the polygons, so that differences
        between two nearby outlines are derivatives; points inside another part weigh nothing.
        """
        count = samples_each(len(self.corners), samples)
        points, weights = [], []
        for index, polygon in enumerate(self.corners):
            along = _resample(polygon, count)
            step = np.linalg.norm(np.roll(along, -1, axis=0) - np.roll(along, 1, axis=0), axis=1) / 2
            others = [other for k, other in enumerate(self.corners) if k != index]
            if others:
                step = step * np.clip(0.5 + 2 * (Polygons(others).signed(along) + 0.25), 0, 1)
            points.append(along)
            weights.append(step)
        weight = np.concatenate(weights)
        return np.vstack(points), weight / max(float(weight.sum()), 1e-9)


def samples_each(parts: int, samples: int = SAMPLES) -> int:
    """Contour points on each of `parts` polygons."""
    return max(16, samples // parts)


def polygons(parts: Sequence[Array], pose: Array, lens: Lens) -> Polygons | None:
    """The silhouette of convex parts at `pose`, or None when a part lies behind the camera."""
    corners = []
    for part in parts:
        pixels, depth = lens.project(apply(pose, part))
        if depth.min() < 0.02:
            return None
        corners.append(cv2.convexHull(pixels.astype(np.float32), clockwise=True)[:, 0].astype(np.float64))
    return Polygons(corners)


def fill(outline: Polygons, size: tuple[int, int], scale: int = 4) -> npt.NDArray[np.bool_]:
    """The mask `(H, W)` of an outline: pixels at least half covered, drawn at `scale` times the resolution."""
    width, height = size
    everything = np.vstack(outline.corners)
    low = np.clip(np.floor(everything.min(axis=0)) - 2, 0, [width, height]).astype(int)
    high = np.clip(np.ceil(everything.max(axis=0)) + 3, 0, [width, height]).astype(int)
    mask = np.zeros((height, width), dtype=bool)
    if (high <= low).any():
        return mask
    span = high - low
    canvas = np.zeros((span[1] * scale, span[0] * scale), dtype=np.uint8)
    for polygon in outline.corners:
        corners = ((polygon - low + 0.5) * scale - 0.5) * 16
        cv2.fillPoly(canvas, [np.round(corners).astype(np.int32)], 1, shift=4)
    covered = canvas.reshape(span[1], scale, span[0], scale).mean(axis=(1, 3)) >= 0.5
    mask[low[1] : high[1], low[0] : high[0]] = covered
    return mask


def silhouette(parts: Sequence[Array], pose: Array, lens: Lens, scale: int = 4) -> npt.NDArray[np.bool_]:
    """The mask of convex parts at `pose` seen through `lens`; empty when behind the camera."""
    outline = polygons(parts, pose, lens)
    if outline is None:
        return np.zeros((lens.size[1], lens.size[0]), dtype=bool)
    return fill(outline, lens.size, scale)


def iou(first: npt.NDArray[np.bool_], second: npt.NDArray[np.bool_]) -> float:
    """Intersection over union of two masks; 0 when both are empty."""
    union = np.count_nonzero(first | second)
    return float(np.count_nonzero(first & second) / union) if union else 0.0


def _signed_convex(points: Array, polygon: Array) -> Array:
    """Distance to a convex polygon (any orientation), exact outside, negative inside."""
    following = np.roll(polygon, -1, axis=0)
    edges = following - polygon
    lengths = np.linalg.norm(edges, axis=1)
    keep = lengths > 1e-9
    start, edges, lengths = polygon[keep], edges[keep], lengths[keep]
    area = float(np.sum(polygon[:, 0] * following[:, 1] - following[:, 0] * polygon[:, 1]))
    normals = np.column_stack([edges[:, 1], -edges[:, 0]]) / lengths[:, None] * (1.0 if area > 0 else -1.0)
    offset = points[:, None, :] - start[None]
    across = np.einsum("nek,ek->ne", offset, normals)
    inside = across.max(axis=1)
    along = np.clip(np.einsum("nek,ek->ne", offset, edges) / (lengths**2), 0, 1)
    outside = np.linalg.norm(offset - along[..., None] * edges[None], axis=2).min(axis=1)
    return np.where(inside <= 0, inside, outside)


def _resample(polygon: Array, count: int) -> Array:
    """Where rays from the centroid, spread by the polygon's own proportions, leave it."""
    following = np.roll(polygon, -1, axis=0)
    cross = polygon[:, 0] * following[:, 1] - following[:, 0] * polygon[:, 1]
    area = float(cross.sum())
    if abs(area) < 1e-9:
        return np.repeat(polygon[:1], count, axis=0)
    centre = ((polygon + following) * cross[:, None]).sum(axis=0) / (3 * area)
    angle = (np.arange(count) + 0.5) * 2 * np.pi / count
    directions = np.column_stack([np.cos(angle), np.sin(angle)]) * np.maximum(np.ptp(polygon, axis=0), 1e-6)
    edges = following - polygon
    normals = np.column_stack([edges[:, 1], -edges[:, 0]]) * (1.0 if area > 0 else -1.0)
    facing = directions @ normals.T
    reach = ((polygon - centre) * normals).sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        steps = np.where(facing > 1e-12, reach[None] / facing, np.inf)
    hit: Array = centre + directions * steps.min(axis=1)[:, None]
    return hit
