"""The arms and grippers that come by name, each as a `mujoco.MjSpec` with a flange or pads to build on."""

from pathlib import Path

import mujoco
import numpy as np

from mjcf_export import robot_sources
from mjcf_export.errors import InputError
from mjcf_export.gripper import TCP, Fingers
from mjcf_export.robot_contact import is_collision

FLANGE = "flange"
GRIPPER_PREFIX = "gripper/"
HAND_TCP = (0.0, 0.0, 0.1034)
HAND_STIFFNESS = 3000.0
HAND_FORCE = 140.0
QUARTER_TURN = (np.cos(np.pi / 4), 0.0, 0.0, np.sin(np.pi / 4))
FRANKA_STIFFNESS = (4500.0, 4500.0, 3500.0, 3500.0, 2000.0, 2000.0, 2000.0)
FRANKA_FORCE = (87.0, 87.0, 87.0, 87.0, 12.0, 12.0, 12.0)
FRANKA_READY = (0.0, -np.pi / 4, 0.0, -3 * np.pi / 4, 0.0, np.pi / 2, np.pi / 4)
FRANKA_STRAIGHT = (0.0, -np.pi / 5, 0.0, -4 * np.pi / 5, 0.0, 3 * np.pi / 5, 0.0)
UR5E_HOME = (-np.pi, -np.pi / 2, np.pi / 2, -np.pi / 2, -np.pi / 2, -np.pi / 2)


def read_mjcf(path: Path, meshes: Path | None = None) -> mujoco.MjSpec:
    """An MJCF file as a spec whose mesh and texture paths are absolute, without keyframes, lights, cameras or sensors.

    Args:
        path: the XML file.
        meshes: folder of its meshes where the file's own `meshdir` is wrong.

    Raises:
        InputError: MuJoCo cannot read it.
    """
    try:
        spec = mujoco.MjSpec.from_file(str(path))
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: not a readable MJCF model ({error})") from error
    folder = meshes or path.parent / spec.meshdir
    textures = path.parent / (spec.texturedir or spec.meshdir)
    for mesh in spec.meshes:
        if mesh.file:
            mesh.name = mesh.name or Path(mesh.file).stem
            mesh.file = str((folder / mesh.file).resolve())
    for texture in spec.textures:
        if texture.file:
            texture.file = str((textures / texture.file).resolve())
    spec.meshdir = ""
    spec.texturedir = ""
    for item in [*spec.keys, *spec.lights, *spec.cameras, *spec.sensors]:
        spec.delete(item)
    return spec


def servo(actuator: mujoco.MjsActuator, joint: mujoco.MjsJoint, stiffness: float, force: float) -> None:
    """Make `actuator` a position servo of `joint`: damping a tenth of the stiffness, control within the limits."""
    actuator.gaintype = mujoco.mjtGain.mjGAIN_FIXED
    actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
    actuator.gainprm[:3] = (stiffness, 0.0, 0.0)
    actuator.biasprm[:3] = (0.0, -stiffness, -stiffness / 10)
    actuator.inheritrange = 0.0
    actuator.ctrllimited = int(mujoco.mjtLimited.mjLIMITED_TRUE)
    actuator.ctrlrange = tuple(joint.range)
    actuator.forcelimited = int(mujoco.mjtLimited.mjLIMITED_TRUE)
    actuator.forcerange = (-force, force)


def fr3(hand: bool) -> tuple[mujoco.MjSpec, Fingers | None]:
    """Franka FR3; with its hand, or with a bare `flange` site."""
    source = robot_sources.fr3_mjcf()
    spec = read_mjcf(source, source.parent / "meshes")
    for index in range(7):
        joint = spec.joint(f"fr3_joint{index + 1}")
        servo(spec.actuator(joint.name), joint, FRANKA_STIFFNESS[index], FRANKA_FORCE[index])
    if hand:
        return spec, _fr3_hand(spec)
    spec.delete(spec.body("hand"))
    spec.body("fr3_link7").add_site(name=FLANGE, pos=(0.0, 0.0, 0.107))
    return spec, None


def _fr3_hand(spec: mujoco.MjSpec) -> Fingers:
    hand = spec.body("hand")
    hand.add_site(name=TCP, pos=HAND_TCP)
    pads = {}
    for side in ("left", "right"):
        boxes = [geom for geom in spec.body(f"{side}_finger").geoms if is_box(geom)]
        for index, geom in enumerate(boxes):
            geom.name = f"{side}_pad{index + 1}"
        pads[side] = tuple(geom.name for geom in boxes)
    drive_hand(spec.actuator("hand"))
    return Fingers("hand", "hand", pads)


def drive_hand(actuator: mujoco.MjsActuator) -> None:
    """Franka hand: 0..255 over 0..40 mm per finger, stiff enough for ~30 N on a 40 mm object."""
    actuator.gaintype = mujoco.mjtGain.mjGAIN_FIXED
    actuator.biastype = mujoco.mjtBias.mjBIAS_AFFINE
    actuator.gainprm[:3] = (HAND_STIFFNESS * 0.04 / 255, 0.0, 0.0)
    actuator.biasprm[:3] = (0.0, -HAND_STIFFNESS, -HAND_STIFFNESS / 10)
    actuator.ctrllimited = int(mujoco.mjtLimited.mjLIMITED_TRUE)
    actuator.ctrlrange = (0.0, 255.0)
    actuator.forcelimited = int(mujoco.mjtLimited.mjLIMITED_TRUE)
    actuator.forcerange = (-HAND_FORCE, HAND_FORCE)


def is_box(geom: mujoco.MjsGeom) -> bool:
    """Whether the geom is a box that can touch."""
    return is_collision(geom) and int(geom.type) == int(mujoco.mjtGeom.mjGEOM_BOX)


def ur5e() -> mujoco.MjSpec:
    """Universal Robots UR5e with a bare `flange` site."""
    spec = read_mjcf(robot_sources.ur5e_mjcf())
    for actuator in spec.actuators:
        joint = spec.joint(actuator.target)
        proximal = actuator.name in {"shoulder_pan", "shoulder_lift", "elbow"}
        servo(actuator, joint, 4500.0 if proximal else 2000.0, 150.0 if proximal else 28.0)
    spec.site("attachment_site").name = FLANGE
    return spec


def mount_robotiq(arm: mujoco.MjSpec) -> Fingers:
    """Attach a Robotiq 2F-85 to the arm's `flange`, closing along the flange's Y, and add the `tcp` site.

    That orientation is the one of the DROID robots (Franka) and of the coupling's dowel pin.
    """
    gripper = read_mjcf(robot_sources.robotiq_mjcf())
    gripper.body("base").add_site(name=TCP, pos=(0.0, 0.0, 0.145))
    share_options(gripper, arm)
    flange = arm.site(FLANGE)
    mount = flange.parent.add_frame(pos=flange.pos, quat=_product(tuple(flange.quat), QUARTER_TURN))
    arm.attach(gripper, prefix=GRIPPER_PREFIX, frame=mount)
    arm.site(GRIPPER_PREFIX + TCP).name = TCP
    pads = {side: tuple(f"{GRIPPER_PREFIX}{side}_pad{index}" for index in (1, 2)) for side in ("left", "right")}
    return Fingers(f"{GRIPPER_PREFIX}base_mount", f"{GRIPPER_PREFIX}fingers_actuator", pads)


def share_options(child: mujoco.MjSpec, parent: mujoco.MjSpec) -> None:
    """Give `child` its future parent's solver options, which are the ones that will hold."""
    for name in dir(parent.option):
        value = getattr(parent.option, name)
        if not name.startswith("_") and not callable(value):
            setattr(child.option, name, value)


def _product(first: tuple[float, ...], second: tuple[float, ...]) -> tuple[float, ...]:
    result = np.zeros(4)
    mujoco.mju_mulQuat(result, np.array(first), np.array(second))
    return tuple(float(value) for value in result / np.linalg.norm(result))
