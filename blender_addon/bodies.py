"""Bodies between the Scene and Blender mesh objects."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mjcf_export.document import write_atomically
from mjcf_export.errors import InputError
from mjcf_export.frames import Array
from mjcf_export.scene import Body, Box, Joint, Mesh, Pose, Shape
from mjcf_export.shapes import TriangleMesh, shape_mesh

from .geometry import Ints, Piece, new_mesh, pieces
from .materials import file_stem, is_textured
from .outliner import blender_matrix, collection, new_object
from .records import current_name, kind_of, mark, snap_pose, store, stored
from .reshape import affine_between, reshape
from .robot_figure import joint_displacement

TRIANGLES = "r2g_triangles"


@dataclass(frozen=True)
class FoundBody:
    """A body as Blender shows it.

    `body` has no references yet and keeps the pose it was built with, `world` is its rigid frame `(4, 4)` in metres,
    `material` the Blender material that covers most of it.
    """

    item: Any
    body: Body
    world: Array
    material: str | None


def joint_motion(joints: Sequence[Joint]) -> Array:
    """The displacement `(4, 4)` in the body's frame at the positions of its joints, applied in MuJoCo's order."""
    motion = np.eye(4)
    for joint in joints:
        axis = np.array(joint.axis) / np.linalg.norm(joint.axis)
        kind = "slide" if joint.kind == "prismatic" else "hinge"
        motion = motion @ joint_displacement(kind, axis, np.array(joint.origin), joint.position)
    return motion


def build_body(body: Body, index: int, folder: Path, material: Any, joints: Sequence[Joint]) -> Any:
    """A mesh object with the body's visual mesh; its parent, if any, is set by `parent_body`."""
    surface = shape_mesh(body.shape, folder)
    mesh = new_mesh(body.name, surface.vertices, surface.faces, surface.uvs)
    if material is not None:
        mesh.materials.append(material)
    made = new_object(body.name, mesh, collection("body"), body.pose.matrix @ joint_motion(joints))
    mark(made, "body", index)
    store(made, body)
    made[TRIANGLES] = len(mesh.polygons)
    return made


def parent_body(item: Any, parent: Any) -> None:
    """Parent `item`, whose basis is its pose in the parent's frame."""
    basis = item.matrix_basis.copy()
    item.parent = parent
    item.matrix_parent_inverse = blender_matrix(np.eye(4))
    item.matrix_basis = basis


def read_body(item: Any, parts: Iterable[Any], depsgraph: Any, unit: float, out: Path) -> FoundBody:
    """The body that `item` and the unmarked objects below it (`parts`) show now.

    Carried mesh files must already lie in `out`; a new mesh is written to `out/meshes` beside them.

    Raises:
        InputError: it has no faces, or a zero scale.
    """
    found = [piece for member in (item, *parts) for piece in pieces(member, depsgraph)]
    if not found:
        raise InputError(f"body {item.name}: has no faces; give it a mesh, or take it out of the Bodies collection")
    built = kind_of(item) == "body" and "r2g_shape" in item
    kept = stored(item, Body, name=item.name, shape=Box(size=(1, 1, 1)))
    name = current_name(item, kept.name)
    world = np.array(item.evaluated_get(depsgraph).matrix_world)
    world[:3] *= unit
    if np.linalg.matrix_rank(world[:3, :3], tol=1e-9) < 3:
        raise InputError(f"body {item.name}: its scale is zero along an axis; set the scale")
    main = max(found, key=lambda piece: piece.area)
    whole = len(found) == 1 and not list(parts) and found[0].world[:3].tolist() == (world[:3] / unit).tolist()
    whole = whole and len(found[0].faces) == item.get(TRIANGLES)
    result = _family(kept.shape, found[0], world, kept.pose, out) if built and whole else None
    shape, pose = result if result is not None else _baked(found, world, unit, name, out)
    body = kept.model_copy(update={"name": name, "shape": shape, "parent": None, "material": None})
    return FoundBody(item, body, pose, main.material)


def settle_pose(found: FoundBody, parent: Array | None, joints: Sequence[Joint]) -> Pose:
    """The body's pose in its parent's frame, exact where untouched."""
    relative = found.world if parent is None else np.linalg.inv(parent) @ found.world
    return snap_pose(relative @ np.linalg.inv(joint_motion(joints)), found.body.pose)


def _family(shape: Shape, piece: Piece, world: Array, before: Pose, out: Path) -> tuple[Shape, Array] | None:
    """The stored shape under what the user did to it, when it is still recognisably that shape."""
    surface = shape_mesh(shape, out)
    applied = affine_between(surface.vertices.astype(np.float32).astype(np.float64), piece.vertices)
    if applied is None or (is_textured(piece.material) and _unwrapped_anew(piece, surface)):
        return None
    linear, offset = applied
    reshaped = reshape(shape, world[:3, :3] @ linear, before.matrix[:3, :3])
    if reshaped is None:
        return None
    pose = np.eye(4)
    pose[:3, :3] = _orthonormal(reshaped.rotation)
    pose[:3, 3] = world[:3, 3] + world[:3, :3] @ offset + reshaped.origin
    return reshaped.shape, pose


def _unwrapped_anew(piece: Piece, surface: TriangleMesh) -> bool:
    if piece.uvs is None or surface.uvs is None or len(piece.uvs) != len(surface.uvs):
        return (piece.uvs is None) != (surface.uvs is None)
    return not np.array_equal(_corners(piece.faces, piece.uvs), _corners(surface.faces, surface.uvs))


def _corners(faces: Ints, uvs: Array) -> Array:
    """Each vertex with its texture coordinates, in single precision and sorted, whatever the winding."""
    rows = np.column_stack([faces.ravel().astype(np.float64), uvs.reshape(-1, 2).astype(np.float32)])
    ordered: Array = rows[np.lexsort(rows.T)]
    return ordered


def _baked(found: list[Piece], world: Array, unit: float, name: str, out: Path) -> tuple[Shape, Array]:
    """A mesh file with everything applied, its origin at the centre of its bottom."""
    rotation = _orthonormal(world[:3, :3] * np.sign(np.linalg.det(world[:3, :3])))
    vertices, faces, uvs, count = [], [], [], 0
    for piece in found:
        points = (piece.vertices @ piece.world[:3, :3].T + piece.world[:3, 3]) * unit
        flipped = np.linalg.det(piece.world[:3, :3]) < 0
        vertices.append((points - world[:3, 3]) @ rotation)
        faces.append((piece.faces[:, ::-1] if flipped else piece.faces) + count)
        if piece.uvs is not None:
            uvs.append(piece.uvs[:, ::-1] if flipped else piece.uvs)
        count += len(points)
    points = np.concatenate(vertices)
    low, high = points.min(axis=0), points.max(axis=0)
    base = np.array([(low[0] + high[0]) / 2, (low[1] + high[1]) / 2, low[2]])
    file = f"meshes/{file_stem(name)}.obj"
    if (out / file).exists():
        file = f"meshes/{file_stem(name)}_edited.obj"
    coordinates = np.concatenate(uvs) if len(uvs) == len(found) else None
    write_obj(out / file, points - base, np.concatenate(faces), coordinates)
    pose = np.eye(4)
    pose[:3, :3] = rotation
    pose[:3, 3] = world[:3, 3] + rotation @ base
    return Mesh(file=file), pose


def write_obj(path: Path, vertices: Array, faces: Array, uvs: Array | None) -> None:
    """Write triangles as Wavefront OBJ (Z up, metres), atomically."""
    lines = [f"v {x:.9g} {y:.9g} {z:.9g}" for x, y, z in vertices.tolist()]
    if uvs is None:
        lines += [f"f {a} {b} {c}" for a, b, c in (faces + 1).tolist()]
    else:
        lines += [f"vt {u:.7g} {v:.7g}" for u, v in uvs.reshape(-1, 2).tolist()]
        lines += [
            f"f {a}/{3 * i + 1} {b}/{3 * i + 2} {c}/{3 * i + 3}" for i, (a, b, c) in enumerate((faces + 1).tolist())
        ]
    write_atomically(path, lambda stream: stream.write(("\n".join(lines) + "\n").encode()))


def _orthonormal(matrix: Array) -> Array:
    left, _, right = np.linalg.svd(matrix)
    nearest: Array = left @ right
    return nearest if np.linalg.det(nearest) > 0 else left @ np.diag([1.0, 1.0, -1.0]) @ right
