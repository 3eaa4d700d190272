"""Trajectories on Blender objects: a rollout or poses over time to keyframes of bodies and robot links."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import bpy
import mujoco
import numpy as np
import numpy.typing as npt

from backend.documents.verdict import Rollout
from mjcf_export.document import load_arrays
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, transform
from mjcf_export.scene import Scene

from .keyed import key_object
from .pose_arrays import pose_matrices, sequence_worlds
from .records import PREFIX, kind_of
from .robots import links_of


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
    rows = _rows_of_frames(_finite("time", arrays) - rollout.start, fps)
    worlds = {f"body/{name}": pose_matrices(_finite(f"body/{name}", arrays)[rows]) for name in rollout.bodies}
    if rollout.robots:
        path = folder.parent / rollout.model
        worlds |= _link_worlds(path, _finite("qpos", arrays)[rows], rollout.robots)
    return _key_frames(worlds, len(rows))


def animate_poses(scene: Scene, folder: Path, poses: Path, fps: float | None = None) -> int:
    """Key poses that nothing executed onto the open file, which was built from `scene`.

    Args:
        scene: the scene.
        folder: its folder.
        poses: `.npz` with `time` `(F,)` seconds and what `sequence_worlds` takes.
        fps: frames per second of the Blender scene; as it is when None.

    Returns:
        The last frame.

    Raises:
        InputError: names or sizes that do not fit the scene, or values that are not finite.
    """
    arrays = load_arrays(poses)
    rows = _rows_of_frames(_finite("time", arrays), fps)
    worlds, count = sequence_worlds(scene, folder, {name: np.asarray(item)[rows] for name, item in arrays.items()})
    return _key_frames(worlds, count)


def _rows_of_frames(clock: Array, fps: float | None) -> npt.NDArray[np.int64]:
    """The row of `clock` `(N,)` nearest to each Blender frame from 0."""
    scene = bpy.context.scene
    if fps is not None:
        scene.render.fps, scene.render.fps_base = max(1, round(fps)), max(1, round(fps)) / fps
    rate = scene.render.fps / scene.render.fps_base
    last = max(0, int(np.floor(clock[-1] * rate + 1e-6)))
    return np.array([int(np.argmin(np.abs(clock - frame / rate))) for frame in range(last + 1)])


def _key_frames(worlds: Mapping[str, Array], count: int) -> int:
    scene = bpy.context.scene
    key_worlds(worlds, np.arange(count, dtype=np.float64))
    scene.frame_start, scene.frame_end = 0, count - 1
    scene.frame_set(0)
    return count - 1


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


def _finite(name: str, arrays: Mapping[str, Any]) -> Array:
    if name not in arrays:
        raise InputError(f"poses: no array {name}; it has {', '.join(sorted(arrays))}")
    values = np.asarray(arrays[name], dtype=np.float64)
    if not np.isfinite(values).all():
        raise InputError(f"poses: {name} holds values that are not finite")
    return values
