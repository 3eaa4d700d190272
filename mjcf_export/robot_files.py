"""Robots from files: a URDF or MJCF path, or a MuJoCo Menagerie model that `robot_descriptions` fetches."""

import importlib
import importlib.util
import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from mjcf_export.errors import InputError, MissingError
from mjcf_export.frames import Array
from mjcf_export.gripper import TCP, Fingers
from mjcf_export.gripper_find import FoundGripper, add_tcp, find_gripper
from mjcf_export.robot_arms import FRANKA_STRAIGHT, UR5E_HOME, read_mjcf, servo
from mjcf_export.robot_contact import exclude_base_neighbours, exclude_within
from mjcf_export.urdf_build import urdf_spec
from mjcf_export.urdf_paths import allowed_folder

MENAGERIE = (
    "arx_l5", "fr3", "gen3", "iiwa14", "low_cost_robot_arm", "panda", "piper", "sawyer", "so_arm100", "so_arm101",
    "ur10e", "ur5e", "viper", "widow", "xarm7", "yam", "z1",
)  # fmt: skip
FLANGE_SITES = (TCP, "attachment_site", "flange", "ee_site", "grip_site", "pinch")
HOMES: dict[tuple[str, ...], tuple[float, ...]] = {
    tuple(f"{stem}_joint{index}" for index in range(1, 8)): FRANKA_STRAIGHT for stem in ("fr3", "fer", "panda")
} | {
    (
        "shoulder_pan_joint", "shoulder_lift_joint", "elbow_joint", "wrist_1_joint", "wrist_2_joint", "wrist_3_joint",
    ): UR5E_HOME,
}  # fmt: skip
SERVO = {"hinge": (2000.0, 87.0), "slide": (10_000.0, 200.0)}


@dataclass(frozen=True)
class Parts:
    """What a file turned out to hold; joints and actuators are the arm's, from the base outwards."""

    spec: mujoco.MjSpec
    joints: tuple[str, ...]
    actuators: tuple[str, ...]
    home: Array
    fingers: Fingers | None
    notes: tuple[str, ...]


def read_robot(path: Path, root: Path | None = None) -> Parts:
    """The parts of a URDF or MJCF robot.

    Args:
        path: the file.
        root: the folder that no file of the robot may lie outside of.

    Raises:
        InputError: the file cannot be used; the message names what is wrong in it.
    """
    if path.suffix.lower() == ".urdf":
        spec, notes = urdf_spec(path, root)
        exclude_base_neighbours(spec)
        return divide(path, spec, notes, None)
    folder = allowed_folder(path, root)
    _check_includes(path, folder, ())
    notes = []
    home = _home_key(path)
    spec = read_mjcf(path)
    _check_files(path, spec, folder)
    _drop_surroundings(path, spec, notes)
    _name_actuators(spec)
    return divide(path, spec, notes, home)


def menagerie_robot(name: str) -> Path:
    """The MJCF of a Menagerie robot, fetched by `robot_descriptions` the first time.

    Raises:
        MissingError: the package is not installed, or the model could not be fetched.
    """
    if importlib.util.find_spec("robot_descriptions") is None:
        raise MissingError(
            f"robot {name}: its model comes through the package robot_descriptions, which is not installed; "
            "run `pip install robot_descriptions` (it downloads the model when first used)"
        )
    try:
        module = importlib.import_module(f"robot_descriptions.{name}_mj_description")
    except Exception as error:  # git, network and import errors of the package
        raise MissingError(
            f"robot {name}: robot_descriptions could not provide it ({error}); go online once"
        ) from error
    return Path(module.MJCF_PATH)


def divide(path: Path, spec: mujoco.MjSpec, notes: list[str], home: dict[str, float] | None) -> Parts:
    """Tell the gripper from the arm, and give the robot a `tcp` site and position servos."""
    for site in [site for site in spec.sites if site.name == TCP]:
        site.name = "model_tcp"
    found = find_gripper(spec)
    if found is not None:
        _place_tcp(spec, found)
        exclude_within(spec, found.fingers)
    model = spec.compile()
    within = set() if found is None else {joint.name for joint in spec.body(found.fingers.body).find_all("joint")}
    pairs = _arm_pairs(model, within, None if found is None else found.fingers.actuator)
    if not pairs and found is None:
        raise InputError(f"{path}: has no driven joints; expected a robot arm with actuators")
    for joint, actuator in pairs:
        _make_servo(spec, model, joint, actuator, notes)
    joints = tuple(joint for joint, _ in pairs)
    if found is None:
        notes.append("no gripper with two coupled fingers was found; the tcp is at the arm's end")
        _flange_tcp(spec, joints[-1])
    rest = home or dict(zip(joints, HOMES.get(joints, ()), strict=False))
    positions = np.array([rest.get(joint, _rest(model, joint)) for joint in joints])
    fingers = None if found is None else found.fingers
    return Parts(spec, joints, tuple(actuator for _, actuator in pairs), positions, fingers, tuple(notes))


def _place_tcp(spec: mujoco.MjSpec, found: FoundGripper) -> None:
    """At the model's own tcp link where it has one near the pinch point, else at the pinch point."""
    for body in spec.body(found.fingers.body).bodies:
        position = np.array(body.pos)
        if body.name.endswith("tcp") and np.linalg.norm(position - found.tcp_position) < 0.02:
            found = FoundGripper(found.fingers, position, found.tcp_quaternion)
    add_tcp(spec, found)


def _arm_pairs(model: mujoco.MjModel, within: set[str], grip: str | None) -> list[tuple[str, str]]:
    """Joint and actuator of every arm joint, ordered from the base outwards."""
    pairs = {}
    for index in range(model.nu):
        name = model.actuator(index).name
        if int(model.actuator_trntype[index]) == int(mujoco.mjtTrn.mjTRN_JOINT) and name != grip:
            joint = int(model.actuator_trnid[index, 0])
            if model.joint(joint).name not in within:
                pairs[joint] = name
    return [(model.joint(joint).name, pairs[joint]) for joint in sorted(pairs)]


def _make_servo(spec: mujoco.MjSpec, model: mujoco.MjModel, joint: str, actuator: str, notes: list[str]) -> None:
    """Replace anything but a position servo by one."""
    index = model.actuator(actuator).id
    gain, bias = model.actuator_gainprm[index, 0], model.actuator_biasprm[index, 1]
    if gain > 0 and np.isclose(gain, -bias) and np.isclose(model.actuator_gear[index, 0], 1):
        return
    kind = "slide" if int(model.jnt_type[model.joint(joint).id]) == int(mujoco.mjtJoint.mjJNT_SLIDE) else "hinge"
    stiffness, force = SERVO[kind]
    limits = [
        float(bound[1])
        for bound in (model.actuator_forcerange[index], model.jnt_actfrcrange[model.joint(joint).id])
        if bound[1] > 0
    ]
    element = spec.actuator(actuator)
    element.dyntype = mujoco.mjtDyn.mjDYN_NONE
    element.gear = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0)
    servo(element, spec.joint(joint), stiffness, min(limits, default=force))
    if not model.jnt_limited[model.joint(joint).id]:
        element.ctrllimited = int(mujoco.mjtLimited.mjLIMITED_FALSE)
        element.ctrlrange = (0.0, 0.0)
    else:
        element.ctrlrange = tuple(model.jnt_range[model.joint(joint).id])
    notes.append(f"actuator {actuator}: replaced by a position servo of joint {joint}")


def _flange_tcp(spec: mujoco.MjSpec, last: str) -> None:
    """The tcp at the arm's own end site, else at its last link."""
    sites = {site.name: site for site in spec.sites}
    for name in ("model_tcp", *FLANGE_SITES):
        if name in sites:
            sites[name].parent.add_site(name=TCP, pos=sites[name].pos, quat=sites[name].quat)
            return
    spec.joint(last).parent.add_site(name=TCP)


def _rest(model: mujoco.MjModel, joint: str) -> float:
    """Zero where the limits leave room around it, else the middle of the range."""
    index = model.joint(joint).id
    low, high = (float(value) for value in model.jnt_range[index])
    margin = 0.1 * (high - low)
    return 0.0 if not model.jnt_limited[index] or low + margin <= 0 <= high - margin else (low + high) / 2


def _home_key(path: Path) -> dict[str, float] | None:
    """Joint positions of the keyframe `home`, else of the first one."""
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise InputError(f"{path}: MuJoCo cannot load it ({error})") from error
    if model.nkey == 0:
        return None
    names = [model.key(index).name for index in range(model.nkey)]
    key = model.key_qpos[names.index("home") if "home" in names else 0]
    return {model.joint(index).name: float(key[model.jnt_qposadr[index]]) for index in range(model.njnt)}


def _check_includes(path: Path, folder: Path, seen: tuple[Path, ...]) -> None:
    try:
        tree = ET.fromstring(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from error
    except ET.ParseError as error:
        raise InputError(f"{path}: not well-formed XML ({error})") from error
    if tree.tag not in {"mujoco", "mujocoinclude"}:
        raise InputError(f"{path}: the root element is <{tree.tag}>, expected <mujoco> (a URDF needs the suffix .urdf)")
    for item in tree.iter("include"):
        target = (path.parent / item.get("file", "")).resolve()
        if not target.is_relative_to(folder):
            raise InputError(f"{path}: include {item.get('file')} leaves the folder {folder}; put the file inside it")
        if not target.is_file():
            raise InputError(f"{path}: include {item.get('file')} does not exist")
        if target in seen:
            raise InputError(f"{path}: include {item.get('file')} includes itself")
        _check_includes(target, folder, (*seen, path.resolve()))


def _check_files(path: Path, spec: mujoco.MjSpec, folder: Path) -> None:
    for item in (*spec.meshes, *spec.textures):
        if item.file and not Path(item.file).resolve().is_relative_to(folder):
            raise InputError(f"{path}: {item.name}: file {item.file} leaves the folder {folder}; put it inside")
        if item.file and not Path(item.file).is_file():
            raise InputError(f"{path}: {item.name}: file {item.file} does not exist")


def _name_actuators(spec: mujoco.MjSpec) -> None:
    """Give actuators without a name one from what they drive."""
    taken = {actuator.name for actuator in spec.actuators}
    for index, actuator in enumerate(spec.actuators):
        if not actuator.name:
            actuator.name = actuator.target if actuator.target not in taken else f"{actuator.target}_{index}"
            taken.add(actuator.name)


def _drop_surroundings(path: Path, spec: mujoco.MjSpec, notes: list[str]) -> None:
    """Floors and the like belong to the scene, not to the robot; a floating base is refused."""
    for geom in list(spec.worldbody.geoms):
        notes.append(f"world geom {geom.name or 'without a name'}: left out, it is no part of the robot")
        spec.delete(geom)
    for joint in spec.joints:
        if int(joint.type) == int(mujoco.mjtJoint.mjJNT_FREE):
            raise InputError(f"{path}: joint {joint.name or 'without a name'} lets the base float; fix the base")
        if not joint.name:
            raise InputError(f"{path}: a joint of body {joint.parent.name} has no name; name every joint")
