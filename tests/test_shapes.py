"""Shapes as solids: exact masses, true cavities, matching collision; broken meshes refused or mended by name."""

from pathlib import Path

import numpy as np
import pytest
import trimesh

from mjcf_export.cavities import open_fraction
from mjcf_export.collision import collision_pieces
from mjcf_export.errors import InputError
from mjcf_export.inertia import mass_properties
from mjcf_export.meshes import load_mesh, read_mesh, write_mesh
from mjcf_export.scene import Box, Cylinder, Extrusion, Lathe, Mesh, Shape, Tray
from mjcf_export.shapes import cavity, extents, shape_mesh, texel_points
from mjcf_export.surfaces import turned_surface
from mjcf_export.triangles import TriangleMesh, is_convex, open_edges

CUP = Lathe(outer=((0.034, 0.0), (0.04, 0.09)), inner=((0.031, 0.005), (0.037, 0.09)))
BOWL = Lathe(
    outer=((0.03, 0.0), (0.055, 0.02), (0.07, 0.06)), inner=((0.026, 0.006), (0.05, 0.021), (0.066, 0.06))
)  # fmt: skip
FAMILIES: dict[str, Shape] = {
    "box": Box(size=(0.04, 0.06, 0.1)),
    "cylinder": Cylinder(radius=0.03, height=0.12),
    "cup": CUP,
    "bowl": BOWL,
    "bottle": Lathe(outer=((0.03, 0.0), (0.03, 0.1), (0.012, 0.14), (0.012, 0.18))),
    "tray": Tray(size=(0.2, 0.15, 0.05), wall=0.006, floor=0.005),
    "star": Extrusion(
        polygon=((0.04, 0.0), (0.01, 0.01), (0.0, 0.04), (-0.01, 0.01), (-0.04, 0.0), (0.0, -0.03)), height=0.03
    ),
}  # fmt: skip


def frustum(low: float, high: float, height: float) -> float:
    return np.pi * height * (low**2 + low * high + high**2) / 3


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_is_closed_and_its_pieces_stand_for_it(name: str, tmp_path: Path) -> None:
    shape = FAMILIES[name]
    mesh = shape_mesh(shape, tmp_path)
    assert open_edges(mesh.faces) == 0 and mesh.volume > 0
    assert mesh.vertices[:, 2].min() == pytest.approx(0, abs=1e-12)
    assert np.allclose(mesh.extents, extents(shape, tmp_path), rtol=0.01)
    pieces = [piece.surface() for piece in collision_pieces(shape, tmp_path)]
    assert all(is_convex(piece, 1e-3) for piece in pieces)
    assert sum(piece.volume for piece in pieces) == pytest.approx(mesh.volume, rel=0.06)
    low, high = (np.array([bound(p.vertices, axis=0) for p in pieces]) for bound in (np.min, np.max))
    assert np.allclose(low.min(axis=0), mesh.vertices.min(axis=0), atol=1e-3)
    assert np.allclose(high.max(axis=0), mesh.vertices.max(axis=0), atol=1e-3)
    left_open = open_fraction(mesh, pieces)
    assert (left_open is not None) == (cavity(shape) is not None)
    assert left_open is None or left_open > 0.95


def test_mass_and_inertia_are_those_of_the_formula(tmp_path: Path) -> None:
    x, y, z = 0.04, 0.06, 0.1
    box = mass_properties(shape_mesh(Box(size=(x, y, z)), tmp_path), mass=1.2)
    assert box.centre == pytest.approx((0, 0, z / 2))
    assert np.diag(box.inertia) == pytest.approx(0.1 * np.array([y * y + z * z, x * x + z * z, x * x + y * y]))
    hollow = mass_properties(shape_mesh(CUP, tmp_path), density=900)
    wall = frustum(0.034, 0.04, 0.09) - frustum(0.031, 0.037, 0.085)
    assert hollow.mass == pytest.approx(900 * wall, rel=0.01)
    assert 0.03 < hollow.centre[2] < 0.045, "the floor draws the centre down, the wide rim up"
    moments, _ = hollow.principal()
    assert moments[0] + moments[1] >= moments[2]


def test_cavities_are_measured_on_meshes_too(tmp_path: Path) -> None:
    write_mesh(turned_surface(np.array(CUP.outer), np.array(CUP.inner), 64), tmp_path / "cup.obj")
    found, known = cavity(Mesh(file="cup.obj"), tmp_path), cavity(CUP)
    assert found is not None and known is not None
    assert found.floor == pytest.approx(known.floor, abs=1e-3) and found.rim == pytest.approx(known.rim, abs=1e-3)
    assert found.opening[0] == pytest.approx(known.opening[0], abs=1.5e-3)
    assert found.contains([(0, 0, 0.05), (0.036, 0, 0.01), (0, 0, 0.1)]).tolist() == [True, False, False]


@pytest.mark.parametrize("extra", ["none", "handle"])
def test_meshes_with_cavities_are_decomposed_open(extra: str, tmp_path: Path) -> None:
    """A cup whole, and a mug whose handle has to be cut apart from it."""
    import manifold3d

    solid = manifold3d.Manifold.cylinder(0.09, 0.04, circular_segments=48)
    if extra == "handle":
        bar = manifold3d.Manifold.cube((0.03, 0.01, 0.05), True).translate((0.05, 0, 0.045))
        solid += bar - manifold3d.Manifold.cube((0.02, 0.02, 0.03), True).translate((0.05, 0, 0.045))
    solid -= manifold3d.Manifold.cylinder(0.1, 0.036, circular_segments=48).translate((0, 0, 0.006))
    made = solid.to_mesh()
    mesh = TriangleMesh(
        np.array(made.vert_properties[:, :3], dtype=np.float64), np.array(made.tri_verts, dtype=np.int64)
    )
    write_mesh(mesh, tmp_path / "mug.obj")
    pieces = [piece.surface() for piece in collision_pieces(Mesh(file="mug.obj"), tmp_path, tmp_path / "cache")]
    opened = open_fraction(load_mesh(tmp_path, "mug.obj").mesh, pieces)
    assert opened is not None and opened > 0.95 and len(pieces) < 60
    assert sum(piece.volume for piece in pieces) == pytest.approx(mesh.volume, rel=0.1)
    again = [piece.surface() for piece in collision_pieces(Mesh(file="mug.obj"), tmp_path, tmp_path / "cache")]
    assert all(np.array_equal(a.vertices, b.vertices) for a, b in zip(pieces, again, strict=True))


def block() -> TriangleMesh:
    made = trimesh.creation.box((0.06, 0.05, 0.04))
    return TriangleMesh(np.array(made.vertices), np.array(made.faces))


NOT_FINITE = np.where(np.arange(24).reshape(8, 3) == 4, np.nan, block().vertices)
BROKEN = {
    "a solid needs four of each": (np.zeros((0, 3)), np.zeros((0, 3), dtype=np.int64)),
    "vertices are NaN or infinite": (NOT_FINITE, block().faces),
    "has no thickness": (block().vertices * (1, 1, 0), block().faces),
    "every face has zero area": (block().vertices, block().faces[:, [0, 0, 1]]),
}  # fmt: skip


@pytest.mark.parametrize("message", BROKEN)
def test_unusable_mesh_is_refused_by_name(message: str, tmp_path: Path) -> None:
    write_mesh(TriangleMesh(*BROKEN[message]), tmp_path / "bad.obj")
    with pytest.raises(InputError, match=f"bad.obj: .*{message}"):
        load_mesh(tmp_path, "bad.obj")


def test_unreadable_and_escaping_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "text.stl").write_text("this is no mesh")
    (tmp_path / "gap.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n")
    for file in ("text.stl", "gap.obj"):
        with pytest.raises(InputError, match=f"{file}: not a readable"):
            read_mesh(tmp_path / file)
    with pytest.raises(InputError, match="gap.obj: the path leaves its folder"):
        load_mesh(tmp_path / "scene", "../gap.obj")


def test_mendable_meshes_are_mended_and_say_so(tmp_path: Path) -> None:
    good = block()
    inside_out = TriangleMesh(good.vertices, good.faces[:, ::-1])
    open_box = TriangleMesh(good.vertices, good.faces[2:])
    fine = trimesh.creation.icosphere(subdivisions=7, radius=0.05)
    for name, mesh in (("turned", inside_out), ("open", open_box)):
        write_mesh(mesh, tmp_path / f"{name}.obj")
    fine.export(tmp_path / "fine.stl")
    turned, opened, huge = (load_mesh(tmp_path, file) for file in ("turned.obj", "open.obj", "fine.stl"))
    assert turned.solid.volume == pytest.approx(0.06 * 0.05 * 0.04) and turned.notes
    assert opened.solid.volume == pytest.approx(0.06 * 0.05 * 0.04, rel=0.02) and opened.notes
    assert open_edges(opened.solid.faces) == 0
    assert len(huge.mesh.faces) <= 200_000 and "decimated" in " ".join(huge.notes)
    assert huge.solid.volume == pytest.approx(4 / 3 * np.pi * 0.05**3, rel=0.01)


def test_every_texel_lies_on_the_surface(tmp_path: Path) -> None:
    points, normals, valid = texel_points(CUP, tmp_path, 64)
    assert valid.mean() > 0.5
    surface = trimesh.Trimesh(*(getattr(shape_mesh(CUP, tmp_path), name) for name in ("vertices", "faces")))
    chosen = points[valid][::23]
    _, distance, _ = trimesh.proximity.closest_point_naive(surface, chosen)
    assert distance.max() < 1e-6
    assert np.allclose(np.linalg.norm(normals[valid], axis=1), 1.0)
    with pytest.raises(InputError, match="no texture coordinates; unwrap it first"):
        write_mesh(block(), tmp_path / "plain.obj")
        texel_points(Mesh(file="plain.obj"), tmp_path, 16)
