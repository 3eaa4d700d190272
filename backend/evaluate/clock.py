"""Which moment of the executed motion belongs to a source frame."""

from collections.abc import Mapping

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
        reconstructed: the reference motion, whose events name source frames.
        executed: the motion that physics ran.
        times: `(T,)` source times of each view.
    """

    def __init__(self, reconstructed: Motion, executed: Motion, times: Mapping[str, Array]) -> None:
        planned = {event.id: event for event in executed.events}
        pairs = []
        for event in reconstructed.events:
            if event.id in planned:
                pairs.append((_source_time(event, times), moment(planned[event.id])))
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


def _source_time(event: Event, times: Mapping[str, Array]) -> float:
    """The event on the source clock; its frame where the reference motion has a clock of its own."""
    own = moment(event)
    for view, frame in event.frames.items():
        stamps = times.get(view)
        if stamps is None or not 0 <= frame < len(stamps):
            continue
        interval = float(np.diff(stamps).max()) if len(stamps) > 1 else 1.0
        outside = own > stamps[-1] or own < stamps[0]
        if abs(stamps[frame] - own) > interval and not outside:
            return float(stamps[frame])
        if outside and abs(stamps[frame] - own) > 5 * interval:
            return float(stamps[frame])
    return own


def _rising(knots: Array) -> Array:
    kept: list[Array] = []
    for knot in knots:
        if not kept or (knot[0] > kept[-1][0] + 1e-9 and knot[1] > kept[-1][1] + 1e-9):
            kept.append(knot)
    return np.array(kept)
