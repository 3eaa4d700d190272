"""A triangle mesh as plain arrays, and the exact integrals and tests over it."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from mjcf_export.frames import Array

Faces = npt.NDArray[np.int64]
FAN = 256
"""Where more faces than this meet in a point, their normals there are left flat."""


@dataclass(frozen=True, eq=False)
class TriangleMesh:
    """Triangles in the body frame, metres.

    Attributes:
        vertices: `(V, 3)`.
        faces: `(F, 3)` indices, counter-clockwise seen from outside.
        uvs: `(F, 3, 2)` texture coordinates of every corner, v upwards (OBJ and Blender), or None.
    """

    vertices: Array
    faces: Faces
    uvs: Array | None = None

    @property
    def triangles(self) -> Array:
        """Corner positions `(F, 3, 3)`."""
        corners: Array = self.vertices[self.faces]
        return corners

    @property
    def extents(self) -> Array:
        """Size of the axis-aligned bounding box `(3,)`."""
        size: Array = self.vertices.max(axis=0) - self.vertices.min(axis=0)
        return size

    @property
    def volume(self) -> float:
        """Enclosed volume in m³, negative when the winding is inside out."""
        a, b, c = np.moveaxis(self.triangles - self.vertices.mean(axis=0), 1, 0)
        return float(np.einsum("ij,ij->", a, np.cross(b, c)) / 6)

    def face_normals(self) -> tuple[Array, Array]:
        """Unit normals `(F, 3)` and areas `(F,)`."""
        a, b, c = np.moveaxis(self.triangles, 1, 0)
        cross = np.cross(b - a, c - a)
        length = np.linalg.norm(cross, axis=1)
        return cross / np.maximum(length, 1e-30)[:, None], length / 2

    def corner_normals(self, crease: float = np.radians(35.0)) -> Array:
        """Unit normals `(F, 3, 3)` of every corner, smooth across edges flatter than `crease` (radians)."""
        normals, areas = self.face_normals()
        owner = np.repeat(np.arange(len(self.faces)), 3)
        order = np.argsort(self.faces.ravel(), kind="stable")
        _, counts = np.unique(self.faces.ravel(), return_counts=True)
        corners, mates = _pairs_within(np.where(counts > FAN, 0, counts), counts)
        corners, mates = order[corners], order[mates]
        alike = np.einsum("ij,ij->i", normals[owner[corners]], normals[owner[mates]]) > np.cos(crease)
        total = normals[owner] * areas[owner, None]
        np.add.at(total, corners[alike], (normals * areas[:, None])[owner[mates[alike]]])
        smooth: Array = total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-30)
        return smooth.reshape(-1, 3, 3)

    def vertex_normals(self) -> Array:
        """Unit normals `(V, 3)`, averaged over the faces by area."""
        normals, areas = self.face_normals()
        total = np.zeros_like(self.vertices)
        for corner in range(3):
            np.add.at(total, self.faces[:, corner], normals * areas[:, None])
        result: Array = total / np.maximum(np.linalg.norm(total, axis=1, keepdims=True), 1e-30)
        return result

    def moved(self, matrix: Array) -> "TriangleMesh":
        """The mesh under a `(4, 4)` transform; faces are turned when it mirrors."""
        vertices = self.vertices @ matrix[:3, :3].T + matrix[:3, 3]
        if np.linalg.det(matrix[:3, :3]) >= 0:
            return TriangleMesh(vertices, self.faces, self.uvs)
        uvs = None if self.uvs is None else self.uvs[:, ::-1]
        return TriangleMesh(vertices, self.faces[:, ::-1], uvs)


def _pairs_within(used: npt.NDArray[np.int64], counts: npt.NDArray[np.int64]) -> tuple[Faces, Faces]:
    """Every ordered pair of different places within consecutive groups of `counts` places; `used` is 0 to skip one."""
    starts = np.cumsum(counts) - counts
    group = np.repeat(np.arange(len(counts)), used**2)
    within = np.arange(len(group)) - np.repeat(np.cumsum(used**2) - used**2, used**2)
    first, second = np.divmod(within, used[group])
    apart = first != second
    return (starts[group] + first)[apart], (starts[group] + second)[apart]


def edge_table(faces: Faces) -> tuple[Faces, Faces]:
    """Undirected edges `(3F, 2)` sorted within, and their unique index `(3F,)`; row `f + k F` is edge k of face f."""
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    ordered = np.sort(edges, axis=1)
    keys = ordered[:, 0] * (int(faces.max(initial=0)) + 1) + ordered[:, 1]
    _, index = np.unique(keys, return_inverse=True)
    return edges, index.reshape(-1)


def open_edges(faces: Faces) -> int:
    """Number of edges whose faces do not cancel in direction (0 = the surface encloses a volume)."""
    if len(faces) == 0:
        return 0
    edges, index = edge_table(faces)
    direction = np.bincount(index, weights=np.where(edges[:, 0] < edges[:, 1], 1.0, -1.0))
    return int((direction != 0).sum())


def is_convex(mesh: TriangleMesh, tolerance: float = 1e-3) -> bool:
    """Whether a watertight mesh is convex: every vertex lies behind every face.

    Args:
        mesh: the mesh.
        tolerance: allowed protrusion, as a fraction of the diagonal.
    """
    normals, areas = mesh.face_normals()
    solid = areas > 1e-14
    normals = normals[solid]
    offsets = np.einsum("ij,ij->i", normals, mesh.vertices[mesh.faces[solid, 0]])
    limit = tolerance * float(np.linalg.norm(mesh.extents))
    points = mesh.vertices[np.unique(mesh.faces)]
    for start in range(0, len(normals), 512):
        if (points @ normals[start : start + 512].T - offsets[start : start + 512]).max(initial=-1.0) > limit:
            return False
    return True
