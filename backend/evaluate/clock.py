"""Which moment of the executed motion belongs to a source frame."""

import numpy as np

from backend.documents.motion import Event, Motion
from mjcf_export.frames import Array

_LATE = ("support", "containment", "release")


def moment(event: Event) -> float:
    """When an event's representative frame was taken: at the onset, or after it where hands hide what was made."""
    return event.after if event.relation in _LATE else event.onset


class SourceClock:
    """Motion time of source times.

    A motion that kept the demonstration's clock is shown at the same time. One that was planned again or re-timed
    is shown so that its events meet those of the video, linearly between them.

    Args:
        reconstructed: the reference motion, on the demonstration's clock.
        executed: the motion that physics ran.
    """

    def __init__(self, reconstructed: Motion, executed: Motion) -> None:
        planned = _moments(executed)
        pairs = [(time, planned[key]) for key, time in _moments(reconstructed).items() if key in planned]
        if not pairs and executed.source != "recorded":
            pairs = [(0.0, 0.0), (reconstructed.duration, executed.duration)]
        knots = np.array(sorted(pairs)).reshape(-1, 2)
        self.kept = bool(not len(knots) or np.abs(knots[:, 0] - knots[:, 1]).max() < 1e-3)
        self._knots = np.zeros((0, 2)) if self.kept else _rising(knots)

    def motion_time(self, time: float) -> float:
        """The motion's time for a source time, both in seconds."""
        if self.kept or not len(self._knots):
            return time
        source, motion = self._knots[:, 0], self._knots[:, 1]
        if time <= source[0]:
            return max(0.0, float(motion[0] - (source[0] - time)))
        if time >= source[-1]:
            return float(motion[-1] + (time - source[-1]))
        return float(np.interp(time, source, motion))


def _moments(motion: Motion) -> dict[tuple[str, str, int], float]:
    """The moment of each event by its relation, the body it is about, and how often that has happened before.

    Planned events have other ids, and may name the robot where the demonstration's name a body.
    """
    found: dict[tuple[str, str, int], float] = {}
    for event in sorted(motion.events, key=moment):
        body = event.object if event.subject in (event.robot, *motion.robots) else event.subject
        count = sum(key[:2] == (event.relation, body) for key in found)
        found[event.relation, body, count] = moment(event)
    return found


def _rising(knots: Array) -> Array:
    kept: list[Array] = []
    for knot in knots:
        if not kept or (knot[0] > kept[-1][0] + 1e-9 and knot[1] > kept[-1][1] + 1e-9):
            kept.append(knot)
    return np.array(kept)
