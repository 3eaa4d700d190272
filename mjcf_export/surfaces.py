"""Surfaces of the parametric families with their texture layouts.

Texture coordinates run in 0..1 with v upwards, so the texel row of an image with H rows is `(1 - v) * H`. A patch
is drawn as it is seen from the side it faces; neighbouring patches keep a gutter of `MARGIN`.

Box: three columns by two rows, upper row +x, -x, +y, lower row -y, +z, -z.
Tray: four columns by three rows; upper row outer +x, -x, +y, -y; middle row the inner walls that face +x, -x, +y,
-y; lower row bottom, floor, rim (seen from above).
Turned bodies and prisms: columns u in 0..0.75 hold the walls, unwrapped by angle (perimeter for a prism) from +x
counter-clockwise against length along the profile; the outer wall has v in 0.5..1, the inner one v in 0..0.5. In
u 0.75..1 lie, planar, the bottom (v 0.75..1, seen from below), the top or rim (v 0.5..0.75) and the cavity floor
(v 0.25..0.5), both seen from above.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from mjcf_export.frames import Array
from mjcf_export.triangles import Faces, TriangleMesh

MARGIN = 0.006
SEGMENTS = 64
Cell = tuple[float, float, float, float]
OUTER: Cell = (0.0, 0.5, 0.75, 1.0)
INNER: Cell = (0.0, 0.0, 0.75, 0.5)
BOTTOM: Cell = (0.75, 0.75, 1.0, 1.0)
TOP: Cell = (0.75, 0.5, 1.0, 0.75)
FLOOR: Cell = (0.75, 0.25, 1.0, 0.5)


def _grid_cell(column: int, row: int, columns: int, rows: int) -> Cell:
    return column / columns, 1 - (row + 1) / rows, (column + 1) / columns, 1 - row / rows


def _place(unit: npt.ArrayLike, cell: Cell) -> Array:
    """Points of the unit square `(..., 2)` moved into `cell`, less its gutter."""
    low, high = np.array(cell[:2]) + MARGIN, np.array(cell[2:]) - MARGIN
    placed: Array = low + np.clip(np.asarray(unit, dtype=np.float64), 0, 1) * (high - low)
    return placed


_SQUARE = np.array([[0, 0], [1, 0], [1, 1], [0, 1]], dtype=np.float64)


def _from_quads(vertices: Array, quads: Sequence[tuple[int, ...]], uvs: Sequence[Array]) -> TriangleMesh:
    faces = [(q[i], q[j], q[k]) for q in quads for i, j, k in ((0, 1, 2), (0, 2, 3))]
    corners = [uv[[i, j, k]] for uv in uvs for i, j, k in ((0, 1, 2), (0, 2, 3))]
    return TriangleMesh(vertices, np.array(faces, dtype=np.int64), np.array(corners))


def _ring(half_x: float, half_y: float, z: float) -> list[tuple[float, float, float]]:
    return [(-half_x, -half_y, z), (half_x, -half_y, z), (half_x, half_y, z), (-half_x, half_y, z)]


_WALLS = {"+x": (1, 2), "-x": (3, 0), "+y": (2, 3), "-y": (0, 1)}
"""Corners of a ring, left and right as each wall is seen from outside."""


def box_surface(size: Sequence[float]) -> TriangleMesh:
    """A cuboid of full extents `size`, standing on z = 0."""
    x, y, z = size[0] / 2, size[1] / 2, size[2]
    vertices = np.array(_ring(x, y, 0) + _ring(x, y, z))
    quads = {side: (a, b, b + 4, a + 4) for side, (a, b) in _WALLS.items()}
    quads |= {"+z": (4, 5, 6, 7), "-z": (3, 2, 1, 0)}
    order = ["+x", "-x", "+y", "-y", "+z", "-z"]
    uvs = [_place(_SQUARE, _grid_cell(i % 3, i // 3, 3, 2)) for i in range(6)]
    return _from_quads(vertices, [quads[side] for side in order], uvs)


def tray_surface(size: Sequence[float], wall: float, floor: float) -> TriangleMesh:
    """A cuboid open at the top, standing on z = 0."""
    x, y, z = size[0] / 2, size[1] / 2, size[2]
    inside = x - wall, y - wall
    vertices = np.array(_ring(x, y, 0) + _ring(x, y, z) + _ring(*inside, z) + _ring(*inside, floor))
    quads: list[tuple[int, ...]] = []
    uvs: list[Array] = []
    opposite = {"+x": "-x", "-x": "+x", "+y": "-y", "-y": "+y"}
    for column, side in enumerate(_WALLS):
        a, b = _WALLS[side]
        quads.append((a, b, b + 4, a + 4))
        uvs.append(_place(_SQUARE, _grid_cell(column, 0, 4, 3)))
        b, a = _WALLS[opposite[side]]
        quads.append((a + 12, b + 12, b + 8, a + 8))
        uvs.append(_place(_SQUARE, _grid_cell(column, 1, 4, 3)))
    quads += [(3, 2, 1, 0), (12, 13, 14, 15)]
    uvs += [_place(_SQUARE, _grid_cell(0, 2, 4, 3)), _place(_SQUARE, _grid_cell(1, 2, 4, 3))]
    for a, b in ((0, 1), (1, 2), (2, 3), (3, 0)):
        strip = (a + 4, b + 4, b + 8, a + 8)
        quads.append(strip)
        uvs.append(_place(vertices[list(strip), :2] / (2 * np.array([x, y])) + 0.5, _grid_cell(2, 2, 4, 3)))
    return _from_quads(vertices, quads, uvs)


def turned_surface(outer: Array, inner: Array | None, segments: int = SEGMENTS) -> TriangleMesh:
    """A profile turned about z, closed at the bottom and, when solid, at the top.

    Args:
        outer: `(N, 2)` radius and z, from the bottom up.
        inner: the cavity's profile `(M, 2)`, from its floor up, or None for a solid body.
        segments: number of sides.
    """
    path = [(0.0, float(outer[0, 1]))] if outer[0, 0] > 0 else []
    cells = [BOTTOM] * len(path) + [OUTER] * (len(outer) - 1)
    path += [(float(r), float(z)) for r, z in outer]
    if inner is not None:
        path += [(float(r), float(z)) for r, z in inner[::-1]]
        cells += [TOP] + [INNER] * (len(inner) - 1)
    if path[-1][0] > 0:
        cells.append(TOP if inner is None else FLOOR)
        path.append((0.0, path[-1][1]))
    return revolve(np.array(path), cells, segments)


def revolve(path: Array, cells: Sequence[Cell], segments: int) -> TriangleMesh:
    """The closed surface that `path` `(N, 2)` of radius and z sweeps about z; `cells[i]` holds segment i's texture."""
    angles = np.arange(segments) * (2 * np.pi / segments)
    vertices: list[Array] = []
    rings: list[Faces] = []
    count = 0
    for radius, z in path:
        turns = angles if radius > 1e-9 else angles[:1]
        vertices.append(np.column_stack([radius * np.cos(turns), radius * np.sin(turns), np.full(len(turns), z)]))
        rings.append(count + np.arange(segments) % len(turns))
        count += len(turns)
    along = _along(path, cells)
    widest = float(path[:, 0].max())
    here, there = np.arange(segments), np.roll(np.arange(segments), -1)
    faces: list[Array] = []
    uvs: list[Array] = []
    for i, cell in enumerate(cells):
        a, b = rings[i], rings[i + 1]
        corner = [(a[here], 0, i), (a[there], 1, i), (b[there], 1, i + 1), (b[here], 0, i + 1)]
        planar = cell in {BOTTOM, TOP, FLOOR}
        for triple in ((0, 1, 2), (0, 2, 3)):
            indices = np.column_stack([corner[k][0] for k in triple])
            keep = (indices != np.roll(indices, 1, axis=1)).all(axis=1)
            unit = np.stack(
                [
                    _disc(path[corner[k][2], 0] / widest, angles[here] + corner[k][1] * angles[1], cell)
                    if planar
                    else np.column_stack(
                        [(here + corner[k][1]) / segments, np.full(segments, along[i][corner[k][2] - i])]
                    )
                    for k in triple
                ],
                axis=1,
            )
            faces.append(indices[keep])
            uvs.append(_place(unit, cell)[keep])
    return TriangleMesh(np.concatenate(vertices), np.concatenate(faces).astype(np.int64), np.concatenate(uvs))


def _disc(radius: float, angles: Array, cell: Cell) -> Array:
    """Planar texture coordinates on a disc: from above, or mirrored in y for the bottom, which is seen from below."""
    sign = -1.0 if cell == BOTTOM else 1.0
    disc: Array = 0.5 + 0.5 * radius * np.column_stack([np.cos(angles), sign * np.sin(angles)])
    return disc


def _along(path: Array, cells: Sequence[Cell]) -> list[tuple[float, float]]:
    """Start and end of every segment along its wall, 0..1 from the bottom up."""
    lengths = np.linalg.norm(np.diff(path, axis=0), axis=1)
    result = [(0.0, 0.0)] * len(cells)
    for cell in (OUTER, INNER):
        chosen = [i for i, item in enumerate(cells) if item == cell]
        total = float(lengths[chosen].sum()) or 1.0
        done = 0.0
        for i in chosen:
            start, done = done, done + float(lengths[i])
            result[i] = (start / total, done / total) if cell == OUTER else (1 - start / total, 1 - done / total)
    return result


def prism_surface(polygon: Array, triangles: Sequence[tuple[int, int, int]], height: float) -> TriangleMesh:
    """A polygon `(N, 2)`, counter-clockwise and cut into `triangles`, raised from z = 0 to `height`."""
    count = len(polygon)
    vertices = np.vstack([np.column_stack([polygon, np.full(count, z)]) for z in (0.0, height)])
    lengths = np.linalg.norm(np.roll(polygon, -1, axis=0) - polygon, axis=1)
    along = np.concatenate([[0.0], np.cumsum(lengths)]) / lengths.sum()
    faces: list[tuple[int, int, int]] = []
    uvs: list[Array] = []
    for i in range(count):
        j = (i + 1) % count
        square = _place([[along[i], 0], [along[i + 1], 0], [along[i + 1], 1], [along[i], 1]], OUTER)
        faces += [(i, j, j + count), (i, j + count, i + count)]
        uvs += [square[[0, 1, 2]], square[[0, 2, 3]]]
    middle = (polygon.max(axis=0) + polygon.min(axis=0)) / 2
    unit = (polygon - middle) / float((polygon.max(axis=0) - polygon.min(axis=0)).max())
    for a, b, c in triangles:
        faces += [(a + count, b + count, c + count), (c, b, a)]
        uvs.append(_place(unit[[a, b, c]] + 0.5, TOP))
        uvs.append(_place(unit[[c, b, a]] * (1, -1) + 0.5, BOTTOM))
    return TriangleMesh(vertices, np.array(faces, dtype=np.int64), np.array(uvs))
