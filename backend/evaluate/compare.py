"""Real, Blender and MuJoCo side by side at the same source frames: contact sheets, a film, figures."""

import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from backend.demos import ViewFrames, load_demonstration, load_view
from backend.demos.pictures import read_image
from backend.documents.comparison import Comparison, FrameComparison
from backend.documents.motion import Event, Motion
from backend.documents.observations import Masks
from backend.documents.run import Progress, RunFolder
from backend.documents.verdict import Rollout
from backend.evaluate.clock import SourceClock
from backend.evaluate.native_view import NativeView
from backend.evaluate.sheets import contact_sheet, empty_tile, film_frame, fit, write_film, write_png
from backend.evaluate.similarity import mean_difference, overlap, ssim
from mjcf_export.document import load_arrays
from mjcf_export.errors import InputError, MissingError
from mjcf_export.scene import Camera, Scene

Image = npt.NDArray[np.uint8]
Render = Callable[[str, Sequence[int], Sequence[float]], dict[int, Image]]
"""Camera name, source frames, motion times to pictures by source frame."""

RENDERINGS = ("Real", "Blender", "MuJoCo")
LARGEST = 640
"""Pixels across a compared picture at most."""
FILM_FRAMES = 24
OVERVIEW_COLUMNS = 6
EVENT_WIDTH = 480
SAMPLES = 4
_TOLERANCE = 0.05
"""Seconds a source frame may lie past the rollout's end and still show its last state."""


@dataclass(frozen=True)
class NativeRollout:
    """The executed motion: its model on disk, and joint positions `(N, nq)` at `time` `(N,)` on the motion's clock."""

    model: Path
    time: npt.NDArray[np.float64]
    qpos: npt.NDArray[np.float64]

    def row(self, time: float) -> int | None:
        """The control step nearest to a motion time; None when the rollout ended before."""
        if time > self.time[-1] + _TOLERANCE:
            return None
        return int(np.abs(self.time - time).argmin())


@dataclass
class ViewComparison:
    """One view: what is compared, and its pictures by source frame. All have the size of `real`."""

    camera: Camera
    frames: list[FrameComparison]
    real: dict[int, Image]
    blender: dict[int, Image] = field(default_factory=dict)
    mujoco: dict[int, Image] = field(default_factory=dict)

    def tiles(self, frame: int) -> list[Image]:
        """Real, Blender and MuJoCo of one source frame; what is not there is a grey tile that says so."""
        real = self.real[frame]
        height, width = real.shape[:2]
        entry = next(item for item in self.frames if item.frame == frame)
        reason = "not rendered" if entry.executed else "not executed"
        empty = empty_tile(width, height, reason)
        return [real, self.blender.get(frame, empty), self.mujoco.get(frame, empty)]


def compare_run(run: RunFolder, progress: Progress) -> str:
    """Compare a finished run and write `compare/`; says in one sentence how alike the pictures are.

    Raises:
        InputError: a document of the run is missing or cannot be read.
        MissingError: MuJoCo cannot render on this machine.
    """
    scene, rollout = Scene.load(run.executed.scene), load_rollout(run)
    demo = load_demonstration(run.demo)
    names = [view.name for view in demo.views if view.name in {camera.name for camera in scene.cameras}]
    if not names:
        raise InputError(f"{run.executed.scene}: no camera of the scene is a view of the demonstration")
    videos = {name: load_view(demo, name) for name in names}
    reconstructed, executed = Motion.load(run.motion), Motion.load(run.executed.motion)
    clock = SourceClock(reconstructed, executed, {name: video.times for name, video in videos.items()})
    views, notes = [], []
    for index, name in enumerate(names):
        progress(index / len(names), f"{name}: MuJoCo pictures")
        view = select_frames(scene.camera(name), videos[name], reconstructed.events, clock, rollout, film=index == 0)
        masks = Masks.load(run.masks) if run.masks.exists() else None
        add_native(view, rollout, masks)
        try:
            view.blender = render_blender(run, view)
        except MissingError as error:
            notes.append(f"Blender pictures of {name} are missing: {error}")
        views.append(view)
    if not clock.kept:
        notes.append("the executed motion has its own timing; source frames are matched to it at the events")
    progress(0.9, "sheets and film")
    comparison = write_comparison(run.compare, views, reconstructed.events, notes)
    means = {name: comparison.mean(f"{name.lower()}/ssim") for name in RENDERINGS[1:]}
    parts = [f"{name} {'none' if value is None else f'{value:.2f}'}" for name, value in means.items()]
    return f"{len(comparison.frames)} frames in {len(views)} views; similarity to the video (SSIM): {', '.join(parts)}"


def load_rollout(run: RunFolder) -> NativeRollout:
    """The executed motion of a run, on the motion's clock.

    Raises:
        InputError: the rollout is missing or broken.
    """
    record, arrays = Rollout.load(run.rollout), load_arrays(run.rollout_arrays)
    for name in ("time", "qpos"):
        if name not in arrays:
            raise InputError(f"{run.rollout_arrays}: no array {name}; validate the run again")
    return NativeRollout(run.mjcf, arrays["time"] - record.start, arrays["qpos"])


def select_frames(
    camera: Camera,
    video: ViewFrames,
    events: Sequence[Event],
    clock: SourceClock,
    rollout: NativeRollout,
    *,
    film: bool,
) -> ViewComparison:
    """The first and last frame, those of the events, and for the film's view evenly spread ones."""
    count = len(video.images)
    wanted = {0, count - 1} | set(np.linspace(0, count - 1, min(count, FILM_FRAMES) if film else 2).round().astype(int))
    shown: dict[int, list[str]] = {int(index): [] for index in wanted}
    for event in events:
        if camera.name in event.frames:
            shown.setdefault(min(event.frames[camera.name], count - 1), []).append(event.id)
    frames, real = [], {}
    for index in sorted(shown):
        time = float(video.times[index])
        motion_time = clock.motion_time(time)
        executed = rollout.row(motion_time) is not None
        frames.append(
            FrameComparison(
                view=camera.name, frame=index, time=time, motion_time=motion_time, executed=executed,
                events=tuple(shown[index]),
            )
        )  # fmt: skip
        real[index] = fit(_undistorted(video.images[index], camera), min(LARGEST, video.images.shape[2]))
    return ViewComparison(camera, frames, real)


def add_native(view: ViewComparison, rollout: NativeRollout, masks: Masks | None = None) -> None:
    """Render MuJoCo's pictures of a view and score objects whose masks were observed."""
    camera = view.camera
    with NativeView(rollout.model, camera.width, camera.height) as native:
        for number, entry in enumerate(view.frames):
            row = rollout.row(entry.motion_time)
            if row is None:
                continue
            qpos = rollout.qpos[row]
            width = view.real[entry.frame].shape[1]
            view.mujoco[entry.frame] = fit(native.rgb(camera.name, qpos), width)
            if masks is not None:
                scores = _mask_scores(native, camera, qpos, masks, entry.frame)
                view.frames[number] = entry.model_copy(update={"figures": {**entry.figures, **scores}})


def render_blender(run: RunFolder, view: ViewComparison) -> dict[int, Image]:
    """Blender's pictures of a view, from the run's animated `.blend`; also kept in `blender/frames/<view>/`.

    Raises:
        MissingError: there is no Blender, or the run has no `.blend`.
    """
    from backend.blender import run_blender

    if not run.blend.exists():
        raise MissingError(f"{run.blend}: the Blender stage has not been run")
    entries = [entry for entry in view.frames if entry.executed]
    if not entries:
        return {}
    folder = run.renders / view.camera.name
    shutil.rmtree(folder, ignore_errors=True)
    height, width = view.real[entries[0].frame].shape[:2]
    run_blender([
        "render", str(run.blend), str(folder), "--camera", view.camera.name,
        "--frames", ",".join(str(entry.frame) for entry in entries),
        "--times", ",".join(f"{entry.motion_time:.6f}" for entry in entries),
        "--engine", "cycles", "--samples", str(SAMPLES), "--width", str(width), "--height", str(height),
    ])  # fmt: skip
    return read_renders(folder, [entry.frame for entry in entries], width)


def read_renders(folder: Path, frames: Sequence[int], width: int) -> dict[int, Image]:
    """Blender's PNGs `<frame>.png` of a folder, by source frame.

    Raises:
        InputError: one is missing or not a picture.
    """
    pictures = {}
    for frame in frames:
        path = folder / f"{frame:06d}.png"
        if not path.is_file():
            raise InputError(f"{path}: Blender wrote no picture of frame {frame}")
        pictures[frame] = fit(read_image(path), width)
    return pictures


def write_comparison(
    folder: Path, views: Sequence[ViewComparison], events: Sequence[Event], notes: Sequence[str]
) -> Comparison:
    """Score every frame and write sheets, film and `comparison.json`."""
    shutil.rmtree(folder, ignore_errors=True)
    for view in views:
        view.frames = [_scored(view, entry) for entry in view.frames]
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
    tiles = [[fit(tile, 320) for tile in view.tiles(entry.frame)] for entry in entries]
    columns = [f"{entry.time:.2f} s" for entry in entries]
    write_png(folder / "overview.png", contact_sheet(list(zip(*tiles, strict=True)), RENDERINGS, columns))
    return "overview.png"


def _film(path: Path, view: ViewComparison) -> None:
    pictures, times = [], []
    for entry in view.frames:
        events = f", {', '.join(entry.events)}" if entry.events else ""
        caption = f"{view.camera.name}, frame {entry.frame}, {entry.time:.2f} s{events}"
        pictures.append(film_frame(view.tiles(entry.frame), RENDERINGS, caption))
        times.append(entry.time)
    write_film(path, pictures, times)


def _scored(view: ViewComparison, entry: FrameComparison) -> FrameComparison:
    pictures = {"real": view.real, "blender": view.blender, "mujoco": view.mujoco}
    pairs = {"blender": ("real", "blender"), "mujoco": ("real", "mujoco"), "renderers": ("blender", "mujoco")}
    figures = dict(entry.figures)
    for pair, (first, second) in pairs.items():
        if entry.frame in pictures[first] and entry.frame in pictures[second]:
            a, b = pictures[first][entry.frame], pictures[second][entry.frame]
            figures[f"{pair}/ssim"], figures[f"{pair}/difference"] = ssim(a, b), mean_difference(a, b)
    return entry.model_copy(update={"figures": figures})


def _mask_scores(
    native: NativeView, camera: Camera, qpos: npt.NDArray[np.float64], masks: Masks, frame: int
) -> dict[str, float]:
    prefix = f"mask/{camera.name}/"
    keys = masks.keys()
    names = [key.removeprefix(prefix) for key in keys if key.startswith(prefix)]
    bodies = native.bodies(camera.name, qpos) if names else None
    scores = {}
    for name in names:
        try:
            observed = masks.frame(prefix + name, frame)
            body = native.model.body(name).id
        except (IndexError, KeyError):
            continue
        if bodies is None or observed.shape != bodies.shape or not observed.any():
            continue
        score = overlap(observed, bodies == body)
        if score is not None:
            scores[f"iou/{name}"] = score
    return scores


def _undistorted(image: Image, camera: Camera) -> Image:
    """The picture as a camera without lens distortion sees it, as both renderers do."""
    if not any(camera.distortion) or image.shape[1] != camera.width:
        return image
    return np.asarray(cv2.undistort(image, camera.matrix, np.array(camera.distortion)), dtype=np.uint8)
