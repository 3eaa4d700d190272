"""Convex decomposition of solid meshes, remembered by content."""

import hashlib
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mjcf_export.document import load_arrays, save_arrays
from mjcf_export.errors import InputError, MissingError
from mjcf_export.repair import convex_hull, decimate
from mjcf_export.solids import as_manifold, turned_pieces, union_of
from mjcf_export.triangles import TriangleMesh, is_convex, open_edges

THRESHOLD = 0.05
SEED = 0
COACD_FACES, HULL_FACES = 1500, 5000
"""Faces that a mesh is thinned to, where it stays closed, before it is cut or its hull is taken."""
HULL_VOLUME, HULL_DEPTH = 0.05, 0.02
"""How much larger than the solid a hull may be, and how far above its surface as a fraction of the diagonal."""
MIN_COVERED = 0.95
RECIPE = 4
"""Raised whenever the way of decomposing changes, so that old results are not reused."""


def cache_folder(cache: Path | None = None) -> Path:
    """`cache`, else `$REAL2GYM_CACHE`, else `~/.cache/real2gym`."""
    if cache is not None:
        return cache
    return Path(os.environ.get("REAL2GYM_CACHE") or Path.home() / ".cache" / "real2gym")


def content_key(solid: TriangleMesh) -> str:
    """Hash of the geometry and of the recipe that decomposes it."""
    digest = hashlib.sha256(f"{RECIPE} {THRESHOLD} {SEED}".encode())
    digest.update(np.ascontiguousarray(solid.vertices.round(9)).tobytes())
    digest.update(np.ascontiguousarray(solid.faces).tobytes())
    return digest.hexdigest()[:32]


def decompose(solid: TriangleMesh, cache: Path | None = None) -> list[TriangleMesh]:
    """Convex meshes that together fill `solid`, cavities kept open.

    Args:
        solid: watertight, wound outwards.
        cache: folder of earlier results, see `cache_folder`.

    Raises:
        MissingError: the mesh is concave, was never decomposed, and CoACD is not installed.
    """
    if is_convex(solid):
        return [TriangleMesh(solid.vertices, solid.faces)]
    path = cache_folder(cache) / "collision" / f"{content_key(solid)}.npz"
    if path.is_file():
        try:
            return _unpack(load_arrays(path))
        except (InputError, KeyError):
            path.unlink(missing_ok=True)
    pieces = _fresh(solid)
    save_arrays(path, _pack(pieces))
    return pieces


def _pack(pieces: list[TriangleMesh]) -> dict[str, npt.NDArray[Any]]:
    return {
        "vertices": np.concatenate([piece.vertices for piece in pieces]),
        "faces": np.concatenate([piece.faces for piece in pieces]),
        "counts": np.array([(len(piece.vertices), len(piece.faces)) for piece in pieces]),
    }


def _unpack(arrays: dict[str, npt.NDArray[Any]]) -> list[TriangleMesh]:
    splits = np.cumsum(arrays["counts"], axis=0)[:-1]
    vertices, faces = np.split(arrays["vertices"], splits[:, 0]), np.split(arrays["faces"], splits[:, 1])
    return [TriangleMesh(v, f) for v, f in zip(vertices, faces, strict=True)]


def _fresh(solid: TriangleMesh) -> list[TriangleMesh]:
    hull = near_hull(decimate_closed(solid, HULL_FACES))
    if hull is not None:
        return [hull]
    whole = as_manifold(solid)
    turned = None if whole is None else turned_pieces(solid, whole)
    if turned is None:
        return run_coacd(solid, clean=whole is not None)
    pieces, rest = turned
    for part in rest:
        pieces += [part] if is_convex(part, 0.01) else run_coacd(part, clean=True)
    return pieces


def near_hull(solid: TriangleMesh) -> TriangleMesh | None:
    """The convex hull when it is close to the solid everywhere (a scanned carton), else None."""
    try:
        hull = convex_hull(solid.vertices)
    except MissingError:
        return None
    if hull.volume > (1 + HULL_VOLUME) * solid.volume:
        return None
    normals, _ = hull.face_normals()
    offsets = np.einsum("ij,ij->i", normals, hull.vertices[hull.faces[:, 0]])
    chunks = np.array_split(solid.vertices, 1 + len(solid.vertices) // 2000)
    depth = max(float((offsets - chunk @ normals.T).min(axis=1).max()) for chunk in chunks)
    return hull if depth < HULL_DEPTH * float(np.linalg.norm(solid.extents)) else None


def run_coacd(solid: TriangleMesh, clean: bool) -> list[TriangleMesh]:
    """CoACD's convex parts; a `clean` (manifold) solid is cut as it is, else CoACD remeshes it first.

    The remeshing takes most of CoACD's time and thickens thin walls.

    Raises:
        MissingError: CoACD is not installed.
    """
    try:
        import coacd
    except ImportError as error:
        raise MissingError(
            "this mesh has a cavity and was never decomposed: that needs coacd (pip install coacd), "
            "or the Real2Gym backend when inside Blender"
        ) from error
    coacd.set_log_level("error")
    slim = decimate_closed(solid, COACD_FACES)
    parts = coacd.run_coacd(
        coacd.Mesh(slim.vertices, slim.faces.astype(np.int32)),
        threshold=THRESHOLD,
        seed=SEED,
        mcts_iterations=40,
        resolution=1000,
        preprocess_mode="off" if clean else "auto",
    )
    pieces = [TriangleMesh(np.asarray(v, dtype=np.float64), np.asarray(f, dtype=np.int64)) for v, f in parts]
    pieces = [piece for piece in pieces if piece.volume > 1e-6 * solid.volume]
    if clean and (not pieces or _covered(solid, pieces) < MIN_COVERED):
        return run_coacd(solid, clean=False)
    return pieces


def decimate_closed(solid: TriangleMesh, target: int) -> TriangleMesh:
    """About `target` faces, or the solid itself when it has no more or would not stay closed."""
    if len(solid.faces) <= target:
        return solid
    slim = decimate(solid, target)
    faithful = open_edges(slim.faces) == 0 and abs(slim.volume / solid.volume - 1) < 0.01
    return slim if faithful and as_manifold(slim) is not None else solid


def _covered(solid: TriangleMesh, pieces: list[TriangleMesh]) -> float:
    """Share of the solid's volume that lies within the pieces."""
    whole, union = as_manifold(solid), union_of(pieces)
    if whole is None or union is None:
        return 1.0
    return 1 - float((whole - union).volume()) / solid.volume
