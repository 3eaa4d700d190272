"""A robot's own files travel with the scene that names it."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import trimesh

from mjcf_export.errors import InputError
from mjcf_export.export import export_scene
from mjcf_export.robot_carry import carry_robot
from mjcf_export.robots import compile_robot, load_robot
from mjcf_export.scene import Robot, Scene

LINK = """<link name="{name}"><inertial><mass value="1"/>
<inertia ixx=".01" iyy=".01" izz=".01" ixy="0" ixz="0" iyz="0"/></inertial>
<visual><geometry>{shape}</geometry></visual></link>"""
JOINT = """<joint name="turn" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 0 1"/>
<limit lower="-1" upper="1" effort="9" velocity="1"/></joint>"""


def write_urdf(package: Path, mesh: str = "package://arm_description/meshes/arm.stl") -> Path:
    (package / "urdf").mkdir(parents=True)
    (package / "meshes").mkdir()
    (package / "package.xml").write_text("<package/>")
    trimesh.creation.box((0.05, 0.05, 0.2)).export(package / "meshes" / "arm.stl")
    (package / "unused.bin").write_bytes(b"x" * 1000)
    links = LINK.format(name="base", shape='<box size=".1 .1 .1"/>') + LINK.format(
        name="arm", shape=f'<mesh filename="{mesh}"/>'
    )
    path = package / "urdf" / "arm.urdf"
    path.write_text(f'<robot name="arm">{links}{JOINT}</robot>')
    return path


def write_mjcf(folder: Path) -> Path:
    (folder / "assets").mkdir(parents=True)
    trimesh.creation.box((0.05, 0.05, 0.2)).export(folder / "assets" / "arm.stl")
    (folder / "mesh.xml").write_text('<mujoco><asset><mesh name="arm" file="arm.stl"/></asset></mujoco>')
    path = folder / "arm.xml"
    path.write_text(
        '<mujoco><compiler meshdir="assets"/><include file="mesh.xml"/><worldbody><body><joint name="turn"/>'
        '<geom type="mesh" mesh="arm"/></body></worldbody><actuator><position joint="turn" kp="9"/></actuator></mujoco>'
    )
    return path


@pytest.mark.parametrize("kind", ["urdf", "mjcf"])
def test_a_scene_with_its_own_robot_can_be_moved(kind: str, tmp_path: Path) -> None:
    origin = tmp_path / "arm_description"
    path = write_urdf(origin) if kind == "urdf" else write_mjcf(origin)
    before = compile_robot(load_robot(str(path)))
    model = carry_robot(str(path), None, tmp_path / "scene")
    shutil.rmtree(origin)
    (tmp_path / "scene").rename(tmp_path / "moved")
    after = compile_robot(load_robot(model, tmp_path / "moved"))
    np.testing.assert_allclose(after.mesh_vert, before.mesh_vert, atol=1e-9)
    np.testing.assert_allclose(after.body_mass, before.body_mass)
    assert not list((tmp_path / "moved").rglob("unused.bin")), "only what the robot names is carried"
    scene = Scene(robots=(Robot(name="right", model=model),))
    assert export_scene(scene, tmp_path / "moved", tmp_path / "mjcf").is_file()


def test_known_names_stay_and_files_may_not_leave(tmp_path: Path) -> None:
    assert carry_robot("fr3_hand", None, tmp_path / "scene") == "fr3_hand" and not (tmp_path / "scene").exists()
    inside = tmp_path / "demo"
    path = write_urdf(inside, mesh="../../../outside.stl")
    trimesh.creation.box((0.1, 0.1, 0.1)).export(tmp_path / "outside.stl")
    with pytest.raises(InputError, match="outside.stl leaves the folder"):
        carry_robot("urdf/arm.urdf", inside, tmp_path / "scene")
    with pytest.raises(InputError, match="leaves its folder"):
        carry_robot(str(path), tmp_path / "scene", tmp_path / "scene")
    assert not (tmp_path / "scene").exists()
