"""One view of a run: its source frames, and MuJoCo's and Blender's pictures of the same moments."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
import numpy.typing as npt

from backend.demos import ViewFrames
from backend.documents.comparison import FrameComparison
from backend.documents.motion import Event
from backend.documents.observations import Masks
from backend.evaluate.clock import SourceClock
from backend.evaluate.native_view import NativeView
from backend.evaluate.sheets import empty_tile, fit
from backend.evaluate.shown_motion import ShownMotion
from backend.evaluate.similarity import mean_difference, overlap, ssim
from mjcf_export.scene import Camera

Image = npt.NDArray[np.uint8]

EVENT_WIDTH = 400
"""Pixels across the pictures of events, and of the first and the last frame."""
FILM_WIDTH = 320
"""Pixels across the pictures that are only in the film; figures are measured at this size."""
FILM_FRAMES = 24


@dataclass
class ViewComparison:
    """One view: what is compared, and its pictures by source frame. Those of one frame have one size."""

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
        reason = "not rendered" if entry.executed or frame in self.mujoco else "not executed"
        empty = empty_tile(width, height, reason)
        return [real, self.blender.get(frame, empty), self.mujoco.get(frame, empty)]

    def score(self) -> None:
        """Measure how alike the pictures of each frame are."""
        self.frames = [self._scored(entry) for entry in self.frames]

    def _scored(self, entry: FrameComparison) -> FrameComparison:
        pictures = {"real": self.real, "blender": self.blender, "mujoco": self.mujoco}
        pairs = {"blender": ("real", "blender"), "mujoco": ("real", "mujoco"), "renderers": ("blender", "mujoco")}
        figures = dict(entry.figures)
        for pair, names in pairs.items():
            if all(entry.frame in pictures[name] for name in names):
                first, second = (fit(pictures[name][entry.frame], FILM_WIDTH) for name in names)
                figures[f"{pair}/ssim"] = ssim(first, second)
                figures[f"{pair}/difference"] = mean_difference(first, second)
        return entry.model_copy(update={"figures": figures})


def select_frames(
    camera: Camera,
    video: ViewFrames,
    events: Sequence[Event],
    clock: SourceClock,
    motion: ShownMotion,
    *,
    film: bool,
) -> ViewComparison:
    """The first and last frame, those of the events, and for the film's view evenly spread ones."""
    count = len(video.images)
    shown: dict[int, list[str]] = {0: [], count - 1: []}
    for event in events:
        if camera.name in event.frames:
            shown.setdefault(min(event.frames[camera.name], count - 1), []).append(event.id)
    large = set(shown)
    if film:
        for index in np.linspace(0, count - 1, min(count, FILM_FRAMES)).round().astype(int):
            shown.setdefault(int(index), [])
    frames, real = [], {}
    for index in sorted(shown):
        time = float(video.times[index])
        motion_time = clock.motion_time(time)
        frames.append(
            FrameComparison(
                view=camera.name, frame=index, time=time, motion_time=motion_time,
                executed=motion.executed and motion.row(motion_time) is not None, events=tuple(shown[index]),
            )
        )  # fmt: skip
        width = min(EVENT_WIDTH if index in large else FILM_WIDTH, video.images.shape[2])
        real[index] = fit(_undistorted(video.images[index], camera), width)
    return ViewComparison(camera, frames, real)


def add_native(view: ViewComparison, motion: ShownMotion, masks: Masks | None = None) -> None:
    """Render MuJoCo's pictures of a view and score objects whose masks were observed.

    Raises:
        MissingError: MuJoCo cannot render on this machine.
    """
    camera = view.camera
    with NativeView(motion.model, camera.width, camera.height) as native:
        for number, entry in enumerate(view.frames):
            row = motion.row(entry.motion_time)
            if row is None:
                continue
            qpos = motion.qpos[row]
            width = view.real[entry.frame].shape[1]
            view.mujoco[entry.frame] = fit(native.rgb(camera.name, qpos), width)
            if masks is not None:
                scores = _mask_scores(native, camera, qpos, masks, entry.frame)
                view.frames[number] = entry.model_copy(update={"figures": {**entry.figures, **scores}})


def _mask_scores(
    native: NativeView, camera: Camera, qpos: npt.NDArray[np.float64], masks: Masks, frame: int
) -> dict[str, float]:
    prefix = f"mask/{camera.name}/"
    names = [key.removeprefix(prefix) for key in masks.keys() if key.startswith(prefix)]  # noqa: SIM118
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
