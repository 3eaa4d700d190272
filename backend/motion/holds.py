"""The holds of a motion: which robot held which body, from when to when, and how wide."""

from dataclasses import dataclass

import numpy as np

from backend.documents.motion import Event, Motion
from backend.motion.trajectories import resample
from mjcf_export.frames import Array

_OPENED = 0.003
"""A gripper this much (m) wider than the hold has begun to let go."""


@dataclass(frozen=True)
class Hold:
    """One body held by one robot. Times in seconds on the motion's clock; `width` in metres between the pads."""

    robot: str
    body: str
    close_start: float
    grasp: float
    held: float
    release: float
    open_end: float
    width: float | None

    @property
    def label(self) -> str:
        """How messages call it."""
        return f"{self.robot} holds {self.body}"


def motion_holds(motion: Motion, arrays: dict[str, Array], bodies: set[str]) -> list[Hold]:
    """Holds in order of time, from grasp events and the releases that follow them.

    A grasp without a release lasts to the end of the motion. Where the recorded opening is known, the moment of
    release is when the gripper really begins to open.

    Args:
        motion: the events.
        arrays: `time` and `<robot>/opening`.
        bodies: names of the scene's bodies.
    """
    holds = []
    events = sorted(motion.events, key=lambda event: event.onset)
    for index, event in enumerate(events):
        if event.relation != "grasp" or not event.made:
            continue
        body, robot = _parties(event, motion, bodies)
        if body is None or robot is None:
            continue
        release = next((item for item in events[index + 1 :] if _ends(item, body, robot, motion, bodies)), None)
        holds.append(_hold(motion, arrays, event, release, (robot, body)))
    return holds


def _parties(event: Event, motion: Motion, bodies: set[str]) -> tuple[str | None, str | None]:
    body = next((name for name in (event.subject, event.object) if name in bodies), None)
    named = [name for name in (event.robot, event.subject, event.object) if name in motion.robots]
    robot = named[0] if named else (motion.robots[0] if len(motion.robots) == 1 else None)
    return body, robot


def _ends(event: Event, body: str, robot: str, motion: Motion, bodies: set[str]) -> bool:
    ends = event.relation == "release" or (event.relation == "grasp" and not event.made)
    return ends and _parties(event, motion, bodies) == (body, robot)


def _hold(
    motion: Motion, arrays: dict[str, Array], grasp: Event, release: Event | None, parties: tuple[str, str]
) -> Hold:
    robot, body = parties
    end = motion.duration
    begins, ends = (release.before, release.after) if release is not None else (end, end)
    onset = release.onset if release is not None else end
    width = None
    opening = arrays.get(f"{robot}/opening")
    if opening is not None:
        time = np.asarray(arrays["time"], dtype=np.float64)
        settled = (time >= grasp.after) & (time <= max(begins, grasp.after))
        samples = opening[settled] if settled.any() else resample(time, opening, np.array([grasp.after]))
        width = float(np.median(samples))
        wider = np.flatnonzero((time > grasp.after) & (time <= max(ends, onset)) & (opening > width + _OPENED))
        if len(wider) and release is not None:
            begins = float(time[max(int(wider[0]) - 1, 0)])
    begins = max(begins, grasp.after)
    return Hold(
        robot=robot,
        body=body,
        close_start=min(grasp.before, grasp.onset),
        grasp=grasp.onset,
        held=max(grasp.after, grasp.onset),
        release=begins,
        open_end=max(ends, begins),
        width=width,
    )
