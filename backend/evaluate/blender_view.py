"""Blender's pictures of a run's views, rendered by one process from its animated .blend."""

import shutil
from collections.abc import Sequence
from pathlib import Path

from backend.demos.pictures import read_image
from backend.documents.pictures import Picture, Pictures
from backend.documents.run import Progress, RunFolder
from backend.evaluate.compared_view import EVENT_WIDTH, Image, ViewComparison
from backend.evaluate.sheets import fit
from backend.evaluate.shown_motion import ShownMotion
from mjcf_export.errors import InputError, MissingError

SAMPLES = 2
"""Light paths a pixel of an event's picture; the film's own pictures take one. Denoised where Blender can."""


def add_blender(run: RunFolder, views: Sequence[ViewComparison], motion: ShownMotion, progress: Progress) -> None:
    """Render Blender's pictures of all views; they are also kept in `blender/frames/<view>/`.

    Raises:
        MissingError: there is no Blender, or the run has no `.blend`.
    """
    from backend.blender import run_blender

    if not run.blend.exists():
        raise MissingError(f"{run.blend}: the Blender stage has not been run")
    wanted = [picture for view in views for picture in _pictures(view, motion)]
    shutil.rmtree(run.renders, ignore_errors=True)
    if not wanted:
        return
    order = run.renders / "pictures.json"
    Pictures(pictures=tuple(wanted)).save(order)
    run_blender(["render-shots", str(run.blend), str(order), str(run.renders)], progress)
    for view in views:
        own = [picture for picture in wanted if picture.camera == view.camera.name]
        view.blender = {
            picture.frame: fit(_read(run.renders / picture.camera / f"{picture.frame:06d}.png"), picture.width)
            for picture in own
        }


def _pictures(view: ViewComparison, motion: ShownMotion) -> list[Picture]:
    found = []
    for entry in view.frames:
        if motion.row(entry.motion_time) is not None:
            width = view.real[entry.frame].shape[1]
            samples = SAMPLES if width >= EVENT_WIDTH else 1
            found.append(
                Picture(
                    camera=view.camera.name, frame=entry.frame, time=entry.motion_time, width=width, samples=samples
                )
            )
    return found


def _read(path: Path) -> Image:
    if not path.is_file():
        raise InputError(f"{path}: Blender wrote no such picture")
    return read_image(path)
