"""Cameras marked `estimated` or `assumed`, refined on the robot's outline and the objects'; trusted ones stay."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from backend.demos.states import RobotStates, base_of
from backend.documents.demonstration import Demonstration
from backend.documents.run import Progress
from backend.reconstruct.evidence import Outline
from backend.reconstruct.fitting import minimise
from backend.reconstruct.lens import Lens
from backend.reconstruct.pictures import Pictures
from backend.reconstruct.placement import Fitted
from backend.reconstruct.robot_edges import Contour, contour_of, edge_offsets, outer_offsets
from backend.reconstruct.silhouettes import polygons
from backend.reconstruct.stage import Stage
from mjcf_export.frames import Array, rotation_about, rotation_angle
from mjcf_export.scene import Pose, Robot, Scene

FRAMES = 10
REACHES = (30.0, 24.0, 16.0, 10.0, 8.0, 4.0, 4.0)
TURN_SIGMA = np.radians(3.0)
SHIFT_SIGMA = 0.03
EDGE_SIGMA = 1.0
OUTLIER = 2.0
POSE_SCALE = np.array([0.01, 0.01, 0.01, 0.01, 0.01, 0.01])


@dataclass(frozen=True)
class Refined:
    """A refined camera and how well it fits frames that were not used, before and after (pixels)."""

    lens: Lens
    before: float
    after: float


def robot_scene(demo: Demonstration, states: Mapping[str, RobotStates]) -> Scene:
    """The robots alone."""
    robots = []
    for robot in demo.robots:
        base = base_of(demo, robot)
        if robot.name in states and base is not None:
            robots.append(Robot(name=robot.name, model=robot.model, base=Pose.from_matrix(base)))
    return Scene(robots=tuple(robots))


def robot_arrays(states: Mapping[str, RobotStates]) -> dict[str, Array]:
    """The robots' joints on one clock, for posing a stage."""
    time = max((record.time for record in states.values()), key=len)
    arrays = {"time": time}
    for name, record in states.items():
        arrays[f"{name}/qpos"] = np.stack([np.interp(time, record.time, column) for column in record.qpos.T], axis=1)
        if record.opening is not None:
            arrays[f"{name}/opening"] = np.interp(time, record.time, record.opening)
    return arrays


def moved_by(lens: Lens, twist: Array) -> Lens:
    """The lens turned by `twist[:3]` (radians) about its own axes and shifted by `twist[3:]` (metres) along them."""
    pose = lens.pose.copy()
    angle = float(np.linalg.norm(twist[:3]))
    if angle > 1e-12:
        pose[:3, :3] = pose[:3, :3] @ rotation_about(twist[:3] / angle, angle)
    pose[:3, 3] = lens.pose[:3, 3] + lens.pose[:3, :3] @ twist[3:]
    return lens.at(pose)


def refine_lenses(
    demo: Demonstration,
    lenses: Sequence[Lens],
    pictures: Pictures,
    states: Mapping[str, RobotStates],
    progress: Progress,
) -> tuple[list[Lens], list[str]]:
    """Refine every camera that is not frozen on the robot's outline; kept only where held-out frames improve.

    Returns:
        All lenses in order, and a note for each one that was not frozen.
    """
    scene = robot_scene(demo, states)
    if not scene.robots:
        return list(lenses), [
            f"view {lens.name}: {lens.trust}, but no robot with a known base and joints to refine it on"
            for lens in lenses
            if not lens.frozen
        ]
    arrays = robot_arrays(states)
    refined, notes = [], []
    with Stage(scene, demo.root) as stage:
        for lens in lenses:
            if lens.frozen:
                refined.append(lens)
                continue
            progress(0.03, f"refining camera {lens.name}")
            result = refine_on_robot(lens, stage, arrays, pictures)
            refined.append(result.lens)
            notes.append(describe(lens, result))
    return refined, notes


def describe(lens: Lens, result: Refined) -> str:
    """What refinement did, for the notes."""
    if result.lens is lens:
        return f"camera {lens.name}: {lens.trust}; refinement did not fit held-out frames better, kept as given"
    turned = np.degrees(rotation_angle(result.lens.pose[:3, :3].T @ lens.pose[:3, :3]))
    shifted = 1000 * float(np.linalg.norm(result.lens.pose[:3, 3] - lens.pose[:3, 3]))
    return (
        f"camera {lens.name}: {lens.trust}; refined by {turned:.2f} degrees and {shifted:.1f} mm; robot outline on "
        f"held-out frames {result.before:.1f} to {result.after:.1f} px"
    )


def chosen_frames(stage: Stage, arrays: Mapping[str, Array], pictures: Pictures, view: str) -> list[int]:
    """Frames within the robots' record, spread over the demonstration."""
    times = pictures.views[view].times
    clock = arrays["time"]
    usable = np.flatnonzero((times >= clock[0]) & (times <= clock[-1]))
    if not len(usable):
        return []
    return [int(usable[int(i)]) for i in np.unique(np.linspace(0, len(usable) - 1, 2 * FRAMES).astype(int))]


def refine_on_robot(lens: Lens, stage: Stage, arrays: Mapping[str, Array], pictures: Pictures) -> Refined:
    """Register the drawn robot with its edges in the pictures; every second frame is held out."""
    frames = chosen_frames(stage, arrays, pictures, lens.name)
    used, held = frames[0::2], frames[1::2]
    if not used or not held:
        return Refined(lens, float("inf"), float("inf"))
    current = lens
    generator = np.random.default_rng(0)
    for turn, reach in enumerate(REACHES):
        contours = [
            contour
            for frame in used
            if len((contour := draw(current, stage, arrays, pictures, frame, generator)).points)
        ]
        if sum(len(contour.points) for contour in contours) < 60:
            return Refined(lens, float("inf"), float("inf"))
        current = _step(lens, current, contours, pictures, reach, moving=turn < 5)
    before = outline_offset(lens, stage, arrays, pictures, held)
    after = outline_offset(current, stage, arrays, pictures, held)
    if after < before - 0.1:
        return Refined(current, before, after)
    return Refined(lens, before, before)


def draw(
    lens: Lens,
    stage: Stage,
    arrays: Mapping[str, Array],
    pictures: Pictures,
    frame: int,
    generator: np.random.Generator,
) -> Contour:
    """The robots' contour as the lens sees it in a frame."""
    stage.pose(arrays, float(pictures.views[lens.name].times[frame]), bodies=False)
    shot = stage.draw(lens, depth=True)
    return contour_of(shot, [stage.index(name) for name in stage.robots], lens, frame, generator)


def _step(
    given: Lens, current: Lens, contours: Sequence[Contour], pictures: Pictures, reach: float, *, moving: bool
) -> Lens:
    """One registration: edges are found once, then the camera moves to meet them."""
    targets, points, normals, weights = [], [], [], []
    still = pictures.still(given.name)
    for contour in contours:
        picture = pictures.frame(given.name, contour.frame)
        pixels, offset, weight = (
            outer_offsets(contour, current, picture, still, reach)
            if moving
            else edge_offsets(contour, current, picture, reach)
        )
        targets.append(pixels + contour.normals * offset[:, None])
        points.append(contour.points)
        normals.append(contour.normals)
        weights.append(weight)
    target, point, normal = np.vstack(targets), np.vstack(points), np.vstack(normals)
    weight = np.concatenate(weights)
    start = _twist(given, current)
    outlier = max(OUTLIER, reach / 4)

    def residuals(twist: Array) -> Array:
        pixels, _ = moved_by(given, twist).project(point)
        along = np.einsum("nk,nk->n", pixels - target, normal)
        robust = np.sign(along) * outlier * np.sqrt(np.log1p((along / outlier) ** 2))
        edges = robust * np.sqrt(weight) / EDGE_SIGMA / 2
        return np.concatenate([edges, twist[:3] / TURN_SIGMA, twist[3:] / SHIFT_SIGMA])

    result = minimise(residuals, start, POSE_SCALE, 20)
    return moved_by(given, result.x)


def _twist(given: Lens, current: Lens) -> Array:
    """The twist that `moved_by` would need to bring `given` to `current`."""
    relative = given.pose[:3, :3].T @ current.pose[:3, :3]
    angle = rotation_angle(relative)
    vector = np.array(
        [relative[2, 1] - relative[1, 2], relative[0, 2] - relative[2, 0], relative[1, 0] - relative[0, 1]]
    )
    length = float(np.linalg.norm(vector))
    turn = vector / length * angle if length > 1e-12 else np.zeros(3)
    return np.concatenate([turn, given.pose[:3, :3].T @ (current.pose[:3, 3] - given.pose[:3, 3])])


def outline_offset(
    lens: Lens,
    stage: Stage,
    arrays: Mapping[str, Array],
    pictures: Pictures,
    frames: Sequence[int],
    reach: float = 30.0,
) -> float:
    """Mean over frames of the median distance in pixels between the robots' drawn outline and the edges seen."""
    generator = np.random.default_rng(1)
    still = pictures.still(lens.name)
    found = []
    for frame in frames:
        contour = draw(lens, stage, arrays, pictures, frame, generator)
        if len(contour.points) < 20:
            continue
        _, offset, weight = outer_offsets(contour, lens, pictures.frame(lens.name, frame), still, reach)
        if (weight > 0).sum() >= 15:
            found.append(float(np.median(np.abs(offset[weight > 0]))))
    return float(np.mean(found)) if found else float("inf")


def refine_on_objects(lens: Lens, fitted: Sequence[Fitted], given: Lens) -> Lens:
    """Move one camera to meet the outlines of objects that other views placed.

    Args:
        lens: the camera as refined so far.
        fitted: the objects, their outlines in this view among them.
        given: the camera as it was given, which the motion is regularised to.
    """
    seen = [
        (outline, item.candidate.family.parts(item.candidate.parameters), item.poses[outline.window])
        for item in fitted
        for outline in item.outlines
        if outline.lens.name == lens.name and outline.window < len(item.poses)
    ]
    return refine_on_objects_of(lens, seen, given)


def refine_on_objects_of(lens: Lens, seen: Sequence[tuple[Outline, list[Array], Array]], given: Lens) -> Lens:
    """Move one camera to meet outlines; `seen` holds each outline with the object's parts and pose."""
    if len(seen) < 2:
        return lens

    def residuals(twist: Array) -> Array:
        moved = moved_by(lens, twist)
        values = []
        for outline, parts, pose in seen:
            drawn = polygons(parts, pose, moved)
            if drawn is None:
                values.append(np.full(outline.length(parts), 50.0))
                continue
            residual, share = outline.residuals(drawn)
            robust = np.sign(residual) * 3 * np.sqrt(np.log1p((residual / 3) ** 2))
            values.append(robust * np.sqrt(10 * share))
        away = twist + _twist(given, lens)
        return np.concatenate(
            [*values, away[:3] / TURN_SIGMA, away[3:] / SHIFT_SIGMA, twist[:3] / 0.003, twist[3:] / 0.003]
        )

    return moved_by(lens, minimise(residuals, np.zeros(6), POSE_SCALE, 20).x)
