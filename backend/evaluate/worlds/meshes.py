"""Generated everyday meshes that no parametric family holds: a mug with its handle, a banana.

Both are closed surfaces with their origin at the centre of the bottom, written as OBJ with texture coordinates.
"""

import math
from pathlib import Path

import numpy as np
import numpy.typing as npt

from backend.evaluate.worlds.specs import MeshKind
from mjcf_export.document import write_atomically
from mjcf_export.frames import Array

Faces = npt.NDArray[np.int64]


def _tube(rings: Array, closed: bool) -> Faces:
    """Triangles of a grid of `rings` `(R, N, 3)`, each ring a closed loop; caps are fans onto the end rings."""
    count, around = rings.shape[:2]
    faces = []
    for i in range(count if closed else count - 1):
        for j in range(around):
            a, b = i * around + j, i * around + (j + 1) % around
            c, d = ((i + 1) % count) * around + j, ((i + 1) % count) * around + (j + 1) % around
            faces += [(a, b, d), (a, d, c)]
    if not closed:
        last = (count - 1) * around
        faces += [(0, j + 1, j) for j in range(1, around - 1)]
        faces += [(last, last + j, last + j + 1) for j in range(1, around - 1)]
    return np.array(faces)


def _sweep(path: Array, radii: Array, side: Array, around: int) -> Array:
    """Rings `(R, N, 3)` of ellipses `radii` `(R, 2)` about a plane curve `path` `(R, 3)` whose normal is `side`."""
    tangent = np.gradient(path, axis=0)
    tangent /= np.linalg.norm(tangent, axis=1, keepdims=True)
    across = np.cross(side, tangent)
    angle = np.linspace(0, 2 * math.pi, around, endpoint=False)
    circle = radii[:, :1, None] * np.cos(angle)[None, :, None] * across[:, None]
    return path[:, None] + circle + radii[:, 1:, None] * np.sin(angle)[None, :, None] * side


def banana() -> tuple[Array, Faces]:
    """A banana lying on its flattened side: 150 mm long, 38 mm thick, curved in the plane of the table."""
    t = np.linspace(-1, 1, 33)
    bend, radius = 0.62, 0.125
    path = np.column_stack([radius * np.sin(bend * t), radius * (1 - np.cos(bend * t)), np.zeros_like(t)])
    thick = 0.018 * np.clip(1 - np.abs(t) ** 5, 0, 1) ** 0.5 + 0.0035
    thick[-4:] = np.minimum(thick[-4:], np.linspace(0.0075, 0.0055, 4))
    rings = _sweep(path, np.column_stack([thick, thick * 0.95]), np.array([0.0, 0.0, 1.0]), 24)
    rings[..., 2] = np.maximum(rings[..., 2], rings[..., 2].min() + 0.003)
    return rings.reshape(-1, 3), _tube(rings, closed=False)


def mug(radius: float = 0.036, height: float = 0.092, wall: float = 0.004, floor: float = 0.006) -> tuple[Array, Faces]:
    """A straight mug with a ring handle on +x, one watertight surface (the handle is fused by a boolean union)."""
    import trimesh

    profile = np.array([
        [0.0, 0.0], [radius - 0.004, 0.0], [radius, 0.004], [radius, height - 0.001], [radius - 0.001, height],
        [radius - wall + 0.001, height], [radius - wall, height - 0.001], [radius - wall, floor + 0.003],
        [radius - wall - 0.003, floor], [0.0, floor],
    ])  # fmt: skip
    body = trimesh.creation.revolve(profile, sections=64)
    angle = np.linspace(-0.5 * math.pi, 0.5 * math.pi, 25)
    centre = radius - wall / 2
    path = np.column_stack([
        centre + 0.030 * np.cos(angle), np.zeros_like(angle), 0.5 * height + 0.029 * np.sin(angle)
    ])  # fmt: skip
    rings = _sweep(path, np.tile([0.0042, 0.0055], (25, 1)), np.array([0.0, 1.0, 0.0]), 16)
    handle = trimesh.Trimesh(rings.reshape(-1, 3), _tube(rings, closed=False), process=True)
    handle.fix_normals()
    fused = trimesh.boolean.union([body, handle], engine="manifold")
    return np.asarray(fused.vertices, dtype=np.float64), np.asarray(fused.faces)


def _rest(vertices: Array) -> Array:
    """The vertices with the origin at the centre of the bottom of their bounding box."""
    low, high = vertices.min(axis=0), vertices.max(axis=0)
    return vertices - np.array([(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, low[2]])


def write_mesh(kind: MeshKind, scene_folder: Path) -> str:
    """Write the mesh under `meshes/` of the scene folder and return its relative path."""
    vertices, faces = banana() if kind == "banana" else mug()
    if np.einsum("ij,ij->", vertices[faces[:, 0]], np.cross(vertices[faces[:, 1]], vertices[faces[:, 2]])) < 0:
        faces = faces[:, ::-1]
    vertices = _rest(vertices)
    extent = np.ptp(vertices, axis=0)
    corner = vertices[faces]
    angle = np.arctan2(corner[..., 1], corner[..., 0]) / (2 * math.pi) + 0.5
    wraps = np.ptp(angle, axis=1) > 0.5
    angle = np.where(wraps[:, None] & (angle < 0.5), angle + 1.0, angle)
    height = corner[..., 2] / extent[2]
    lines = [f"v {x:.7f} {y:.7f} {z:.7f}" for x, y, z in vertices]
    lines += [f"vt {u:.5f} {v:.5f}" for u, v in zip(angle.ravel(), height.ravel(), strict=True)]
    for i, (a, b, c) in enumerate(faces + 1):
        lines.append(f"f {a}/{3 * i + 1} {b}/{3 * i + 2} {c}/{3 * i + 3}")
    relative = f"meshes/{kind}.obj"
    write_atomically(scene_folder / relative, lambda stream: stream.write(("\n".join(lines) + "\n").encode()))
    return relative
