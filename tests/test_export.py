"""The exported folder: opens anywhere by MuJoCo alone, keeps cups open, and never leaves half of itself behind."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import mujoco
import numpy as np
import pytest

from mjcf_export.audit import audit_model, errors_only
from mjcf_export.document import hash_files
from mjcf_export.errors import InputError
from mjcf_export.export import export_scene
from mjcf_export.meshes import write_mesh
from mjcf_export.scene import Body, Box, Camera, Joint, Lathe, Material, Mesh, Pose, Robot, Scene
from mjcf_export.surfaces import turned_surface

CUP = Lathe(outer=((0.034, 0.0), (0.04, 0.09)), inner=((0.031, 0.005), (0.037, 0.09)))
ALONE = """
import sys, mujoco
model = mujoco.MjModel.from_xml_path("scene.xml")
data = mujoco.MjData(model)
mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
mujoco.mj_step(model, data, 500)
assert not any(module.startswith(("mjcf_export", "backend")) for module in sys.modules)
print(*(f"{value:.5f}" for value in data.body("Tasse ü/1").xpos), sum(w.number for w in data.warning))
"""


def table() -> Body:
    return Body(name="table", roles=("support",), shape=Box(size=(1.2, 1.2, 0.04)), pose=Pose(position=(0.5, 0, -0.04)))


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[Scene, Path]:
    """A robot, a cup with an awkward name and a texture, and a drawer, exported."""
    root = tmp_path_factory.mktemp("export")
    cv2.imwrite(str(root / "wood.jpg"), np.full((8, 8, 3), 90, np.uint8))
    scene = Scene(
        name="kitchen",
        bodies=(
            table(),
            Body(name="Tasse ü/1", roles=("container",), shape=CUP, mass=0.2, material="wood",
                 pose=Pose(position=(0.5, 0.1, 0))),
            Body(name="cabinet", roles=("fixed",), shape=Box(size=(0.3, 0.2, 0.1)), pose=Pose(position=(0.9, 0, 0))),
            Body(name="drawer", roles=("articulated",), shape=Box(size=(0.2, 0.1, 0.05)), parent="cabinet",
                 pose=Pose(position=(-0.3, 0, 0.02))),
        ),
        joints=(Joint(name="slide", body="drawer", kind="prismatic", axis=(-1, 0, 0), range=(0, 0.2), position=0.05),),
        robots=(Robot(name="right", model="fr3_robotiq_2f85", opening=0.03),),
        materials=(Material(name="wood", texture="wood.jpg"),),
        cameras=(Camera(name="ext", width=640, height=480, intrinsics=((600, 0, 310), (0, 600, 250), (0, 0, 1)),
                        pose=Pose(position=(1, 0, 1))),),
    )  # fmt: skip
    export_scene(scene, root, root / "mjcf")
    return scene, root


def test_folder_opens_elsewhere_with_mujoco_alone(exported: tuple[Scene, Path], tmp_path: Path) -> None:
    _, root = exported
    shutil.copytree(root / "mjcf", tmp_path / "moved")
    shutil.rmtree(root / "mjcf")
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-c", ALONE], cwd=tmp_path / "moved", capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        x, y, z, warnings = (float(value) for value in done.stdout.split())
        assert (x, y, z) == pytest.approx((0.5, 0.1, 0.0), abs=1e-3) and warnings == 0
        assert errors_only(audit_model(tmp_path / "moved" / "scene.xml")) == []
    finally:
        shutil.copytree(tmp_path / "moved", root / "mjcf", dirs_exist_ok=True)


def test_layout_is_that_of_the_menagerie(exported: tuple[Scene, Path]) -> None:
    _, root = exported
    assert sorted(item.name for item in (root / "mjcf").iterdir()) == ["assets", "scene.xml"]
    text = (root / "mjcf" / "scene.xml").read_text()
    assert 'class="visual"' in text and 'class="collision"' in text and 'angle="radian"' in text
    files = re.findall(r' file="([^"]+)"', text)
    assert files and all(not Path(file).is_absolute() and ".." not in file and file.isascii() for file in files)
    assert {file for file in files if file.endswith(".png")} == {"wood_texture.png"}, "a JPEG texture becomes a PNG"
    assert all((root / "mjcf" / "assets" / file).is_file() for file in files)
    assert str(root) not in text and "/site-packages/" not in text


def test_home_keyframe_is_the_scenes_state(exported: tuple[Scene, Path]) -> None:
    _, root = exported
    model = mujoco.MjModel.from_xml_path(str(root / "mjcf" / "scene.xml"))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, model.key("home").id)
    mujoco.mj_forward(model, data)
    assert data.joint("slide").qpos[0] == 0.05
    assert data.body("drawer").xpos == pytest.approx((0.9 - 0.3 - 0.05, 0, 0.02), abs=1e-6)
    camera = model.camera("ext").id
    focal, principal = model.cam_intrinsic[camera][:2], model.cam_intrinsic[camera][2:]
    assert focal / model.cam_sensorsize[camera] * (640, 480) == pytest.approx((600, 600), rel=1e-5)
    offset = principal / model.cam_sensorsize[camera] * (640, 480)
    assert offset == pytest.approx((319.5 - 310, 239.5 - 250), abs=1e-3)


def test_export_is_repeatable_and_replaces_only_its_own(exported: tuple[Scene, Path], tmp_path: Path) -> None:
    scene, root = exported
    before = hash_files([root / "mjcf"])
    export_scene(scene, root, root / "mjcf")
    assert hash_files([root / "mjcf"]) == before
    broken = scene.model_copy(update={"materials": (Material(name="wood", texture="missing.png"),)})
    with pytest.raises(InputError, match=r"missing\.png"):
        export_scene(broken, root, root / "mjcf")
    assert hash_files([root / "mjcf"]) == before, "a failed export leaves the earlier one as it was"
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InputError, match="not an earlier export"):
        export_scene(scene, root, tmp_path)
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.tex"]


@pytest.mark.parametrize("family", ["lathe", "mesh"])
def test_a_ball_falls_into_the_cup_and_stays(family: str, tmp_path: Path) -> None:
    shape = CUP
    if family == "mesh":
        write_mesh(turned_surface(np.array(CUP.outer), np.array(CUP.inner), 48), tmp_path / "cup.obj")
        shape = Mesh(file="cup.obj")
    bodies = (
        table(),
        Body(name="cup", roles=("container",), shape=shape, mass=0.2, pose=Pose(position=(0.5, 0, 0))),
        Body(name="die", shape=Box(size=(0.016, 0.016, 0.016)), mass=0.01, pose=Pose(position=(0.51, 0, 0.25))),
    )
    xml = export_scene(Scene(bodies=bodies), tmp_path, tmp_path / "mjcf", cache=tmp_path / "cache")
    model = mujoco.MjModel.from_xml_path(str(xml))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_step(model, data, 1500)
    assert 0.004 < data.body("die").xpos[2] < 0.03, "it lies on the cup's floor, not on a lid"
    assert np.linalg.norm(data.body("die").xpos[:2] - data.body("cup").xpos[:2]) < 0.03
    assert np.abs(data.qvel).max() < 0.01 and data.body("cup").xmat[8] > 0.99


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bodies": (table(), Body(name="a", shape=CUP, parent="b"), Body(name="b", shape=CUP, parent="a"))}, "circle"),
        ({"bodies": (table(), Body(name="right/cup", shape=CUP))}, "belong to the robot right; rename it"),
        ({"robots": (Robot(name="right", model="fr3_robotiq_2f85", qpos=(0.0,) * 6),)}, "6 joint positions"),
        ({"bodies": (table(), Body(name="cup", shape=Mesh(file="../secret.obj")))}, "secret.obj"),
    ],
)
def test_what_cannot_be_exported_is_named(change: dict, message: str, tmp_path: Path) -> None:
    scene = Scene(bodies=(table(),), robots=(Robot(name="right", model="fr3_robotiq_2f85"),)).model_copy(update=change)
    with pytest.raises(InputError, match=message):
        export_scene(scene, tmp_path, tmp_path / "mjcf")
    assert list(tmp_path.iterdir()) == []
