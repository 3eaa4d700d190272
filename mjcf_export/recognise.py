"""Turned bodies found in meshes: cups, mugs, bowls and bottles that a scan or a modeller delivered as triangles.

Horizontal slices are looked at along many rays from the axis. Where most directions agree on a radius, the slice is a
disc or a ring, whatever handle or spout sticks out elsewhere.
"""

from dataclasses import dataclass

import numpy as np

from mjcf_export.frames import Array
from mjcf_export.triangles import TriangleMesh

LEVELS = 48
DIRECTIONS = 72
AGREEMENT = 0.7
DEVIATION = 0.015
"""Allowed deviation from round, as a fraction of the largest radius."""


@dataclass(frozen=True, eq=False)
class Turned:
    """A turned body within a mesh: its axis `(x, y)`, the height of its bottom, its profiles above that."""

    centre: Array
    bottom: float
    outer: Array
    inner: Array | None


def find_turned(solid: TriangleMesh) -> Turned | None:
    """The turned body with a vertical axis that makes up most of a watertight mesh, or None."""
    low, high = float(solid.vertices[:, 2].min()), float(solid.vertices[:, 2].max())
    levels = np.linspace(low, high, LEVELS + 2)[1:-1]
    slices = [_slice(solid, float(z)) for z in levels]
    centre = _centre(slices)
    through = [] if centre is None else _along_axis(solid, centre)
    if centre is None or len(through) != 2 or through[0] - low > 0.2 * (high - low):
        return None
    floor = through[1]
    hollow = floor < high - max(0.1 * (high - low), 0.004)
    crossings = [_crossings(segments - centre) for segments in slices]
    outline = [_radii(item, ring=hollow and z > floor) for item, z in zip(crossings, levels, strict=True)]
    radii = np.array([(np.nan, np.nan) if item is None else item for item in outline])
    if np.isnan(radii[:, 1]).any():
        return None
    outer = _stretch(np.column_stack([radii[:, 1], levels - low]), 0.0, high - low)
    if not hollow:
        return Turned(centre, low, outer, None)
    inside = levels > floor + 1e-4
    inner = _stretch(np.column_stack([radii[inside, 0], levels[inside] - low]), floor - low, high - low)
    inner[:, 0] = np.minimum(inner[:, 0], np.interp(inner[:, 1], outer[:, 1], outer[:, 0]) - 2e-4)
    usable = inside.sum() >= 3 and np.isfinite(inner).all() and (inner[:, 0] > 1e-4).all() and floor - low > 5e-4
    return Turned(centre, low, outer, inner) if usable else None


def _stretch(profile: Array, low: float, high: float) -> Array:
    """The profile carried on at constant radius to the heights `low` and `high`."""
    kept = profile[(profile[:, 1] > low + 1e-5) & (profile[:, 1] < high - 1e-5)]
    ends = np.array([[kept[0, 0], low]]), np.array([[kept[-1, 0], high]])
    return np.concatenate([ends[0], kept, ends[1]])


def _slice(mesh: TriangleMesh, z: float) -> Array:
    """Segments `(S, 2, 2)` in which the plane at height `z` cuts the mesh."""
    triangles = mesh.triangles
    above = triangles[..., 2] > z
    count = above.sum(axis=1)
    chosen = np.flatnonzero((count == 1) | (count == 2))
    lone = np.where(count[chosen] == 1, above[chosen].argmax(axis=1), (~above[chosen]).argmax(axis=1))
    rows = np.arange(len(chosen))
    apex = triangles[chosen][rows, lone]
    ends = []
    for step in (1, 2):
        other = triangles[chosen][rows, (lone + step) % 3]
        t = (z - apex[:, 2]) / (other[:, 2] - apex[:, 2])
        ends.append(apex[:, :2] + t[:, None] * (other[:, :2] - apex[:, :2]))
    return np.stack(ends, axis=1)


def _centre(slices: list[Array]) -> Array | None:
    """Axis `(2,)`: the median of the best circles in the slices."""
    generator = np.random.default_rng(0)
    centres = [_circle(segments, generator) for segments in slices[:: max(1, LEVELS // 16)] if len(segments) >= 8]
    return np.median(centres, axis=0) if centres else None


def _circle(segments: Array, generator: np.random.Generator) -> Array:
    """Centre of the circle that most of the outline's length lies on (RANSAC, then least squares)."""
    weights = np.linalg.norm(segments[:, 1] - segments[:, 0], axis=1)
    points = segments.mean(axis=1)
    chosen = generator.choice(len(points), size=(160, 3), p=weights / weights.sum())
    a, b, c = np.moveaxis(points[chosen], 1, 0)
    lhs = 2 * np.stack([b - a, c - a], axis=1)
    rhs = np.stack([(b**2 - a**2).sum(axis=1), (c**2 - a**2).sum(axis=1)], axis=1)
    solvable = np.abs(np.linalg.det(lhs)) > 1e-14
    centres = np.linalg.solve(lhs[solvable], rhs[solvable][..., None])[..., 0]
    if len(centres) == 0:
        return np.asarray(points.mean(axis=0))
    radius = np.linalg.norm(a[solvable] - centres, axis=1)
    distance = np.linalg.norm(points[None] - centres[:, None], axis=2)
    inlier = np.abs(distance - radius[:, None]) < 0.01 * radius[:, None] + 1e-4
    best = int(np.argmax((inlier * weights).sum(axis=1)))
    near = points[inlier[best]]
    matrix = np.column_stack([2 * near, np.ones(len(near))])
    fitted: Array = np.linalg.lstsq(matrix, (near**2).sum(axis=1), rcond=None)[0][:2]
    return fitted


def _crossings(segments: Array) -> list[Array]:
    """Sorted radii at which the outline crosses each of `DIRECTIONS` rays from the origin."""
    angles = (np.arange(DIRECTIONS) + 0.37) * (2 * np.pi / DIRECTIONS)
    a, b = segments[:, 0], segments[:, 1]
    result = []
    for angle in angles:
        along, across = np.array([np.cos(angle), np.sin(angle)]), np.array([-np.sin(angle), np.cos(angle)])
        sa, sb = a @ across, b @ across
        hit = (sa > 0) != (sb > 0)
        t = sa[hit] / (sa[hit] - sb[hit])
        radius = (a[hit] + t[:, None] * (b[hit] - a[hit])) @ along
        result.append(np.sort(radius[radius > 1e-6]))
    return result


def _radii(crossings: list[Array], ring: bool) -> tuple[float, float] | None:
    """Inner (NaN unless `ring`) and outer radius that most directions agree on, or None."""
    pairs = [
        (radii[0], radii[1]) if len(radii) % 2 == 0 else (np.nan, radii[0])
        for radii in crossings
        if len(radii) and (len(radii) % 2 == 0 or not ring)
    ]
    if len(pairs) < AGREEMENT * DIRECTIONS:
        return None
    rows = np.array(pairs)
    middle = np.median(rows[:, 1]), np.median(rows[:, 0]) if ring else np.nan
    limit = DEVIATION * float(middle[0]) + 2e-4
    agree = np.abs(rows[:, 1] - middle[0]) <= limit
    if ring:
        agree &= np.abs(rows[:, 0] - middle[1]) <= limit
    return (float(middle[1]), float(middle[0])) if agree.sum() >= AGREEMENT * DIRECTIONS else None


def _along_axis(mesh: TriangleMesh, centre: Array) -> list[float]:
    """Sorted heights at which the axis crosses the surface."""
    x, y = centre + (1.234e-6, 0.713e-6)
    a, b, c = np.moveaxis(mesh.triangles, 1, 0)

    def side(u: Array, v: Array) -> Array:
        value: Array = (v[:, 0] - u[:, 0]) * (y - u[:, 1]) - (v[:, 1] - u[:, 1]) * (x - u[:, 0])
        return value

    wa, wb, wc = side(b, c), side(c, a), side(a, b)
    hit = ((wa > 0) & (wb > 0) & (wc > 0)) | ((wa < 0) & (wb < 0) & (wc < 0))
    heights = (wa * a[:, 2] + wb * b[:, 2] + wc * c[:, 2])[hit] / (wa + wb + wc)[hit]
    return sorted(float(z) for z in heights)
