"""The exported model bound to its scene: which joint, actuator, geom and body belongs to whom."""

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np
import numpy.typing as npt

from mjcf_export.errors import InputError
from mjcf_export.robots import RobotModel, load_robot
from mjcf_export.scene import SCENE_FILE, Scene

Ids = npt.NDArray[np.int64]
WORLD = "world"
"""Entity of what belongs to neither a body nor a robot."""
SIDES = ("left", "right")


@dataclass(frozen=True)
class RobotParts:
    """Where a robot's parts are in the compiled model."""

    name: str
    robot: RobotModel
    joints: Ids
    qpos: Ids
    actuators: Ids
    hand: int | None
    tcp: int
    pads: dict[str, Ids]
    faces: dict[str, int]


class World:
    """A compiled scene. Geoms are owned by an entity: a body of the scene, a robot, or `world`."""

    def __init__(self, scene: Scene, folder: Path, model: mujoco.MjModel) -> None:
        self.scene = scene
        self.folder = folder
        self.model = model
        self.robots = {item.name: _parts(model, item.name, load_robot(item.model, folder)) for item in scene.robots}
        self.bodies = {body.name: _body_id(model, body.name) for body in scene.bodies}
        self.entities = [WORLD, *self.bodies, *self.robots]
        self.owner = self._owners()
        free = np.flatnonzero(model.jnt_type == int(mujoco.mjtJoint.mjJNT_FREE))
        self._free = {int(model.jnt_bodyid[joint]): int(joint) for joint in free}

    @classmethod
    def load(cls, scene_folder: Path, mjcf_folder: Path) -> "World":
        """The scene and its exported model from disk.

        Raises:
            InputError: the model is missing, does not compile, or is not the scene's.
        """
        scene = Scene.load(scene_folder / SCENE_FILE)
        path = mjcf_folder / "scene.xml"
        if not path.exists():
            raise InputError(f"{path}: no exported model; run `real2gym export` first")
        try:
            model = mujoco.MjModel.from_xml_path(str(path))
        except ValueError as error:
            raise InputError(f"{path}: MuJoCo cannot compile it ({error})") from error
        return cls(scene, scene_folder, model)

    def index(self, entity: str) -> int:
        """Number of an entity in `owner`."""
        return self.entities.index(entity)

    def geoms(self, entity: str) -> Ids:
        """Geom ids of an entity."""
        return np.flatnonzero(self.owner == self.index(entity))

    def movable(self) -> list[str]:
        """Bodies with a free joint."""
        return [body.name for body in self.scene.bodies if self.free_joint(body.name) is not None]

    def free_joint(self, body: str) -> int | None:
        """The free joint of a body, if it has one."""
        return self._free.get(self.bodies[body])

    def weight(self, body: str) -> float:
        """Newtons of a body with everything attached to it."""
        gravity = float(np.linalg.norm(self.model.opt.gravity))
        return float(self.model.body_subtreemass[self.bodies[body]]) * gravity

    def initial_data(self) -> mujoco.MjData:
        """Data at the model's own initial state: its first keyframe, else its reference state."""
        data = mujoco.MjData(self.model)
        if self.model.nkey:
            mujoco.mj_resetDataKeyframe(self.model, data, 0)
        return data

    def _owners(self) -> Ids:
        owner = np.zeros(self.model.ngeom, dtype=np.int64)
        by_body = {index: self.index(name) for name, index in self.bodies.items() if index}
        for geom in range(self.model.ngeom):
            name = self.model.geom(geom).name
            body = int(self.model.geom_bodyid[geom])
            while body and body not in by_body and self._robot_of(body) is None:
                body = int(self.model.body_parentid[body])
            if body in by_body:
                owner[geom] = by_body[body]
            elif (robot := self._robot_of(body)) is not None:
                owner[geom] = self.index(robot)
            elif name.rpartition("/")[0] in self.bodies:
                owner[geom] = self.index(name.rpartition("/")[0])
        return owner

    def _robot_of(self, body: int) -> str | None:
        prefix, slash, _ = self.model.body(body).name.partition("/")
        return prefix if slash and prefix in self.robots else None


def _body_id(model: mujoco.MjModel, name: str) -> int:
    index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, name)
    if index < 0:
        raise InputError(f"body {name}: not in the exported model; export the scene again")
    return int(index)


def _parts(model: mujoco.MjModel, name: str, robot: RobotModel) -> RobotParts:
    def of(kind: mujoco.mjtObj, element: str) -> int:
        index = mujoco.mj_name2id(model, kind, f"{name}/{element}")
        if index < 0:
            raise InputError(f"robot {name}: {element} is not in the exported model; export the scene again")
        return int(index)

    joints = np.array([of(mujoco.mjtObj.mjOBJ_JOINT, joint) for joint in robot.arm_joints])
    gripper = robot.gripper
    pads = gripper.pads if gripper is not None else {}
    faces = gripper.faces if gripper is not None else {}
    return RobotParts(
        name=name,
        robot=robot,
        joints=joints,
        qpos=model.jnt_qposadr[joints].astype(np.int64),
        actuators=np.array([of(mujoco.mjtObj.mjOBJ_ACTUATOR, item) for item in robot.arm_actuators]),
        hand=of(mujoco.mjtObj.mjOBJ_ACTUATOR, gripper.actuator) if gripper is not None else None,
        tcp=of(mujoco.mjtObj.mjOBJ_SITE, "tcp"),
        pads={side: np.array([of(mujoco.mjtObj.mjOBJ_GEOM, geom) for geom in geoms]) for side, geoms in pads.items()},
        faces={side: of(mujoco.mjtObj.mjOBJ_BODY, pad.body) for side, pad in faces.items()},
    )
