"""The task's success predicates, derived from how the demonstration ended unless the user states them."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from backend.documents.demonstration import Demonstration
from backend.reconstruct.placement import Fitted
from mjcf_export.frames import Array
from mjcf_export.scene import Predicate, Task
from mjcf_export.shapes import cavity, extents

LIFT_SHARE = 0.5
CARRY_SHARE = 0.5
MAX_TILT = 0.35
RETRACT = 0.05


def task_of(demo: Demonstration, objects: Sequence[Fitted], arrays: Mapping[str, Array]) -> Task:
    """The task: the user's predicates, else the final relations of everything that was carried."""
    if demo.predicates:
        return Task(text=demo.task, predicates=demo.predicates)
    shapes = {fitted.name: fitted for fitted in objects}
    predicates: list[Predicate] = []
    for fitted in objects:
        if len(fitted.poses) < 2:
            continue
        name, host = fitted.name, shapes.get(fitted.supports[-1])
        inside = host is not None and fits_inside(fitted, host)
        predicates.append(Predicate(name="inside" if inside else "on", args=(name, fitted.supports[-1])))
        track = arrays[f"object/{name}"]
        rise = float(np.nanmax(track[:, 2]) - track[0, 2])
        if rise > 0.02:
            predicates.append(Predicate(name="lifted", args=(name, round(max(0.01, LIFT_SHARE * rise), 3))))
        way = float(np.linalg.norm(fitted.final[:2, 3] - fitted.initial[:2, 3]))
        if way > 0.03:
            predicates.append(Predicate(name="carried", args=(name, round(CARRY_SHARE * way, 3))))
        standing = fitted.candidate.family.turned and not inside
        if standing:
            predicates.append(Predicate(name="upright", args=(name, MAX_TILT)))
        predicates.append(Predicate(name="released", args=(name,)))
        predicates.append(Predicate(name="stable", args=(name,)))
    retreat = _retreat(objects, arrays)
    if retreat is not None and retreat > RETRACT:
        predicates.append(Predicate(name="retracted", args=(RETRACT,)))
    return Task(text=demo.task, predicates=tuple(predicates))


def fits_inside(fitted: Fitted, host: Fitted) -> bool:
    """Whether the whole extent of a body lies within the cavity of its host at the end."""
    room = cavity(host.shape)
    if room is None:
        return False
    size = extents(fitted.shape, Path())
    bottom = float(fitted.final[2, 3] - host.final[2, 3])
    return bottom >= room.floor - 0.004 and bottom + float(size[2]) <= room.rim + 0.003


def _retreat(objects: Sequence[Fitted], arrays: Mapping[str, Array]) -> float | None:
    """How far the tcp ended from its last release, metres."""
    grips = [grip for fitted in objects for grip in fitted.grips]
    if not grips:
        return None
    last = max(grips, key=lambda grip: grip.hold.release)
    path = arrays.get(f"{last.hold.robot}/tcp")
    return None if path is None else float(np.linalg.norm(path[-1, :3, 3] - last.release[:3, 3]))
