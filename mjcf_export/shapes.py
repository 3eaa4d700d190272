"""Shapes of the Scene as surfaces: visual meshes, extents, cavities and texture sampling points."""

from pathlib import Path

import numpy as np
import numpy.typing as npt

from mjcf_export.cavities import Cavity, mesh_cavity
from mjcf_export.errors import InputError
from mjcf_export.frames import Array
from mjcf_export.meshes import load_mesh
from mjcf_export.polygons import triangulate
from mjcf_export.raster import rasterise
from mjcf_export.scene import Box, Cylinder, Extrusion, Lathe, Mesh, Shape, Tray
from mjcf_export.surfaces import box_surface, prism_surface, tray_surface, turned_surface
from mjcf_export.triangles import TriangleMesh

__all__ = ["Cavity", "TriangleMesh", "cavity", "extents", "shape_mesh", "texel_points"]


def shape_mesh(shape: Shape, folder: Path) -> TriangleMesh:
    """The visual mesh of `shape` in the body frame; the texture layouts are those of `mjcf_export.surfaces`.

    Args:
        shape: any shape of the Scene.
        folder: the scene folder, where mesh files lie.

    Raises:
        InputError: a mesh file or a polygon cannot be used.
    """
    if isinstance(shape, Mesh):
        return load_mesh(folder, shape.file).mesh
    if isinstance(shape, Box):
        return box_surface(shape.size)
    if isinstance(shape, Tray):
        return tray_surface(shape.size, shape.wall, shape.floor)
    if isinstance(shape, Extrusion):
        polygon = np.array(shape.polygon)
        return prism_surface(polygon, triangulate(polygon), shape.height)
    outer, inner = profiles(shape)
    return turned_surface(outer, inner)


def profiles(shape: Cylinder | Lathe) -> tuple[Array, Array | None]:
    """Outer and inner profile `(N, 2)` of radius and z; the inner one is None for a solid body."""
    if isinstance(shape, Cylinder):
        return np.array([[shape.radius, 0.0], [shape.radius, shape.height]]), None
    return np.array(shape.outer), None if shape.inner is None else np.array(shape.inner)


def extents(shape: Shape, folder: Path) -> Array:
    """Full size `(3,)` of the bounding box in the body frame, metres."""
    if isinstance(shape, Box | Tray):
        return np.array(shape.size)
    if isinstance(shape, Mesh):
        return load_mesh(folder, shape.file).mesh.extents
    if isinstance(shape, Extrusion):
        polygon = np.array(shape.polygon)
        return np.append(polygon.max(axis=0) - polygon.min(axis=0), shape.height)
    outer, _ = profiles(shape)
    return np.array([2 * outer[:, 0].max(), 2 * outer[:, 0].max(), outer[:, 1].max()])


def cavity(shape: Shape, folder: Path | None = None) -> Cavity | None:
    """What `shape` can hold, open at the top, or None.

    Args:
        shape: any shape of the Scene.
        folder: the scene folder; a mesh's cavity is only looked for when it is given.
    """
    if isinstance(shape, Tray):
        half = (shape.size[0] / 2 - shape.wall, shape.size[1] / 2 - shape.wall)
        return Cavity(floor=shape.floor, rim=shape.size[2], half_extents=half)
    if isinstance(shape, Lathe) and shape.inner is not None:
        return Cavity(floor=shape.inner[0][1], rim=shape.inner[-1][1], profile=shape.inner)
    if isinstance(shape, Mesh) and folder is not None:
        return mesh_cavity(load_mesh(folder, shape.file).mesh)
    return None


def texel_points(shape: Shape, folder: Path, size: int | tuple[int, int]) -> tuple[Array, Array, npt.NDArray[np.bool_]]:
    """The surface point behind every texel, so that a texture can be baked by sampling pictures.

    Row 0 is the top of the image (v = 1). Texels in the gutter between patches are not valid.

    Args:
        shape: a parametric shape, or a mesh whose file has texture coordinates.
        folder: the scene folder.
        size: side of the square texture, or rows and columns.

    Returns:
        Points `(H, W, 3)` in the body frame, unit outward normals `(H, W, 3)` (faceted), valid `(H, W)`.

    Raises:
        InputError: the mesh has no texture coordinates.
    """
    rows, columns = (size, size) if isinstance(size, int) else size
    mesh = shape_mesh(shape, folder)
    if mesh.uvs is None:
        name = shape.file if isinstance(shape, Mesh) else shape.kind
        raise InputError(f"{name}: has no texture coordinates; unwrap it first (mjcf_export.meshes.unwrap)")
    corners = np.stack([mesh.uvs[..., 0] * columns, (1 - mesh.uvs[..., 1]) * rows], axis=-1)
    owner, weights = rasterise(corners, (rows, columns))
    valid = owner >= 0
    points = np.einsum("hwk,hwkc->hwc", weights, mesh.triangles[owner])
    normals, _ = mesh.face_normals()
    return np.where(valid[..., None], points, 0.0), np.where(valid[..., None], normals[owner], 0.0), valid
