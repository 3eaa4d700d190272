"""Every trap that MuJoCo loads in silence, and every refusal, comes back as one named finding; good models as none."""

import re
from pathlib import Path

import cv2
import numpy as np
import pytest
import trimesh

from mjcf_export.audit import audit_model, audit_scene, errors_only
from mjcf_export.export import export_scene
from mjcf_export.meshes import write_mesh
from mjcf_export.scene import Body, Box, Joint, Lathe, Mesh, Pose, Robot, Scene
from mjcf_export.surfaces import turned_surface
from mjcf_export.triangles import TriangleMesh

CUP = Lathe(outer=((0.034, 0.0), (0.04, 0.09)), inner=((0.031, 0.005), (0.037, 0.09)))
FLOOR = '<geom type="plane" size="1 1 0.1"/>'
FREE = '<body name="box" pos="{pos}"><freejoint/><geom type="box" size=".02 .02 .02" mass="0.1"/></body>'


def model(world: str, *, head: str = "", tail: str = "", compiler: str = 'angle="radian"') -> str:
    return f"<mujoco><compiler {compiler}/>{head}<worldbody>{world}</worldbody>{tail}</mujoco>"


def meshed(attributes: str = "", geom: str = "", body: str = "<freejoint/>", file: str = "part.obj") -> str:
    asset = f'<asset><mesh name="part" file="{file}" {attributes}/></asset>'
    return model(
        f'{FLOOR}<body name="part" pos="0 0 0.3">{body}<geom type="mesh" mesh="part" {geom}/></body>', head=asset
    )


HINGE = '<body name="arm" pos="0 0 1"><joint name="hinge" range="{range}"/>{box}{more}</body>'
BOX = '<geom type="box" size=".05 .02 .02" mass="1"/>'
FOREARM = '<body name="forearm" pos="0 .3 0"><joint name="elbow" range="-.02 .02"/>' + BOX + "</body>"
VISUAL = 'contype="0" conaffinity="0" mass="0"'
SILENT = {
    "short-keyframe": model(FREE.format(pos="0 0 .02") + FLOOR, tail='<keyframe><key qpos="0 0 .02"/></keyframe>'),
    "nan": model(FREE.format(pos="0 nan .02") + FLOOR),
    "degrees": model(HINGE.format(range="-90 90", box=BOX, more="")),
    "degrees ": model(HINGE.format(range="-.03 .03", box=BOX, more=FOREARM), compiler='angle="degree"'),
    "collision-offset": meshed(geom=VISUAL, body='<freejoint/><geom type="box" size=".03 .03 .03" pos=".05 0 0"/>'),
    "open-mesh-inertia": meshed(file="open.obj"),
    "legacy-inertia": meshed(file="cup.obj"),
    "cavity-closed": meshed('inertia="exact"', file="cup.obj"),
    "floating": model(FLOOR + FREE.format(pos="0 0 .1")),
    "sunk": model(FLOOR + FREE.format(pos="0 0 .01")),
    "interpenetration": model(
        FLOOR + FREE.format(pos="0 0 .02") + FREE.format(pos=".03 0 .02").replace('"box" pos', '"other" pos')
    ),
    "not-portable": meshed('inertia="convex"', file="../outside.obj"),
    "duplicate": model(
        FLOOR
        + '<body name="twice" pos="0 0 .02"><freejoint/>'
        + 2 * '<geom type="box" size=".02 .02 .02"/>'
        + "</body>"
    ),
    "mass": model(FLOOR + FREE.format(pos="0 0 .02").replace('"0.1"', '"900"')),
    "launched": model(
        FLOOR + FREE.format(pos="0 0 .02").replace('mass="0.1"', 'mass="0.1" solref="-900000 -1" margin=".03"')
    ),
}
REFUSED = {
    "at most 200000 faces": meshed(file="huge.stl"),
    "give it thickness": meshed(file="flat.obj"),
    "textures must be PNG": model(FLOOR, head='<asset><texture name="t" type="2d" file="wood.jpg"/></asset>'),
    "names must be unique": model(FLOOR + 2 * FREE.format(pos="0 0 .02")),
    "give it an inertial or a density": model('<body name="b"><freejoint/><geom size=".01" mass="0"/></body>'),
    "A [+] B >= C": model(
        '<body name="b"><freejoint/><inertial pos="0 0 0" mass="1" diaginertia="1 1 3"/><geom size=".01"/></body>'
    ),
    "file it names is missing": meshed(file="nowhere.obj"),
    "not well-formed XML": "<mujoco><worldbody></mujoco>",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Mesh and picture files of every bad kind."""
    root = tmp_path_factory.mktemp("audit")
    home = root / "model"
    home.mkdir()
    block = trimesh.creation.box((0.06, 0.06, 0.06))
    solid = TriangleMesh(np.array(block.vertices), np.array(block.faces))
    write_mesh(solid, home / "part.obj")
    write_mesh(solid, root / "outside.obj")
    write_mesh(TriangleMesh(solid.vertices, solid.faces[2:]), home / "open.obj")
    write_mesh(turned_surface(np.array(CUP.outer), np.array(CUP.inner), 32), home / "cup.obj")
    write_mesh(TriangleMesh(solid.vertices * (1, 1, 0), solid.faces), home / "flat.obj")
    trimesh.creation.icosphere(subdivisions=7, radius=0.05).export(home / "huge.stl")
    cv2.imwrite(str(home / "wood.jpg"), np.zeros((4, 4, 3), np.uint8))
    return home


@pytest.mark.parametrize("trap", SILENT)
def test_silent_trap_is_found(trap: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (folder / "scene.xml").write_text(SILENT[trap])
    found = audit_model(folder / "scene.xml")
    assert trap.strip() in {finding.check for finding in found}, [str(finding) for finding in found]
    named = [finding for finding in found if finding.check == trap.strip()]
    assert all(finding.subject and len(finding.message) > 20 for finding in named)
    assert list(tmp_path.iterdir()) == [], "no MUJOCO_LOG.TXT in the working folder"


@pytest.mark.parametrize("advice", REFUSED)
def test_refusal_says_what_to_do(advice: str, folder: Path) -> None:
    (folder / "scene.xml").write_text(REFUSED[advice])
    (finding,) = audit_model(folder / "scene.xml")
    assert finding.check == "load" and finding.severity == "error"
    assert re.search(advice, finding.message), finding.message


def table() -> Body:
    return Body(name="table", roles=("support",), shape=Box(size=(1, 1, 0.04)), pose=Pose(position=(0.4, 0, -0.04)))


def good() -> Scene:
    return Scene(
        bodies=(
            table(),
            Body(name="cup", roles=("container",), shape=CUP, mass=0.2, pose=Pose(position=(0.4, 0.2, 0))),
            Body(name="block", shape=Box(size=(0.04, 0.04, 0.04)), pose=Pose(position=(0.4, -0.2, 0))),
        )
    )


def test_a_good_scene_and_its_export_have_no_findings(tmp_path: Path) -> None:
    assert audit_scene(good(), tmp_path) == []
    assert audit_model(export_scene(good(), tmp_path, tmp_path / "mjcf")) == []


def changed(name: str, **update: object) -> Scene:
    return good().replace_body(good().body(name).model_copy(update=update))


SOLID = Lathe(outer=CUP.outer)
SCENES = {
    "no-cavity": changed("cup", shape=SOLID),
    "floating": changed("block", pose=Pose(position=(0.4, -0.2, 0.03))),
    "sunk": changed("block", pose=Pose(position=(0.4, -0.2, -0.01))),
    "mass": changed("block", mass=30.0),
    "scale": changed("block", shape=Box(size=(40, 40, 40)), pose=Pose(position=(60, 0, 0))),
    "duplicate": changed("block", shape=CUP, pose=Pose(position=(0.4, 0.2, 0))),
    "shape-unusable": changed("block", shape=Mesh(file="absent.obj")),
    "open-mesh": changed("block", shape=Mesh(file="open.obj")),
    "origin-offset": changed("block", shape=Mesh(file="part.obj")),
    "degrees": good().model_copy(
        update={"robots": (Robot(name="r", model="fr3_hand", qpos=(0, -45, 0, -90, 0, 90, 45)),)}
    ),
    "joint-range": good().model_copy(
        update={"joints": (Joint(
            name="j", body="block", kind="prismatic", axis=(1, 0, 0), range=(0, 0.1), position=0.3
        ),)}
    ),
}  # fmt: skip


@pytest.mark.parametrize("check", SCENES)
def test_scene_fault_is_named(check: str, folder: Path) -> None:
    found = audit_scene(SCENES[check], folder)
    assert check in {finding.check for finding in found}, [str(finding) for finding in found]


def test_robots_own_roughness_is_no_error(tmp_path: Path) -> None:
    scene = good().model_copy(update={"robots": (Robot(name="right", model="fr3_robotiq_2f85"),)})
    assert errors_only(audit_model(export_scene(scene, tmp_path, tmp_path / "mjcf"))) == []
