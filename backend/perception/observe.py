"""The stage: from a demonstration to observations and masks."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from backend.documents.demonstration import Demonstration, DemoObject, Prompt
from backend.documents.observations import Hold, Mask, Masks, Observations, ObservedObject, Track
from backend.documents.run import Progress, part_of, unseen
from backend.perception import sam2_tracker
from backend.perception.embedded import Guide, Start, begin, departs, follow, roam, stay, union
from backend.perception.footage import Footage, ViewFootage, gather
from backend.perception.handling import assign_holds, guides
from backend.perception.sam2_tracker import Sam2Tracker, load_tracker
from backend.perception.seeds import Seed, carry_prompts, propose
from backend.perception.segmentation import NOTHING, GrabCutSegmenter, Region
from backend.perception.tracking import Target, TrackResult
from mjcf_export.errors import InputError

PROVIDERS = ("auto", "embedded", "sam2")
_STILL_ROLES = {"container", "support", "fixed", "distractor", "articulated"}


@dataclass
class _Object:
    """An object on its way through the stage."""

    seed: Seed
    starts: dict[str, Start]
    tracks: dict[str, TrackResult]


def observe(demo: Demonstration, progress: Progress, provider: str = "auto") -> tuple[Observations, Masks]:
    """Segment and track every object in every view, and read the robot's own measurements.

    Args:
        demo: the demonstration, its root set.
        progress: called with the fraction done and what is being done.
        provider: `embedded` (no weights), `sam2`, or `auto`: SAM2 when a checkpoint is configured, else embedded.

    Raises:
        InputError: an unknown provider; a prompt outside its frame or on nothing; a demonstration in which no object
            is named and none is found.
        MissingError: `sam2` was asked for and is not installed or configured.
    """
    tracker = _tracker(provider)
    footage = gather(demo, part_of(progress, 0.0, 0.3))
    notes = list(footage.notes)
    seeds = _prompted(demo, footage)
    objects = [_start(footage, seed, strict=True) for seed in seeds]
    notes += _carry(footage, objects)
    unnamed = [item for item in demo.objects if not item.prompts and item.name != demo.table_name]
    if unnamed or not demo.objects:
        progress(0.35, "looking for objects")
        proposed, said = propose(footage, unnamed, [item.seed for item in objects])
        notes += said
        objects += [item for item in (_start(footage, seed, strict=False) for seed in proposed) if item.starts]
    if not objects:
        raise InputError(
            "no object is named with a prompt and none was found in the pictures; "
            "give `objects` with a box in `prompts` in demo.json" + (f" ({'; '.join(notes)})" if notes else "")
        )
    if tracker is None:
        _follow_embedded(footage, objects, part_of(progress, 0.4, 1.0))
    else:
        _follow_learned(footage, objects, tracker, part_of(progress, 0.4, 1.0))
    progress(1.0, f"{len(objects)} objects followed")
    return _documents(footage, objects, notes, tracker)


def _tracker(provider: str) -> Sam2Tracker | None:
    if provider not in PROVIDERS:
        raise InputError(f"perception provider {provider!r}: unknown; there are {', '.join(PROVIDERS)}")
    if provider == "sam2" or (provider == "auto" and sam2_tracker.configured()):
        return load_tracker()
    return None


def _prompted(demo: Demonstration, footage: Footage) -> list[Seed]:
    """One seed per object with prompts: in each view, the earliest of its prompts."""
    seeds = []
    for item in demo.objects:
        if not item.prompts:
            continue
        seed = Seed(item.name, item.roles, item.description)
        for prompt in sorted(item.prompts, key=lambda prompt: prompt.frame):
            if prompt.view not in seed.targets:
                seed.targets[prompt.view] = _target(item, prompt, footage.views[prompt.view])
        seeds.append(seed)
    return seeds


def _target(item: DemoObject, prompt: Prompt, view: ViewFootage) -> Target:
    """A prompt in the loaded frames; refused when it lies outside the picture or the video."""
    where = f"object {item.name}: prompt in view {prompt.view}, frame {prompt.frame}"
    if prompt.frame > view.indices[-1]:
        raise InputError(f"{where}: the view has {int(view.indices[-1]) + 1} frames (0 to {int(view.indices[-1])})")
    height, width = view.size
    if prompt.box is not None:
        x0, y0, x1, y1 = prompt.box
        if x1 - x0 < 2 or y1 - y0 < 2:
            raise InputError(f"{where}: box {prompt.box} is empty; expected (x0, y0, x1, y1) with x0 < x1 and y0 < y1")
        if x0 < -1 or y0 < -1 or x1 > width + 1 or y1 > height + 1:
            raise InputError(f"{where}: box {prompt.box} lies outside the picture of {width}x{height}")
    for x, y in prompt.points:
        if not (0 <= x < width and 0 <= y < height):
            raise InputError(f"{where}: point ({x:g}, {y:g}) lies outside the picture of {width}x{height}")
    if prompt.box is None and 1 not in (prompt.labels or (1,)):
        raise InputError(f"{where}: no point is labelled 1 (on the object); give one, or a box")
    frame = int(np.abs(view.indices - prompt.frame).argmin())
    return Target(item.name, frame, Region(prompt.box, prompt.points, prompt.labels))


def _start(footage: Footage, seed: Seed, *, strict: bool) -> _Object:
    """Segment a seed where it starts in every view that it has a target in."""
    started = _Object(seed, {}, {})
    for name in list(seed.targets):
        _start_view(footage, started, name, strict=strict)
    return started


def _start_view(footage: Footage, item: _Object, name: str, *, strict: bool) -> None:
    view, target = footage.views[name], item.seed.targets[name]
    found, start = begin(view.images, target, view.robot, GrabCutSegmenter(), static=view.static)
    if start is None or found.confidence < NOTHING:
        if strict:
            frame = int(view.indices[target.frame])
            raise InputError(
                f"object {item.seed.name}: the prompt in view {name}, frame {frame} lies on nothing that stands "
                "out from its surroundings; draw the box closely around the object, in a frame where nothing hides it"
            )
        del item.seed.targets[name]
        return
    item.starts[name] = start


def _carry(footage: Footage, objects: list[_Object]) -> list[str]:
    """Find the prompted objects in the calibrated views in which nobody prompted them."""
    holds = _assignment(footage, objects)
    notes = []
    for item in objects:
        masks = {name: start.rest.mask for name, start in item.starts.items()}
        taken = holds.get(item.seed.name, [])
        notes += carry_prompts(footage, item.seed, masks, taken[0] if taken else None)
        for name in set(item.seed.targets) - set(item.starts):
            _start_view(footage, item, name, strict=False)
    return notes


def _assignment(footage: Footage, objects: list[_Object]) -> dict[str, list[Hold]]:
    masks = {item.seed.name: {name: start.rest.mask for name, start in item.starts.items()} for item in objects}
    movable = [item.seed.name for item in objects if "moved" in item.seed.roles]
    loose = [item.seed.name for item in objects if not set(item.seed.roles) & {"support", "fixed"}]
    return assign_holds(footage, masks, tuple(movable or loose))


def _follow_embedded(footage: Footage, objects: list[_Object], progress: Progress) -> None:
    """Objects that stay first; then those that move, kept out of the pixels that show the others."""
    holds = _assignment(footage, objects)
    known: dict[str, Mapping[str, Guide]] = {}
    for item in objects:
        masks = {name: start.rest.mask for name, start in item.starts.items()}
        known[item.seed.name] = guides(footage, masks, holds.get(item.seed.name, []), _moves(item.seed))
    total = max(1, len(objects) * len(footage.views))
    done = 0
    for name, view in footage.views.items():
        here = [item for item in objects if name in item.starts]
        moving = [item for item in here if not view.static or departs(item.starts[name], known[item.seed.name][name])]
        for item in here:
            if item not in moving:
                item.tracks[name] = stay(item.starts[name], view.size)
        fixed = union([item.tracks[name].masks for item in here if item not in moving])
        for item in moving:
            progress(done / total, f"{name}: following {item.seed.name}")
            start, guide = item.starts[name], known[item.seed.name][name]
            if view.static:
                item.tracks[name] = follow(view.images, start, view.robot, guide, fixed, unseen)
            else:
                item.tracks[name] = roam(view.images, start, view.robot, unseen)
            done += 1
        done = (list(footage.views).index(name) + 1) * len(objects)


def _follow_learned(footage: Footage, objects: list[_Object], tracker: Sam2Tracker, progress: Progress) -> None:
    for number, (name, view) in enumerate(footage.views.items()):
        targets = [item.seed.targets[name] for item in objects if name in item.seed.targets]
        share = part_of(progress, number / len(footage.views), (number + 1) / len(footage.views))
        for track_name, result in tracker.track(view.images, targets, view.robot, share).items():
            next(item for item in objects if item.seed.name == track_name).tracks[name] = result


def _moves(seed: Seed) -> bool | None:
    """What the roles say: a moved object moves; of the others the pictures decide."""
    return True if "moved" in seed.roles and not set(seed.roles) & _STILL_ROLES else None


def _documents(
    footage: Footage, objects: list[_Object], notes: list[str], tracker: Sam2Tracker | None
) -> tuple[Observations, Masks]:
    stacks: dict[str, Mask] = {}
    for name, view in footage.views.items():
        if view.robot is not None:
            stacks[f"robot/{name}"] = view.robot
    observed = []
    for item in objects:
        tracks = []
        for name, track in item.tracks.items():
            stacks[f"mask/{name}/{item.seed.name}"] = track.masks
            tracks.append(_track(name, track))
            if not (track.confidence > 0).any():
                notes.append(f"{item.seed.name}: never found in view {name}")
        observed.append(
            ObservedObject(
                name=item.seed.name,
                roles=item.seed.roles,
                description=item.seed.description,
                source=item.seed.source,
                tracks=tuple(tracks),
            )
        )
    observations = Observations(
        provider="embedded" if tracker is None else "sam2",
        checkpoint_sha256=None if tracker is None else tracker.sha256,
        frames={name: len(view.images) for name, view in footage.views.items()},
        times={name: tuple(float(time) for time in view.times) for name, view in footage.views.items()},
        sizes={name: (view.size[1], view.size[0]) for name, view in footage.views.items()},
        objects=tuple(observed),
        holds=footage.holds,
        notes=tuple(notes),
    )
    return observations, Masks.of(stacks)


def _track(view: str, result: TrackResult) -> Track:
    return Track(
        view=view,
        confidence=tuple(round(float(value), 4) for value in result.confidence),
        area=tuple(float(value) for value in result.masks.sum(axis=(1, 2))),
        lost=tuple(result.lost),
        recovered=tuple(result.recovered),
    )
