"""Two-finger grasps on a shape: analytic for the parametric families, antipodal sampling for the rest."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mjcf_export.frames import Array, rotation_about
from mjcf_export.scene import Box, Cylinder, Lathe, Shape, Tray
from mjcf_export.shapes import cavity, extents, shape_mesh
from mjcf_export.triangles import TriangleMesh

_AZIMUTHS = 12
_TILTS = (0.0, 0.5, -0.5, 1.0, -1.0, np.pi / 2, -np.pi / 2)
_SLOPE = 0.35
_MARGIN = 0.004
_CONE = 0.9
_SAMPLES = 400
_HELD = 0.006
"""Metres of pad that must lie on a body."""
_TIP = 0.003
"""Metres from the pads' tip to where they may touch a round body."""


@dataclass(frozen=True)
class Grasp:
    """Where the pads' centre goes, in the body frame: +Z approach, +Y closing; `width` metres between contacts.

    `cost` grows with the lever arm to the middle of the body and with how little the pads have to hold on to.
    """

    frame: Array
    width: float
    kind: str
    cost: float


def grasp_candidates(shape: Shape, folder: Path, stroke: float, pad: float = 0.0) -> list[Grasp]:
    """Grasps of at most `stroke` metres, cheapest first; every one comes with both ways round the fingers.

    Args:
        shape: of the body.
        folder: the scene folder, where mesh files lie.
        stroke: the gripper's widest opening in metres.
        pad: metres from the pads' centre to their tip; low bodies are held by the tips, which must clear the ground.
    """
    limit = stroke - _MARGIN
    if isinstance(shape, Box):
        found = _box(np.array(shape.size), limit, pad)
    elif isinstance(shape, Tray):
        found = _walls(shape, limit) + _box(np.array(shape.size), limit, pad, kind="tray")
    elif isinstance(shape, Cylinder | Lathe):
        found = _turned(shape, limit, pad)
    else:
        found = _antipodal(shape_mesh(shape, folder), limit)
    middle = np.array([0.0, 0.0, float(extents(shape, folder)[2]) / 2])
    costed = [
        Grasp(g.frame, g.width, g.kind, g.cost + 3.0 * float(np.linalg.norm(g.frame[:3, 3] - middle))) for g in found
    ]
    flipped = [Grasp(g.frame @ _HALF_TURN, g.width, g.kind, g.cost) for g in costed]
    return sorted([*costed, *flipped], key=lambda grasp: grasp.cost)


_HALF_TURN = np.diag([-1.0, -1.0, 1.0, 1.0])


def grasp_frame(point: Array, closing: Array, approach: Array) -> Array:
    """Frame `(4, 4)` at `point` with +Y along `closing` and +Z along `approach` made perpendicular to it."""
    y = closing / np.linalg.norm(closing)
    z = approach - (approach @ y) * y
    z = z / np.linalg.norm(z)
    frame = np.eye(4)
    frame[:3, :3] = np.column_stack([np.cross(y, z), y, z])
    frame[:3, 3] = point
    return frame


def _depths(height: float, pad: float) -> list[float]:
    """Distances below the top of the pads' centre for something `height` metres deep; above it if negative."""
    tried = (height / 2, 0.018, 0.012, 0.025, 0.04, 0.008, 0.004, 0.0, -0.004, -0.008, -0.012)
    least = min(0.004, _HELD - pad)
    return [depth for depth in tried if least <= depth <= max(height / 2 + 1e-9, min(height - 0.004, 0.025))]


def _box(size: Array, limit: float, pad: float, kind: str = "across") -> list[Grasp]:
    centre = np.array([0.0, 0.0, size[2] / 2])
    found = []
    for closing in range(3):
        if size[closing] > limit:
            continue
        for approach in (axis for axis in range(3) if axis != closing):
            for sign in (-1.0, 1.0):
                direction = sign * np.eye(3)[approach]
                for depth in _depths(float(size[approach]), pad):
                    point = centre - direction * (size[approach] / 2 - depth)
                    frame = grasp_frame(point, np.eye(3)[closing], direction)
                    found.append(Grasp(frame, float(size[closing]), kind, max(0.0, 0.02 - depth) * 10))
    return found


def _turned(shape: Cylinder | Lathe, limit: float, pad: float) -> list[Grasp]:
    outer = np.array([[shape.radius, 0.0], [shape.radius, shape.height]]) if isinstance(shape, Cylinder) else np.array(
        shape.outer
    )  # fmt: skip
    height = float(outer[-1, 1])
    found = []
    for z in sorted({height / 2, height - 0.012, height - 0.02, height - 0.035, 0.7 * height, 0.35 * height}):
        if z < 0.004 or z > height - 0.004:
            continue
        radius = float(np.interp(z, outer[:, 1], outer[:, 0]))
        slope = abs(float(np.interp(z + 0.003, outer[:, 1], outer[:, 0])) - radius) / 0.003
        if 2 * radius > limit or slope > _SLOPE or radius < 0.003:
            continue
        for turn in np.arange(_AZIMUTHS) * np.pi / _AZIMUTHS:
            closing = np.array([np.cos(turn), np.sin(turn), 0.0])
            for tilt in _TILTS:
                if abs(tilt) < 0.6 and height - z > 0.06:
                    continue
                approach = rotation_about(closing, tilt) @ np.array([0.0, 0.0, -1.0])
                for back in _backs(radius, pad):
                    frame = grasp_frame(np.array([0.0, 0.0, z]) - back * approach, closing, approach)
                    found.append(Grasp(frame, 2 * radius, "across", slope * 0.2))
    return found + (_rim(shape, limit) if isinstance(shape, Lathe) else [])


def _backs(radius: float, pad: float) -> list[float]:
    """Metres by which the pads' centre stays behind the axis of something round, so that the tips clear the ground."""
    room = pad - _TIP
    return [0.0, room / 2, room] if room > 0.0 and radius < pad else [0.0]


def _rim(shape: Lathe, limit: float) -> list[Grasp]:
    """One finger inside, one outside a hollow body's wall."""
    hollow = cavity(shape)
    if hollow is None or shape.inner is None:
        return []
    outer, found = np.array(shape.outer), []
    for depth in (0.012, 0.018, 0.008, 0.025):
        z = hollow.rim - depth
        if z <= hollow.floor + 0.004:
            continue
        inside, outside = float(hollow.radius(z)), float(np.interp(z, outer[:, 1], outer[:, 0]))
        lean = np.arctan2(float(np.interp(z + 0.003, outer[:, 1], outer[:, 0])) - outside, 0.003)
        if outside - inside > limit:
            continue
        for turn in np.arange(2 * _AZIMUTHS) * np.pi / _AZIMUTHS:
            radial = np.array([np.cos(turn), np.sin(turn), 0.0])
            tangent = np.array([-radial[1], radial[0], 0.0])
            follow = rotation_about(tangent, lean)
            frame = grasp_frame((inside + outside) / 2 * radial + [0, 0, z], follow @ radial, follow @ [0.0, 0.0, -1.0])
            found.append(Grasp(frame, outside - inside, "rim", 0.15))
    return found


def _walls(shape: Tray, limit: float) -> list[Grasp]:
    """One finger inside, one outside a tray's wall, at the middle of each side."""
    if shape.wall > limit:
        return []
    found = []
    for axis in range(2):
        for sign in (-1.0, 1.0):
            normal = sign * np.eye(3)[axis]
            for depth in (0.012, 0.018, 0.008):
                z = shape.size[2] - depth
                if z > shape.floor + 0.003:
                    point = normal * (shape.size[axis] / 2 - shape.wall / 2) + [0, 0, z]
                    frame = grasp_frame(point, normal, np.array([0.0, 0.0, -1.0]))
                    found.append(Grasp(frame, shape.wall, "rim", 0.15))
    return found


def _antipodal(mesh: TriangleMesh, limit: float) -> list[Grasp]:
    """Pairs of surface points that face each other within the friction cone, with approaches all round."""
    normals, areas = mesh.face_normals()
    generator = np.random.default_rng(0)
    faces = generator.choice(len(areas), _SAMPLES, p=areas / areas.sum())
    weights = generator.dirichlet((1.0, 1.0, 1.0), _SAMPLES)
    points = np.einsum("nk,nkc->nc", weights, mesh.triangles[faces])
    found = []
    for point, normal in zip(points, normals[faces], strict=True):
        for distance, face in _hits(mesh, point - 1e-5 * normal, -normal):
            facing = float(normals[face] @ -normal)
            if facing < _CONE or not 0.002 < distance <= limit:
                continue
            centre = point - normal * distance / 2
            for step in range(8):
                first = np.cross(normal, [1.0, 0.0, 0.0] if abs(normal[0]) < 0.9 else [0.0, 1.0, 0.0])
                approach = rotation_about(normal, step * np.pi / 4) @ first
                found.append(Grasp(grasp_frame(centre, normal, approach), distance, "antipodal", 1.0 - facing))
    return found


def _hits(mesh: TriangleMesh, origin: Array, direction: Array) -> list[tuple[float, int]]:
    """First and last place where a ray leaves the mesh: distance in metres and face."""
    a, b, c = np.moveaxis(mesh.triangles, 1, 0)
    edge1, edge2 = b - a, c - a
    p = np.cross(direction, edge2)
    determinant = np.einsum("ij,ij->i", edge1, p)
    safe = np.where(np.abs(determinant) < 1e-14, 1e-14, determinant)
    offset = origin - a
    u = np.einsum("ij,ij->i", offset, p) / safe
    q = np.cross(offset, edge1)
    v = q @ direction / safe
    distance = np.einsum("ij,ij->i", edge2, q) / safe
    leaving = (determinant < -1e-14) & (u >= 0) & (v >= 0) & (u + v <= 1) & (distance > 1e-4)
    rows = np.flatnonzero(leaving)
    if not len(rows):
        return []
    ordered = rows[np.argsort(distance[rows])]
    chosen = [ordered[0]] if len(ordered) == 1 else [ordered[0], ordered[-1]]
    return [(float(distance[row]), int(row)) for row in chosen]
