"""From observations to the Scene and the reference Motion: the order in which the parts are put together."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from backend.demos.states import RobotStates, base_of, load_states
from backend.documents.demonstration import Demonstration
from backend.documents.motion import Motion
from backend.documents.observations import Masks, Observations
from backend.documents.run import Progress
from backend.reconstruct.appearance import bake_object
from backend.reconstruct.calibration import refine_lenses, refine_on_objects
from backend.reconstruct.events import find_events
from backend.reconstruct.goals import task_of
from backend.reconstruct.lens import Lens
from backend.reconstruct.lighting import lights_above
from backend.reconstruct.objects import Ground, Sources, cavities_of, fit_objects
from backend.reconstruct.pictures import Pictures, frame_clock
from backend.reconstruct.placement import Fitted
from backend.reconstruct.spans import Span
from backend.reconstruct.surroundings import backdrop, build_table, ground_footprints
from backend.reconstruct.tracks import motion_arrays
from backend.reconstruct.video_only import fit_video, video_arrays, video_events
from backend.reconstruct.views import calibrated_lenses
from mjcf_export.errors import InputError
from mjcf_export.frames import Array
from mjcf_export.robot_carry import carry_robot
from mjcf_export.scene import Body, Material, Pose, Robot, Scene


def reconstruct(
    demo: Demonstration,
    observations: Observations,
    masks: Masks,
    scene_folder: Path,
    progress: Progress,
    *,
    refine_cameras: bool = True,
) -> tuple[Scene, Motion, dict[str, Array]]:
    """Fit the scene to what was observed and find the demonstrated motion and its events.

    Args:
        demo: the demonstration.
        observations: what perception saw.
        masks: its masks.
        scene_folder: where textures and meshes are written.
        progress: called with the fraction done and what is being done.
        refine_cameras: whether cameras marked `estimated` are refined.

    Returns:
        The scene at the demonstration's first frame, the reference motion, and the motion's arrays.

    Raises:
        InputError: nothing can be reconstructed; the message says what input is missing.
    """
    progress(0.0, "reading the pictures")
    pictures = Pictures.of(demo, masks)
    states = {robot.name: load_states(demo, robot.name) for robot in demo.robots if robot.states is not None}
    lenses, notes = calibrated_lenses(demo, observations)
    if not lenses:
        lens, fitted, ground, spans, said = fit_video(demo, observations, masks, pictures, progress)
        parts = Parts((lens,), states, fitted, ground, [*notes, *said], spans)
        return assemble(demo, observations, masks, scene_folder, pictures, parts, progress)
    if refine_cameras and any(not lens.frozen for lens in lenses):
        lenses, said = refine_lenses(demo, lenses, pictures, states, progress)
        notes += said
    sources = Sources.of(demo, observations, masks, lenses, states)
    fitted, ground, said = fit_objects(sources, pictures, None, progress)
    if refine_cameras and any(not lens.frozen for lens in lenses):
        given, _ = calibrated_lenses(demo, observations)
        lenses = [
            lens if lens.frozen else refine_on_objects(lens, fitted, first)
            for lens, first in zip(lenses, given, strict=True)
        ]
        sources = Sources.of(demo, observations, masks, lenses, states)
        fitted, ground, said = fit_objects(sources, pictures, None, progress)
    notes += said
    if not fitted:
        raise InputError(
            "no object could be reconstructed: none was seen at rest in a calibrated view; add prompts (a box or "
            "points) for the objects in demo.json"
        )
    return assemble(
        demo, observations, masks, scene_folder, pictures, Parts(lenses, states, fitted, ground, notes), progress
    )


class Parts:
    """What the assembly is made of."""

    def __init__(
        self,
        lenses: Sequence[Lens],
        states: Mapping[str, RobotStates],
        fitted: Sequence[Fitted],
        ground: Ground,
        notes: Sequence[str],
        spans: Mapping[str, Span] | None = None,
    ) -> None:
        self.lenses = lenses
        self.states = states
        self.fitted = fitted
        self.ground = ground
        self.notes = notes
        self.spans = spans


def assemble(
    demo: Demonstration,
    observations: Observations,
    masks: Masks,
    scene_folder: Path,
    pictures: Pictures,
    parts: Parts,
    progress: Progress,
) -> tuple[Scene, Motion, dict[str, Array]]:
    """The documents from the fitted parts."""
    frame_times = {view: np.array(times) for view, times in observations.times.items()}
    if parts.spans is not None:
        arrays = video_arrays(parts.fitted, parts.spans, observations, masks)
        events = video_events(parts.fitted, parts.spans, observations)
    else:
        arrays = motion_arrays(parts.fitted, parts.states, frame_clock(list(frame_times.values())))
        events = find_events(parts.fitted, arrays, frame_times, cavities_of(parts.fitted))
    robots = scene_robots(demo, parts.states, scene_folder)
    bodies, materials = [], []
    for index, item in enumerate(parts.fitted):
        progress(0.82 + 0.1 * index / len(parts.fitted), f"colouring {item.name}")
        material = bake_object(item, pictures, scene_folder)
        materials.append(material)
        bodies.append(scene_body(demo, observations, item, material))
    progress(0.93, "building the table")
    paths = [record.tcp for record in parts.states.values() if record.tcp is not None]
    footprints = ground_footprints(parts.fitted, paths, parts.ground.height)
    table, cover = build_table(
        parts.ground.name, parts.ground.height, parts.lenses, pictures, footprints, scene_folder,
        parts.ground.provenance,
    )  # fmt: skip
    lights, environment = lights_above(footprints.mean(axis=0), parts.ground.height)
    scene = Scene(
        name=demo.task or "scene",
        bodies=(table, *bodies),
        robots=robots,
        cameras=tuple(lens.camera() for lens in parts.lenses),
        lights=lights,
        materials=(cover, *materials),
        environment=environment,
        backdrop=backdrop(table, parts.lenses, pictures),
        task=task_of(demo, parts.fitted, arrays),
    )
    motion = Motion(
        robots=tuple(parts.states) if parts.spans is None else (),
        source="recorded",
        duration=float(arrays["time"][-1]),
        events=events,
        notes=tuple(parts.notes),
    )
    progress(1.0, f"{len(bodies)} objects, {len(events)} events")
    return scene, motion, arrays


def scene_body(demo: Demonstration, observations: Observations, item: Fitted, material: Material) -> Body:
    """The body of the scene document."""
    seen = next(entry for entry in observations.objects if entry.name == item.name)
    roles = tuple(seen.roles)
    if item.grips and "moved" not in roles:
        roles = ("moved", *roles)
    if not roles:
        roles = ("container",) if item.candidate.family.hollow else ("distractor",)
    return Body(
        name=item.name,
        roles=roles,
        description=seen.description,
        shape=item.shape,
        pose=Pose.from_matrix(item.initial),
        material=material.name,
        density=density(item),
        friction=0.7,
        provenance={**item.provenance, "mass": "assumed", "friction": "assumed"},
        residuals=item.finite_residuals,
    )


def density(item: Fitted) -> float:
    """An assumed density: walls are of solid plastic, closed bodies are light inside (kg/m³)."""
    return 900.0 if item.candidate.family.hollow else 500.0


def scene_robots(demo: Demonstration, states: Mapping[str, RobotStates], scene_folder: Path) -> tuple[Robot, ...]:
    """The demonstration's robots at their first recorded state, their own files beside the scene."""
    robots = []
    origin = Path(demo.source or demo.root)
    for robot in demo.robots:
        base = base_of(demo, robot)
        record = states.get(robot.name)
        if base is None and record is None:
            continue
        robots.append(
            Robot(
                name=robot.name,
                model=carry_robot(robot.model, None if origin == Path("/") else origin, scene_folder),
                base=Pose.from_matrix(base if base is not None else np.eye(4)),
                qpos=None if record is None else tuple(float(v) for v in record.qpos[0]),
                opening=None if record is None or record.opening is None else float(record.opening[0]),
                provenance={"base": "measured" if base is not None else "assumed"},
            )
        )
    return tuple(robots)
