"""Convex collision pieces: analytic for the parametric families, so that cavities stay open; decomposed for meshes."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import numpy as np

from mjcf_export.decompose import decompose
from mjcf_export.document import resolve_inside
from mjcf_export.frames import Array
from mjcf_export.meshes import load_mesh, read_mesh
from mjcf_export.polygons import convex_parts
from mjcf_export.scene import Box, Cylinder, Extrusion, Lathe, Mesh, Pose, Shape, Tray
from mjcf_export.surfaces import box_surface, prism_surface, turned_surface
from mjcf_export.triangles import TriangleMesh
from mjcf_export.turned import hollow_pieces, solid_pieces


@dataclass(frozen=True, eq=False)
class Piece:
    """One convex collision geom in the body frame.

    Attributes:
        kind: `box` and `cylinder` are MuJoCo primitives, `convex` is a mesh that equals its hull.
        size: half extents of a box, radius and half height of a cylinder; empty for `convex`.
        mesh: the convex mesh in the piece's frame; several pieces may share one.
        pose: of the piece's frame in the body frame.
    """

    kind: Literal["box", "cylinder", "convex"]
    size: tuple[float, ...] = ()
    mesh: TriangleMesh | None = None
    pose: Pose = field(default_factory=Pose)

    def surface(self) -> TriangleMesh:
        """The piece as a mesh in the body frame."""
        if self.mesh is not None:
            return self.mesh.moved(self.pose.matrix)
        if self.kind == "box":
            whole = box_surface([2 * s for s in self.size])
            half = self.size[2]
        else:
            radius, half = self.size
            whole = turned_surface(np.array([[radius, 0.0], [radius, 2 * half]]), None, 48)
        centred = TriangleMesh(whole.vertices - [0, 0, half], whole.faces)
        return centred.moved(self.pose.matrix)


def box_piece(low: Array, high: Array) -> Piece:
    """The box between two corners, as a piece."""
    x, y, z = (float(v) for v in (low + high) / 2)
    half = tuple(float(v) for v in (high - low) / 2)
    return Piece("box", size=half, pose=Pose(position=(x, y, z)))


def collision_pieces(shape: Shape, folder: Path, cache: Path | None = None) -> tuple[Piece, ...]:
    """Convex pieces that together stand for `shape`, cavities left open.

    Args:
        shape: any shape of the Scene.
        folder: the scene folder, where mesh files lie.
        cache: where decompositions are kept; `$REAL2GYM_CACHE` or `~/.cache/real2gym` when None.

    Raises:
        InputError: a mesh or polygon cannot be used.
        MissingError: a concave mesh was never decomposed and CoACD is not installed.
    """
    if isinstance(shape, Box):
        x, y, z = shape.size
        return (box_piece(np.array([-x / 2, -y / 2, 0.0]), np.array([x / 2, y / 2, z])),)
    if isinstance(shape, Tray):
        return _tray(shape)
    if isinstance(shape, Extrusion):
        return _extrusion(shape)
    if isinstance(shape, Cylinder):
        return _turned(np.array([[shape.radius, 0.0], [shape.radius, shape.height]]), None)
    if isinstance(shape, Lathe):
        return _turned(np.array(shape.outer), None if shape.inner is None else np.array(shape.inner))
    return _mesh(shape, folder, cache)


def _tray(shape: Tray) -> tuple[Piece, ...]:
    x, y, z = shape.size[0] / 2, shape.size[1] / 2, shape.size[2]
    w, f = shape.wall, shape.floor
    corners = [
        ((-x, -y, 0), (x, y, f)),
        ((-x, -y, f), (-x + w, y, z)),
        ((x - w, -y, f), (x, y, z)),
        ((-x + w, -y, f), (x - w, -y + w, z)),
        ((-x + w, y - w, f), (x - w, y, z)),
    ]
    return tuple(box_piece(np.array(low, dtype=np.float64), np.array(high, dtype=np.float64)) for low, high in corners)


def _extrusion(shape: Extrusion) -> tuple[Piece, ...]:
    polygon = np.array(shape.polygon)
    pieces = []
    for part in convex_parts(polygon):
        fan = [(0, k, k + 1) for k in range(1, len(part) - 1)]
        prism = prism_surface(polygon[part], fan, shape.height)
        pieces.append(Piece("convex", mesh=TriangleMesh(prism.vertices, prism.faces)))
    return tuple(pieces)


def _turned(outer: Array, inner: Array | None) -> tuple[Piece, ...]:
    """Stacked cylinders and hulls for the solid part, rings of wedges for the walls."""
    pieces: list[Piece] = []
    for part in solid_pieces(outer) if inner is None else hollow_pieces(outer, inner):
        if part.cylinder is not None:
            radius, low, high = part.cylinder
            pose = Pose(position=(0.0, 0.0, (low + high) / 2))
            pieces.append(Piece("cylinder", size=(radius, (high - low) / 2), pose=pose))
            continue
        for turn in part.turns:
            quaternion = (float(np.cos(turn / 2)), 0.0, 0.0, float(np.sin(turn / 2)))
            pieces.append(Piece("convex", mesh=part.mesh, pose=Pose(quaternion=quaternion)))
    return tuple(pieces)


def _mesh(shape: Mesh, folder: Path, cache: Path | None) -> tuple[Piece, ...]:
    if shape.pieces:
        named = [read_mesh(resolve_inside(folder, file)) for file in shape.pieces]
        return tuple(Piece("convex", mesh=TriangleMesh(m.vertices, m.faces)) for m in named)
    return tuple(Piece("convex", mesh=mesh) for mesh in decompose(load_mesh(folder, shape.file).solid, cache))
