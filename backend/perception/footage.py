"""What perception works on: each view's frames, camera and robot silhouette, and the robot's holds."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from backend.demos import load_view
from backend.documents.demonstration import Demonstration
from backend.documents.observations import Hold, Mask
from backend.documents.run import Progress
from backend.perception.appearance import Image
from backend.perception.cameras import CameraPath
from backend.perception.metrology import measure_holds
from backend.perception.robot_masks import RecordedRobot, camera_path, recorded_robots, robot_silhouettes
from mjcf_export.errors import MissingError
from mjcf_export.frames import Array

Frames = npt.NDArray[np.int64]

SETTLING = 0.6
"""Seconds after the gripper has opened in which what it held may still move."""


@dataclass(frozen=True)
class ViewFootage:
    """One view: `images` `(T, H, W, 3)`, `times` `(T,)`, source `indices` `(T,)`, and what is known of its camera."""

    name: str
    images: Image
    times: Array
    indices: Frames
    camera: CameraPath | None
    robot: Mask | None
    static: bool

    @property
    def size(self) -> tuple[int, int]:
        """Height and width."""
        return int(self.images.shape[1]), int(self.images.shape[2])

    def frame_at(self, time: float) -> int:
        """The frame nearest to a time."""
        return int(np.abs(self.times - time).argmin())

    def between(self, first: float, last: float) -> Frames:
        """Frames with times in `[first, last]`."""
        return np.flatnonzero((self.times >= first) & (self.times <= last))

    @property
    def placed(self) -> bool:
        """Whether world points can be projected into this view."""
        return self.camera is not None


@dataclass(frozen=True)
class Footage:
    """All views, the recorded robots, their holds in order of time, and notes for the user."""

    views: dict[str, ViewFootage]
    robots: tuple[RecordedRobot, ...]
    holds: tuple[Hold, ...]
    notes: tuple[str, ...]


def gather(demo: Demonstration, progress: Progress) -> Footage:
    """Decode every view, render the robot where it is known, and measure its holds."""
    robots, notes = recorded_robots(demo)
    holds = []
    for robot in robots:
        if robot.states.opening is None or robot.states.tcp is None:
            notes.append(f"{robot.name}: no gripper opening recorded, so its grasps are not measured")
            continue
        found, said = measure_holds(robot.name, robot.states.time, robot.states.opening, robot.states.tcp)
        holds += found
        notes += said
    views = {}
    for number, view in enumerate(demo.views):
        progress(number / len(demo.views), f"{view.name}: reading frames")
        frames = load_view(demo, view.name)
        notes += frames.notes
        camera = camera_path(demo, view, robots, frames.times, frames.indices)
        shape: Mask | None = None
        if camera is not None and robots:
            progress((number + 0.5) / len(demo.views), f"{view.name}: robot silhouette")
            size = (frames.images.shape[1], frames.images.shape[2])
            shape, said = _silhouette(robots, camera, size, frames.times, view.name)
            notes += said
        static = view.mount is None and (camera is None or camera.static)
        views[view.name] = ViewFootage(view.name, frames.images, frames.times, frames.indices, camera, shape, static)
    return Footage(views, tuple(robots), tuple(sorted(holds, key=lambda hold: hold.grasp)), tuple(notes))


def _silhouette(
    robots: list[RecordedRobot], camera: CameraPath, size: tuple[int, int], times: Array, view: str
) -> tuple[Mask | None, list[str]]:
    try:
        return robot_silhouettes(robots, camera, size, times), []
    except MissingError as error:
        return None, [f"{view}: no robot silhouette: {error}"]


def may_move(view: ViewFootage, holds: list[Hold]) -> Mask:
    """`(T,)` frames in which an object that takes part in these holds can move."""
    flags = np.zeros(len(view.times), dtype=bool)
    for hold in holds:
        flags[view.between(hold.close_start - 0.1, hold.open_end + SETTLING)] = True
    return flags
