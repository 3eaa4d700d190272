"""Interaction events from the robot's record and the object tracks: relations made and broken."""

from collections.abc import Mapping, Sequence

import numpy as np

from backend.documents.motion import Event
from backend.reconstruct.metrology import Grip
from backend.reconstruct.placement import Fitted
from backend.reconstruct.tracks import FALL
from mjcf_export.frames import Array

NEAR = 0.10
"""An approach begins when the tcp comes this near to where it grasps (metres)."""
LIFTED = 0.01
"""An object has left its support when it rose this far (metres)."""
RETRACTED = 0.08
PAD = 0.3
"""Seconds of `before` and `after` around an onset."""


def find_events(
    objects: Sequence[Fitted],
    arrays: Mapping[str, Array],
    frame_times: Mapping[str, Array],
    cavities: Mapping[str, bool],
) -> tuple[Event, ...]:
    """Every event of every hold, in order of onset.

    Args:
        objects: the reconstructed objects with their holds.
        arrays: the arrays of the Motion document.
        frame_times: times `(T,)` of each view's frames.
        cavities: whether each body has a cavity.
    """
    events: list[Event] = []
    for fitted in objects:
        for index, grip in enumerate(fitted.grips):
            events.extend(_hold_events(fitted, index, grip, arrays, cavities))
    events.sort(key=lambda event: event.onset)
    return tuple(
        event.model_copy(update={"id": f"e{number}_{event.relation}", "frames": _frames(event, frame_times)})
        for number, event in enumerate(events)
    )


def _hold_events(
    fitted: Fitted, index: int, grip: Grip, arrays: Mapping[str, Array], cavities: Mapping[str, bool]
) -> list[Event]:
    hold, time = grip.hold, arrays["time"]
    track = arrays[f"object/{fitted.name}"]
    end = float(time[-1])
    under, over = fitted.supports[index], fitted.supports[min(index + 1, len(fitted.supports) - 1)]
    placed = min(hold.release + FALL, end)
    shared = {"subject": fitted.name, "robot": hold.robot, "provenance": "measured"}

    def event(relation: str, onset: float, before: float, after: float, other: str, made: bool = True) -> Event:
        return Event(
            id=relation, relation=relation, object=other, made=made,
            before=max(0.0, min(before, onset)), onset=onset, after=min(end, max(after, onset)),
            **shared,
        )  # fmt: skip

    found = [
        event(
            "approach", _approach(hold.robot, grip, arrays), hold.close_start - 2 * PAD, hold.close_start, hold.robot
        ),
        event("grasp", hold.grasp, hold.close_start, hold.grasp + PAD, hold.robot),
    ]
    lifted = _first(time, (time > hold.grasp) & (track[:, 2] > fitted.poses[index][2, 3] + LIFTED))
    if lifted is not None and lifted < hold.release:
        found.append(event("lift", lifted, hold.grasp, lifted + PAD, under, made=False))
    found.append(event("release", hold.release, hold.release - PAD, hold.open_end, hold.robot, made=False))
    settled = max(placed, min(hold.open_end, end))
    found.append(event("support", placed, hold.release - PAD, settled + PAD, over))
    if cavities.get(over, False):
        found.append(event("containment", placed, hold.release - PAD, settled + PAD, over))
    away = _retreat(hold.robot, grip, arrays)
    if away is not None:
        found.append(event("retract", away, hold.open_end, away + PAD, hold.robot, made=False))
    return found


def _approach(robot: str, grip: Grip, arrays: Mapping[str, Array]) -> float:
    time = arrays["time"]
    if f"{robot}/tcp" not in arrays:
        return max(0.0, grip.hold.close_start - 2 * PAD)
    far = np.linalg.norm(arrays[f"{robot}/tcp"][:, :3, 3] - grip.grasp[:3, 3], axis=1) > NEAR
    earlier = np.flatnonzero(far & (time < grip.hold.close_start))
    return float(time[earlier[-1]]) if len(earlier) else float(time[0])


def _retreat(robot: str, grip: Grip, arrays: Mapping[str, Array]) -> float | None:
    if f"{robot}/tcp" not in arrays:
        return None
    time = arrays["time"]
    far = np.linalg.norm(arrays[f"{robot}/tcp"][:, :3, 3] - grip.release[:3, 3], axis=1) > RETRACTED
    return _first(time, far & (time > grip.hold.release))


def _first(time: Array, wanted: Array) -> float | None:
    where = np.flatnonzero(wanted)
    return float(time[where[0]]) if len(where) else None


def _frames(event: Event, frame_times: Mapping[str, Array]) -> dict[str, int]:
    """The representative frame of each view: nearest the onset, or the first one after what hands hide was made."""
    if event.relation not in {"support", "containment", "release"}:
        return {view: int(np.argmin(np.abs(times - event.onset))) for view, times in frame_times.items()}
    return {
        view: min(int(np.searchsorted(times, event.after - 1e-6)), len(times) - 1)
        for view, times in frame_times.items()
    }
