"""Mesh files: read, cleaned once and remembered; written as OBJ."""

from functools import lru_cache
from pathlib import Path

import numpy as np

from mjcf_export.document import resolve_inside, write_atomically
from mjcf_export.errors import InputError, MissingError
from mjcf_export.frames import Array
from mjcf_export.repair import CleanMesh, clean
from mjcf_export.triangles import TriangleMesh

SUFFIXES = {".obj", ".stl", ".ply", ".glb", ".gltf", ".off", ".dae"}


def load_mesh(folder: Path, file: str) -> CleanMesh:
    """The cleaned mesh of `file`, relative to the scene's `folder`.

    Raises:
        InputError: the file is missing, unreadable, leaves the folder, or holds no usable solid.
        MissingError: the format needs a package that is not installed.
    """
    path = resolve_inside(folder, file)
    stat = path.stat()
    return _load(path, stat.st_mtime_ns, stat.st_size)


@lru_cache(maxsize=64)
def _load(path: Path, modified: int, size: int) -> CleanMesh:
    return clean(read_mesh(path), path.name)


def read_mesh(path: Path) -> TriangleMesh:
    """The triangles of a mesh file as they are, in its own units and frame."""
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        raise InputError(f"{path}: unknown mesh format; expected one of {', '.join(sorted(SUFFIXES))}")
    try:
        return _read_obj(path) if suffix == ".obj" else _read_other(path)
    except (ValueError, IndexError, KeyError, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: not a readable {suffix[1:].upper()} mesh ({error})") from error


def _read_obj(path: Path) -> TriangleMesh:
    vertices: list[list[float]] = []
    texture: list[list[float]] = []
    faces: list[tuple[int, int, int]] = []
    corners: list[tuple[int, int, int]] = []
    with path.open(encoding="utf-8", errors="replace") as stream:
        for line in stream:
            words = line.split()
            if not words:
                continue
            if words[0] == "v":
                vertices.append([float(word) for word in words[1:4]])
            elif words[0] == "vt":
                texture.append([float(word) for word in words[1:3]])
            elif words[0] == "f":
                parts = [word.split("/") for word in words[1:]]
                index = [_obj_index(part[0], len(vertices)) for part in parts]
                has_uv = all(len(part) > 1 and part[1] for part in parts)
                coordinate = [_obj_index(part[1], len(texture)) if has_uv else -1 for part in parts]
                for k in range(1, len(parts) - 1):
                    faces.append((index[0], index[k], index[k + 1]))
                    corners.append((coordinate[0], coordinate[k], coordinate[k + 1]))
    points = np.array(vertices, dtype=np.float64).reshape(-1, 3)
    triangles = np.array(faces, dtype=np.int64).reshape(-1, 3)
    if len(triangles) and (triangles.min() < 0 or triangles.max() >= len(points)):
        raise ValueError("a face names a vertex that does not exist")
    chosen = np.array(corners, dtype=np.int64).reshape(-1, 3)
    if len(chosen) == 0 or chosen.min() < 0 or chosen.max() >= len(texture):
        return TriangleMesh(points, triangles)
    return TriangleMesh(points, triangles, np.array(texture, dtype=np.float64)[chosen])


def _obj_index(word: str, count: int) -> int:
    index = int(word)
    return index - 1 if index > 0 else count + index


def _read_other(path: Path) -> TriangleMesh:
    try:
        import trimesh
    except ImportError as error:
        raise MissingError(
            f"{path}: reading this format needs trimesh (pip install trimesh), or save it as OBJ"
        ) from error
    try:
        scene = trimesh.load_scene(path)
        mesh = scene.to_mesh()
    except Exception as error:
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if not len(mesh.faces):
        raise ValueError("no triangles in it")
    return TriangleMesh(np.asarray(mesh.vertices, dtype=np.float64), np.asarray(mesh.faces, dtype=np.int64))


def obj_bytes(mesh: TriangleMesh) -> bytes:
    """`mesh` as OBJ text; coordinates survive to nine digits, textured meshes keep their creases by normals."""
    lines = ["v {:.9g} {:.9g} {:.9g}".format(*vertex) for vertex in mesh.vertices.tolist()]
    if mesh.uvs is None:
        lines += ["f {} {} {}".format(*face) for face in (mesh.faces + 1).tolist()]
    else:
        unique, index = np.unique(mesh.uvs.reshape(-1, 2).round(9), axis=0, return_inverse=True)
        lines += ["vt {:.9g} {:.9g}".format(*uv) for uv in unique.tolist()]
        normals, turned = np.unique(mesh.corner_normals().reshape(-1, 3).round(6), axis=0, return_inverse=True)
        lines += ["vn {:.6g} {:.6g} {:.6g}".format(*normal) for normal in normals.tolist()]
        joined = np.stack([mesh.faces, index.reshape(-1, 3), turned.reshape(-1, 3)], axis=-1).reshape(-1, 9) + 1
        lines += ["f {}/{}/{} {}/{}/{} {}/{}/{}".format(*row) for row in joined.tolist()]
    return ("\n".join(lines) + "\n").encode()


def write_mesh(mesh: TriangleMesh, path: Path) -> None:
    """Write `mesh` as OBJ, atomically."""
    write_atomically(path, lambda stream: stream.write(obj_bytes(mesh)))


def unwrap(mesh: TriangleMesh) -> TriangleMesh:
    """The mesh with a texture layout that gives every pair of faces one square cell of the atlas."""
    count = len(mesh.faces)
    side = int(np.ceil(np.sqrt((count + 1) // 2)))
    pair, half = np.divmod(np.arange(count), 2)
    gutter = 0.06
    lower = np.array([[gutter, gutter], [1 - 2 * gutter, gutter], [gutter, 1 - 2 * gutter]])
    local = np.where(half[:, None, None] == 0, lower, 1 - lower)
    cell = np.stack([pair % side, pair // side], axis=-1)[:, None, :]
    uvs: Array = (cell + local) / side
    return TriangleMesh(mesh.vertices, mesh.faces, uvs)
