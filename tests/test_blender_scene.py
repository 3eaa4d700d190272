"""Scene to .blend and back, with the real Blender: untouched exactly, edited as the user left it."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from blender_scene import QPOS, ROBOT, write_scene

bpy = pytest.importorskip("bpy", reason="needs the bpy package (pip install real2gym[blender])")

import mujoco  # noqa: E402
from mathutils import Matrix  # noqa: E402

from blender_addon.robot_figure import RobotFigure  # noqa: E402
from blender_addon.scene_build import build_scene, empty_file, save_blend  # noqa: E402
from blender_addon.scene_read import open_blend, read_scene  # noqa: E402
from mjcf_export.errors import InputError  # noqa: E402
from mjcf_export.frames import apply, transform  # noqa: E402
from mjcf_export.robots import attach_robot, load_robot  # noqa: E402
from mjcf_export.scene import Box, Cylinder, Extrusion, Lathe, Mesh, Scene, Tray  # noqa: E402
from mjcf_export.shapes import shape_mesh  # noqa: E402


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scene, Path]:
    """Scene folder, scene, and the .blend made of it."""
    root = tmp_path_factory.mktemp("blender")
    scene = write_scene(root / "scene")
    empty_file()
    build_scene(scene, root / "scene")
    save_blend(root / "scene.blend")
    return root / "scene", scene, root / "scene.blend"


def item(name: str):  # type: ignore[no-untyped-def]
    return bpy.data.objects[name]


def world_vertices(scene: Scene, name: str, folder: Path) -> np.ndarray:
    body = scene.body(name)
    return apply(body.pose.matrix, shape_mesh(body.shape, folder).vertices)


def seen_vertices(name: str) -> np.ndarray:
    bpy.context.view_layer.update()
    return np.array([tuple(item(name).matrix_world @ vertex.co) for vertex in item(name).data.vertices])


def same_points(first: np.ndarray, second: np.ndarray, tolerance: float = 2e-6) -> bool:
    """Whether two point sets coincide, in any order."""
    distance = np.linalg.norm(first[:, None] - second[None], axis=2)
    return max(distance.min(axis=0).max(), distance.min(axis=1).max()) < tolerance


def test_round_trip_is_exact_and_leaves_the_blend_alone(built: tuple[Path, Scene, Path], tmp_path: Path) -> None:
    folder, scene, blend = built
    before = hashlib.sha256(blend.read_bytes()).hexdigest()
    open_blend(blend)
    names = {kind: [block.name for block in getattr(bpy.data, kind)] for kind in ("objects", "scenes", "meshes")}
    back, notes = read_scene(tmp_path)
    assert back == scene
    assert Scene.load(tmp_path / "scene.json") == scene
    assert notes == []
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    assert files == {path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()}
    for file in files - {Path("scene.json")}:
        assert (folder / file).read_bytes() == (tmp_path / file).read_bytes(), file
    assert names == {kind: [block.name for block in getattr(bpy.data, kind)] for kind in names}
    assert hashlib.sha256(blend.read_bytes()).hexdigest() == before


def test_links_stand_where_mujoco_puts_them(built: tuple[Path, Scene, Path]) -> None:
    _, scene, blend = built
    open_blend(blend)
    robot = load_robot(ROBOT)
    spec = mujoco.MjSpec()
    attach_robot(spec, robot, "right", scene.robots[0].base)
    model = spec.compile()
    data = mujoco.MjData(model)
    robot.place(model, data, "right", np.array(QPOS), 0.05)
    mujoco.mj_forward(model, data)
    compared = 0
    for body in range(1, model.nbody):
        found = np.array(item(model.body(body).name).matrix_world)
        assert np.abs(found - transform(data.xpos[body], data.xquat[body])).max() < 1e-5, model.body(body).name
        compared += 1
    assert compared > 15
    assert np.abs(np.array(item("right/tcp").matrix_world)[:3, 3] - data.site("right/tcp").xpos).max() < 1e-5
    assert item("right/fr3_link5").parent.name == "right/fr3_link4"
    camera = np.array(item("wrist").matrix_world)
    link = data.body("right/fr3_link7")
    pose = transform(link.xpos, link.xquat) @ scene.camera("wrist").pose.matrix @ np.diag([1, -1, -1, 1])
    assert np.abs(camera - pose).max() < 1e-5


def test_a_moved_link_changes_its_joint(built: tuple[Path, Scene, Path], tmp_path: Path) -> None:
    open_blend(built[2])
    link = item("right/fr3_link4")
    link.matrix_basis = link.matrix_basis @ Matrix.Rotation(0.25, 4, "Z")
    back, _ = read_scene(tmp_path)
    moved = np.array(back.robots[0].qpos) - QPOS
    assert abs(moved[3] - 0.25) < 1e-5
    assert np.delete(moved, 3).tolist() == [0] * 6
    figure = RobotFigure.load(ROBOT, tmp_path)
    poses = figure.link_poses(np.array(back.robots[0].qpos), 0.05)
    found = np.array(item("right/fr3_link7").matrix_world)
    assert np.abs(back.robots[0].base.matrix @ poses["fr3_link7"] - found).max() < 1e-5


def test_edits_are_the_truth(built: tuple[Path, Scene, Path], tmp_path: Path) -> None:
    _, scene, blend = built
    open_blend(blend)
    item("table").location.x += 1e-4
    item("ext1").location.z += 0.3
    item("ext2").data.lens *= 1.1
    item("block").scale = (2, 1, 0.5)
    item("block").name = "brick"
    item("cup")["r2g_mass"] = 0.25
    item("can").hide_viewport = True
    item("can").location.y = 0.31
    blue = bpy.data.materials["blue"].node_tree.nodes["Principled BSDF"]
    blue.inputs["Base Color"].default_value = (1, 0.5, 0, 1)
    item("key").data.energy = 55
    bpy.data.objects.remove(item("wedge"))
    back, _ = read_scene(tmp_path)
    assert abs(back.body("table").pose.position[0] - 0.4501) < 1e-7
    assert back.body("table").pose.position[1:] == scene.body("table").pose.position[1:]
    assert abs(back.camera("ext1").pose.position[2] - 1.1) < 1e-6
    assert back.camera("ext1").intrinsics == scene.camera("ext1").intrinsics
    assert np.allclose(np.diag(back.camera("ext2").matrix)[:2], 275, atol=1e-3)
    brick = back.body("brick")
    assert isinstance(brick.shape, Box)
    assert np.allclose(brick.shape.size, (0.102469134, 0.04, 0.03), atol=1e-8)
    assert brick.pose == scene.body("block").pose
    assert brick.mass == scene.body("block").mass
    assert back.task.predicates[0].args == ("brick", "cup")
    assert back.body("cup").mass == 0.25
    assert abs(back.body("can").pose.position[1] - 0.31) < 1e-6
    blue_read = next(material for material in back.materials if material.name == "blue")
    assert np.allclose(blue_read.color, (1, 0.7353569, 0), atol=1e-6)
    assert back.lights[0].energy == 55
    assert "wedge" not in [body.name for body in back.bodies]
    assert item("can").hide_viewport


@pytest.mark.parametrize(
    ("name", "scale", "family"),
    [
        ("block", (-1, 1, 1), Box),
        ("block", (1, 1, -2), Box),
        ("cup", (1, -1, 1), Lathe),
        ("cup", (1.5, 1.5, -2), Lathe),
        ("cup", (1.5, 1, 1), Mesh),
        ("can", (2, 2, 3), Cylinder),
        ("tray", (1.2, 1.2, 2), Tray),
        ("tray", (1, 2, 1), Mesh),
        ("wedge", (-1, 2, 1), Extrusion),
        ("ball", (1, 1, -1), Mesh),
        ("ball", (0.5, 2, 1), Mesh),
    ],
)
@pytest.mark.parametrize("applied", [False, True])
def test_scale_and_mirror(
    built: tuple[Path, Scene, Path], tmp_path: Path, name: str, scale: tuple[float, ...], family: type, applied: bool
) -> None:
    open_blend(built[2])
    item(name).scale = scale
    if applied:
        item(name).data.transform(Matrix.Diagonal((*scale, 1)))
        item(name).scale = (1, 1, 1)
        if np.prod(scale) < 0:
            item(name).data.flip_normals()
    back, _ = read_scene(tmp_path)
    shape = back.body(name).shape
    assert isinstance(shape, family)
    assert same_points(world_vertices(back, name, tmp_path), seen_vertices(name))
    mesh = shape_mesh(shape, tmp_path)
    assert mesh.volume > 0
    assert abs(mesh.vertices[:, 2].min()) < 1e-6
    rest = [body for body in back.bodies if body.name != name]
    assert rest == [body for body in built[1].bodies if body.name != name]


def test_parented_under_uneven_scale(built: tuple[Path, Scene, Path], tmp_path: Path) -> None:
    open_blend(built[2])
    holder = bpy.data.objects.new("holder", None)
    bpy.context.scene.collection.objects.link(holder)
    holder.location, holder.scale = (0.1, 0.2, 0.3), (1, 1, 2)
    holder.rotation_euler = (0, 0, 0.5)
    for name in ("can", "block"):
        item(name).parent = holder
    item("block").rotation_quaternion = (0.9, 0.3, 0.2, 0.1)
    item("tray").parent = item("table")
    item("tray").matrix_parent_inverse = item("table").matrix_world.inverted()
    back, _ = read_scene(tmp_path)
    assert back.body("can").shape == Cylinder(radius=0.03, height=0.2)
    assert same_points(world_vertices(back, "can", tmp_path), seen_vertices("can"))
    assert isinstance(back.body("block").shape, Mesh), "a sheared box is no box"
    assert same_points(world_vertices(back, "block", tmp_path), seen_vertices("block"))
    assert np.allclose(back.body("tray").pose.matrix, built[1].body("tray").pose.matrix, atol=1e-6)
    assert back.body("tray").parent is None


def test_artists_meshes_modifiers_and_instances(built: tuple[Path, Scene, Path], tmp_path: Path) -> None:
    open_blend(built[2])
    folder = bpy.data.collections["Bodies"]
    bpy.ops.mesh.primitive_torus_add(major_radius=0.05, minor_radius=0.01, location=(0.3, 0.3, 0.2))
    torus = bpy.context.object
    torus.name = "ring"
    torus["real2gym"] = "body"
    torus["r2g_friction"] = 0.9
    array = item("can").modifiers.new("Array", "ARRAY")
    array.count, array.use_relative_offset, array.use_constant_offset = 2, False, True
    array.constant_offset_displace = (0.1, 0, 0)
    library = bpy.data.collections.new("parts")
    part = bpy.data.objects.new("part", item("block").data)
    part.location = (0, 0, 0.1)
    library.objects.link(part)
    instance = bpy.data.objects.new("stamp", None)
    instance.instance_type, instance.instance_collection = "COLLECTION", library
    instance.location = (0.7, 0.2, 0)
    folder.objects.link(instance)
    handle = bpy.data.objects.new("handle", item("block").data)
    handle.parent, handle.location = item("cup"), (0.06, 0, 0.02)
    folder.objects.link(handle)
    objects = sorted(bpy.data.objects.keys())
    back, _ = read_scene(tmp_path)
    assert sorted(bpy.data.objects.keys()) == objects
    ring = back.body("ring")
    assert ring.friction == 0.9
    assert np.allclose(ring.pose.position, (0.3, 0.3, 0.19), atol=1e-6)
    assert np.allclose(shape_mesh(ring.shape, tmp_path).extents, (0.12, 0.12, 0.02), atol=1e-6)
    doubled = shape_mesh(back.body("can").shape, tmp_path)
    assert np.allclose(doubled.extents, (0.16, 0.06, 0.1), atol=1e-6)
    stamp = back.body("stamp")
    assert np.allclose(stamp.pose.position, (0.7, 0.2, 0.1), atol=1e-6)
    assert stamp.material == "check"
    assert isinstance(back.body("cup").shape, Mesh), "a cup with a handle is no lathe"
    assert shape_mesh(back.body("cup").shape, tmp_path).extents[0] > 0.1
    assert "handle" not in [body.name for body in back.bodies]


def test_what_cannot_be_read_says_so(built: tuple[Path, Scene, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such file"):
        open_blend(tmp_path / "none.blend")
    (tmp_path / "broken.blend").write_bytes(b"not a blend")
    with pytest.raises(InputError, match="cannot open"):
        open_blend(tmp_path / "broken.blend")
    empty_file()
    with pytest.raises(InputError, match="collection named Bodies"):
        read_scene(tmp_path / "out")
    open_blend(built[2])
    item("cup").scale = (1, 1, 0)
    with pytest.raises(InputError, match="cup.*scale"):
        read_scene(tmp_path / "out")
    item("cup").scale = (1, 1, 1)
    item("cup")["r2g_friction"] = "slippery"
    with pytest.raises(InputError, match="cup.*r2g_friction"):
        read_scene(tmp_path / "out")
    assert not (tmp_path / "out").exists()
