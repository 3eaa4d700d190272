"""Cavities open at the top: described for parametric shapes, measured on meshes by filling them from above."""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mjcf_export.frames import Array
from mjcf_export.raster import rasterise
from mjcf_export.triangles import TriangleMesh

GRID = 96
"""Cells along the longer side of a height map."""


@dataclass(frozen=True)
class Cavity:
    """Room inside a body, open at the top, in the body frame (metres).

    Attributes:
        floor: height of its lowest point.
        rim: height of the opening.
        profile: radius and z from the floor up, for a round cavity.
        half_extents: half size along x and y, for a rectangular one.
        centre: x and y of its axis.
    """

    floor: float
    rim: float
    profile: tuple[tuple[float, float], ...] | None = None
    half_extents: tuple[float, float] | None = None
    centre: tuple[float, float] = (0.0, 0.0)

    @property
    def opening(self) -> tuple[float, float]:
        """Half size of the opening along x and y; equal for a round one."""
        if self.half_extents is not None:
            return self.half_extents
        return (float(self.radius(self.rim)),) * 2

    def radius(self, z: npt.ArrayLike) -> Array:
        """Radius at heights `z`; the inscribed one for a rectangular cavity."""
        if self.profile is None:
            return np.full(np.shape(z), min(self.opening))
        table = np.array(self.profile)
        return np.asarray(np.interp(np.asarray(z, dtype=np.float64), table[:, 1], table[:, 0]))

    def contains(self, points: npt.ArrayLike, margin: float = 0.0) -> npt.NDArray[np.bool_]:
        """Whether each point `(N, 3)` of the body frame lies within, `margin` metres or more from the limits."""
        p = np.atleast_2d(np.asarray(points, dtype=np.float64))
        high = (p[:, 2] >= self.floor + margin) & (p[:, 2] <= self.rim - margin)
        offset = p[:, :2] - self.centre
        if self.half_extents is not None:
            return np.asarray(high & (np.abs(offset) <= np.array(self.half_extents) - margin).all(axis=1))
        return np.asarray(high & (np.linalg.norm(offset, axis=1) <= self.radius(p[:, 2]) - margin))


@dataclass(frozen=True, eq=False)
class HeightMap:
    """The highest surface over a square grid; -inf where there is none.

    Attributes:
        heights: `(rows, columns)` metres, row along y, column along x.
        origin: x and y of the grid's corner.
        cell: side of a cell in metres.
    """

    heights: Array
    origin: Array
    cell: float


def height_map(meshes: Iterable[TriangleMesh], like: HeightMap | None = None) -> HeightMap:
    """The upper surface of `meshes` together, on the grid of `like` or on one of `GRID` cells of their own."""
    triangles = np.concatenate([mesh.triangles for mesh in meshes])
    if like is None:
        low, high = triangles[..., :2].min(axis=(0, 1)), triangles[..., :2].max(axis=(0, 1))
        cell = float((high - low).max()) / GRID
        columns, rows = (int(v) for v in np.ceil((high - low) / cell - 1e-6) + 2)
        like = HeightMap(np.empty((rows, columns)), low - cell, cell)
    corners = (triangles[..., :2] - like.origin) / like.cell
    rows, columns = like.heights.shape
    owner, weights = rasterise(corners, (rows, columns), triangles[..., 2])
    heights = np.einsum("hwk,hwk->hw", weights, triangles[owner][..., 2])
    return HeightMap(np.where(owner >= 0, heights, -np.inf), like.origin, like.cell)


def fill(heights: Array) -> Array:
    """The level water would stand at over every cell before it runs off the border (priority flood)."""
    rows, columns = heights.shape
    level = np.full(heights.shape, np.inf)
    queue: list[tuple[float, int, int]] = []
    for r in range(rows):
        for c in range(columns):
            if r in (0, rows - 1) or c in (0, columns - 1) or not np.isfinite(heights[r, c]):
                level[r, c] = heights[r, c]
                queue.append((float(heights[r, c]), r, c))
    heapq.heapify(queue)
    while queue:
        water, r, c = heapq.heappop(queue)
        for y, x in ((r - 1, c), (r + 1, c), (r, c - 1), (r, c + 1)):
            if 0 <= y < rows and 0 <= x < columns and level[y, x] == np.inf:
                level[y, x] = max(water, float(heights[y, x]))
                heapq.heappush(queue, (float(level[y, x]), y, x))
    return level


def _room(level: Array, heights: Array) -> Array:
    """Depth of water over every cell, zero where there is no surface."""
    ground = np.isfinite(heights)
    return np.where(ground, level - np.where(ground, heights, 0.0), 0.0)


def open_fraction(visual: TriangleMesh, pieces: Iterable[TriangleMesh]) -> float | None:
    """Share of the visual mesh's cavity that the collision pieces leave open, or None when it has no cavity."""
    surface = height_map([visual])
    level = fill(surface.heights)
    room = _room(level, surface.heights)
    if not _is_cavity(surface, room, float(visual.extents[2])):
        return None
    deep = np.unique(level[room > 0.3 * float(room.max())])
    basin = (room > 0) & np.isin(level, deep)
    blocked = np.maximum(height_map(pieces, like=surface).heights, surface.heights)[basin]
    return float(np.clip(level[basin] - blocked, 0.0, None).sum() / room[basin].sum())


def _is_cavity(surface: HeightMap, room: Array, height: float) -> bool:
    """Whether the room is deep enough for a body of that height, and wide enough, to hold something."""
    covered = int(np.isfinite(surface.heights).sum())
    deepest = float(room.max(initial=0.0))
    wide = int((room > 0.5 * deepest).sum()) * surface.cell**2
    return deepest > max(0.003, 0.1 * height) and wide > 0.02 * covered * surface.cell**2


def mesh_cavity(mesh: TriangleMesh) -> Cavity | None:
    """The main cavity of a mesh as a round profile of equal area at every height, or None."""
    surface = height_map([mesh])
    level = fill(surface.heights)
    room = _room(level, surface.heights)
    if not _is_cavity(surface, room, float(mesh.extents[2])):
        return None
    deepest = np.unravel_index(int(np.argmax(room)), room.shape)
    rim = float(level[deepest])
    basin = (room > 0) & (np.abs(level - rim) < 1e-9)
    floor = float(surface.heights[basin].min())
    rows, columns = np.nonzero(basin)
    weight = room[basin]
    centre = (
        surface.origin
        + (np.array([np.average(columns, weights=weight), np.average(rows, weights=weight)]) + 0.5) * surface.cell
    )
    steps = np.linspace(floor, rim, 12)
    area = [(surface.heights[basin] <= z + 1e-6).sum() * surface.cell**2 for z in steps]
    profile = tuple((float(np.sqrt(a / np.pi)), float(z)) for a, z in zip(area, steps, strict=True))
    return Cavity(floor=floor, rim=rim, profile=profile, centre=(float(centre[0]), float(centre[1])))
