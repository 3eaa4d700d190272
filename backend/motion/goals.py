"""Where the events say that things end up: the picks to plan when there is no robot record to follow."""

from pathlib import Path

import numpy as np

from backend.documents.motion import Event, Motion
from backend.motion.planner import Pick
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, transform
from mjcf_export.scene import Cylinder, Lathe, Scene
from mjcf_export.shapes import cavity, extents

_REST = 0.001


def picks_of(scene: Scene, scene_folder: Path, motion: Motion, arrays: dict[str, Array]) -> list[Pick]:
    """One pick per grasped body, in order of time, with the pose it comes to rest in.

    The goal is the body's tracked pose after its release; where an event says what it is then in or on, it is
    corrected to lie within that, upright, on its floor or top.

    Raises:
        InputError: no event says that anything was grasped, or a goal is unknown.
    """
    bodies = {body.name for body in scene.bodies}
    events = sorted(motion.events, key=lambda event: event.onset)
    picks: list[Pick] = []
    stands = {body.name: body.pose.matrix for body in scene.bodies}
    for index, event in enumerate(events):
        if event.relation != "grasp" or not event.made:
            continue
        name = next((part for part in (event.subject, event.object) if part in bodies), None)
        if name is None:
            continue
        later = events[index + 1 :]
        again = next(
            (e.onset for e in later if e.relation == "grasp" and e.made and name in {e.subject, e.object}), None
        )
        made = [e for e in later if e.made and e.subject == name and (again is None or e.onset < again)]
        goal = _goal(scene, scene_folder, name, made, arrays, stands)
        picks.append(goal)
        stands[name] = goal.goal
    if not picks:
        raise InputError(
            "the motion has no grasp event, so there is nothing to plan; name the moved object in a prompt"
        )
    return picks


def _goal(
    scene: Scene,
    scene_folder: Path,
    name: str,
    made: list[Event],
    arrays: dict[str, Array],
    stands: dict[str, Array],
) -> Pick:
    tracked = _last_pose(name, made, arrays)
    into = next((e.object for e in reversed(made) if e.relation == "containment" and e.object in stands), None)
    onto = next((e.object for e in reversed(made) if e.relation == "support" and e.object in stands), None)
    turns = isinstance(scene.body(name).shape, Cylinder | Lathe)
    target = into or onto
    if tracked is None and target is None:
        raise InputError(f"body {name}: nothing says where it ends up; track it to the last frame or state the goal")
    if tracked is None and target is not None:
        tracked = stands[name].copy()
        tracked[:3, 3] = stands[target][:3, 3]
    assert tracked is not None
    goal = tracked.copy()
    if into is not None:
        hollow = cavity(scene.body(into).shape, scene_folder)
        if hollow is not None:
            goal = _within(scene, scene_folder, name, tracked, stands[into] @ transform((*hollow.centre, hollow.floor)))
            return Pick(name, _limited(goal, scene, scene_folder, (name, into), stands[into]), into, True, True)
    if onto is not None:
        goal[2, 3] = stands[onto][2, 3] + float(extents(scene.body(onto).shape, scene_folder)[2])
        if not scene.body(onto).static:
            width = float(extents(scene.body(onto).shape, scene_folder)[:2].min())
            goal[:2, 3] = _towards(goal[:2, 3], stands[onto][:2, 3], 0.3 * width)
    goal[2, 3] += _REST if onto is None else 0.0
    return Pick(name, goal, target, False, turns)


def _last_pose(name: str, made: list[Event], arrays: dict[str, Array]) -> Array | None:
    """The body's pose at the last tracked moment of this placing."""
    track = arrays.get(f"object/{name}")
    if track is None:
        return None
    known = np.isfinite(track).all(axis=1)
    ends = [event.after for event in made]
    if ends:
        time = np.asarray(arrays["time"], dtype=np.float64)
        limited = known & (time <= max(ends) + 1e-6)
        known = limited if limited.any() else known
    rows = np.flatnonzero(known)
    return transform(track[rows[-1], :3], track[rows[-1], 3:]) if len(rows) else None


def _within(scene: Scene, scene_folder: Path, name: str, tracked: Array, floor: Array) -> Array:
    """The body on a cavity's floor, as upright as it started."""
    goal = scene.body(name).pose.matrix.copy()
    goal[:2, 3] = tracked[:2, 3]
    lowest = _lowest(scene, scene_folder, name, goal)
    goal[2, 3] += float(floor[2, 3]) - lowest
    return goal


def _lowest(scene: Scene, scene_folder: Path, name: str, pose: Array) -> float:
    size = extents(scene.body(name).shape, scene_folder)
    corners = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (0.0, 1.0)]) * size
    return float((corners @ pose[:3, :3].T + pose[:3, 3])[:, 2].min())


def _limited(goal: Array, scene: Scene, scene_folder: Path, names: tuple[str, str], container: Array) -> Array:
    """The goal moved sideways so that the body fits between the cavity's walls."""
    name, into = names
    hollow = cavity(scene.body(into).shape, scene_folder)
    if hollow is None:
        return goal
    size = extents(scene.body(name).shape, scene_folder)
    centre = (container @ np.array([*hollow.centre, 0.0, 1.0]))[:2]
    room = max(0.0, min(hollow.opening) - float(np.linalg.norm(size[:2])) / 2 - 0.004)
    limited = goal.copy()
    limited[:2, 3] = _towards(goal[:2, 3], centre, room)
    return limited


def _towards(point: Array, centre: Array, limit: float) -> Array:
    """`point`, at most `limit` metres from `centre`."""
    offset = point - centre
    length = float(np.linalg.norm(offset))
    moved: Array = point if length <= limit else centre + offset * (limit / length)
    return moved
