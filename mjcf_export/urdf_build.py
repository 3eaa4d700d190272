"""A checked URDF as a `mujoco.MjSpec`: every link a body, mimic joints as equalities, position servos."""

from pathlib import Path

import mujoco
import numpy as np

from mjcf_export.errors import InputError
from mjcf_export.frames import Array, matrix_quaternion
from mjcf_export.robot_arms import servo
from mjcf_export.robot_contact import COLLISION_GROUP, VISUAL_GROUP
from mjcf_export.robot_meshes import prepare_mesh
from mjcf_export.urdf import Urdf, read_urdf
from mjcf_export.urdf_elements import MAX_LENGTH, Inertia, Joint, Shape

STRONG_EFFORT = 50.0
DEFAULT_EFFORT = 87.0
STIFF, SOFT, SLIDE_STIFF = 4500.0, 2000.0, 10_000.0
ARMATURE_STRONG, ARMATURE_WEAK, ARMATURE_SLIDE = 0.195, 0.074, 0.1
FINGER_ARMATURE, FINGER_SLIDE_ARMATURE = 0.005, 0.05
GRIP_SLIDE = (3000.0, 140.0)
GRIP_HINGE = (100.0, 5.0)
ASSUMED_DENSITY = 1000.0
SMALLEST = 1e-4
GREY = (0.7, 0.7, 0.7, 1.0)
COUPLING = {"solref": (0.005, 1.0), "solimp": (0.95, 0.99, 0.001, 0.5, 2.0)}


def urdf_spec(path: Path, root: Path | None = None) -> tuple[mujoco.MjSpec, list[str]]:
    """The spec of a URDF file, and notes on what had to be assumed.

    Raises:
        InputError: see `mjcf_export.urdf.read_urdf`; also meshes that cannot be used at their scale.
    """
    robot = read_urdf(path, root)
    notes = list(robot.notes)
    _pair_fingers(robot, notes)
    spec = mujoco.MjSpec()
    spec.modelname = robot.name
    spec.compiler.degree = False
    assumed = _massless(robot)
    if assumed:
        notes.append(f"mass assumed from collision shapes at {ASSUMED_DENSITY:g} kg/m³: links {', '.join(assumed)}")
    _add_link(spec, robot, spec.worldbody.add_body(name=robot.root), robot.root, assumed)
    _add_couplings(spec, robot)
    _add_servos(spec, robot, notes)
    return spec, notes


def _massless(robot: Urdf) -> list[str]:
    """For each moving group of links that declares no mass, the link whose collision shapes stand in for it."""
    found = []
    for joint in robot.joints:
        if joint.moving:
            group = robot.rigid_group(joint.child)
            if all(robot.links[link].inertia is None for link in group):
                found.append(next(link for link in group if robot.links[link].collisions))
    return found


def _pair_fingers(robot: Urdf, notes: list[str]) -> None:
    """Two sliding fingers of one palm that nothing couples are taken for a gripper's, as Franka's are."""
    coupled = {joint.mimic[0] for joint in robot.joints if joint.mimic}
    slides = [joint for joint in robot.joints if joint.kind == "prismatic" and not joint.mimic]
    leaves = [joint for joint in slides if not _moving_below(robot, joint.child) and joint.name not in coupled]
    for first, second in zip(leaves, leaves[1:], strict=False):
        if first.parent == second.parent and first.limits == second.limits and len(leaves) == 2:
            second.mimic = (first.name, 1.0, 0.0)
            notes.append(f"joint {second.name}: taken to mimic {first.name}, as the two fingers of one gripper")


def _moving_below(robot: Urdf, link: str) -> bool:
    return any(joint.moving or _moving_below(robot, joint.child) for joint in robot.children(link))


def _add_link(spec: mujoco.MjSpec, robot: Urdf, body: mujoco.MjsBody, name: str, assumed: list[str]) -> None:
    link = robot.links[name]
    if link.inertia is not None:
        _set_inertia(body, link.inertia)
    for index, shape in enumerate(link.visuals):
        _add_shape(spec, body, shape, f"{name}/visual{index}", robot.path, False)
    for index, shape in enumerate(link.collisions):
        geoms = _add_shape(spec, body, shape, f"{name}/collision{index}", robot.path, True)
        for geom in geoms if name in assumed else []:
            geom.mass = float("nan")
            geom.density = ASSUMED_DENSITY
    for joint in robot.children(name):
        child = body.add_body(name=joint.child, pos=joint.origin[:3, 3], quat=matrix_quaternion(joint.origin[:3, :3]))
        if joint.moving:
            _add_joint(child, joint, bool(joint.mimic) or _leads(robot, joint.name))
        _add_link(spec, robot, child, joint.child, assumed)


def _leads(robot: Urdf, name: str) -> bool:
    return any(joint.mimic and joint.mimic[0] == name for joint in robot.joints)


def _set_inertia(body: mujoco.MjsBody, inertia: Inertia) -> None:
    moments, axes = np.linalg.eigh(inertia.tensor)
    if np.linalg.det(axes) < 0:
        axes[:, 0] *= -1
    body.explicitinertial = True
    body.mass = inertia.mass
    body.ipos = inertia.origin[:3, 3]
    body.inertia = moments
    body.iquat = matrix_quaternion(inertia.origin[:3, :3] @ axes)


def _add_joint(body: mujoco.MjsBody, joint: Joint, finger: bool) -> None:
    slides = joint.kind == "prismatic"
    made = body.add_joint(
        name=joint.name,
        type=mujoco.mjtJoint.mjJNT_SLIDE if slides else mujoco.mjtJoint.mjJNT_HINGE,
        axis=joint.axis,
    )
    free = joint.limits is None or joint.mimic is not None
    made.limited = int(mujoco.mjtLimited.mjLIMITED_FALSE if free else mujoco.mjtLimited.mjLIMITED_TRUE)
    if not free and joint.limits is not None:
        made.range = joint.limits
    made.damping[0] = joint.damping
    made.frictionloss = joint.friction
    if finger:
        made.armature = FINGER_SLIDE_ARMATURE if slides else FINGER_ARMATURE
    elif slides:
        made.armature = ARMATURE_SLIDE
    else:
        made.armature = ARMATURE_STRONG if (joint.effort or DEFAULT_EFFORT) >= STRONG_EFFORT else ARMATURE_WEAK


def _add_shape(
    spec: mujoco.MjSpec, body: mujoco.MjsBody, shape: Shape, name: str, path: Path, collides: bool
) -> list[mujoco.MjsGeom]:
    pose = {"pos": shape.origin[:3, 3], "quat": matrix_quaternion(shape.origin[:3, :3])}
    look: Array | tuple[float, ...] = shape.rgba or GREY
    if shape.mesh is None:
        kind = getattr(mujoco.mjtGeom, f"mjGEOM_{shape.kind.upper()}")
        size = (*shape.size, 0.0, 0.0)[:3]
        return [_finish_geom(body.add_geom(name=name, type=kind, size=size, rgba=look, **pose), collides)]
    geoms = []
    for part, piece in enumerate(prepare_mesh(shape.mesh, "collision" if collides else "visual")):
        _check_size(np.array(piece.low) * shape.size, np.array(piece.high) * shape.size, f"{path}: {name}", shape)
        label = name if part == 0 else f"{name}.{part}"
        spec.add_mesh(
            name=label, file=str(piece.file), scale=shape.size, inertia=mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
        )
        geom = body.add_geom(
            name=label, type=mujoco.mjtGeom.mjGEOM_MESH, meshname=label, rgba=shape.rgba or piece.rgba or GREY, **pose
        )
        geoms.append(_finish_geom(geom, collides))
    return geoms


def _finish_geom(geom: mujoco.MjsGeom, collides: bool) -> mujoco.MjsGeom:
    geom.mass = 0.0
    geom.group = COLLISION_GROUP if collides else VISUAL_GROUP
    geom.contype = geom.conaffinity = int(collides)
    return geom


def _check_size(low: Array, high: Array, where: str, shape: Shape) -> None:
    largest = float((high - low).max())
    if largest > MAX_LENGTH:
        raise InputError(
            f"{where}: mesh {shape.mesh} is {largest:.3g} m long at scale {shape.size}; "
            "meshes are read in metres, one in millimetres needs scale 0.001"
        )
    if largest < SMALLEST:
        raise InputError(f"{where}: mesh {shape.mesh} is only {largest:.3g} m long at scale {shape.size}")


def _add_couplings(spec: mujoco.MjSpec, robot: Urdf) -> None:
    for joint in robot.joints:
        if joint.mimic is not None:
            leader, multiplier, offset = joint.mimic
            kinds = {"type": mujoco.mjtEq.mjEQ_JOINT, "objtype": mujoco.mjtObj.mjOBJ_JOINT}
            equality = spec.add_equality(name1=joint.name, name2=leader, **kinds, **COUPLING)
            equality.data[:2] = (offset, multiplier)


def _add_servos(spec: mujoco.MjSpec, robot: Urdf, notes: list[str]) -> None:
    for joint in robot.joints:
        if not joint.moving or joint.mimic is not None:
            continue
        element = spec.joint(joint.name)
        slides = joint.kind == "prismatic"
        actuator = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        if _leads(robot, joint.name):
            stiffness, force = GRIP_SLIDE if slides else GRIP_HINGE
            servo(actuator, element, stiffness, min(force, joint.effort or force))
        else:
            if joint.effort is None:
                notes.append(f"joint {joint.name}: effort limit assumed {DEFAULT_EFFORT:g}")
            effort = joint.effort or DEFAULT_EFFORT
            hinge = STIFF if effort >= STRONG_EFFORT else SOFT
            servo(actuator, element, SLIDE_STIFF if slides else hinge, effort)
        if joint.limits is None:
            actuator.ctrllimited = int(mujoco.mjtLimited.mjLIMITED_FALSE)
            actuator.ctrlrange = (0.0, 0.0)
