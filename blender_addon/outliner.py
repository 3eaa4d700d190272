"""Objects and collections by name."""

from typing import Any

import bpy
from mathutils import Matrix

from mjcf_export.frames import Array

COLLECTIONS = {"body": "Bodies", "robot": "Robots", "camera": "Cameras", "light": "Lights"}


def collection(kind: str) -> Any:
    """The scene's collection for `kind`, made when there is none."""
    name = COLLECTIONS[kind]
    for child in bpy.context.scene.collection.children:
        if child.name == name:
            return child
    made = bpy.data.collections.new(name)
    bpy.context.scene.collection.children.link(made)
    return made


def new_object(name: str, data: Any, folder: Any, matrix: Array, parent: Any = None) -> Any:
    """An object with quaternion rotation at `matrix` `(4, 4)`, relative to `parent` when there is one."""
    made = bpy.data.objects.new(name, data)
    folder.objects.link(made)
    made.rotation_mode = "QUATERNION"
    made.parent = parent
    made.matrix_basis = blender_matrix(matrix)
    return made


def blender_matrix(matrix: Array) -> Any:
    """A `mathutils.Matrix` of a `(4, 4)` array."""
    return Matrix([list(map(float, row)) for row in matrix])
