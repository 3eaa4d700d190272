"""Triangles drawn onto a grid: which face covers each cell and where within it."""

import numpy as np
import numpy.typing as npt

from mjcf_export.frames import Array

Index = npt.NDArray[np.int64]


def rasterise(corners: Array, shape: tuple[int, int], depth: Array | None = None) -> tuple[Index, Array]:
    """Draw triangles on a grid of unit cells whose centres lie at `index + 0.5`.

    Args:
        corners: `(F, 3, 2)` column and row of every corner, in cells.
        shape: rows and columns of the grid.
        depth: `(F, 3)` height of every corner; the highest face wins. Without it the last one does.

    Returns:
        The face index of every cell, -1 where there is none, and barycentric weights `(rows, columns, 3)`.
    """
    rows, columns = shape
    owner = np.full(shape, -1, dtype=np.int64)
    weights = np.zeros((*shape, 3))
    highest = np.full(shape, -np.inf)
    low = np.clip(np.floor(corners.min(axis=1) - 0.5).astype(int), 0, None)
    high = np.ceil(corners.max(axis=1) - 0.5).astype(int) + 1
    a, b, c = np.moveaxis(corners, 1, 0)
    doubled = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    for face in np.flatnonzero(np.abs(doubled) > 1e-12):
        x0, y0 = low[face]
        x1, y1 = min(high[face, 0], columns), min(high[face, 1], rows)
        if x0 >= x1 or y0 >= y1:
            continue
        x, y = np.arange(x0, x1)[None, :] + 0.5, np.arange(y0, y1)[:, None] + 0.5
        (ax, ay), (bx, by), (cx, cy) = corners[face]
        wa = ((bx - x) * (cy - y) - (by - y) * (cx - x)) / doubled[face]
        wb = ((cx - x) * (ay - y) - (cy - y) * (ax - x)) / doubled[face]
        wc = 1 - wa - wb
        inside = (wa >= -1e-9) & (wb >= -1e-9) & (wc >= -1e-9)
        window = np.s_[y0:y1, x0:x1]
        if depth is not None:
            height = wa * depth[face, 0] + wb * depth[face, 1] + wc * depth[face, 2]
            inside &= height > highest[window]
            highest[window][inside] = height[inside]
        owner[window][inside] = face
        weights[window][inside] = np.stack([wa, wb, wc], axis=-1)[inside]
    return owner, weights
