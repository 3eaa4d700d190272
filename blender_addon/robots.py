"""Robots between the Scene and Blender: a base object and, below it, one object per link with its visual meshes."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np

from mjcf_export.frames import Array, inverse
from mjcf_export.scene import Robot

from .geometry import new_mesh
from .materials import linear, surface
from .outliner import collection, new_object
from .records import PREFIX, current_name, mark, snap_pose, store, stored
from .robot_figure import Link, LinkJoint, RobotFigure, Visual, joint_value

LINK = PREFIX + "link"
ROBOT = PREFIX + "robot"
JOINT = PREFIX + "joint"
POSED = PREFIX + "posed"
"""Joint positions the links were posed at when built."""
JOINT_TOLERANCE = 2e-5


def build_robot(robot: Robot, index: int, folder: Path) -> Any:
    """The robot's base as an empty, its links parented in a tree and posed at its joints."""
    figure = RobotFigure.load(robot.model, folder)
    home = collection("robot")
    base = new_object(robot.name, None, home, robot.base.matrix)
    base.empty_display_type, base.empty_display_size = "ARROWS", 0.1
    mark(base, "robot", index)
    store(base, robot)
    qpos = np.array(robot.qpos) if robot.qpos is not None else None
    base[POSED] = [float(value) for value in (figure.robot.home if qpos is None else qpos)]
    poses = figure.link_poses(qpos, robot.opening)
    materials: dict[str, Any] = {}
    _add_visuals(robot.name, "base", figure.base_visuals, base, materials)
    made: dict[str, Any] = {}
    for link in figure.links:
        parent = base if link.parent is None else made[link.parent]
        local = poses[link.name] if link.parent is None else inverse(poses[link.parent]) @ poses[link.name]
        made[link.name] = _add_link(robot.name, link, local, parent)
        _add_visuals(robot.name, link.name, link.visuals, made[link.name], materials)
    carrier = figure.tcp_link
    tcp = new_object(f"{robot.name}/tcp", None, home, inverse(poses[carrier]) @ poses["tcp"], made[carrier])
    tcp.empty_display_type, tcp.empty_display_size = "ARROWS", 0.04
    mark(tcp, "tcp")
    return base


def _add_link(robot: str, link: Link, local: Array, parent: Any) -> Any:
    made = new_object(f"{robot}/{link.name}", None, collection("robot"), local, parent)
    made.empty_display_size = 0.02
    mark(made, "link")
    made[ROBOT], made[LINK] = robot, link.name
    if link.joint is not None:
        joint = link.joint
        made[JOINT] = {
            "index": joint.index,
            "kind": joint.kind,
            "axis": list(joint.axis),
            "origin": list(joint.origin),
            "rest": joint.rest.ravel().tolist(),
        }
    return made


def _add_visuals(robot: str, link: str, visuals: tuple[Visual, ...], parent: Any, materials: dict[str, Any]) -> None:
    for visual in visuals:
        name = f"{robot}/{link}/{visual.name}"
        mesh = new_mesh(name, visual.surface.vertices, visual.surface.faces, visual.surface.uvs)
        if visual.material not in materials:
            materials[visual.material] = _material(robot, visual)
        mesh.materials.append(materials[visual.material])
        made = new_object(name, mesh, collection("robot"), visual.pose, parent)
        mark(made, "link visual")


def _material(robot: str, visual: Visual) -> Any:
    made = bpy.data.materials.new(f"{robot}/{visual.material}")
    mark(made, "robot material")
    red, green, blue = visual.rgba[:3]
    shader = surface(made, linear((red, green, blue)), visual.roughness, visual.metallic)
    shader.inputs["Alpha"].default_value = visual.rgba[3]
    return made


def links_of(robot: str) -> dict[str, Any]:
    """The robot's link objects in the present scene, by link name."""
    return {str(item[LINK]): item for item in bpy.context.scene.objects if LINK in item and item.get(ROBOT) == robot}


def read_robot(base: Any, frame: Array, worlds: dict[str, Array]) -> Robot:
    """The robot as it is now.

    Args:
        base: its base object.
        frame: the base's rigid matrix in metres.
        worlds: the evaluated rigid matrix of each of its links, by link name.
    """
    kept = stored(base, Robot, name=base.name)
    links = links_of(kept.name)
    qpos = list(kept.qpos) if kept.qpos is not None else None
    moved: dict[int, float] = {}
    joint_kinds: dict[int, str] = {}
    for name, item in links.items():
        parent = item.parent
        if JOINT not in item or parent is None or name not in worlds:
            continue
        above = worlds[str(parent[LINK])] if LINK in parent else frame
        joint = _stored_joint(item[JOINT])
        joint_kinds[joint.index] = joint.kind
        moved[joint.index] = joint_value(joint, inverse(above) @ worlds[name])
    posed = list(base.get(POSED, []))
    for index, value in sorted(moved.items()):
        turned = value - posed[index]
        if joint_kinds[index] == "hinge":
            turned = (turned + np.pi) % (2 * np.pi) - np.pi
        if abs(turned) > JOINT_TOLERANCE:
            qpos = posed.copy() if qpos is None else qpos
            qpos[index] = posed[index] + turned
    return kept.model_copy(
        update={
            "name": current_name(base, kept.name),
            "base": snap_pose(frame, kept.base),
            "qpos": None if qpos is None else tuple(qpos),
        }
    )


def _stored_joint(raw: Any) -> LinkJoint:
    axis, origin = (tuple(raw[key]) for key in ("axis", "origin"))
    rest = np.array(raw["rest"].to_list()).reshape(4, 4)
    return LinkJoint(int(raw["index"]), str(raw["kind"]), axis, origin, rest)
