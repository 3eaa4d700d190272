"""Trajectories on Blender objects: poses over time to linear keyframes, in slotted (4.4+) and older actions."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bpy
import mujoco
import numpy as np

from backend.documents.verdict import Rollout
from mjcf_export.document import load_arrays
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, matrix_quaternion, transform

from .records import PREFIX, kind_of
from .robots import links_of

CHANNELS = (("location", 3), ("rotation_quaternion", 4))


def animate_rollout(folder: Path, fps: float | None = None) -> int:
    """Key the native trajectory in `folder` (rollout.json, rollout.npz) onto the open file's bodies and robot links.

    Frame 0 is the zero of the motion's clock, so that frame f shows time f / fps of the demonstration.

    Args:
        folder: the rollout folder of a run; the model it names lies relative to the run.
        fps: frames per second of the Blender scene; as it is when None.

    Returns:
        The last frame.

    Raises:
        InputError: the rollout names what the .blend lacks, its model is missing, or a pose is not finite.
    """
    rollout = Rollout.load(folder / "rollout.json")
    arrays = load_arrays(folder / "rollout.npz")
    scene = bpy.context.scene
    if fps is not None:
        scene.render.fps, scene.render.fps_base = max(1, round(fps)), max(1, round(fps)) / fps
    rate = scene.render.fps / scene.render.fps_base
    clock = _finite("time", arrays) - rollout.start
    last = max(0, int(np.floor(clock[-1] * rate + 1e-6)))
    rows = np.array([int(np.argmin(np.abs(clock - frame / rate))) for frame in range(last + 1)])
    worlds = {f"body/{name}": _pose_matrices(_finite(f"body/{name}", arrays)[rows]) for name in rollout.bodies}
    if rollout.robots:
        path = folder.parent / rollout.model
        worlds |= _link_worlds(path, _finite("qpos", arrays)[rows], rollout.robots)
    key_worlds(worlds, np.arange(last + 1, dtype=np.float64))
    scene.frame_start, scene.frame_end = 0, last
    scene.frame_set(0)
    return last


def key_worlds(worlds: Mapping[str, Array], frames: Array) -> None:
    """Key world poses `(F, 4, 4)` of `body/<name>` and `<robot>/<link>` at `frames` `(F,)`.

    Raises:
        InputError: a name that is not in the open file.
    """
    objects = named_objects()
    missing = sorted(set(worlds) - set(objects))
    if missing:
        raise InputError(f"{', '.join(missing)}: not in this .blend, which has {', '.join(sorted(objects))}")
    for name, local in local_poses(worlds, objects).items():
        key_object(objects[name], local, frames)


def named_objects() -> dict[str, Any]:
    """Bodies as `body/<name>` and links as `<robot>/<link>`, by their Scene names."""
    found: dict[str, Any] = {}
    for item in bpy.context.scene.objects:
        if kind_of(item) == "body":
            found.setdefault(f"body/{item.get(PREFIX + 'name', item.name)}", item)
        elif kind_of(item) == "robot":
            robot = str(item.get(PREFIX + "name", item.name))
            found |= {f"{robot}/{link}": child for link, child in links_of(robot).items()}
    return found


def local_poses(worlds: Mapping[str, Array], objects: Mapping[str, Any]) -> dict[str, Array]:
    """What each object's basis must be, `(F, 4, 4)`, so that it stands at its world pose."""
    names = {objects[name].name: name for name in objects if name in worlds}
    result = {}
    for name, world in worlds.items():
        item = objects[name]
        if item.parent is None:
            result[name] = world
            continue
        above = worlds[names[item.parent.name]] if item.parent.name in names else np.array(item.parent.matrix_world)
        result[name] = np.linalg.inv(above @ np.array(item.matrix_parent_inverse)) @ world
    return result


def key_object(item: Any, local: Array, frames: Array) -> None:
    """Linear keyframes of location and rotation of `item` from rigid bases `(F, 4, 4)`; its scale stays."""
    item.rotation_mode = "QUATERNION"
    quaternions = np.array([matrix_quaternion(matrix) for matrix in local])
    for row in range(1, len(quaternions)):
        if quaternions[row] @ quaternions[row - 1] < 0:
            quaternions[row] = -quaternions[row]
    values = {"location": local[:, :3, 3], "rotation_quaternion": quaternions}
    curves = _fresh_curves(item)
    for path, width in CHANNELS:
        for channel in range(width):
            curve = curves.new(path, index=channel)
            curve.keyframe_points.add(len(frames))
            points = np.column_stack([frames, values[path][:, channel]]).astype(np.float32)
            curve.keyframe_points.foreach_set("co", points.ravel())
            curve.keyframe_points.foreach_set("interpolation", np.ones(len(frames), dtype=np.int32))
            curve.update()


def _fresh_curves(item: Any) -> Any:
    if item.animation_data is not None:
        item.animation_data_clear()
    action = bpy.data.actions.new(f"{item.name} rollout")
    animation = item.animation_data_create()
    animation.action = action
    if not hasattr(action, "layers"):
        return action.fcurves
    slot = action.slots.new(id_type="OBJECT", name=item.name)
    animation.action_slot = slot
    strip = action.layers.new("Layer").strips.new(type="KEYFRAME")
    return strip.channelbag(slot, ensure=True).fcurves


def _link_worlds(path: Path, qpos: Array, robots: tuple[str, ...]) -> dict[str, Array]:
    if not path.is_file():
        raise InputError(f"{path}: the rollout's model is missing; export the scene into the run folder again")
    try:
        model = mujoco.MjModel.from_xml_path(str(path))
    except ValueError as error:
        raise InputError(f"{path}: MuJoCo cannot load it ({error})") from error
    if qpos.shape[1] != model.nq:
        raise InputError(f"{path}: has {model.nq} positions, the rollout has {qpos.shape[1]}; run the validation again")
    data = mujoco.MjData(model)
    bodies = {}
    for robot in robots:
        present = links_of(robot)
        for link in present:
            index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, f"{robot}/{link}")
            if index >= 0:
                bodies[f"{robot}/{link}"] = index
        if not present:
            raise InputError(f"robot {robot}: not in this .blend; build it from the scene of this run")
    poses = {name: np.empty((len(qpos), 4, 4)) for name in bodies}
    for row, positions in enumerate(qpos):
        data.qpos[:] = positions
        mujoco.mj_kinematics(model, data)
        for name, body in bodies.items():
            poses[name][row] = transform(data.xpos[body], data.xquat[body])
    return poses


def _pose_matrices(poses: Array) -> Array:
    return np.array([transform(pose[:3], pose[3:]) for pose in poses])


def _finite(name: str, arrays: Mapping[str, Any]) -> Array:
    if name not in arrays:
        raise InputError(f"rollout.npz: has no array {name}; it has {', '.join(sorted(arrays))}")
    values = np.asarray(arrays[name], dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"rollout.npz: {name} holds values that are not finite")
    return values
