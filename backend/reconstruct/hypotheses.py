"""What may be wrong, each as one change of the scene: a camera's pose, an object's pose, its size, a contact."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from backend.demos.states import load_states
from backend.documents.run import unseen
from backend.reconstruct.calibration import refine_on_objects_of, refine_on_robot
from backend.reconstruct.case import Case
from backend.reconstruct.evidence import Outline
from backend.reconstruct.fitting import POSE_SCALE, minimise
from backend.reconstruct.objects import Sources, fit_objects
from backend.reconstruct.questions import pose_stage
from backend.reconstruct.resize import scaled
from backend.reconstruct.silhouettes import polygons, shape_parts
from backend.reconstruct.stage import Stage
from backend.reconstruct.touching import deepest, pad_gaps
from backend.reconstruct.tracks import object_track
from mjcf_export.frames import Array, rotation_about, rotation_angle, transform
from mjcf_export.scene import Body, Mesh, Pose, Scene
from mjcf_export.shapes import extents

SIZE_SIGMA = 0.15
"""How far a size is believed to be off at most, as a fraction."""
MOVE_SIGMA = 0.04


@dataclass(frozen=True)
class Change:
    """A changed scene and what was changed, in words with figures."""

    scene: Scene
    text: str
    arrays: dict[str, Array]


def move_camera(case: Case, view: str) -> Change | None:
    """The camera registered again on the robot's outline, else on the objects'; None when it is trusted."""
    lens = case.lens(view)
    if lens.frozen:
        return None
    moved = lens
    if case.scene.robots:
        with Stage(case.scene.model_copy(update={"bodies": (), "materials": (), "lights": ()}), case.folder) as stage:
            moved = refine_on_robot(lens, stage, case.posed(), case.pictures).lens
    if moved is lens:
        seen = [
            (outline, case.parts(body), case.pose(body, _middle(case, body, outline.window)))
            for body in case.objects()
            for outline in case.outlines(body.name, view)
        ]
        moved = refine_on_objects_of(lens, seen, lens)
    if moved is lens:
        return None
    camera = case.scene.camera(view).model_copy(update={"pose": Pose.from_matrix(moved.pose)})
    cameras = tuple(camera if item.name == view else item for item in case.scene.cameras)
    turned = np.degrees(rotation_angle(moved.pose[:3, :3].T @ lens.pose[:3, :3]))
    shifted = 1000 * float(np.linalg.norm(moved.pose[:3, 3] - lens.pose[:3, 3]))
    registered = case.with_scene(case.scene.model_copy(update={"cameras": cameras}))
    text = f"turned {turned:.2f} deg, moved {shifted:.1f} mm"
    if not case.motion.robots:
        return Change(registered.scene, text, case.arrays)
    return _placed_again(registered, f"{text}; objects and support placed again")


def _placed_again(case: Case, text: str) -> Change:
    """Objects, their tracks and the support's height, which all came through the cameras, fitted once more."""
    states = {name: load_states(case.demo, name) for name in case.motion.robots}
    sources = Sources.of(case.demo, case.observations, case.masks, case.lenses, states)
    fitted, ground, _ = fit_objects(sources, case.pictures, None, unseen)
    scene = case.scene
    before = scene.body(ground.name)
    rise = ground.height - float(before.pose.matrix[2, 3] + extents(before.shape, case.folder)[2])
    scene = scene.replace_body(
        before.model_copy(update={"pose": Pose.from_matrix(transform((0, 0, rise)) @ before.pose.matrix)})
    )
    arrays = dict(case.arrays)
    for item in fitted:
        body = scene.body(item.name)
        update = {
            "shape": item.shape,
            "pose": Pose.from_matrix(item.initial),
            "provenance": body.provenance | item.provenance,
            "residuals": body.residuals | item.finite_residuals,
        }
        scene = scene.replace_body(body.model_copy(update=update))
        arrays[f"object/{item.name}"] = object_track(item, states, arrays["time"])
    return Change(scene, text, arrays)


def _middle(case: Case, body: Body, window: int) -> float:
    rest = case.windows(body.name)[window]
    return (rest.start + rest.end) / 2


def first_outlines(case: Case, name: str) -> list[Outline]:
    """An object's outlines before it was first held, in every view."""
    return [outline for lens in case.lenses for outline in case.outlines(name, lens.name) if outline.window == 0]


def outline_cost(parts: Sequence[Array], pose: Array, outlines: Sequence[Outline]) -> Array:
    """Robust outline residuals of parts at a pose, in half pixels."""
    values = []
    for outline in outlines:
        drawn = polygons(parts, pose, outline.lens)
        if drawn is None:
            values.append(np.full(outline.length(parts), 50.0))
            continue
        residual, share = outline.residuals(drawn)
        values.append(np.sign(residual) * 3 * np.sqrt(np.log1p((residual / 3) ** 2)) * np.sqrt(40 * share))
    return np.concatenate(values) if values else np.zeros(0)


def shifted(pose: Array, change: Array) -> Array:
    """A pose moved by `(dx, dy, dyaw, dz)` about its own origin."""
    moved = pose.copy()
    moved[:3, :3] = rotation_about((0, 0, 1), change[2]) @ pose[:3, :3]
    moved[:3, 3] += (change[0], change[1], change[3])
    return moved


def move_object(case: Case, name: str) -> Change | None:
    """The object's first pose fitted again to its outlines, its shape kept and its height held by its support."""
    body = case.scene.body(name)
    outlines = first_outlines(case, name)
    if not outlines:
        return None
    parts, start = case.parts(body), body.pose.matrix

    def residuals(change: Array) -> Array:
        prior = change / np.array([MOVE_SIGMA, MOVE_SIGMA, 0.3, 0.0005])
        return np.concatenate([outline_cost(parts, shifted(start, change), outlines), prior])

    found = min(
        (minimise(residuals, np.array([0, 0, turn, 0.0]), POSE_SCALE, 25) for turn in (0.0, 0.35, -0.35)),
        key=lambda result: result.cost,
    ).x
    return _with_body(case, body, shifted(start, found), body, _moved_text(found))


def _moved_text(change: Array) -> str:
    x, y, turn, z = change
    return f"moved ({1000 * x:+.1f}, {1000 * y:+.1f}, {1000 * z:+.1f}) mm, turned {np.degrees(turn):+.1f} deg"


def resize_object(case: Case, name: str) -> Change | None:
    """The object's extents, with its place on the support, fitted again to its outlines."""
    body = case.scene.body(name)
    outlines = first_outlines(case, name)
    if not outlines or isinstance(body.shape, Mesh):
        return None
    start = body.pose.matrix
    turned = body.shape.kind in {"lathe", "cylinder"}

    def factors(values: Array) -> tuple[float, float, float]:
        width, depth, height = (float(v) for v in np.exp(values[:3]))
        return (width, width if turned else depth, height)

    def residuals(values: Array) -> Array:
        shape = scaled(body.shape, factors(values))
        assert shape is not None
        cost = outline_cost(shape_parts(shape), shifted(start, values[3:]), outlines)
        prior = np.concatenate([values[:3] / SIZE_SIGMA, values[3:] / (MOVE_SIGMA, MOVE_SIGMA, 0.3, 0.0005)])
        return np.concatenate([cost, prior])

    scale = np.concatenate([np.full(3, 0.05), POSE_SCALE])
    found = minimise(residuals, np.zeros(7), scale, 30).x
    shape = scaled(body.shape, factors(found))
    assert shape is not None
    grown = ", ".join(f"{100 * (f - 1):+.1f}" for f in factors(found))
    resized = body.model_copy(update={"shape": shape})
    return _with_body(case, body, shifted(start, found[3:]), resized, f"extents ({grown}) %, {_moved_text(found[3:])}")


def touch(case: Case, name: str, event: str) -> Change | None:
    """The object set onto what is under it, or centred between the pads that grasp it."""
    found = next(item for item in case.motion.events if item.id == event)
    body = case.scene.body(name)
    with Stage(case.scene, case.folder) as stage:
        pose_stage(case, stage, found.onset if found.relation == "grasp" else 0.0)
        if found.relation == "grasp" and found.robot is not None and f"{found.robot}/tcp" in case.arrays:
            gaps = pad_gaps(stage, found.robot, name)
            if len(gaps) != 2 or not all(np.isfinite(gap) for gap in gaps.values()):
                return None
            nearest = int(np.argmin(np.abs(case.arrays["time"] - found.onset)))
            tcp = case.arrays[f"{found.robot}/tcp"][nearest]
            middle = float((body.pose.matrix[:3, 3] - tcp[:3, 3]) @ tcp[:3, 1])
            step = -middle * tcp[:2, 1]
            change = np.array([step[0], step[1], 0.0, 0.0])
        else:
            gap, _ = deepest(stage, name)
            if not np.isfinite(gap) or abs(gap) > 0.05:
                return None
            change = np.array([0.0, 0.0, 0.0, -gap])
    return _with_body(case, body, shifted(body.pose.matrix, change), body, _moved_text(change))


def _with_body(case: Case, old: Body, pose: Array, body: Body, text: str) -> Change:
    """The scene with a body changed, and its track until it is first held moved along."""
    placed = body.model_copy(update={"pose": Pose.from_matrix(pose)})
    arrays = dict(case.arrays)
    track = arrays.get(f"object/{old.name}")
    if track is not None:
        moved = track.copy()
        moved[arrays["time"] < case.first_taken(old.name)] = [*placed.pose.position, *placed.pose.quaternion]
        arrays[f"object/{old.name}"] = moved
    return Change(case.scene.replace_body(placed), text, arrays)
