"""The reference motion and its interaction events.

Arrays in `motion.npz`, all on one clock `time` `(N,)` seconds since the demonstration's first frame:

- `<robot>/qpos` `(N, n)` arm joints; `<robot>/tcp` `(N, 4, 4)` tcp in the world; `<robot>/opening` `(N,)` metres.
- `object/<name>` `(N, 7)` position and wxyz of the body's frame in the world; NaN where unknown.
"""

from typing import ClassVar, Literal

from pydantic import Field

from mjcf_export.document import Document, Provenance, Record

Relation = Literal["approach", "contact", "grasp", "lift", "transport", "support", "containment", "release", "retract"]


class Event(Record):
    """A relation between two things that is made or broken. Times are seconds; `frames` is per view."""

    id: str
    relation: Relation
    subject: str
    object: str
    made: bool = True
    before: float
    onset: float
    after: float
    frames: dict[str, int] = {}
    robot: str | None = None
    confidence: float = Field(1.0, ge=0, le=1)
    provenance: Provenance = "estimated"


class Motion(Document):
    """What the robot and the objects did; the arrays lie in `motion.npz` beside it.

    `adapted` is set when the motion had to leave the demonstrated path, with the reason.
    """

    VERSION: ClassVar[int] = 1
    robots: tuple[str, ...] = ()
    source: Literal["recorded", "planned", "retargeted"] = "recorded"
    adapted: str | None = None
    duration: float = Field(ge=0)
    events: tuple[Event, ...] = ()
    notes: tuple[str, ...] = ()
