"""Boolean arithmetic on solids (manifold3d), and meshes taken apart into a turned body and the rest."""

from typing import Any

import numpy as np

from mjcf_export.recognise import Turned, find_turned
from mjcf_export.surfaces import turned_surface
from mjcf_export.triangles import TriangleMesh
from mjcf_export.turned import hollow_pieces, solid_pieces

MAX_DIFFERENCE = 0.12
"""Volume by which the turned pieces may differ from the mesh, as a fraction of the mesh's."""
MAX_INSIDE = 0.01
MIN_REST = 0.003


def as_manifold(mesh: TriangleMesh) -> Any | None:
    """The mesh as a `manifold3d.Manifold`, or None when it is not one or the package is missing."""
    try:
        import manifold3d
    except ImportError:
        return None
    solid = manifold3d.Manifold(manifold3d.Mesh(mesh.vertices.astype(np.float32), mesh.faces.astype(np.uint32)))
    return solid if solid.status() == manifold3d.Error.NoError and solid.volume() > 0 else None


def from_manifold(solid: Any) -> TriangleMesh:
    """The surface of a `manifold3d.Manifold`."""
    mesh = solid.to_mesh()
    vertices = np.asarray(mesh.vert_properties, dtype=np.float64)[:, :3]
    return TriangleMesh(vertices, np.asarray(mesh.tri_verts, dtype=np.int64))


def union_of(meshes: list[TriangleMesh]) -> Any | None:
    """The union of closed meshes as a `manifold3d.Manifold`, or None when one is not a manifold."""
    solids = [as_manifold(mesh) for mesh in meshes]
    if not solids or any(solid is None for solid in solids):
        return None
    import manifold3d

    return manifold3d.Manifold.batch_boolean(solids, manifold3d.OpType.Add)


def turned_pieces(solid: TriangleMesh, whole: Any) -> tuple[list[TriangleMesh], list[TriangleMesh]] | None:
    """Convex pieces of the turned body that makes up most of a mesh, and what sticks out of it (a handle).

    Args:
        solid: watertight, wound outwards.
        whole: the same as a `manifold3d.Manifold`.

    Returns:
        None when there is no such body, or when its pieces would not match the mesh.
    """
    turned = find_turned(solid)
    if turned is None:
        return None
    clearance = 3e-4 + 0.01 * float(turned.outer[:, 0].max())
    envelope = _placed(turned_surface(turned.outer + (clearance, 0.0), None), turned)
    rest = whole - as_manifold(envelope)
    parts = [part for part in rest.decompose() if part.volume() > MIN_REST * whole.volume()]
    if turned.inner is not None:
        room = turned.inner * (0.97, 1.0) + (0.0, 0.02 * float(turned.outer[-1, 1]))
        room[-1, 1] = max(room[-1, 1], float(turned.outer[-1, 1]) + 0.01)
        inside = whole ^ as_manifold(_placed(turned_surface(room, None), turned))
        if inside.volume() > MAX_INSIDE * whole.volume():
            return None
    pieces = convex_surfaces(turned)
    union = union_of(pieces)
    if union is None:
        return None
    core = whole - rest
    difference = float((union - core).volume() + (core - union).volume())
    if difference > MAX_DIFFERENCE * float(core.volume()):
        return None
    return pieces, [from_manifold(part) for part in parts]


def convex_surfaces(turned: Turned) -> list[TriangleMesh]:
    """The convex pieces of a turned body, where it lies."""
    parts = solid_pieces(turned.outer) if turned.inner is None else hollow_pieces(turned.outer, turned.inner)
    surfaces: list[TriangleMesh] = []
    for part in parts:
        if part.cylinder is not None:
            radius, low, high = part.cylinder
            surfaces.append(_placed(turned_surface(np.array([[radius, low], [radius, high]]), None, 32), turned))
        elif part.mesh is not None:
            surfaces += [_placed(part.mesh, turned, turn) for turn in part.turns]
    return surfaces


def _placed(mesh: TriangleMesh, turned: Turned, angle: float = 0.0) -> TriangleMesh:
    matrix = np.eye(4)
    matrix[:2, :2] = [[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]]
    matrix[:3, 3] = (*turned.centre, turned.bottom)
    moved = mesh.moved(matrix)
    return TriangleMesh(moved.vertices, moved.faces)
