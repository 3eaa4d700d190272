"""A whole demonstration in one Blender process: a scene, poses over time, pictures from several cameras."""

from collections.abc import Sequence
from pathlib import Path

from mjcf_export.document import load_arrays
from mjcf_export.errors import InputError

from .animation import local_poses, named_objects
from .outliner import blender_matrix
from .pose_arrays import sequence_worlds
from .render import Progress, Quality, Shot, render_shots
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
