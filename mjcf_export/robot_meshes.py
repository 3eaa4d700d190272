"""Mesh files of robots, made fit for MuJoCo once and kept in the user's cache by content.

Meshes for `visual` use are split by colour, thinned where they are dense, and given a thickness where they are flat;
for `whole` use they stay one part; for `collision` they become their convex hull, which is what MuJoCo collides with.
The cache is `REAL2GYM_CACHE`, else
`~/.cache/real2gym`.
"""

import hashlib
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import mujoco
import numpy as np

from mjcf_export.document import atomic_path, write_atomically
from mjcf_export.errors import InputError, MissingError
from mjcf_export.frames import Array

Use = Literal["visual", "collision", "whole"]
CACHE_VERSION = 2
DENSE_FACES = 2000
DENSE_BYTES = 100_000
KEPT_FRACTION = 0.35
MAX_FACES = 60_000
FLAT = 1e-5
THICKNESS = 2e-4
READABLE = {".stl", ".obj", ".dae", ".ply"}


@dataclass(frozen=True)
class MeshPart:
    """One mesh file in the file's own units, its colour where the source gives one, and its bounding box."""

    file: Path
    rgba: tuple[float, float, float, float] | None
    low: tuple[float, float, float]
    high: tuple[float, float, float]


def cache_folder() -> Path:
    """The folder of everything that can be made again."""
    chosen = os.environ.get("REAL2GYM_CACHE")
    return Path(chosen) if chosen else Path.home() / ".cache" / "real2gym"


def prepare_mesh(path: Path, use: Use) -> tuple[MeshPart, ...]:
    """The parts of a mesh file as OBJ files in the cache.

    Raises:
        InputError: unknown format, unreadable, without faces, or with non-finite vertices; names the file.
        MissingError: the cache cannot be written.
    """
    if path.suffix.lower() not in READABLE:
        raise InputError(f"{path}: mesh format not supported; convert it to one of {', '.join(sorted(READABLE))}")
    content = path.read_bytes()
    key = hashlib.sha256(f"{CACHE_VERSION} {use} ".encode() + content).hexdigest()[:16]
    folder = cache_folder() / "robots" / key
    index = folder / "index.json"
    parts = _read_index(index)
    if parts is None:
        parts = tuple(_convert(path, use, folder))
        items = [{"file": p.file.name, "rgba": p.rgba, "low": p.low, "high": p.high} for p in parts]
        write_atomically(index, lambda stream: stream.write(json.dumps(items).encode()))
    return parts


def lighten(spec: mujoco.MjSpec) -> None:
    """Replace dense, untextured meshes that only visual geoms show by thinner ones; skipped where tools are missing."""
    touching = {geom.meshname for geom in spec.geoms if geom.contype or geom.conaffinity}
    textured = {material.name for material in spec.materials if any(material.textures)}
    shown = {geom.meshname for geom in spec.geoms if geom.material in textured}
    for mesh in spec.meshes:
        path = Path(mesh.file)
        if mesh.name in touching | shown or path.suffix.lower() not in {".obj", ".stl"} or not path.is_file():
            continue
        if path.stat().st_size < DENSE_BYTES:
            continue
        try:
            (part,) = prepare_mesh(path, "whole")
        except MissingError:
            return
        mesh.file = str(part.file)


def _read_index(index: Path) -> tuple[MeshPart, ...] | None:
    try:
        items = json.loads(index.read_text(encoding="utf-8"))
        parts = tuple(
            MeshPart(
                index.parent / item["file"],
                tuple(item["rgba"]) if item["rgba"] else None,
                tuple(item["low"]),
                tuple(item["high"]),
            )
            for item in items
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return parts if all(part.file.is_file() for part in parts) else None


def _convert(path: Path, use: Use, folder: Path) -> list[MeshPart]:
    stem = re.sub(r"[^A-Za-z0-9_]", "_", path.stem)
    parts = []
    for number, (vertices, faces, rgba) in enumerate(_load(path, use)):
        thick_vertices, thick_faces = _thicken(vertices, faces)
        if use == "collision":
            final_vertices, final_faces = _hull(thick_vertices, path)
        else:
            final_vertices, final_faces = thin(thick_vertices, thick_faces)
        file = folder / f"{stem}_{folder.name[:8]}_{number}.obj"
        _write_obj(file, final_vertices, final_faces)
        low, high = (tuple(float(v) for v in bound) for bound in (final_vertices.min(0), final_vertices.max(0)))
        parts.append(MeshPart(file, rgba, low, high))  # type: ignore[arg-type]
    return parts


def _load(path: Path, use: Use) -> list[tuple[Array, Any, tuple[float, float, float, float] | None]]:
    """Vertices, faces and colour of each part, in the scene's frame of the file."""
    try:
        import trimesh
    except ImportError as error:
        raise MissingError(
            f"{path}: reading this mesh needs the package trimesh; run `pip install trimesh pycollada`, "
            "or load the robot once with the backend, which keeps it in the cache"
        ) from error
    try:
        if path.suffix.lower() == ".dae":
            scene = trimesh.load(path, force="scene", ignore_broken=True)
        else:
            scene = trimesh.load(path, force="scene", process=False, split_object=False, group_material=True)
        pieces = [mesh for mesh in scene.dump() if isinstance(mesh, trimesh.Trimesh) and len(mesh.faces)]
    except Exception as error:  # every format's reader raises its own family
        raise InputError(f"{path}: not a readable mesh ({type(error).__name__}: {error})") from error
    if not pieces:
        raise InputError(f"{path}: the mesh has no faces; export it again with triangles")
    if any(not np.isfinite(mesh.vertices).all() for mesh in pieces):
        raise InputError(f"{path}: the mesh has vertices that are not finite numbers")
    grouped: dict[tuple[float, float, float, float] | None, list[Any]] = {}
    for mesh in pieces:
        grouped.setdefault(_colour(mesh) if use == "visual" else None, []).append(mesh)
    result = []
    for rgba, meshes in grouped.items():
        joined = trimesh.util.concatenate([trimesh.Trimesh(m.vertices, m.faces, process=False) for m in meshes])
        joined.merge_vertices(merge_tex=True, merge_norm=True)
        result.append((np.asarray(joined.vertices), np.asarray(joined.faces), rgba))
    return result


def _colour(mesh: Any) -> tuple[float, float, float, float] | None:
    """The part's own flat colour, if its file names one."""
    material = getattr(mesh.visual, "material", None)
    if material is None:
        return None
    for name in ("baseColorFactor", "diffuse"):
        value = getattr(material, name, None)
        if value is not None:
            r, g, b = (float(channel) / 255 for channel in np.asarray(value)[:3])
            return r, g, b, 1.0
    return None


def _thicken(vertices: Array, faces: Any) -> tuple[Array, Any]:
    """Give a flat or near-flat sheet a back side, which MuJoCo needs."""
    centred = vertices - vertices.mean(axis=0)
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    size = float(np.linalg.norm(np.ptp(vertices, axis=0)))
    if singular[-1] / np.sqrt(len(vertices)) > FLAT * size:
        return vertices, faces
    shift = axes[-1] * THICKNESS * size
    return np.vstack([vertices, vertices + shift]), np.vstack([faces, faces[:, ::-1] + len(vertices)])


def _hull(vertices: Array, path: Path) -> tuple[Array, Any]:
    from scipy.spatial import ConvexHull, QhullError

    try:
        hull = ConvexHull(vertices)
    except (QhullError, ValueError) as error:
        raise InputError(f"{path}: the collision mesh encloses no volume; give it some thickness") from error
    order = np.full(len(vertices), -1)
    order[hull.vertices] = np.arange(len(hull.vertices))
    points, faces = vertices[hull.vertices], order[hull.simplices]
    a, b, c = (points[faces[:, k]] for k in range(3))
    inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), a - points.mean(axis=0)) < 0
    faces[inward] = faces[inward][:, ::-1]
    return points, faces


def thin(vertices: Array, faces: Any) -> tuple[Array, Any]:
    """A lighter mesh of the same look where the mesh is dense: software rendering costs by the triangle."""
    if len(faces) <= DENSE_FACES:
        return vertices, faces
    try:
        import fast_simplification
    except ImportError:
        return vertices, faces
    target = min(max(int(len(faces) * KEPT_FRACTION), DENSE_FACES), MAX_FACES)
    reduced, triangles = fast_simplification.simplify(
        np.ascontiguousarray(vertices, dtype=np.float32), np.ascontiguousarray(faces, dtype=np.int32),
        target_reduction=1 - target / len(faces),
    )  # fmt: skip
    return reduced.astype(np.float64), triangles


def _write_obj(file: Path, vertices: Array, faces: Any) -> None:
    lines = [f"v {x:.8g} {y:.8g} {z:.8g}" for x, y, z in vertices]
    lines += [f"f {a} {b} {c}" for a, b, c in np.asarray(faces) + 1]
    with atomic_path(file) as temporary:
        temporary.write_text("\n".join(lines) + "\n", encoding="ascii")
