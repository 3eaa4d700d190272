"""Cameras, pictures, keyed rollouts and whole sequences, with the real Blender; no picture needs a GPU or a display."""

import json
import os
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
from blender_scene import QPOS, cameras, write_scene

bpy = pytest.importorskip("bpy", reason="needs the bpy package (pip install real2gym[blender])")

import mujoco  # noqa: E402
from bpy_extras.object_utils import world_to_camera_view  # noqa: E402
from mathutils import Vector  # noqa: E402

from backend.blender import run_blender  # noqa: E402
from backend.documents.verdict import Rollout  # noqa: E402
from blender_addon.cameras import look_through  # noqa: E402
from blender_addon.render import Quality, Shot, render_shots  # noqa: E402
from blender_addon.scene_build import build_scene, empty_file, save_blend  # noqa: E402
from blender_addon.scene_read import open_blend, read_scene  # noqa: E402
from mjcf_export.document import save_arrays  # noqa: E402
from mjcf_export.errors import InputError  # noqa: E402
from mjcf_export.export import export_scene  # noqa: E402
from mjcf_export.frames import apply, inverse, project, transform  # noqa: E402
from mjcf_export.scene import SCENE_FILE, Scene  # noqa: E402
from mjcf_export.shapes import shape_mesh  # noqa: E402

POINTS = np.array([[0.45, 0.0, 0.0], [0.3, -0.2, 0.1], [0.6, 0.25, 0.2], [0.2, 0.3, 0.05], [0.7, -0.1, 0.3]])


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Scene, Path]:
    """Scene folder, scene with what the pictures need, and its .blend."""
    root = tmp_path_factory.mktemp("render")
    full = write_scene(root / "scene")
    kept = ("table", "block", "cup", "can")
    scene = full.model_copy(update={"bodies": tuple(body for body in full.bodies if body.name in kept), "joints": ()})
    scene.save(root / "scene" / SCENE_FILE)
    empty_file()
    build_scene(scene, root / "scene")
    save_blend(root / "scene.blend")
    return root / "scene", scene, root / "scene.blend"


def silhouette_centroid(
    scene: Scene, folder: Path, body: str, camera: str, pose: np.ndarray | None = None
) -> np.ndarray:
    """Where the centroid of a convex body's silhouette must lie, in pixels, by pinhole projection of its hull."""
    view, item = scene.camera(camera), scene.body(body)
    points = apply(item.pose.matrix if pose is None else pose, shape_mesh(item.shape, folder).vertices)
    pixels, _ = project(points, view.matrix, view.pose.matrix)
    moments = cv2.moments(cv2.convexHull(pixels.astype(np.float32)))
    return np.array([moments["m10"], moments["m01"]]) / moments["m00"]


def seen_centroid(path: Path, number: int) -> np.ndarray:
    rows, columns = np.nonzero(cv2.imread(str(path), cv2.IMREAD_UNCHANGED) == number)
    return np.array([columns.mean(), rows.mean()])


@pytest.mark.parametrize("camera", ["ext1", "ext2", "wrist"])
def test_cameras_project_like_the_pinhole(built: tuple[Path, Scene, Path], camera: str) -> None:
    open_blend(built[2])
    seen_by = bpy.data.objects[camera]
    width, height = look_through(seen_by)
    view = next(item for item in cameras() if item.name == camera)
    assert (width, height) == (view.width, view.height)
    bpy.context.view_layer.update()
    optical = np.array(seen_by.matrix_world) @ np.diag([1, -1, -1, 1])
    if view.mount is None:
        assert np.abs(optical - view.pose.matrix).max() < 1e-6
    points = apply(optical, apply(inverse(cameras()[0].pose.matrix), POINTS))
    expected, depth = project(points, view.matrix, optical)
    for point, pixel, z in zip(points, expected, depth, strict=True):
        x, y, seen_depth = world_to_camera_view(bpy.context.scene, seen_by, Vector(point))
        assert np.allclose((x * width - 0.5, (1 - y) * height - 0.5), pixel, atol=0.02)
        assert abs(seen_depth - z) < 1e-5


def test_pictures_of_ids_and_depth_are_exact(built: tuple[Path, Scene, Path], tmp_path: Path) -> None:
    folder, scene, blend = built
    open_blend(blend)
    for name in ("ext1", "ext2"):
        render_shots(name, [Shot(7, 0)], tmp_path / name, Quality(samples=1), ("rgb", "ids", "depth"))
        numbers = json.loads((tmp_path / name / "ids" / "ids.json").read_text())
        assert set(numbers) == {"table", "block", "cup", "can", "right"}
        ids = tmp_path / name / "ids" / "000007.png"
        for body in ("block", "can"):
            expected = silhouette_centroid(scene, folder, body, name)
            assert np.abs(seen_centroid(ids, numbers[body]) - expected).max() < 0.2, (name, body)
        depth = cv2.imread(str(tmp_path / name / "depth" / "000007.png"), cv2.IMREAD_UNCHANGED)
        masks = cv2.imread(str(ids), cv2.IMREAD_UNCHANGED)
        view = scene.camera(name)
        v, u = (
            int(value)
            for value in np.argwhere(masks == numbers["table"])[len(np.argwhere(masks == numbers["table"])) // 2]
        )
        ray = view.pose.matrix[:3, :3] @ np.linalg.inv(view.matrix) @ (u, v, 1)
        assert abs(depth[v, u] / 1e3 - -view.pose.position[2] / ray[2]) < 6e-4
        picture = cv2.imread(str(tmp_path / name / "rgb" / "000007.png"))[..., ::-1]
        assert picture.shape == (view.height, view.width, 3)
        cup = picture[masks == numbers["cup"]].mean(axis=0)
        assert cup[2] > 1.5 * cup[0], "the cup is blue"
    background = picture[masks == 0].mean(axis=0) / 255
    assert np.allclose(background, np.array(scene.backdrop) * 2 ** (0.25 / 2.2), atol=0.03)
    assert bpy.context.view_layer.material_override is None
    assert bpy.context.scene.world is not None
    with pytest.raises(InputError, match="ext1, ext2, wrist"):
        render_shots("nowhere", [Shot(0, 0)], tmp_path, Quality())


def test_keyed_rollout_is_the_rollout(built: tuple[Path, Scene, Path], tmp_path: Path) -> None:
    folder, scene, blend = built
    xml = export_scene(scene, folder, tmp_path / "mjcf")
    model = mujoco.MjModel.from_xml_path(str(xml))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    home, count = data.qpos.copy(), 81
    block = int(model.joint("block").qposadr[0])
    arm = [int(model.joint(f"right/fr3_joint{i}").qposadr[0]) for i in range(1, 8)]
    qpos = np.tile(home, (count, 1))
    worlds = []
    for row in range(count):
        qpos[row, arm] = np.array(QPOS) + 0.5 * np.sin(row / 15)
        qpos[row, block : block + 3] += (0.1 * row / count, 0, 0.2 * np.sin(row / 25))
        turn = 4.0 * row / count
        qpos[row, block + 3 : block + 7] = (np.cos(turn), 0, np.sin(turn), 0)
        data.qpos[:] = qpos[row]
        mujoco.mj_kinematics(model, data)
        worlds.append(
            {name: transform(data.body(name).xpos, data.body(name).xquat) for name in ("block", "right/fr3_link7")}
        )
    poses = {
        f"body/{body.name}": np.array(
            [
                [*qpos[row, block : block + 7]]
                if body.name == "block"
                else [*body.pose.position, *body.pose.quaternion]
                for row in range(count)
            ]
        )
        for body in scene.bodies
    }
    names = tuple(body.name for body in scene.bodies)
    steps = {"physics_dt": 0.002, "control_dt": 0.01, "steps": count, "start": 0.2}
    rollout = Rollout(mujoco_version=mujoco.__version__, bodies=names, robots=("right",), **steps)
    rollout.save(tmp_path / "rollout" / "rollout.json")
    save_arrays(tmp_path / "rollout" / "rollout.npz", {"time": np.arange(count) * 0.01, "qpos": qpos, **poses})
    run_blender(["animate", str(blend), str(tmp_path / "rollout"), str(tmp_path / "out.blend"), "--fps", "20"])
    open_blend(tmp_path / "out.blend")
    assert bpy.context.scene.frame_end == 12
    for frame in (0, 1, 5, 12):
        bpy.context.scene.frame_set(frame)
        row = 20 + 5 * frame
        for name, expected in worlds[row].items():
            found = np.array(bpy.data.objects[name].matrix_world)
            assert np.abs(found - expected).max() < 1e-5, (frame, name)
    bpy.context.scene.frame_set(3, subframe=0.5)
    between = np.array(bpy.data.objects["block"].matrix_world)[:3, 3]
    assert np.allclose(between, (worlds[35]["block"] + worlds[40]["block"])[:3, 3] / 2, atol=1e-6)
    _check_reading_keyed(tmp_path, scene)
    with pytest.raises(InputError, match="fewer"):
        (tmp_path / "rollout" / "rollout.json").write_text(
            rollout.model_copy(update={"bodies": ("fewer",)}).model_dump_json()
        )
        run_blender(["animate", str(blend), str(tmp_path / "rollout"), str(tmp_path / "bad.blend")])
    assert not (tmp_path / "bad.blend").exists()


def _check_reading_keyed(tmp_path: Path, scene: Scene) -> None:
    """The open, keyed .blend still holds the scene it was built from, and what the user moves in it."""
    bpy.context.scene.frame_set(7)
    moving = np.array(bpy.data.objects["block"].matrix_world)
    assert read_scene(tmp_path / "keyed")[0] == scene
    assert np.array_equal(np.array(bpy.data.objects["block"].matrix_world), moving)
    block = bpy.data.objects["block"]
    block.location.x += 0.05
    block.scale.z = 2.0
    dragged = tuple(block.location)
    back = read_scene(tmp_path / "dragged")[0].body("block")
    assert tuple(block.location) == dragged
    start = np.array(scene.body("block").pose.position)
    assert np.allclose(np.array(back.pose.position) - start, (0.05, 0, 0), atol=1e-6)
    assert np.allclose(back.shape.size, np.array(scene.body("block").shape.size) * (1, 1, 2), atol=1e-6)
    open_blend(tmp_path / "out.blend")
    block = bpy.data.objects["block"]
    block.location.y += 0.02
    block.keyframe_insert("location", frame=0)
    back = read_scene(tmp_path / "rekeyed")[0].body("block")
    assert np.allclose(np.array(back.pose.position) - start, (0, 0.02, 0), atol=1e-6)


def test_a_sequence_renders_in_one_process(built: tuple[Path, Scene, Path], tmp_path: Path) -> None:
    folder, scene, _ = built
    moved = np.array([[0.45, -0.2 + 0.1 * row, 0.05, np.cos(0.2 * row), 0, 0, np.sin(0.2 * row)] for row in range(3)])
    save_arrays(tmp_path / "poses.npz", {
        "body/block": moved, "right/qpos": np.tile(QPOS, (3, 1)), "right/opening": np.array([0.08, 0.04, 0.0]),
    })  # fmt: skip
    seen: list[float] = []
    run_blender(
        ["render-sequence", str(folder), str(tmp_path / "poses.npz"), str(tmp_path / "out"), "--cameras", "ext1,ext2",
         "--pass", "ids", "--frames", "0,2"],
        lambda done, _: seen.append(done),
    )  # fmt: skip
    assert seen == [0.25, 0.5, 0.75, 1.0]
    for camera in ("ext1", "ext2"):
        ids = tmp_path / "out" / camera / "ids"
        number = json.loads((ids / "ids.json").read_text())["block"]
        for row in (0, 2):
            expected = silhouette_centroid(scene, folder, "block", camera, transform(moved[row, :3], moved[row, 3:]))
            assert np.abs(seen_centroid(ids / f"{row:06d}.png", number) - expected).max() < 0.2, (camera, row)
    save_arrays(tmp_path / "short.npz", {"body/block": moved[:, :6]})
    with pytest.raises(InputError, match=r"body/block.*\(3, 7\)"):
        run_blender(
            ["render-sequence", str(folder), str(tmp_path / "short.npz"), str(tmp_path / "o"), "--cameras", "ext1"]
        )


def test_a_machine_without_blender_is_told_what_to_do(tmp_path: Path) -> None:
    ask = "import sys; sys.modules['bpy'] = None\nfrom backend.blender import blender_command\nprint(blender_command())"
    ours = "{} {}".format(*sys.version_info[:2])

    def answer(version: str | None, probe: str = "", **named: str) -> subprocess.CompletedProcess[str]:
        environment = {**os.environ, "PATH": str(tmp_path), **named}
        if version is not None:
            program = tmp_path / "blender"
            program.write_text(f'#!/bin/sh\n[ "$1" = --version ] && echo Blender {version} || echo "probe {probe}"\n')
            program.chmod(0o755)
        return subprocess.run([sys.executable, "-c", ask], env=environment, capture_output=True, text=True, check=False)

    assert "pip install 'real2gym[blender]'" in answer(None).stderr
    assert "names no program" in answer(None, REAL2GYM_BLENDER="/nowhere/blender").stderr
    assert "is Blender 3.6" in answer("3.6.5").stderr
    assert "'--command', 'real2gym'" in answer("4.3.2", "3 99 True").stdout
    assert "'--python-expr'" in answer("4.3.2", f"{ours} False").stdout
    assert "has Python 3.99" in answer("4.3.2", "3 99 False").stderr
