"""What a robot looks like: its links as a tree with visual meshes, posed by MuJoCo's forward kinematics."""

from dataclasses import dataclass
from pathlib import Path

import mujoco
import numpy as np

from mjcf_export.errors import InputError
from mjcf_export.frames import Array, inverse, transform
from mjcf_export.robots import RobotModel, compile_robot, load_robot
from mjcf_export.surfaces import box_surface, turned_surface
from mjcf_export.triangles import TriangleMesh

VISUAL_GROUPS = (0, 1, 2)
ARC = 16


@dataclass(frozen=True)
class Visual:
    """One geom: its surface in its own frame, that frame in the link, and how it looks (sRGB with alpha)."""

    name: str
    surface: TriangleMesh
    pose: Array
    material: str
    rgba: tuple[float, float, float, float]
    roughness: float
    metallic: float


@dataclass(frozen=True)
class LinkJoint:
    """The arm joint that moves a link, in the link's frame; `rest` is the link in its parent at zero."""

    index: int
    kind: str
    axis: tuple[float, float, float]
    origin: tuple[float, float, float]
    rest: Array


@dataclass(frozen=True)
class Link:
    """A body of the robot; `parent` is None for one that stands on the base."""

    name: str
    parent: str | None
    visuals: tuple[Visual, ...]
    joint: LinkJoint | None


class RobotFigure:
    """A robot compiled alone, base at the origin.

    Attributes:
        robot: the model it was made from.
        links: from the base outwards.
        base_visuals: geoms that stand on the base itself.
    """

    def __init__(self, robot: RobotModel) -> None:
        self.robot = robot
        self.model = compile_robot(robot)
        self.data = mujoco.MjData(self.model)
        self.base_visuals = self._visuals(0)
        self.links = tuple(self._link(body) for body in range(1, self.model.nbody))

    @classmethod
    def load(cls, model: str, folder: Path) -> "RobotFigure":
        """The figure of a known robot, or of a description below `folder`; see `load_robot` for the errors."""
        return cls(load_robot(model, folder))

    def link_poses(self, qpos: Array | None, opening: float | None) -> dict[str, Array]:
        """Every link `(4, 4)` and the `tcp` site in the base frame.

        Args:
            qpos: `(n,)` arm joints (home when None), or all `(nq,)` joints of the robot alone.
            opening: metres between the pads; fully open when None.

        Raises:
            InputError: another number of joints.
        """
        arm = len(self.robot.arm_joints)
        if qpos is not None and len(qpos) not in {arm, self.model.nq}:
            raise InputError(
                f"{self.robot.name}: {len(qpos)} joint positions; expected {arm} (arm) or {self.model.nq} (all joints)"
            )
        mujoco.mj_resetData(self.model, self.data)
        if qpos is not None and len(qpos) == self.model.nq != arm:
            self.data.qpos[:] = qpos
        else:
            self.robot.place(self.model, self.data, "", qpos, opening)
        mujoco.mj_kinematics(self.model, self.data)
        poses = {
            self.model.body(body).name: transform(self.data.xpos[body], self.data.xquat[body])
            for body in range(1, self.model.nbody)
        }
        tcp = self.data.site("tcp")
        frame = np.eye(4)
        frame[:3, :3], frame[:3, 3] = tcp.xmat.reshape(3, 3), tcp.xpos
        poses["tcp"] = frame
        return poses

    @property
    def tcp_link(self) -> str:
        """The link that carries the tcp."""
        return str(self.model.body(int(self.model.site("tcp").bodyid[0])).name)

    def _link(self, body: int) -> Link:
        parent = int(self.model.body_parentid[body])
        return Link(
            name=self.model.body(body).name,
            parent=None if parent == 0 else self.model.body(parent).name,
            visuals=self._visuals(body),
            joint=self._joint(body),
        )

    def _joint(self, body: int) -> LinkJoint | None:
        first, count = int(self.model.body_jntadr[body]), int(self.model.body_jntnum[body])
        if count != 1 or self.model.joint(first).name not in self.robot.arm_joints:
            return None
        reference = float(self.model.qpos0[self.model.jnt_qposadr[first]])
        kind = "hinge" if self.model.jnt_type[first] == mujoco.mjtJoint.mjJNT_HINGE else "slide"
        axis, origin = self.model.jnt_axis[first], self.model.jnt_pos[first]
        rest = transform(self.model.body_pos[body], self.model.body_quat[body])
        return LinkJoint(
            index=self.robot.arm_joints.index(self.model.joint(first).name),
            kind=kind,
            axis=_triple(axis),
            origin=_triple(origin),
            rest=rest @ inverse(joint_displacement(kind, axis, origin, reference)),
        )

    def _visuals(self, body: int) -> tuple[Visual, ...]:
        model = self.model
        first = int(model.body_geomadr[body])
        geoms = range(first, first + int(model.body_geomnum[body])) if first >= 0 else range(0)
        seen = [geom for geom in geoms if model.geom_group[geom] in VISUAL_GROUPS and model.geom_rgba[geom, 3] > 0]
        shown = [geom for geom in seen if model.geom_contype[geom] == 0 and model.geom_conaffinity[geom] == 0]
        found = []
        for geom in shown or seen or list(geoms):
            surface = geom_surface(model, geom)
            if surface is None:
                continue
            material = int(model.geom_matid[geom])
            own = material >= 0
            rgba = model.mat_rgba[material] if own else model.geom_rgba[geom]
            name = model.material(material).name if own else "rgba " + " ".join(f"{value:.3g}" for value in rgba)
            found.append(
                Visual(
                    name=model.geom(geom).name or f"visual{geom - first}",
                    surface=surface,
                    pose=transform(model.geom_pos[geom], model.geom_quat[geom]),
                    material=name,
                    rgba=(float(rgba[0]), float(rgba[1]), float(rgba[2]), float(rgba[3])),
                    roughness=0.45 if not own else float(np.clip(0.7 - 0.5 * model.mat_shininess[material], 0.2, 0.7)),
                    metallic=0.0,
                )
            )
        return tuple(found)


def joint_displacement(kind: str, axis: Array, origin: Array, value: float) -> Array:
    """The motion `(4, 4)` of a hinge (radians) or slide (metres) in the link's frame."""
    direction = np.asarray(axis, dtype=np.float64)
    if kind == "slide":
        return transform(direction * value)
    turn = transform((0, 0, 0), (np.cos(value / 2), *(np.sin(value / 2) * direction)))
    turn[:3, 3] = np.asarray(origin) - turn[:3, :3] @ np.asarray(origin)
    return turn


def joint_value(joint: LinkJoint, local: Array) -> float:
    """The position of `joint` that comes closest to the link at `local` `(4, 4)` in its parent."""
    moved = inverse(joint.rest) @ local
    axis = np.array(joint.axis)
    if joint.kind == "slide":
        return float(moved[:3, 3] @ axis)
    rotation = moved[:3, :3]
    sine = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    return float(np.arctan2(sine @ axis / 2, (np.trace(rotation) - 1) / 2))


def geom_surface(model: mujoco.MjModel, geom: int) -> TriangleMesh | None:
    """The triangles of a geom in its own frame, or None for one without a bounded surface."""
    kind, size = mujoco.mjtGeom(int(model.geom_type[geom])), model.geom_size[geom]
    if kind == mujoco.mjtGeom.mjGEOM_MESH:
        return _mesh_surface(model, int(model.geom_dataid[geom]))
    if kind == mujoco.mjtGeom.mjGEOM_BOX:
        box = box_surface(2 * size)
        return TriangleMesh(box.vertices - (0, 0, size[2]), box.faces, None)
    if kind == mujoco.mjtGeom.mjGEOM_CYLINDER:
        profile = np.array([[size[0], 0.0], [size[0], 2 * size[1]]])
        turned = turned_surface(profile, None, 2 * ARC)
        return TriangleMesh(turned.vertices - (0, 0, size[1]), turned.faces, None)
    if kind in {mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_CAPSULE, mujoco.mjtGeom.mjGEOM_ELLIPSOID}:
        angles = np.linspace(-np.pi / 2, np.pi / 2, ARC + 2)
        half = size[1] if kind == mujoco.mjtGeom.mjGEOM_CAPSULE else 0.0
        radius = 1.0 if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID else size[0]
        profile = np.column_stack([radius * np.cos(angles), radius * np.sin(angles) + np.sign(angles) * half])
        profile[[0, -1], 0] = 0.0
        turned = turned_surface(profile, None, 2 * ARC)
        stretch = size if kind == mujoco.mjtGeom.mjGEOM_ELLIPSOID else np.ones(3)
        return TriangleMesh(turned.vertices * stretch, turned.faces, None)
    return None


def _mesh_surface(model: mujoco.MjModel, mesh: int) -> TriangleMesh:
    start, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    first, faces = int(model.mesh_faceadr[mesh]), int(model.mesh_facenum[mesh])
    vertices = model.mesh_vert[start : start + count].astype(np.float64)
    return TriangleMesh(vertices, model.mesh_face[first : first + faces].astype(np.int64), None)


def _triple(values: Array) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in values)
    return x, y, z
