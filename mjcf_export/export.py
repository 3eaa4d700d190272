"""Scene to MuJoCo: the spec of a whole scene, and the folder that holds it."""

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import mujoco
import numpy as np

from mjcf_export import contact
from mjcf_export.collision import Piece, collision_pieces
from mjcf_export.document import FULL, PARTIAL, full_disk
from mjcf_export.errors import InputError, MissingError
from mjcf_export.files import FileNames, collect_files, replace_folder
from mjcf_export.inertia import mass_properties
from mjcf_export.looks import add_cameras, add_lights, add_materials
from mjcf_export.meshes import load_mesh, obj_bytes
from mjcf_export.robots import RobotModel, attach_robot, load_robot
from mjcf_export.scene import Body, Joint, Mesh, Scene
from mjcf_export.shapes import shape_mesh
from mjcf_export.triangles import TriangleMesh

SCENE_XML = "scene.xml"
HIDDEN_GROUP = 4
"""Geom and site groups from 3 on are not drawn unless asked for."""


@dataclass
class _Builder:
    scene: Scene
    folder: Path
    cache: Path | None
    spec: mujoco.MjSpec
    names: FileNames = field(default_factory=FileNames)
    bodies: dict[str, mujoco.MjsBody] = field(default_factory=dict)
    robots: dict[str, RobotModel] = field(default_factory=dict)
    shared: dict[int, str] = field(default_factory=dict)
    kept: list[TriangleMesh] = field(default_factory=list)


def build_spec(scene: Scene, scene_folder: Path, cache: Path | None = None) -> mujoco.MjSpec:
    """The MuJoCo spec of `scene`; meshes and textures that it makes are in `spec.assets`, so it compiles as it is.

    Body `<name>` has a free joint `<name>` unless it is static or has a parent, geoms `<name>/visual` and
    `<name>/c<i>`; a body with a parent is posed in the parent's frame. Elements of a robot start with `<robot>/`.
    A keyframe `home` holds the scene's initial state.

    Args:
        scene: the scene.
        scene_folder: where its mesh and texture files lie.
        cache: where convex decompositions are kept; see `collision_pieces`.

    Raises:
        InputError: a file, reference or shape cannot be used.
        MissingError: this machine lacks a robot model or a package.
    """
    spec = mujoco.MjSpec()
    spec.modelname = scene.name
    builder = _Builder(scene, scene_folder, cache, spec)
    for robot in scene.robots:
        _refuse_taken(scene, robot.name)
        builder.robots[robot.name] = load_robot(robot.model, scene_folder)
        attach_robot(spec, builder.robots[robot.name], robot.name, robot.base)
    contact.set_options(spec, scene)
    for site in spec.sites:
        site.group = HIDDEN_GROUP
    add_materials(spec, scene, scene_folder, builder.names)
    for body in _parents_first(scene):
        _add_body(builder, body)
    add_cameras(spec, scene)
    add_lights(spec, scene)
    _add_home(builder)
    return spec


def _refuse_taken(scene: Scene, robot: str) -> None:
    names = [body.name for body in scene.bodies] + [camera.name for camera in scene.cameras]
    taken = [name for name in names if name.startswith(f"{robot}/")]
    if taken:
        raise InputError(f"{taken[0]}: names that start with {robot}/ belong to the robot {robot}; rename it")


def _parents_first(scene: Scene) -> list[Body]:
    placed: dict[str, Body] = {}
    waiting = list(scene.bodies)
    while waiting:
        ready = [body for body in waiting if body.parent is None or body.parent in placed]
        if not ready:
            raise InputError(f"bodies {', '.join(body.name for body in waiting)}: their parents form a circle")
        placed |= {body.name: body for body in ready}
        waiting = [body for body in waiting if body.name not in placed]
    return list(placed.values())


def _add_body(builder: _Builder, body: Body) -> None:
    spec = builder.spec
    parent = spec.worldbody if body.parent is None else builder.bodies[body.parent]
    element = parent.add_body(name=body.name, pos=body.pose.position, quat=body.pose.quaternion)
    builder.bodies[body.name] = element
    joints = [joint for joint in builder.scene.joints if joint.body == body.name]
    for joint in joints:
        _add_joint(element, joint)
    moves = bool(joints) or not (body.static or body.parent is not None)
    if moves and not joints:
        element.add_freejoint(name=body.name)
    visual = shape_mesh(body.shape, builder.folder)
    solid = load_mesh(builder.folder, body.shape.file).solid if isinstance(body.shape, Mesh) else visual
    _add_inertial(element, body, solid)
    _add_visual(builder, element, body, visual)
    for index, piece in enumerate(collision_pieces(body.shape, builder.folder, builder.cache)):
        _add_piece(builder, element, body, index, piece)


def _add_joint(element: mujoco.MjsBody, joint: Joint) -> None:
    slides = joint.kind == "prismatic"
    low, high = joint.range
    if low > high:
        raise InputError(f"joint {joint.name}: range {joint.range} is reversed; expected (low, high)")
    if not np.linalg.norm(joint.axis) > 1e-9:
        raise InputError(f"joint {joint.name}: its axis {joint.axis} has no length")
    made = element.add_joint(
        name=joint.name,
        type=mujoco.mjtJoint.mjJNT_SLIDE if slides else mujoco.mjtJoint.mjJNT_HINGE,
        axis=np.array(joint.axis) / np.linalg.norm(joint.axis),
        pos=joint.origin,
        range=(low, high),
        limited=mujoco.mjtLimited.mjLIMITED_TRUE if low < high else mujoco.mjtLimited.mjLIMITED_FALSE,
    )
    made.damping[0] = joint.damping
    made.frictionloss = joint.friction


def _add_inertial(element: mujoco.MjsBody, body: Body, solid: TriangleMesh) -> None:
    properties = mass_properties(solid, mass=body.mass, density=body.density)
    moments, axes = properties.principal()
    element.explicitinertial = True
    element.mass = properties.mass
    element.ipos = properties.centre
    element.inertia = moments
    element.iquat = axes


def _add_mesh(builder: _Builder, name: str, mesh: TriangleMesh) -> str:
    file = builder.names.take(name, ".obj")
    builder.spec.assets = {**builder.spec.assets, file: obj_bytes(mesh)}
    builder.spec.add_mesh(name=name, file=file, inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX)
    return name


def _add_visual(builder: _Builder, element: mujoco.MjsBody, body: Body, visual: TriangleMesh) -> None:
    geom = element.add_geom(
        builder.spec.find_default("visual"),
        name=f"{body.name}/visual",
        type=mujoco.mjtGeom.mjGEOM_MESH,
        meshname=_add_mesh(builder, f"{body.name}/visual", visual),
        mass=0.0,
    )
    if body.material is not None:
        geom.material = body.material


def _add_piece(builder: _Builder, element: mujoco.MjsBody, body: Body, index: int, piece: Piece) -> None:
    geom = element.add_geom(
        builder.spec.find_default("collision"),
        name=f"{body.name}/c{index}",
        pos=piece.pose.position,
        quat=piece.pose.quaternion,
        mass=0.0,
    )
    contact.set_friction(geom, body)
    if piece.mesh is None:
        geom.type = mujoco.mjtGeom.mjGEOM_BOX if piece.kind == "box" else mujoco.mjtGeom.mjGEOM_CYLINDER
        geom.size[: len(piece.size)] = piece.size
        return
    shared = builder.shared
    if id(piece.mesh) not in shared:
        builder.kept.append(piece.mesh)
        shared[id(piece.mesh)] = _add_mesh(builder, f"{body.name}/c{index}", piece.mesh)
    geom.type = mujoco.mjtGeom.mjGEOM_MESH
    geom.meshname = shared[id(piece.mesh)]


def _add_home(builder: _Builder) -> None:
    """The keyframe `home`: every joint and control of the scene's initial state."""
    model = compile_spec(builder.spec, builder.scene.name)
    data = mujoco.MjData(model)
    for joint in builder.scene.joints:
        data.qpos[model.joint(joint.name).qposadr[0]] = joint.position
    for robot in builder.scene.robots:
        loaded = builder.robots[robot.name]
        qpos = None if robot.qpos is None else np.array(robot.qpos)
        if qpos is not None and len(qpos) != len(loaded.arm_joints):
            raise InputError(
                f"robot {robot.name}: {len(qpos)} joint positions, but {robot.model} has "
                f"{len(loaded.arm_joints)} arm joints ({', '.join(loaded.arm_joints)})"
            )
        loaded.place(model, data, robot.name, qpos, robot.opening)
    builder.spec.add_key(name="home", qpos=data.qpos.copy(), ctrl=data.ctrl.copy())


def compile_spec(spec: mujoco.MjSpec, name: str) -> mujoco.MjModel:
    """Compile `spec`.

    Raises:
        InputError: MuJoCo refuses it; the message is MuJoCo's.
    """
    try:
        return spec.compile()
    except ValueError as error:
        raise InputError(f"scene {name}: MuJoCo cannot compile it: {error}") from error


def export_scene(scene: Scene, scene_folder: Path, out: Path, cache: Path | None = None) -> Path:
    """Write `scene` as a folder that opens alone: `scene.xml`, `assets/` with meshes and textures.

    The text of `scene.xml` is canonical: compile only from it, since saving rounds to six digits. The folder is
    built beside `out` and renamed, replacing an earlier export.

    Args:
        scene: the scene.
        scene_folder: where its files lie.
        out: the folder to make.
        cache: where convex decompositions are kept.

    Returns:
        The path of `scene.xml`.

    Raises:
        InputError: the scene cannot be exported, or `out` holds something else.
        MissingError: this machine lacks something, or the disk is full.
    """
    if out.exists() and not (out / SCENE_XML).is_file() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out}: exists and is not an earlier export; choose another folder or remove it")
    spec = build_spec(scene, scene_folder, cache)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{out.name}-", dir=out.parent))
    except OSError as error:
        raise MissingError(f"{out}: cannot be written ({error.strerror}); choose another folder") from error
    try:
        collect_files(spec, temporary / "assets")
        compile_spec(spec, scene.name)
        (temporary / SCENE_XML).write_text(spec.to_xml(), encoding="utf-8")
        _check_reload(temporary / SCENE_XML, spec)
        temporary.chmod(0o755)
        replace_folder(temporary, out)
    except OSError as error:
        if error.errno in FULL:
            raise full_disk(out) from error
        raise MissingError(f"{out}: cannot be written ({error.strerror}); choose another folder") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return out / SCENE_XML


def _check_reload(path: Path, spec: mujoco.MjSpec) -> None:
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise InputError(f"{spec.modelname}: the exported model does not load again: {error}") from error
    if model.nkey != len(spec.keys) or model.nbody != len(spec.bodies):
        raise InputError(f"{spec.modelname}: the exported model lost elements on saving")
