"""A whole demonstration in one Blender process: a scene, poses over time, pictures from several cameras."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mjcf_export.document import load_arrays
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, transform
from mjcf_export.scene import Robot, Scene

from .animation import local_poses, named_objects
from .outliner import blender_matrix
from .render import Progress, Quality, Shot, render_shots
from .robot_figure import RobotFigure
from .scene_build import build_scene, empty_file, load_scene


def render_sequence(
    folder: Path,
    poses: Path,
    out: Path,
    cameras: Sequence[str],
    quality: Quality,
    wanted: Sequence[str] = ("rgb",),
    frames: Sequence[int] | None = None,
    progress: Progress | None = None,
) -> list[Path]:
    """Render `out/<camera>/<pass>/<frame>.png` of the scene in `folder` moved by `poses`.

    Args:
        folder: a scene folder.
        poses: `.npz` with `body/<name>` `(F, 7)` world position and wxyz, `<robot>/qpos` `(F, n)` (arm joints, or all
            joints of the robot) and optionally `<robot>/opening` `(F,)` metres. What it does not name stays.
        out: the folder to fill.
        cameras: camera names.
        quality: how to render.
        wanted: passes among `rgb`, `ids`, `depth`.
        frames: rows to render; all when None.
        progress: called after each picture.

    Raises:
        InputError: names or sizes that do not fit the scene, or values that are not finite.
    """
    scene = load_scene(folder)
    empty_file()
    build_scene(scene, folder)
    worlds, count = sequence_worlds(scene, folder, load_arrays(poses))
    objects = named_objects()
    missing = sorted(set(worlds) - set(objects))
    if missing:
        raise InputError(f"{poses}: {', '.join(missing)} not in the scene, which has {', '.join(sorted(objects))}")
    bases = {objects[name]: local for name, local in local_poses(worlds, objects).items()}
    rows = range(count) if frames is None else frames
    outside = [row for row in rows if not 0 <= row < count]
    if outside:
        raise InputError(f"{poses}: has frames 0..{count - 1}, not {outside[:5]}")

    def pose(shot: Shot) -> None:
        for item, local in bases.items():
            item.matrix_basis = blender_matrix(local[shot.number])

    shots = [Shot(row, row) for row in rows]
    written: list[Path] = []
    for index, camera in enumerate(cameras):

        def report(done: float, message: str, index: int = index) -> None:
            if progress:
                progress((index + done) / len(cameras), message)

        target = out / camera / wanted[0] if len(wanted) == 1 else out / camera
        written += render_shots(camera, shots, target, quality, wanted, report, pose)
    return written


def sequence_worlds(scene: Scene, folder: Path, arrays: dict[str, Any]) -> tuple[dict[str, Array], int]:
    """World poses `(F, 4, 4)` of `body/<name>` and `<robot>/<link>`, and F.

    Raises:
        InputError: arrays that are not finite, or of another length or width.
    """
    lengths = {name: len(values) for name, values in arrays.items() if values.ndim}
    if len(set(lengths.values())) != 1:
        raise InputError(f"poses: every array needs one row for each frame; lengths are {lengths}")
    for name, values in arrays.items():
        if not np.isfinite(values).all():
            raise InputError(f"poses: {name} holds values that are not finite")
    count = next(iter(lengths.values()))
    worlds: dict[str, Array] = {}
    for name, values in arrays.items():
        if name.startswith("body/"):
            if values.shape != (count, 7):
                raise InputError(f"poses: {name} has shape {values.shape}, expected ({count}, 7)")
            worlds[name] = np.array([transform(row[:3], row[3:]) for row in values.astype(np.float64)])
    for robot in scene.robots:
        if f"{robot.name}/qpos" in arrays:
            worlds |= _robot_worlds(robot, folder, arrays, count)
    return worlds, count


def _robot_worlds(robot: Robot, folder: Path, arrays: dict[str, Any], count: int) -> dict[str, Array]:
    figure = RobotFigure.load(robot.model, folder)
    base = robot.base.matrix
    openings = arrays.get(f"{robot.name}/opening")
    found: dict[str, list[Array]] = {f"{robot.name}/{link.name}": [] for link in figure.links}
    for row in range(count):
        opening = robot.opening if openings is None else float(openings[row])
        poses = figure.link_poses(arrays[f"{robot.name}/qpos"][row].astype(np.float64), opening)
        for name, values in found.items():
            values.append(base @ poses[name.split("/", 1)[1]])
    return {name: np.array(values) for name, values in found.items()}
