"""Triangle meshes between numpy and Blender."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
SMOOTH_ANGLE = math.radians(35)


@dataclass(frozen=True)
class Piece:
    """Triangles of one evaluated object: vertices `(V, 3)` in its own frame, placed by `world` `(4, 4)`.

    `uvs` is `(F, 3, 2)` or None; `material` names the material that covers the largest area, if any.
    """

    vertices: Floats
    faces: Ints
    uvs: Floats | None
    material: str | None
    area: float
    world: Floats


def new_mesh(name: str, vertices: Floats, faces: Ints, uvs: Floats | None) -> Any:
    """A Blender mesh of triangles, smooth except across edges sharper than 35 degrees."""
    mesh = bpy.data.meshes.new(name)
    corners = np.ascontiguousarray(faces, dtype=np.int32)
    mesh.vertices.add(len(vertices))
    mesh.vertices.foreach_set("co", np.ascontiguousarray(vertices, dtype=np.float32).ravel())
    mesh.loops.add(corners.size)
    mesh.loops.foreach_set("vertex_index", corners.ravel())
    mesh.polygons.add(len(corners))
    mesh.polygons.foreach_set("loop_start", np.arange(0, corners.size, 3, dtype=np.int32))
    if uvs is not None:
        layer = mesh.uv_layers.new(name="UVMap", do_init=False)
        layer.data.foreach_set("uv", np.ascontiguousarray(uvs, dtype=np.float32).ravel())
    mesh.update(calc_edges=True)
    mesh.validate()
    mesh.shade_smooth()
    mesh.set_sharp_from_angle(angle=SMOOTH_ANGLE)
    return mesh


def pieces(item: Any, depsgraph: Any) -> Iterator[Piece]:
    """What `item` shows: its own evaluated geometry, and all that it instances (collections, geometry nodes)."""
    own = _piece(item.evaluated_get(depsgraph), np.array(item.evaluated_get(depsgraph).matrix_world))
    if own is not None:
        yield own
    for instance in depsgraph.object_instances:
        if instance.is_instance and instance.parent is not None and instance.parent.original == item:
            found = _piece(instance.object, np.array(instance.matrix_world))
            if found is not None:
                yield found


def _piece(evaluated: Any, world: Floats) -> Piece | None:
    if evaluated.type not in {"MESH", "CURVE", "SURFACE", "FONT", "META"}:
        return None
    mesh = evaluated.to_mesh()
    try:
        if mesh is None or not mesh.polygons:
            return None
        mesh.calc_loop_triangles()
        count = len(mesh.loop_triangles)
        vertices = np.empty(3 * len(mesh.vertices), dtype=np.float32)
        mesh.vertices.foreach_get("co", vertices)
        faces = np.empty(3 * count, dtype=np.int32)
        mesh.loop_triangles.foreach_get("vertices", faces)
        loops = np.empty(3 * count, dtype=np.int32)
        mesh.loop_triangles.foreach_get("loops", loops)
        slots = np.empty(count, dtype=np.int32)
        mesh.loop_triangles.foreach_get("material_index", slots)
        areas = np.empty(count, dtype=np.float32)
        mesh.loop_triangles.foreach_get("area", areas)
        uvs = None
        if mesh.uv_layers.active is not None:
            flat = np.empty(2 * len(mesh.loops), dtype=np.float32)
            mesh.uv_layers.active.data.foreach_get("uv", flat)
            uvs = flat.reshape(-1, 2)[loops].reshape(-1, 3, 2).astype(np.float64)
        return Piece(
            vertices.reshape(-1, 3).astype(np.float64),
            faces.reshape(-1, 3).astype(np.int64),
            uvs,
            _main_material(evaluated, slots, areas),
            float(areas.sum()),
            world,
        )
    finally:
        evaluated.to_mesh_clear()


def _main_material(evaluated: Any, slots: npt.NDArray[np.int32], areas: npt.NDArray[np.float32]) -> str | None:
    names = [slot.material.name if slot.material else None for slot in evaluated.material_slots]
    if not names:
        return None
    covered = np.bincount(np.clip(slots, 0, len(names) - 1), weights=areas, minlength=len(names))
    return names[int(np.argmax(covered))]
