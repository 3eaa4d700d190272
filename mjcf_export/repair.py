"""Cleaning of triangle meshes, and a watertight solid for mass and collision even when the file is open."""

from dataclasses import dataclass

import numpy as np

from mjcf_export.cavities import mesh_cavity
from mjcf_export.errors import InputError, MissingError
from mjcf_export.frames import Array
from mjcf_export.triangles import Faces, TriangleMesh, edge_table, open_edges

MAX_FACES = 200_000
SHELL_THICKNESS = 0.002


@dataclass(frozen=True, eq=False)
class CleanMesh:
    """A mesh fit for use.

    Attributes:
        mesh: what is drawn.
        solid: watertight, wound outwards: mass, inertia and collision come from it.
        notes: what was changed, in words; empty when the file was good.
        substituted: whether the solid is not the drawn surface.
    """

    mesh: TriangleMesh
    solid: TriangleMesh
    notes: tuple[str, ...] = ()
    substituted: bool = False


def clean(mesh: TriangleMesh, name: str) -> CleanMesh:
    """Weld, drop degenerate faces, turn the winding outwards, decimate, and close what is open.

    Args:
        mesh: metres, any quality.
        name: the file's name, for messages.

    Raises:
        InputError: nothing usable: empty, not finite, or without thickness.
    """
    notes: list[str] = []
    _refuse_unusable(mesh, name)
    mesh = _weld(mesh, notes)
    if len(mesh.faces) == 0:
        raise InputError(f"{name}: every face has zero area; expected a solid object")
    if len(mesh.faces) > MAX_FACES:
        mesh = decimate(mesh, MAX_FACES // 2)
        notes.append(f"decimated to {len(mesh.faces)} faces (limit {MAX_FACES})")
    _refuse_flat(mesh, name)
    mesh = _orient(mesh, notes)
    solid, substituted = _close(mesh, notes)
    if abs(solid.volume) < 1e-6 * float(np.prod(solid.extents)):
        raise InputError(f"{name}: encloses no volume (a folded sheet?); give it thickness")
    return CleanMesh(mesh, solid, tuple(notes), substituted)


def _refuse_unusable(mesh: TriangleMesh, name: str) -> None:
    if len(mesh.vertices) < 4 or len(mesh.faces) < 4:
        raise InputError(
            f"{name}: {len(mesh.vertices)} vertices and {len(mesh.faces)} faces; a solid needs four of each"
        )
    used = mesh.vertices[np.unique(mesh.faces)]
    bad = int((~np.isfinite(used)).any(axis=1).sum())
    if bad:
        raise InputError(f"{name}: {bad} vertices are NaN or infinite; export the mesh again")


def _refuse_flat(mesh: TriangleMesh, name: str) -> None:
    points = mesh.vertices - mesh.vertices.mean(axis=0)
    _, _, axes = np.linalg.svd(points, full_matrices=False)
    size = np.ptp(points @ axes.T, axis=0)
    if size.min() < 1e-5 or size.min() < 1e-5 * size.max():
        raise InputError(f"{name}: has no thickness ({size.min() * 1000:.4f} mm); give it one, or use a thin box")


def _weld(mesh: TriangleMesh, notes: list[str]) -> TriangleMesh:
    scale = float(np.ptp(mesh.vertices[np.unique(mesh.faces)], axis=0).max()) or 1.0
    grid = np.round(np.nan_to_num(mesh.vertices) / (scale * 1e-6)).astype(np.int64)
    _, first, index = np.unique(grid, axis=0, return_index=True, return_inverse=True)
    faces = index.reshape(-1)[mesh.faces]
    vertices = mesh.vertices[first]
    a, b, c = np.moveaxis(vertices[faces], 1, 0)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    keep = (faces != np.roll(faces, 1, axis=1)).all(axis=1) & (area > 1e-14 * scale**2)
    ordered = np.sort(faces, axis=1)
    _, unique = np.unique(ordered, axis=0, return_index=True)
    single = np.zeros(len(faces), dtype=bool)
    single[unique] = True
    dropped = int((~(keep & single)).sum())
    if dropped:
        notes.append(f"dropped {dropped} degenerate or doubled faces")
    keep &= single
    uvs = None if mesh.uvs is None else mesh.uvs[keep]
    return drop_unused(TriangleMesh(vertices, faces[keep], uvs))


def drop_unused(mesh: TriangleMesh) -> TriangleMesh:
    """The mesh without vertices that no face names."""
    used, index = np.unique(mesh.faces, return_inverse=True)
    return TriangleMesh(mesh.vertices[used], index.reshape(-1, 3), mesh.uvs)


def decimate(mesh: TriangleMesh, target: int) -> TriangleMesh:
    """About `target` faces by quadric collapse; texture coordinates are lost."""
    try:
        import fast_simplification
    except ImportError as error:
        raise MissingError(
            f"a mesh of {len(mesh.faces)} faces needs fast_simplification (pip install fast-simplification)"
        ) from error
    vertices, faces = fast_simplification.simplify(
        mesh.vertices.astype(np.float32), mesh.faces.astype(np.int32), target_count=target
    )
    return drop_unused(TriangleMesh(np.asarray(vertices, dtype=np.float64), np.asarray(faces, dtype=np.int64)))


def _orient(mesh: TriangleMesh, notes: list[str]) -> TriangleMesh:
    """Consistent winding within every component, outwards for closed ones."""
    faces, parts = _consistent(mesh.faces)
    flipped = (faces != mesh.faces).any(axis=1)
    uvs = None if mesh.uvs is None else np.where(flipped[:, None, None], mesh.uvs[:, ::-1], mesh.uvs)
    mesh = TriangleMesh(mesh.vertices, faces, uvs)
    a, b, c = np.moveaxis(mesh.triangles - mesh.vertices.mean(axis=0), 1, 0)
    volume = np.bincount(parts, weights=np.einsum("ij,ij->i", a, np.cross(b, c)))
    inward = volume[parts] < 0
    if len(volume) > 1 and open_edges(faces) == 0 and mesh.volume > 0 and not flipped.any():
        inward[:] = False  # inner shells of a hollow solid face inwards on purpose
    flipped ^= inward
    faces = np.where(inward[:, None], faces[:, ::-1], faces)
    if uvs is not None:
        uvs = np.where(inward[:, None, None], uvs[:, ::-1], uvs)
    if flipped.any():
        notes.append(f"turned {int(flipped.sum())} faces whose winding was reversed")
    return TriangleMesh(mesh.vertices, faces, uvs)


def _consistent(faces: Faces) -> tuple[Faces, Faces]:
    """Faces turned so that neighbours agree, and the component of every face."""
    count = len(faces)
    edges, index = edge_table(faces)
    forward = edges[:, 0] < edges[:, 1]
    order = np.argsort(index, kind="stable")
    owner = order % count
    starts = np.flatnonzero(np.diff(index[order], prepend=-1))
    neighbours: list[list[tuple[int, bool]]] = [[] for _ in range(count)]
    for start, end in zip(starts, [*starts[1:], len(order)], strict=True):
        if end - start == 2:
            f, g = int(owner[start]), int(owner[start + 1])
            same = bool(forward[order[start]] == forward[order[start + 1]])
            neighbours[f].append((g, same))
            neighbours[g].append((f, same))
    part = np.full(count, -1, dtype=np.int64)
    flip = np.zeros(count, dtype=bool)
    components = 0
    for seed in range(count):
        if part[seed] >= 0:
            continue
        part[seed] = components
        stack = [seed]
        while stack:
            face = stack.pop()
            for other, same in neighbours[face]:
                if part[other] < 0:
                    part[other] = components
                    flip[other] = flip[face] ^ same
                    stack.append(other)
        components += 1
    for component in range(components):
        members = part == component
        if flip[members].mean() > 0.5:
            flip[members] ^= True
    return np.where(flip[:, None], faces[:, ::-1], faces), part


def _close(mesh: TriangleMesh, notes: list[str]) -> tuple[TriangleMesh, bool]:
    if open_edges(mesh.faces) == 0:
        return mesh, False
    filled = _fill_holes(mesh)
    if filled is not None:
        notes.append("filled small holes for mass and collision")
        return filled, True
    if mesh_cavity(mesh) is not None:
        shell = thicken(mesh, SHELL_THICKNESS)
        if open_edges(shell.faces) == 0 and shell.volume > 0:
            notes.append(f"open shell: given a thickness of {SHELL_THICKNESS * 1000:.0f} mm for mass and collision")
            return shell, True
    notes.append("open surface: its convex hull stands in for mass and collision")
    return convex_hull(mesh.vertices), True


def _boundary_loops(faces: Faces) -> list[list[int]] | None:
    """Loops of vertices along open edges, in the direction that closes them; None when they branch."""
    directed = {(int(a), int(b)) for f in faces for a, b in ((f[0], f[1]), (f[1], f[2]), (f[2], f[0]))}
    border = [(b, a) for a, b in directed if (b, a) not in directed]
    following = dict(border)
    if len(following) != len(border):
        return None
    loops: list[list[int]] = []
    while following:
        start, vertex = following.popitem()
        loop = [start]
        while vertex != start:
            loop.append(vertex)
            if vertex not in following:
                return None
            vertex = following.pop(vertex)
        loops.append(loop)
    return loops


def _fill_holes(mesh: TriangleMesh) -> TriangleMesh | None:
    """The mesh with its holes closed by fans, when they are small beside it."""
    loops = _boundary_loops(mesh.faces)
    if loops is None:
        return None
    limit = 0.25 * float(np.linalg.norm(mesh.extents))
    vertices, faces = [mesh.vertices], [mesh.faces]
    for count, loop in enumerate(loops):
        points = mesh.vertices[loop]
        if np.ptp(points, axis=0).max() > limit:
            return None
        hub = len(mesh.vertices) + count
        vertices.append(points.mean(axis=0, keepdims=True))
        faces.append(np.array([(a, b, hub) for a, b in zip(loop, loop[1:] + loop[:1], strict=True)], dtype=np.int64))
    filled = TriangleMesh(np.concatenate(vertices), np.concatenate(faces))
    return filled if open_edges(filled.faces) == 0 else None


def thicken(mesh: TriangleMesh, thickness: float) -> TriangleMesh:
    """A closed shell of `thickness` metres inside an open surface, edges joined along its border."""
    inside = mesh.vertices - thickness * mesh.vertex_normals()
    count = len(mesh.vertices)
    directed = {(int(a), int(b)) for f in mesh.faces for a, b in ((f[0], f[1]), (f[1], f[2]), (f[2], f[0]))}
    rim = [(a, b) for a, b in directed if (b, a) not in directed]
    band = [face for a, b in rim for face in ((b, a, a + count), (b, a + count, b + count))]
    faces = np.concatenate([mesh.faces, mesh.faces[:, ::-1] + count, np.array(band, dtype=np.int64).reshape(-1, 3)])
    shell = TriangleMesh(np.concatenate([mesh.vertices, inside]), faces)
    return shell if shell.volume > 0 else TriangleMesh(shell.vertices, shell.faces[:, ::-1])


def convex_hull(points: Array) -> TriangleMesh:
    """The convex hull of `(N, 3)` points."""
    try:
        from scipy.spatial import ConvexHull
    except ImportError as error:
        raise MissingError("the hull of an open mesh needs scipy (pip install scipy), or close the mesh") from error
    hull = ConvexHull(points)
    faces = hull.simplices.astype(np.int64)
    a, b, c = np.moveaxis(points[faces], 1, 0)
    inward = np.einsum("ij,ij->i", np.cross(b - a, c - a), hull.equations[:, :3]) < 0
    faces[inward] = faces[inward][:, ::-1]
    return drop_unused(TriangleMesh(points, faces))
