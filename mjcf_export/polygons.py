"""Simple polygons: ear clipping into triangles and Hertel-Mehlhorn merging into convex parts."""

from itertools import combinations

import numpy as np

from mjcf_export.errors import InputError
from mjcf_export.frames import Array

Triangle = tuple[int, int, int]


def _cross(o: Array, a: Array, b: Array) -> float:
    return float((a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0]))


def signed_area(polygon: Array) -> float:
    """Area of `(N, 2)` in m², positive when counter-clockwise."""
    x, y = polygon.T
    return float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))) / 2


def triangulate(polygon: Array) -> list[Triangle]:
    """Triangles, as vertex indices, of a simple counter-clockwise polygon `(N, 2)`.

    Raises:
        InputError: the polygon crosses itself, repeats a point or is clockwise.
    """
    if signed_area(polygon) <= 0:
        raise InputError("extrusion polygon: must run counter-clockwise and enclose an area; reverse its points")
    left = list(range(len(polygon)))
    triangles: list[Triangle] = []
    while len(left) > 3:
        ear = next((k for k in range(len(left)) if _is_ear(polygon, left, k)), None)
        if ear is None:
            raise InputError("extrusion polygon: its outline crosses or touches itself; expected a simple polygon")
        triangles.append((left[ear - 1], left[ear], left[(ear + 1) % len(left)]))
        del left[ear]
    triangles.append((left[0], left[1], left[2]))
    total = sum(abs(signed_area(polygon[list(t)])) for t in triangles)
    if abs(total - signed_area(polygon)) > 1e-6 * total:
        raise InputError("extrusion polygon: its outline crosses itself; expected a simple polygon")
    return triangles


def _is_ear(polygon: Array, left: list[int], k: int) -> bool:
    before, tip, after = left[k - 1], left[k], left[(k + 1) % len(left)]
    a, b, c = polygon[before], polygon[tip], polygon[after]
    if _cross(a, b, c) <= 1e-12:
        return False
    others = [i for i in left if i not in {before, tip, after}]
    return not any(
        _cross(a, b, p) >= -1e-12 and _cross(b, c, p) >= -1e-12 and _cross(c, a, p) >= -1e-12
        for p in (polygon[i] for i in others)
    )


def convex_parts(polygon: Array) -> list[list[int]]:
    """Convex counter-clockwise parts, as vertex indices, that tile a simple polygon `(N, 2)`."""
    parts: list[list[int]] = [list(triangle) for triangle in triangulate(polygon)]
    merged = True
    while merged:
        merged = False
        for i, j in combinations(range(len(parts)), 2):
            union = _join(polygon, parts[i], parts[j])
            if union is not None:
                parts[i] = union
                del parts[j]
                merged = True
                break
    return parts


def _join(polygon: Array, one: list[int], two: list[int]) -> list[int] | None:
    """The union of two parts that share an edge, when it is convex."""
    for k, start in enumerate(one):
        end = one[(k + 1) % len(one)]
        if end in two and two[(two.index(end) + 1) % len(two)] == start:
            turned = one[k + 1 :] + one[: k + 1]
            position = two.index(start)
            rest = two[position + 1 :] + two[:position]
            union = turned + [i for i in rest if i != end]
            points = polygon[union]
            count = len(union)
            corners = (_cross(points[i - 2], points[i - 1], points[i]) for i in range(count))
            return union if all(value >= -1e-12 for value in corners) else None
    return None
