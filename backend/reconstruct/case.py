"""One reconstruction under examination: the scene, its motion, the pictures and the outlines it is held against."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from backend.documents.demonstration import Demonstration
from backend.documents.motion import Event, Motion
from backend.documents.observations import Masks, Observations
from backend.reconstruct.evidence import Outline, Window, gather
from backend.reconstruct.lens import Lens
from backend.reconstruct.metrology import Grip, assign_holds
from backend.reconstruct.pictures import Pictures
from backend.reconstruct.silhouettes import shape_parts
from backend.reconstruct.spans import Span, carried_spans, resting
from backend.reconstruct.tracks import pose_matrix
from mjcf_export.frames import Array
from mjcf_export.meshes import load_mesh
from mjcf_export.scene import Body, Mesh, Scene


@dataclass
class Case:
    """What diagnosis reads; `scene` and `arrays` change when a correction is kept."""

    demo: Demonstration
    observations: Observations
    masks: Masks
    scene: Scene
    folder: Path
    motion: Motion
    arrays: dict[str, Array]
    pictures: Pictures
    grips: tuple[Grip, ...] = ()
    spans: Mapping[str, Span] = field(default_factory=dict)
    """Carries read off the pictures, where there is no robot's record."""
    _outlines: dict[tuple[str, str], list[Outline]] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        demo: Demonstration,
        observations: Observations,
        masks: Masks,
        scene: Scene,
        folder: Path,
        motion: Motion,
        arrays: Mapping[str, Array],
    ) -> "Case":
        """Decode the pictures and assign the holds."""
        case = cls(demo, observations, masks, scene, folder, motion, dict(arrays), Pictures.of(demo, masks))
        robots = set(motion.robots)
        case.grips = tuple(g for g in assign_holds(observations, masks, case.lenses) if g.hold.robot in robots)
        if not robots:
            case.spans = carried_spans(observations, masks, [lens.name for lens in case.lenses])
        return case

    @property
    def lenses(self) -> list[Lens]:
        """The scene's cameras that have pictures."""
        return [Lens.of(camera) for camera in self.scene.cameras if camera.name in self.pictures.views]

    def lens(self, view: str) -> Lens:
        """One camera of the scene."""
        return Lens.of(self.scene.camera(view))

    @property
    def end(self) -> float:
        """When the demonstration ends, seconds."""
        return max(float(times[-1]) for times in self.observations.times.values())

    def objects(self) -> list[Body]:
        """Bodies that perception followed."""
        seen = {item.name for item in self.observations.objects}
        common = self.demo.table_name
        return [body for body in self.scene.bodies if body.name in seen and body.name != common]

    def missing(self) -> list[str]:
        """What the demonstration names and the scene does not have."""
        there = {body.name for body in self.scene.bodies}
        aside = {"distractor", "fixed"}
        return [item.name for item in self.demo.objects if item.name not in there and not aside & set(item.roles)]

    def windows(self, name: str) -> list[Window]:
        """When an object rests."""
        return resting(name, self.spans, self.grips, self.observations, self.end)

    def first_taken(self, name: str) -> float:
        """When an object first leaves its place, seconds; infinite when it never does."""
        if name in self.spans:
            return float(self.observations.times[self.spans[name].view][self.spans[name].taken])
        return min((grip.hold.grasp for grip in self.grips if grip.name == name), default=float("inf"))

    def window_at(self, name: str, time: float) -> int | None:
        """Which window of rest `time` falls in; None while the object is held."""
        windows = self.windows(name)
        return next((i for i, window in enumerate(windows) if window.start <= time <= window.end + 1e-6), None)

    def held_at(self, name: str, time: float) -> bool:
        """Whether the object is in a gripper at a time."""
        return any(grip.name == name and grip.hold.grasp <= time < grip.hold.release for grip in self.grips)

    def outlines(self, name: str, view: str) -> list[Outline]:
        """The fused outlines of an object in a view, by the camera as it is now."""
        key = (name, view)
        lens = self.lens(view)
        if key not in self._outlines:
            self._outlines[key] = gather(name, self.windows(name), [lens], self.observations, self.masks)
        return [replace(outline, lens=lens) for outline in self._outlines[key]]

    def pose(self, body: Body, time: float) -> Array:
        """The body frame `(4, 4)` at a time: the scene's own until it is first held, then the motion's."""
        track = self.arrays.get(f"object/{body.name}")
        if track is None or time < self.first_taken(body.name):
            return body.pose.matrix
        nearest = int(np.argmin(np.abs(self.arrays["time"] - time)))
        return pose_matrix(track[nearest]) if np.isfinite(track[nearest]).all() else body.pose.matrix

    def posed(self) -> dict[str, Array]:
        """The motion's arrays without object tracks, for posing the robots only."""
        return {key: value for key, value in self.arrays.items() if not key.startswith("object/")}

    def parts(self, body: Body) -> list[Array]:
        """Convex parts of the body's silhouette."""
        vertices = load_mesh(self.folder, body.shape.file).mesh.vertices if isinstance(body.shape, Mesh) else None
        return shape_parts(body.shape, vertices)

    def keyframes(self) -> list[tuple[Event, str, int, float]]:
        """Event, view, frame and time of every keyframe in a view that has a camera."""
        views = {lens.name for lens in self.lenses}
        return [
            (event, view, frame, float(self.observations.times[view][frame]))
            for event in self.motion.events
            for view, frame in event.frames.items()
            if view in views
        ]

    def with_scene(self, scene: Scene, arrays: Mapping[str, Array] | None = None) -> "Case":
        """The same evidence held against another scene."""
        return Case(
            self.demo, self.observations, self.masks, scene, self.folder, self.motion,
            dict(self.arrays if arrays is None else arrays), self.pictures, self.grips, self.spans,
            self._outlines,
        )  # fmt: skip
