"""Scenes from one uncalibrated view without a robot's record: cameras from hints, motion from the tracks."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from backend.documents.demonstration import Demonstration, View
from backend.documents.motion import Event
from backend.documents.observations import Masks, Observations
from backend.documents.run import Progress
from backend.reconstruct.families import family_prior
from backend.reconstruct.lens import Lens
from backend.reconstruct.objects import Ground, Sources, cavities_of, fit_objects
from backend.reconstruct.pictures import Pictures
from backend.reconstruct.placement import Fitted, into_cavity, rest_height, upright_at
from backend.reconstruct.single_view import (
    Standing,
    assumed_lens,
    below_horizon,
    family_for,
    recentred,
    solve_camera,
)
from backend.reconstruct.spans import Span, carried_spans, mask_centres
from backend.reconstruct.tracks import pose_rows
from mjcf_export.errors import InputError
from mjcf_export.frames import Array
from mjcf_export.shapes import extents

NEAR = 1.2
"""A container takes what vanished within this many of its own half widths of it in the picture."""
SURE = 1e-4


def fit_video(
    demo: Demonstration, observations: Observations, masks: Masks, pictures: Pictures, progress: Progress
) -> tuple[Lens, list[Fitted], Ground, Mapping[str, Span], list[str]]:
    """The camera, the objects where they stood first and last, and when each was carried.

    Raises:
        InputError: no view can be used; says which input is missing.
    """
    view = _chosen_view(demo, observations, masks)
    size = observations.sizes[view.name]
    spans = carried_spans(observations, masks, [view.name])
    sources = Sources(demo, observations, masks, (assumed_lens(view, size),), (), _end(observations), spans)
    progress(0.05, "finding the camera from the hints")
    solved = solve_camera(demo, view, sources.lenses[0], _standing(sources), pictures.still(view.name))
    sources, left_out = _on_support(replace(sources, lenses=(solved.lens,)))
    ground = Ground(demo.table_name, 0.0, SURE, "assumed")
    fitted, ground, notes = fit_objects(sources, pictures, ground, progress)
    if not fitted:
        raise InputError(f"view {view.name}: no object could be fitted; give a box prompt for each object")
    origin = next((item for item in fitted if item.name in spans), fitted[0]).initial[:2, 3].copy()
    if any(click.point is not None for click in demo.correspondences):
        origin[:] = 0.0
    lens = recentred(solved.lens, origin)
    fitted = [_shifted(item, lens, origin) for item in fitted]
    fitted = [_carried(item, fitted, ground, (demo, observations, masks), spans) for item in fitted]
    return lens, fitted, ground, spans, [*solved.notes, *left_out, *notes]


def _end(observations: Observations) -> float:
    return max(float(times[-1]) for times in observations.times.values())


def _chosen_view(demo: Demonstration, observations: Observations, masks: Masks) -> View:
    """The still view in which most objects were segmented."""
    counts = {
        view.name: sum(f"mask/{view.name}/{item.name}" in masks for item in observations.objects)
        for view in demo.views
        if view.mount is None and view.name in observations.sizes
    }
    best = max(counts, key=lambda name: counts[name], default=None)
    if best is None or counts[best] == 0:
        raise InputError(
            "no object was segmented in any still view; give each object a box prompt (objects[].prompts) in demo.json"
        )
    return demo.view(best)


def _standing(sources: Sources) -> list[Standing]:
    standing = []
    for item in sources.handled():
        first = tuple(outline for outline in sources.outlines(item.name) if outline.window == 0)
        if first:
            prior = family_prior(item.name, item.description, tuple(item.roles))
            standing.append(Standing(item.name, family_for(prior), first, sources.size(item.name)))
    return standing


def _on_support(sources: Sources) -> tuple[Sources, list[str]]:
    """The sources without what cannot stand on the support, and notes on what that was."""
    lens = sources.lenses[0]
    floating = set()
    for item in sources.handled():
        seen = sources.outlines(item.name)
        if not all(below_horizon(outline, lens) for outline in seen if outline.window == 0):
            floating.add(item.name)
    kept = tuple(item for item in sources.observations.objects if item.name not in floating)
    notes = [f"object {name}: lies above the support's horizon; left out" for name in sorted(floating)]
    return replace(sources, observations=sources.observations.model_copy(update={"objects": kept})), notes


def _shifted(item: Fitted, lens: Lens, origin: Array) -> Fitted:
    """A fitted object in the recentred world."""
    moved = []
    for pose in item.poses:
        copy = pose.copy()
        copy[:2, 3] -= origin
        moved.append(copy)
    poses = item.candidate.poses.copy()
    poses[:, :2] -= origin
    outlines = tuple(replace(outline, lens=lens) for outline in item.outlines)
    return replace(item, poses=tuple(moved), outlines=outlines, candidate=replace(item.candidate, poses=poses))


def _carried(
    item: Fitted,
    fitted: Sequence[Fitted],
    ground: Ground,
    read: tuple[Demonstration, Observations, Masks],
    spans: Mapping[str, Span],
) -> Fitted:
    """The object with the pose it ended in: seen again, in what it vanished into, or where the user says."""
    span = spans.get(item.name)
    if span is None:
        return item
    demo, observations, masks = read
    others = [other for other in fitted if other.name != item.name]
    host = _host(item, others, span, demo, masks, observations)
    lens = item.outlines[0].lens
    key = f"mask/{span.view}/{item.name}"
    centres, _ = mask_centres(key, observations.frames[span.view], masks)
    where = lens.on_plane(centres[span.left][None], ground.height + float(item.candidate.extents[2]) / 2)[0, :2]
    if span.settled is not None:
        rows, columns = np.nonzero(masks.frame(key, span.settled))
        foot = np.array([[columns.mean(), rows.max() + 0.5]])
        spot = lens.on_plane(foot, ground.height)[0]
        away = spot[:2] - lens.pose[:2, 3]
        where = spot[:2] + away / np.linalg.norm(away) * float(item.candidate.extents[:2].min()) / 2
    if host is not None and (span.settled is None or not _over(where, host)):
        where = host.initial[:2, 3].copy()
    if not np.isfinite(where).all():
        where = item.initial[:2, 3].copy()
    beneath = [(other.name, other.shape, other.initial) for other in others if host is None or other is host]
    name, level, inside = rest_height(item.shape, where, beneath, (ground.name, ground.height))
    if host is not None and inside:
        where = into_cavity(where, float(extents(item.shape, Path())[:2].min()) / 2, host.shape, host.initial)
    final = upright_at(item.initial, np.array([*where, level]))
    return replace(item, poses=(item.initial, final), supports=(item.supports[0], name))


def _over(where: Array, host: Fitted) -> bool:
    """Whether a place `(2,)` is above a body."""
    return bool(np.linalg.norm(where - host.initial[:2, 3]) <= float(host.candidate.extents[:2].max()) / 2)


def _host(
    item: Fitted, others: Sequence[Fitted], span: Span, demo: Demonstration, masks: Masks, observations: Observations
) -> Fitted | None:
    """What the object was put into or onto: the user's predicate, else the nearest body where it was last seen."""
    names = {other.name: other for other in others}
    for predicate in demo.predicates:
        if predicate.name in {"inside", "on", "inserted"} and predicate.args[:1] == (item.name,):
            return names.get(str(predicate.args[1]))
    key = f"mask/{span.view}/{item.name}"
    centres, _ = mask_centres(key, observations.frames[span.view], masks)
    last = centres[span.left if span.settled is None else span.settled]
    best: tuple[float, Fitted] | None = None
    for other in others:
        for outline in other.outlines:
            u0, v0, u1, v1 = outline.box
            offset = (last - ((u0 + u1) / 2, (v0 + v1) / 2)) / ((u1 - u0) / 2, (v1 - v0) / 2)
            apart = float(np.hypot(offset[0], 0.7 * offset[1]))
            limit = NEAR if span.settled is not None or not other.candidate.family.hollow else 1.6 * NEAR
            if apart < limit and (best is None or apart < best[0]):
                best = (apart, other)
    return None if best is None else best[1]


def video_arrays(
    fitted: Sequence[Fitted], spans: Mapping[str, Span], observations: Observations, masks: Masks
) -> dict[str, Array]:
    """Object poses on the pictures' clock: at rest, along the plane through both rests while carried, at rest."""
    view = fitted[0].outlines[0].lens.name
    time = np.array(observations.times[view])
    arrays: dict[str, Array] = {"time": time}
    for item in fitted:
        matrices = np.repeat(item.initial[None], len(time), axis=0)
        span = spans.get(item.name)
        if span is not None and len(item.poses) > 1:
            centres, _ = mask_centres(f"mask/{view}/{item.name}", len(time), masks)
            for frame in range(span.taken, len(time)):
                matrices[frame] = item.final
                if frame <= span.left:
                    matrices[frame] = _midway(item, centres[frame], span, frame)
        arrays[f"object/{item.name}"] = pose_rows(matrices)
    return arrays


def _midway(item: Fitted, pixel: Array, span: Span, frame: int) -> Array:
    """Where a carried object is: on the ray of its mask's centre, in the upright plane through both rests."""
    start, end = item.initial, item.final
    part = (frame - span.taken + 1) / max(span.left - span.taken + 2, 1)
    pose = upright_at(start, (1 - part) * start[:3, 3] + part * end[:3, 3])
    way = end[:2, 3] - start[:2, 3]
    length = float(np.linalg.norm(way))
    if not np.isfinite(pixel).all() or length < 0.02:
        return pose
    lens = item.outlines[0].lens
    origin, direction = lens.rays(pixel[None])
    normal = np.array([-way[1], way[0], 0.0]) / length
    facing = float(direction[0] @ normal)
    if abs(facing) < 0.25:
        return pose
    middle = start[:3, 3] + (0, 0, float(item.candidate.extents[2]) / 2)
    spot = origin + direction[0] * float((middle - origin) @ normal) / facing
    bottom = spot - (0, 0, float(item.candidate.extents[2]) / 2)
    along = float((bottom[:2] - start[:2, 3]) @ way) / length
    if -0.1 <= along <= length + 0.1 and bottom[2] < start[2, 3] + 0.6:
        pose[:3, 3] = [*bottom[:2], max(bottom[2], min(start[2, 3], end[2, 3]))]
    return pose


def video_events(fitted: Sequence[Fitted], spans: Mapping[str, Span], observations: Observations) -> tuple[Event, ...]:
    """Events read off the tracks, on the pictures' clock."""
    events: list[Event] = []
    hollow = cavities_of(fitted)
    for item in fitted:
        span = spans.get(item.name)
        if span is None or len(item.poses) < 2:
            continue
        times = np.array(observations.times[span.view])
        last = len(times) - 1
        ended = span.settled if span.settled is not None else min(span.left + 1, last)
        after = min(ended + 1, last)
        marks = [
            ("approach", max(span.rest - 2, 0), "hand", True), ("grasp", span.rest, "hand", True),
            ("lift", span.taken, item.supports[0], False), ("release", ended, "hand", False),
            ("support", after, item.supports[-1], True),
        ]  # fmt: skip
        if hollow.get(item.supports[-1], False):
            marks.append(("containment", after, item.supports[-1], True))
        for relation, frame, other, made in marks:
            events.append(
                Event(
                    id=relation, relation=relation, subject=item.name, object=other, made=made,
                    before=float(times[max(frame - 1, 0)]), onset=float(times[frame]),
                    after=float(times[min(frame + 1, last)]), frames={span.view: frame}, confidence=0.7,
                    provenance="estimated",
                )
            )  # fmt: skip
    events.sort(key=lambda event: event.onset)
    return tuple(event.model_copy(update={"id": f"e{k}_{event.relation}"}) for k, event in enumerate(events))
