"""Real, Blender and MuJoCo side by side at the same source frames: contact sheets, a film, figures."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from backend.demos import load_demonstration, load_view
from backend.documents.comparison import Comparison
from backend.documents.motion import Event, Motion
from backend.documents.observations import Masks
from backend.documents.run import Progress, RunFolder
from backend.evaluate.blender_view import add_blender
from backend.evaluate.clock import SourceClock
from backend.evaluate.compared_view import EVENT_WIDTH, FILM_WIDTH, ViewComparison, add_native, select_frames
from backend.evaluate.sheets import contact_sheet, film_frame, fit, write_film, write_png
from backend.evaluate.shown_motion import shown_motion
from mjcf_export.errors import InputError, MissingError
from mjcf_export.scene import Scene

RENDERINGS = ("Real", "Blender", "MuJoCo")
OVERVIEW_COLUMNS = 6
OVERVIEW_TEXT = 26
"""Pixels; the overview is shown at half its size."""
_BLENDER_FROM = 0.3
"""Fraction of the stage at which Blender starts to render."""


def compare_run(run: RunFolder, progress: Progress) -> str:
    """Compare a run and write `compare/`; says in one sentence how alike the pictures are.

    A run that executed nothing is compared by its reference motion.

    Raises:
        InputError: a document of the run is missing or cannot be read.
        MissingError: MuJoCo cannot render on this machine.
    """
    scene, motion = Scene.load(run.executed.scene), shown_motion(run)
    demo = load_demonstration(run.demo)
    names = [view.name for view in demo.views if view.name in {camera.name for camera in scene.cameras}]
    if not names:
        raise InputError(f"{run.executed.scene}: no camera of the scene is a view of the demonstration")
    videos = {name: load_view(demo, name) for name in names}
    reconstructed, executed = Motion.load(run.motion), Motion.load(run.executed.motion)
    clock = SourceClock(reconstructed, executed)
    masks = Masks.load(run.masks) if run.masks.exists() else None
    views = []
    for index, name in enumerate(names):
        progress(_BLENDER_FROM * index / len(names), f"MuJoCo {name}")
        view = select_frames(scene.camera(name), videos[name], reconstructed.events, clock, motion, film=index == 0)
        add_native(view, motion, masks)
        views.append(view)
    notes = []
    if not motion.executed:
        notes.append("nothing was executed; the simulated pictures show the reference motion")
    if not clock.kept:
        notes.append("the executed motion has its own timing; source frames are matched to it at the events")

    def rendered(done: float, text: str) -> None:
        progress(_BLENDER_FROM + (0.95 - _BLENDER_FROM) * done, f"Blender {text}")

    try:
        add_blender(run, views, motion, rendered)
    except MissingError as error:
        notes.append(f"Blender pictures are missing: {error}")
    progress(0.95, "sheets and film")
    comparison = write_comparison(run.compare, views, reconstructed.events, notes)
    means = {name: comparison.mean(f"{name.lower()}/ssim") for name in RENDERINGS[1:]}
    parts = [f"{name} {'none' if value is None else f'{value:.2f}'}" for name, value in means.items()]
    return f"{len(comparison.frames)} frames in {len(views)} views; similarity to the video (SSIM): {', '.join(parts)}"


def write_comparison(
    folder: Path, views: Sequence[ViewComparison], events: Sequence[Event], notes: Sequence[str]
) -> Comparison:
    """Score every frame and write sheets, film and `comparison.json`."""
    shutil.rmtree(folder, ignore_errors=True)
    for view in views:
        view.score()
    sheets = {"overview": _overview(folder, views[0])}
    for event in events:
        tiles, labels = [], []
        for view in views:
            frame = next((entry for entry in view.frames if event.id in entry.events), None)
            if frame is not None:
                tiles.append([fit(tile, EVENT_WIDTH) for tile in view.tiles(frame.frame)])
                labels.append(f"{view.camera.name}\nframe {frame.frame}\n{frame.time:.2f} s")
        if tiles:
            sheets[event.id] = f"{event.id}.png"
            write_png(folder / sheets[event.id], contact_sheet(tiles, labels, RENDERINGS))
    _film(folder / "comparison.mp4", views[0])
    comparison = Comparison(
        frames=tuple(entry for view in views for entry in view.frames),
        sheets=sheets,
        film="comparison.mp4",
        notes=tuple(notes),
    )
    comparison.save(folder / "comparison.json")
    return comparison


def _overview(folder: Path, view: ViewComparison) -> str:
    chosen = np.linspace(0, len(view.frames) - 1, min(len(view.frames), OVERVIEW_COLUMNS)).round().astype(int)
    entries = [view.frames[index] for index in chosen]
    tiles = [[fit(tile, FILM_WIDTH) for tile in view.tiles(entry.frame)] for entry in entries]
    columns = [f"{entry.time:.2f} s" for entry in entries]
    write_png(
        folder / "overview.png", contact_sheet(list(zip(*tiles, strict=True)), RENDERINGS, columns, OVERVIEW_TEXT)
    )
    return "overview.png"


def _film(path: Path, view: ViewComparison) -> None:
    pictures, times = [], []
    for entry in view.frames:
        events = f", {', '.join(entry.events)}" if entry.events else ""
        caption = f"{view.camera.name}, frame {entry.frame}, {entry.time:.2f} s{events}"
        pictures.append(film_frame([fit(tile, FILM_WIDTH) for tile in view.tiles(entry.frame)], RENDERINGS, caption))
        times.append(entry.time)
    write_film(path, pictures, times)
