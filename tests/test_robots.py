"""Robots as they will be used: attached, saved, gripping; and every broken description refused by name."""

import os
from pathlib import Path

import mujoco
import numpy as np
import pytest
from film import SHARED

from mjcf_export.errors import InputError, MissingError
from mjcf_export.frames import Array, rotation_about, transform
from mjcf_export.robot_meshes import prepare_mesh
from mjcf_export.robot_sources import fr3_mjcf, package_file
from mjcf_export.robots import RobotModel, attach_robot, compile_robot, known_robots, load_robot
from mjcf_export.scene import Pose

NAMED = ("fr3_robotiq_2f85", "fr3_hand", "panda_hand", "panda_robotiq_2f85", "ur5e_robotiq_2f85")
DROID = SHARED / "droid_urdf"


def world(*robots: tuple[str, RobotModel, Pose]) -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.option.timestep = 0.002
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    spec.option.impratio = 10
    for name, robot, base in robots:
        attach_robot(spec, robot, name, base)
    return spec


def started(model: mujoco.MjModel, robot: RobotModel, name: str) -> mujoco.MjData:
    data = mujoco.MjData(model)
    robot.place(model, data, name)
    mujoco.mj_forward(model, data)
    return data


def franka_flange(q: Array) -> Array:
    """Flange pose from the manufacturer's (Craig) DH table, independent of any model file."""
    a = (0, 0, 0, 0.0825, -0.0825, 0, 0.088)
    d = (0.333, 0, 0.316, 0, 0.384, 0, 0)
    alpha = np.array((0, -1, 1, 1, -1, 1, 1)) * np.pi / 2
    pose = np.eye(4)
    for index in range(7):
        link = np.eye(4)
        link[:3, :3] = rotation_about((1, 0, 0), alpha[index]) @ rotation_about((0, 0, 1), q[index])
        link[:3, 3] = (a[index], -np.sin(alpha[index]) * d[index], np.cos(alpha[index]) * d[index])
        pose = pose @ link
    return pose @ transform((0, 0, 0.107))


@pytest.mark.parametrize(
    ("name", "turn", "reach"),
    [("fr3_hand", -np.pi / 4, 0.1034), ("panda_hand", -np.pi / 4, 0.1034), ("fr3_robotiq_2f85", 0.0, 0.1558)],
)
def test_tcp_follows_the_manufacturers_kinematics(name: str, turn: float, reach: float) -> None:
    robot = load_robot(name)
    model = compile_robot(robot)
    data = mujoco.MjData(model)
    for q in (robot.home, robot.home + np.array([0.3, -0.2, 0.4, 0.1, -0.5, 0.2, 0.6])):
        robot.place(model, data, qpos=q)
        mujoco.mj_forward(model, data)
        expected = franka_flange(q)
        expected[:3, 3] += reach * expected[:3, 2]
        expected[:3, :3] = expected[:3, :3] @ rotation_about((0, 0, 1), turn)
        assert data.site("tcp").xpos == pytest.approx(expected[:3, 3], abs=1e-5)
        assert data.site("tcp").xmat.reshape(3, 3) == pytest.approx(expected[:3, :3], abs=1e-5)


@pytest.mark.parametrize("name", NAMED)
def test_known_robot_stands_still_and_its_opening_is_what_was_commanded(name: str) -> None:
    assert name in known_robots()
    robot = load_robot(name)
    assert robot.gripper is not None
    model = world(("arm", robot, Pose())).compile()
    data = started(model, robot, "arm")
    assert data.ncon == 0
    before = data.site("arm/tcp").xpos.copy()
    tcp = data.site("arm/tcp").xmat.reshape(3, 3)
    assert tcp[:, 2] == pytest.approx((0, 0, -1), abs=1e-3)
    assert abs(tcp[1, 1]) == pytest.approx(1, abs=1e-3)
    hand = model.actuator(f"arm/{robot.gripper.actuator}").id
    for opening in np.linspace(robot.gripper.stroke, 0, 6):
        data.ctrl[hand] = robot.gripper.command(opening)
        mujoco.mj_step(model, data, 800)
        assert robot.gripper.opening(model, data, "arm") == pytest.approx(opening, abs=5e-4)
    assert np.linalg.norm(data.site("arm/tcp").xpos - before) < 1e-4
    assert not data.warning.number.any()


@pytest.mark.parametrize(("name", "force"), [("fr3_robotiq_2f85", 45.0), ("fr3_hand", 30.0), ("panda_hand", 30.0)])
def test_both_pads_press_a_40_mm_box(name: str, force: float) -> None:
    robot = load_robot(name)
    assert robot.gripper is not None
    spec = world(("arm", robot, Pose()))
    tcp = started(spec.compile(), robot, "arm").site("arm/tcp")
    offset = robot.gripper.pad_offset(0.04)
    box = spec.worldbody.add_body(name="box", pos=tcp.xpos + offset * tcp.xmat.reshape(3, 3)[:, 2])
    box.add_freejoint()
    box.gravcomp = 1
    box.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=(0.01, 0.02, 0.03), mass=0.1, friction=(0.02, 0, 0))
    model = spec.compile()
    data = started(model, robot, "arm")
    data.ctrl[model.actuator(f"arm/{robot.gripper.actuator}").id] = robot.gripper.command(0)
    mujoco.mj_step(model, data, 1500)
    pressed = {"left": 0.0, "right": 0.0}
    owner = {model.geom(f"arm/{geom}").id: side for side, geoms in robot.gripper.pads.items() for geom in geoms}
    wrench = np.zeros(6)
    for index in range(data.ncon):
        mujoco.mj_contactForce(model, data, index, wrench)
        sides = [owner[geom] for geom in data.contact[index].geom if geom in owner]
        assert sides, "only the pads touch the box"
        pressed[sides[0]] += wrench[0]
        assert data.contact[index].dim == 4
        assert data.contact[index].friction[0] == pytest.approx(0.7)
    assert pressed["left"] == pytest.approx(force, rel=0.05)
    assert pressed["right"] == pytest.approx(force, rel=0.05)
    assert robot.gripper.opening(model, data, "arm") == pytest.approx(0.04, abs=8e-4)


def test_contact_settings_hold_on_every_gripper_geom() -> None:
    robot = load_robot("fr3_robotiq_2f85")
    geoms = [geom for geom in robot.spec.body("gripper/base_mount").find_all("geom") if geom.contype]
    assert len(geoms) > 10
    for geom in geoms:
        assert (geom.condim, geom.priority, geom.group) == (4, 1, 3)
        assert geom.friction[1] > 0
        assert geom.solref[0] == pytest.approx(0.004)
    assert {geom.group for geom in robot.spec.geoms if not geom.contype} == {2}


def test_one_robot_attached_twice_reloads_from_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robot = load_robot("fr3_robotiq_2f85")
    spec = world(("left", robot, Pose()), ("right", robot, Pose(position=(1.0, 0.2, 0.1))))
    model = spec.compile()
    (tmp_path / "scene.xml").write_text(spec.to_xml())
    monkeypatch.chdir(tmp_path)
    again = mujoco.MjModel.from_xml_path("scene.xml")
    assert (again.nq, again.nu, again.neq, again.nmesh, again.ngeom) == (
        model.nq, model.nu, model.neq, model.nmesh, model.ngeom,
    )  # fmt: skip
    data = mujoco.MjData(again)
    for name in ("left", "right"):
        robot.place(again, data, name, opening=0.03)
    mujoco.mj_forward(again, data)
    assert data.site("right/tcp").xpos - data.site("left/tcp").xpos == pytest.approx((1.0, 0.2, 0.1), abs=1e-5)
    assert robot.gripper is not None
    assert robot.gripper.opening(again, data, "right") == pytest.approx(0.03, abs=5e-4)
    with pytest.raises(InputError, match="empty"):
        attach_robot(spec, robot, "", Pose())


def test_thinned_visuals_keep_the_surface(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trimesh

    monkeypatch.setenv("REAL2GYM_CACHE", str(tmp_path))
    source = fr3_mjcf().parent / "meshes" / "link1_vis.obj"
    (part,) = prepare_mesh(source, "whole")
    assert part.file.is_relative_to(tmp_path)
    whole, thin = (trimesh.load(file, force="mesh", process=False) for file in (source, part.file))
    assert len(thin.faces) < 0.5 * len(whole.faces)
    assert thin.area == pytest.approx(whole.area, rel=0.02)
    assert thin.extents == pytest.approx(whole.extents, rel=0.01)
    assert prepare_mesh(source, "whole") == (part,)


LINK = """<link name="{name}"><inertial><mass value="{mass}"/>
  <inertia ixx="{i}" iyy="{i}" izz="{izz}" ixy="0" ixz="0" iyz="0"/></inertial>{extra}</link>"""
SHAPE = '<{use}><origin xyz="{at}"/><geometry>{shape}</geometry>{color}</{use}>'
MESH = '<mesh filename="{file}" scale="{scale}"/>'


def link(name: str, extra: str = "", mass: float = 0.5, i: float = 1e-3, izz: float = 1e-3) -> str:
    return LINK.format(name=name, mass=mass, i=i, izz=izz, extra=extra)


def shape(use: str, geometry: str, at: str = "0 0 0", color: str = "") -> str:
    return SHAPE.format(use=use, at=at, shape=geometry, color=color)


def joint(name: str, parent: str, child: str, kind: str = "revolute", extra: str = "", at: str = "0 0 0.2") -> str:
    limit = extra if "<limit" in extra else '<limit lower="-2" upper="2" effort="20" velocity="1"/>' + extra
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="{at}"/><axis xyz="0 1 0"/>{limit}</joint>'
    )


def write(folder: Path, *parts: str) -> Path:
    path = folder / "arm.urdf"
    path.write_text(f'<robot name="arm">{"".join(parts)}</robot>')
    return path


FINGER_LIMIT = '<limit lower="0" upper="0.03" effort="100" velocity="1"/>'
FINGER = shape("collision", '<box size="0.02 0.01 0.05"/>', "0 {y} 0.03")


@pytest.fixture
def arm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A two-joint arm with a mimicking gripper; two different meshes share one base name."""
    import trimesh
    from trimesh.exchange.dae import export_collada

    monkeypatch.setenv("REAL2GYM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "pkg"
    for name in ("visual", "collision"):
        (folder / name).mkdir(parents=True)
    red, blue = (trimesh.creation.box((0.05, 0.05, side)) for side in (0.1, 0.2))
    for mesh, color in ((red, (255, 0, 0, 255)), (blue, (0, 0, 255, 255))):
        mesh.visual = trimesh.visual.TextureVisuals(
            material=trimesh.visual.material.PBRMaterial(baseColorFactor=np.array(color, dtype=np.uint8))
        )
    (folder / "visual" / "part.dae").write_bytes(export_collada([red, blue]))
    trimesh.creation.box((60.0, 60.0, 100.0)).export(folder / "collision" / "part.stl")
    meshes = shape("visual", MESH.format(file="package://pkg/visual/part.dae", scale="1 1 1"))
    meshes += shape("collision", MESH.format(file="collision/part.stl", scale="0.001 0.001 0.001"), "0 0 0.1")
    write(
        folder,
        link("base", shape("collision", '<cylinder radius="0.05" length="0.1"/>')),
        link("upper", meshes),
        link("lower", shape("collision", '<box size="0.04 0.04 0.1"/>', "0 0 0.1")),
        link("palm", shape("collision", '<box size="0.05 0.1 0.02"/>')),
        link("finger_a", FINGER.format(y=0.005), mass=0.05, i=1e-5, izz=1e-5),
        link("finger_b", FINGER.format(y=-0.005), mass=0.05, i=1e-5, izz=1e-5),
        joint("shoulder", "base", "upper"),
        joint("elbow", "upper", "lower", extra='<dynamics damping="0.5" friction="0.1"/>'),
        joint("wrist", "lower", "palm", "fixed"),
        joint("slide", "palm", "finger_a", "prismatic", FINGER_LIMIT, "0 0 0.02"),
        joint(
            "slide_b", "palm", "finger_b", "prismatic",
            FINGER_LIMIT + '<mimic joint="slide" multiplier="-1"/>', "0 0 0.02",
        ),
    )  # fmt: skip
    return folder / "arm.urdf"


def test_urdf_becomes_a_working_arm(arm: Path) -> None:
    robot = load_robot("arm.urdf", arm.parent)
    assert robot.arm_joints == robot.arm_actuators == ("shoulder", "elbow")
    model = world(("arm", robot, Pose(position=(0, 0, 0.5)))).compile()
    data = started(model, robot, "arm")
    assert model.body("arm/base").id > 0
    assert data.body("arm/base").xpos == pytest.approx((0, 0, 0.5))
    assert model.joint("arm/elbow").range == pytest.approx((-2, 2))
    assert model.joint("arm/elbow").damping[0] == pytest.approx(0.5)
    assert model.actuator("arm/elbow").forcerange == pytest.approx((-20, 20))
    assert data.site("arm/tcp").xpos == pytest.approx((0, 0, 0.5 + 0.6 + 0.02 + 0.045), abs=1e-3)

    shown = [geom for geom in range(model.ngeom) if model.geom(geom).name.startswith("arm/upper/visual")]
    colours = {tuple(model.geom(geom).rgba.round(2)) for geom in shown}
    assert colours == {(1.0, 0.0, 0.0, 1.0), (0.0, 0.0, 1.0, 1.0)}
    heights = sorted(2 * model.geom_aabb[geom, 3:].max() for geom in shown)
    assert heights == pytest.approx([0.1, 0.2], abs=1e-6)
    assert 2 * model.geom_aabb[model.geom("arm/upper/collision0").id, 3:].max() == pytest.approx(0.1, abs=1e-6)

    assert robot.gripper is not None
    assert robot.gripper.stroke == pytest.approx(0.06, abs=2e-4)
    data.ctrl[:] = (0.5, -0.4, robot.gripper.command(0.02))
    mujoco.mj_step(model, data, 2000)
    assert data.joint("arm/slide").qpos[0] == pytest.approx(0.01, abs=2e-4)
    assert data.joint("arm/slide_b").qpos[0] == pytest.approx(-0.01, abs=2e-4)
    assert data.joint("arm/shoulder").qpos[0] == pytest.approx(0.5, abs=1e-3)
    assert not data.warning.number.any()


def test_mass_is_assumed_only_where_a_shape_allows_it(arm: Path) -> None:
    text = arm.read_text()
    start = text.index('<link name="upper">')
    inertial = text[text.index("<inertial>", start) : text.index("</inertial>", start) + len("</inertial>")]
    arm.write_text(text[:start] + text[start:].replace(inertial, "", 1))
    robot = load_robot("arm.urdf", arm.parent)
    assert compile_robot(robot).body("upper").mass[0] == pytest.approx(1000 * 0.06 * 0.06 * 0.1, rel=1e-3)
    assert any("assumed" in note and "upper" in note for note in robot.notes)


HINGE = joint("hinge", "base", "tip")
BROKEN = {
    "missing mesh": ([link("base", shape("visual", MESH.format(file="no.stl", scale="1 1 1")))], "no.stl not found"),
    "leaves folder": (
        [link("base", shape("visual", MESH.format(file="../../etc/x.stl", scale="1 1 1")))], "leaves the folder",
    ),
    "absolute path": (
        [link("base", shape("visual", MESH.format(file="file:///etc/hostname", scale="1 1 1")))], "leaves the folder",
    ),
    "negative scale": (
        [link("base", shape("visual", MESH.format(file="a.stl", scale="1 -1 1")))], "link base: visual 1: mesh scale",
    ),
    "huge scale": ([link("base", shape("visual", MESH.format(file="a.stl", scale="1e9 1 1")))], "huge"),
    "millimetres": ([link("base", shape("collision", MESH.format(file="a.stl", scale="1 1 1")))], "scale 0.001"),
    "cycle": (
        [link("base"), link("a"), link("b"), joint("ja", "a", "b"), joint("jb", "b", "a")],
        "cycle: .*(a -> b|b -> a)",
    ),
    "two parents": (
        [link("base"), link("a"), link("b"), joint("j1", "base", "a"), joint("j2", "base", "b"), joint("j3", "a", "b")],
        "link b is the child of two joints",
    ),
    "two roots": ([link("base"), link("other")], "2 root links"),
    "unknown link": ([link("base"), joint("hinge", "base", "ghost")], "link ghost does not exist"),
    "doubled link": ([link("base"), link("base")], "names used twice: base"),
    "no mass": ([link("base"), '<link name="tip"/>', HINGE], "link tip: moves on joint hinge but has no mass"),
    "triangle": ([link("base"), link("tip", izz=5e-3), HINGE], "link tip: inertia has principal moments"),
    "negative inertia": ([link("base"), link("tip", i=-1e-3), HINGE], "must be positive"),
    "no limits": (
        [link("base"), link("tip"), HINGE.replace('<limit lower="-2" upper="2" effort="20" velocity="1"/>', "")],
        "joint hinge: has no limits",
    ),
    "inverted limits": (
        [link("base"), link("tip"), HINGE.replace('lower="-2" upper="2"', 'lower="2" upper="-2"')], "inverted",
    ),
    "zero axis": ([link("base"), link("tip"), HINGE.replace("0 1 0", "0 0 0")], "joint hinge: the axis is zero"),
    "not finite": ([link("base"), link("tip"), HINGE.replace("0 0 0.2", "0 nan 0")], "joint hinge: origin xyz"),
    "floating": ([link("base"), link("tip"), HINGE.replace("revolute", "floating")], "'floating' is not supported"),
    "mimic": ([link("base"), link("tip"), joint("hinge", "base", "tip", extra='<mimic joint="ghost"/>')], "'ghost'"),
    "no robot": ([], "has no links"),
    "nothing driven": ([link("base")], "no driven joints"),
}  # fmt: skip


@pytest.mark.parametrize("case", BROKEN)
def test_broken_urdf_is_one_named_error(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trimesh

    monkeypatch.setenv("REAL2GYM_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "pkg"
    folder.mkdir()
    trimesh.creation.box((100.0, 60.0, 60.0)).export(folder / "a.stl")
    parts, message = BROKEN[case]
    path = write(folder, *parts)
    with pytest.raises(InputError, match=message) as caught:
        load_robot("arm.urdf", folder)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("<robot", "not well-formed XML"),
        ('<!DOCTYPE r [<!ENTITY a "x">]><robot/>', "entities"),
        ('<robot xmlns:xacro="http://ros.org/xacro"><xacro:include filename="a"/></robot>', "expand it first"),
        ("<mujoco/>", "a URDF has <robot>"),
    ],
)
def test_what_is_no_urdf_is_refused(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "arm.urdf").write_text(content)
    with pytest.raises(InputError, match=message):
        load_robot("arm.urdf", tmp_path)


@pytest.mark.parametrize("content", ["solid x\nendsolid x\n", "\x00garbage"])
def test_unreadable_mesh_is_named(content: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REAL2GYM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "bad.stl").write_text(content)
    write(tmp_path, link("base", shape("collision", MESH.format(file="bad.stl", scale="1 1 1"))))
    with pytest.raises(InputError, match=r"bad\.stl"):
        load_robot("arm.urdf", tmp_path)


ARM_XML = """<mujoco><compiler angle="radian"/><worldbody><geom type="plane" size="1 1 1"/><body name="base"{free}>
  <geom size="0.05"/><body name="link" pos="0 0 0.1"><joint name="hinge" axis="0 1 0" range="-1 1"/>
  <geom type="capsule" size="0.03" fromto="0 0 0 0 0 0.3"/><site name="attachment_site" pos="0 0 0.3"/></body></body>
  </worldbody><actuator><motor name="drive" joint="hinge" ctrlrange="-5 5" forcerange="-5 5"/></actuator>
  <keyframe><key name="home" qpos="0.4"/></keyframe>{extra}</mujoco>"""


def test_mjcf_arm_gets_a_servo_its_home_and_a_tcp(tmp_path: Path) -> None:
    (tmp_path / "arm.xml").write_text(ARM_XML.format(free="", extra=""))
    robot = load_robot("arm.xml", tmp_path)
    assert robot.gripper is None
    assert robot.home == pytest.approx([0.4])
    assert any("servo" in note for note in robot.notes)
    model = world(("arm", robot, Pose())).compile()
    data = started(model, robot, "arm")
    assert data.site("arm/tcp").xpos == pytest.approx((0.3 * np.sin(0.4), 0, 0.1 + 0.3 * np.cos(0.4)), abs=1e-4)
    data.ctrl[model.actuator("arm/drive").id] = -0.7
    mujoco.mj_step(model, data, 1500)
    assert data.joint("arm/hinge").qpos[0] == pytest.approx(-0.7, abs=1e-3)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ('<include file="../other.xml"/>', "leaves the folder"),
        ('<asset><mesh name="m" file="/etc/hostname.stl"/></asset>', "hostname"),
    ],
)
def test_mjcf_may_not_reach_outside_its_folder(extra: str, message: str, tmp_path: Path) -> None:
    folder = tmp_path / "inside"
    folder.mkdir()
    (tmp_path / "other.xml").write_text("<mujocoinclude/>")
    (folder / "arm.xml").write_text(ARM_XML.format(free="", extra=extra))
    with pytest.raises(InputError, match=message):
        load_robot("arm.xml", folder)


def test_unknown_names_say_what_there_is(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean fr3_robotiq_2f85.*panda_hand"):
        load_robot("fr3_robotiq_2f58")
    with pytest.raises(InputError, match="no such file|does not exist"):
        load_robot("absent.urdf", tmp_path)
    with pytest.raises(InputError, match="leaves its folder"):
        load_robot("../absent.urdf", tmp_path)
    with pytest.raises(MissingError, match="no-such-package: .*robots.txt"):
        package_file("no-such-package", "x.xml")


def test_menagerie_robot_says_which_package_fetches_it() -> None:
    if os.environ.get("REAL2GYM_ONLINE"):
        assert len(load_robot("iiwa14").arm_joints) == 7
    else:
        with pytest.raises(MissingError, match="robot_descriptions"):
            load_robot("iiwa14")


@pytest.mark.skipif(not DROID.is_dir(), reason="DROID's robot descriptions are not on this machine")
def test_droids_own_urdf_agrees_with_the_known_robot() -> None:
    theirs = load_robot("franka_description/panda.urdf", DROID)
    ours = load_robot("panda_robotiq_2f85")
    poses = []
    for robot in (theirs, ours):
        model = compile_robot(robot)
        data = mujoco.MjData(model)
        robot.place(model, data)
        mujoco.mj_forward(model, data)
        poses.append((data.site("tcp").xpos.copy(), data.site("tcp").xmat.reshape(3, 3).copy()))
    assert poses[0][0] == pytest.approx(poses[1][0], abs=0.015)
    assert abs(poses[0][1][:, 1] @ poses[1][1][:, 1]) > 0.999
    assert theirs.gripper is not None
    assert theirs.gripper.stroke == pytest.approx(0.08, abs=0.006)
