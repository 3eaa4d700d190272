"""Turned bodies as convex parts: stacked frusta for solid spans, rings of wedges for walls."""

from dataclasses import dataclass

import numpy as np

from mjcf_export.frames import Array
from mjcf_export.surfaces import turned_surface
from mjcf_export.triangles import TriangleMesh

SIDES = 24
TOLERANCE = 2e-4
MIN_WEDGES, MAX_WEDGES = 16, 32
MAX_BANDS = 5
"""Rings of wedges in a wall; more make long contact lists."""


@dataclass(frozen=True, eq=False)
class Part:
    """A cylinder (radius, low z, high z), or a convex mesh repeated at angles `turns` about z."""

    cylinder: tuple[float, float, float] | None = None
    mesh: TriangleMesh | None = None
    turns: tuple[float, ...] = (0.0,)


def _equal_area(sides: int) -> float:
    """Factor on the radius for a polygon of the circle's area."""
    step = 2 * np.pi / sides
    return float(np.sqrt(step / np.sin(step)))


def simplify(profile: Array, tolerance: float) -> Array:
    """Fewest points of a polyline `(N, 2)` that keep it within `tolerance` (Douglas-Peucker)."""
    if len(profile) < 3:
        return profile
    distance = _off_chord(profile)
    worst = int(np.argmax(distance))
    if distance[worst] <= tolerance:
        return profile[[0, -1]]
    left = simplify(profile[: worst + 2], tolerance)
    return np.vstack([left[:-1], simplify(profile[worst + 1 :], tolerance)])


def _off_chord(profile: Array) -> Array:
    """Distance of the inner points of a polyline `(N, 2)` from the line between its ends."""
    chord = profile[-1] - profile[0]
    offset = profile[1:-1] - profile[0]
    distance: Array = np.abs(chord[0] * offset[:, 1] - chord[1] * offset[:, 0])
    return distance / max(float(np.linalg.norm(chord)), 1e-12)


def solid_pieces(outer: Array) -> list[Part]:
    """Convex parts of a solid turned profile `(N, 2)`: as few stacked hulls and cylinders as it takes."""
    profile = simplify(outer, TOLERANCE)
    parts: list[Part] = []
    start = 0
    while start < len(profile) - 1:
        end = start + 1
        while end < len(profile) - 1 and _bulges(profile[start : end + 2]):
            end += 1
        parts.append(_stack(profile[start : end + 1]))
        start = end
    return parts


def _bulges(span: Array) -> bool:
    """Whether the radius is a concave function of z over `span`, so that the turned solid is convex."""
    slope = np.diff(span[:, 0]) / np.diff(span[:, 1])
    return bool((np.diff(slope) <= 1e-9).all())


def _stack(span: Array) -> Part:
    radius = span[:, 0]
    if np.ptp(radius) < TOLERANCE:
        return Part(cylinder=(float(radius.mean()), float(span[0, 1]), float(span[-1, 1])))
    surface = turned_surface(span * (_equal_area(SIDES), 1.0), None, SIDES)
    return Part(mesh=TriangleMesh(surface.vertices, surface.faces))


def hollow_pieces(outer: Array, inner: Array) -> list[Part]:
    """Convex parts of a hollow turned body: a solid floor and walls made of wedges, split along the profile."""
    floor, rim = float(inner[0, 1]), float(inner[-1, 1])
    parts = solid_pieces(_between(outer, 0.0, floor))
    walls = _wall_table(outer, inner)
    tolerance = min(2 * TOLERANCE, 0.2 * float(np.median(walls[:, 1] - walls[:, 0])))
    levels = _joint_levels(walls, tolerance)
    while len(levels) > MAX_BANDS + 1:
        tolerance *= 1.5
        levels = _joint_levels(walls, tolerance)
    nodes = _fit(walls, levels)
    for low, high in zip(nodes[:-1], nodes[1:], strict=True):
        parts.append(_wedges(np.array([low[[0, 2]], high[[0, 2]], low[[1, 2]], high[[1, 2]]])))
    top = float(outer[-1, 1])
    if top > rim + 1e-4:
        parts += [_wedges(np.array([(inner[-1, 0], rim), (inner[-1, 0], top), *_ends(outer, rim, top)]))]
    return parts


def _wall_table(outer: Array, inner: Array) -> Array:
    """Inner radius, outer radius and z `(N, 3)` at every height where either profile bends, floor to rim."""
    floor, rim = float(inner[0, 1]), float(inner[-1, 1])
    levels = np.concatenate([outer[:, 1], inner[:, 1]])
    levels = np.unique(levels[(levels >= floor) & (levels <= rim)].round(6))
    levels[0], levels[-1] = floor, rim
    inside, outside = (np.interp(levels, profile[:, 1], profile[:, 0]) for profile in (inner, outer))
    return np.column_stack([np.minimum(inside, outside - 1e-4), outside, levels])


def _fit(walls: Array, levels: list[int]) -> Array:
    """Radii and z at `levels` whose straight joins run through the walls, not inside their bends (least squares)."""
    z = np.linspace(walls[0, 2], walls[-1, 2], 200)
    kept = walls[levels]
    hats = np.stack([np.interp(z, kept[:, 2], row) for row in np.eye(len(kept))], axis=1)
    dense = np.stack([np.interp(z, walls[:, 2], walls[:, column]) for column in (0, 1)], axis=1)
    radii = np.maximum(np.linalg.lstsq(hats, dense, rcond=None)[0], 0.0)
    radii[:, 0] = np.minimum(radii[:, 0], radii[:, 1] - 1e-4)
    return np.column_stack([radii, kept[:, 2]])


def _joint_levels(walls: Array, tolerance: float) -> list[int]:
    """Rows of `walls` to keep so that both profiles stay within `tolerance` (Douglas-Peucker on both at once)."""
    keep = {0, len(walls) - 1}
    spans = [(0, len(walls) - 1)]
    while spans:
        start, end = spans.pop()
        if end - start < 2:
            continue
        distance = np.maximum(*(_off_chord(walls[start : end + 1, [column, 2]]) for column in (0, 1)))
        worst = int(np.argmax(distance))
        if distance[worst] > tolerance:
            keep.add(start + 1 + worst)
            spans += [(start, start + 1 + worst), (start + 1 + worst, end)]
    return sorted(keep)


def _ends(profile: Array, low: float, high: float) -> list[tuple[float, float]]:
    return [(float(np.interp(z, profile[:, 1], profile[:, 0])), z) for z in (low, high)]


def _between(profile: Array, low: float, high: float) -> Array:
    ends = np.interp([low, high], profile[:, 1], profile[:, 0])
    inside = profile[(profile[:, 1] > low + 1e-6) & (profile[:, 1] < high - 1e-6)]
    return np.vstack([[ends[0], low], inside, [ends[1], high]])


def _wedges(quad: Array) -> Part:
    """A ring of wedges whose section is inner low, inner high, outer low, outer high, each `(radius, z)`."""
    wall = float((quad[2:, 0] - quad[:2, 0]).min())
    radius = max(float(quad[:2, 0].max()), 1e-3)
    needed = np.pi / np.sqrt(2 * min(0.25 * wall / radius, 0.5))
    count = int(np.clip(np.ceil(needed / 4) * 4, MIN_WEDGES, MAX_WEDGES))
    half = np.pi / count
    section = quad * (_equal_area(count), 1.0)
    inner_low, inner_high, outer_low, outer_high = section
    corners = [
        (r * np.cos(t), r * np.sin(t), z)
        for t in (-half, half)
        for r, z in (inner_low, outer_low, outer_high, inner_high)
    ]
    quads = [(0, 1, 2, 3), (7, 6, 5, 4), (1, 5, 6, 2), (4, 0, 3, 7), (3, 2, 6, 7), (0, 4, 5, 1)]
    faces = np.array([(q[i], q[j], q[k]) for q in quads for i, j, k in ((0, 1, 2), (0, 2, 3))], dtype=np.int64)
    vertices = np.array(corners)
    collapsed = {i: j for i, j in ((4, 0), (7, 3)) if np.allclose(vertices[i], vertices[j])}
    for i, j in collapsed.items():
        faces[faces == i] = j
    faces = faces[(faces != np.roll(faces, 1, axis=1)).all(axis=1)]
    used, index = np.unique(faces, return_inverse=True)
    mesh = TriangleMesh(vertices[used], index.reshape(-1, 3))
    return Part(mesh=mesh, turns=tuple(float(2 * half * k) for k in range(count)))
