"""Robots for a scene: by name, or from a URDF or MJCF file, each a `mujoco.MjSpec` ready to attach."""

import difflib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

import mujoco
import numpy as np

from mjcf_export import robot_arms, robot_sources
from mjcf_export.document import resolve_inside
from mjcf_export.errors import InputError
from mjcf_export.frames import Array
from mjcf_export.gripper import Gripper, measure_gripper, prefixed
from mjcf_export.robot_arms import FRANKA_READY, FRANKA_STRAIGHT, UR5E_HOME
from mjcf_export.robot_contact import exclude_base_neighbours, exclude_resting_pairs, float_links, grip, stiffen
from mjcf_export.robot_files import MENAGERIE, Parts, divide, menagerie_robot, read_robot
from mjcf_export.robot_meshes import lighten
from mjcf_export.scene import Pose
from mjcf_export.urdf_build import urdf_spec


@dataclass(frozen=True)
class RobotModel:
    """An arm with its gripper.

    Attributes:
        name: the known name, or the file's stem.
        spec: the model; it has a site `tcp` and position actuators. Never changed by `attach_robot`.
        arm_joints: the arm's joints from the base outwards.
        arm_actuators: one per arm joint, controlled by the joint's position in radians (or metres).
        home: `(n,)` positions of the arm's joints at rest.
        gripper: the gripper, or None for a bare arm.
        notes: what had to be assumed or substituted, one sentence each.
    """

    name: str
    spec: mujoco.MjSpec
    arm_joints: tuple[str, ...]
    arm_actuators: tuple[str, ...]
    home: Array
    gripper: Gripper | None
    notes: tuple[str, ...] = field(default=())

    def place(
        self,
        model: mujoco.MjModel,
        data: mujoco.MjData,
        prefix: str = "",
        qpos: Array | None = None,
        opening: float | None = None,
    ) -> None:
        """Set this robot's joints and controls in `data` (an initial state; then call `mj_forward`).

        Args:
            model: a compiled model that holds the robot.
            data: its data.
            prefix: the robot's name in `model`.
            qpos: `(n,)` arm positions; home when None.
            opening: metres between the pads; fully open when None.
        """
        values = self.home if qpos is None else qpos
        for joint, actuator, value in zip(self.arm_joints, self.arm_actuators, values, strict=True):
            data.qpos[model.joint(prefixed(prefix, joint)).qposadr[0]] = value
            data.ctrl[model.actuator(prefixed(prefix, actuator)).id] = value
        if self.gripper is None:
            return
        width = self.gripper.stroke if opening is None else opening
        for joint, value in self.gripper.joint_positions(width).items():
            data.qpos[model.joint(prefixed(prefix, joint)).qposadr[0]] = value
        data.ctrl[model.actuator(prefixed(prefix, self.gripper.actuator)).id] = self.gripper.command(width)


def _franka_joints(stem: str) -> tuple[str, ...]:
    return tuple(f"{stem}_joint{index}" for index in range(1, 8))


def _fr3_hand() -> RobotModel:
    spec, fingers = robot_arms.fr3(hand=True)
    joints = _franka_joints("fr3")
    return finish(Parts(spec, joints, joints, np.array(FRANKA_READY), fingers, ()), "fr3_hand")


def _fr3_robotiq() -> RobotModel:
    spec, _ = robot_arms.fr3(hand=False)
    joints = _franka_joints("fr3")
    parts = Parts(spec, joints, joints, np.array(FRANKA_STRAIGHT), robot_arms.mount_robotiq(spec), ())
    return finish(parts, "fr3_robotiq_2f85")


def _ur5e_robotiq() -> RobotModel:
    spec = robot_arms.ur5e()
    actuators = tuple(actuator.name for actuator in spec.actuators)
    joints = tuple(actuator.target for actuator in spec.actuators)
    parts = Parts(spec, joints, actuators, np.array(UR5E_HOME), robot_arms.mount_robotiq(spec), ())
    return finish(parts, "ur5e_robotiq_2f85")


def _panda_spec() -> mujoco.MjSpec:
    path = robot_sources.panda_urdf()
    spec, _ = urdf_spec(path, path.parents[3])
    exclude_base_neighbours(spec)
    return spec


def _panda_hand() -> RobotModel:
    parts = divide(robot_sources.panda_urdf(), _panda_spec(), [], None)
    return finish(replace(parts, home=np.array(FRANKA_READY)), "panda_hand")


def _panda_robotiq() -> RobotModel:
    spec = _panda_spec()
    spec.delete(spec.body("panda_hand"))
    for actuator in [item for item in spec.actuators if "finger" in item.name]:
        spec.delete(actuator)
    spec.body("panda_link8").add_site(name=robot_arms.FLANGE)
    joints = _franka_joints("panda")
    parts = Parts(spec, joints, joints, np.array(FRANKA_STRAIGHT), robot_arms.mount_robotiq(spec), ())
    return finish(parts, "panda_robotiq_2f85")


_BUILDERS: dict[str, Callable[[], RobotModel]] = {
    "fr3_robotiq_2f85": _fr3_robotiq,
    "fr3_hand": _fr3_hand,
    "panda_hand": _panda_hand,
    "panda_robotiq_2f85": _panda_robotiq,
    "ur5e_robotiq_2f85": _ur5e_robotiq,
}


def finish(parts: Parts, name: str) -> RobotModel:
    """Contact settings, gravity compensation, excludes and the measured gripper, for a robot with all its parts."""
    spec, fingers = parts.spec, parts.fingers
    lighten(spec)
    stiffen(spec)
    float_links(spec)
    rest = dict(zip(parts.joints, parts.home, strict=True))
    gripper = None
    if fingers is not None:
        grip(spec.body(fingers.body))
        gripper = measure_gripper(spec, fingers)
        rest |= gripper.joint_positions(gripper.stroke)
    exclude_resting_pairs(spec, rest)
    return RobotModel(name, spec, parts.joints, parts.actuators, parts.home, gripper, parts.notes)


def known_robots() -> tuple[str, ...]:
    """Names that `load_robot` takes without a file."""
    return tuple(_BUILDERS)


def load_robot(model: str, root: Path | None = None) -> RobotModel:
    """The robot called `model`, or read from the URDF or MJCF file `model` under `root`.

    Raises:
        InputError: unknown name, or a file that cannot be used; the message names what is wrong in it.
        MissingError: the package that ships the model is not installed.
    """
    if model in _BUILDERS:
        robot = _known(model)
        return replace(robot, spec=robot.spec.copy())
    if Path(model).suffix.lower() in {".urdf", ".xml", ".mjcf"}:
        path = _inside(model, root)
        return _from_file(path, root, path.stem)
    if model in MENAGERIE:
        path = menagerie_robot(model)
        return _from_file(path, path.parent, model)
    raise InputError(_unknown(model))


def _from_file(path: Path, root: Path | None, name: str) -> RobotModel:
    try:
        return finish(read_robot(path, root), name)
    except (ValueError, mujoco.FatalError) as error:
        raise InputError(f"{path}: MuJoCo refuses this robot: {error}") from error


def _inside(model: str, root: Path | None) -> Path:
    if root is not None:
        return resolve_inside(root, model)
    path = Path(model)
    if not path.is_file():
        raise InputError(f"robot {model}: no such file; known robots are {', '.join(known_robots())}")
    return path.resolve()


@lru_cache(maxsize=8)
def _known(name: str) -> RobotModel:
    return _BUILDERS[name]()


def _unknown(model: str) -> str:
    close = difflib.get_close_matches(model, (*known_robots(), *MENAGERIE), n=1, cutoff=0.4)
    hint = f"did you mean {close[0]}? " if close else ""
    return (
        f"robot {model!r}: unknown; {hint}known robots are {', '.join(known_robots())}, "
        "or give the path of a .urdf or .xml file in the scene's folder"
    )


def compile_robot(robot: RobotModel) -> mujoco.MjModel:
    """The robot alone, base at the world's origin; element names are those of `robot.spec`."""
    return robot.spec.copy().compile()


def attach_robot(parent: mujoco.MjSpec, robot: RobotModel, name: str, base: Pose) -> None:
    """Attach `robot` to `parent`'s world at `base`; every element's name becomes `<name>/<its name>`.

    Raises:
        InputError: an empty name (MuJoCo could not read the saved model back).
    """
    if not name.strip("/"):
        raise InputError("robot name: empty; every robot in a scene needs a name")
    frame = parent.worldbody.add_frame(pos=base.position, quat=base.quaternion)
    child = robot.spec.copy()
    robot_arms.share_options(child, parent)
    parent.attach(child, prefix=f"{name}/", frame=frame)
