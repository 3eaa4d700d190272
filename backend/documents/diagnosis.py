"""The five questions at every event keyframe and view, and the ledger of corrections."""

from typing import ClassVar, Literal

from mjcf_export.document import Document, Record

Status = Literal["pass", "fail", "not evaluated"]
Question = Literal["difference", "camera", "placement", "contact", "appearance"]
QUESTIONS: tuple[Question, ...] = ("difference", "camera", "placement", "contact", "appearance")
FIX_ORDER: tuple[Question, ...] = ("camera", "placement", "contact", "appearance")
GATING: tuple[Question, ...] = ("camera", "placement", "contact")


class Answer(Record):
    """One question answered by a measured figure. `subject` is the body or camera it blames, if any."""

    question: Question
    status: Status
    value: float | None = None
    unit: str = ""
    threshold: float | None = None
    subject: str | None = None
    detail: str = ""


class Keyframe(Record):
    """An event's representative frame in one view."""

    event: str
    view: str
    frame: int
    time: float
    answers: tuple[Answer, ...]


class Diagnosis(Document):
    """All keyframes. Physics does not start while a gating question fails."""

    VERSION: ClassVar[int] = 1
    keyframes: tuple[Keyframe, ...] = ()

    def failures(self, question: Question | None = None) -> list[tuple[Keyframe, Answer]]:
        """Failed answers, of one question or of all, in order."""
        return [
            (frame, answer)
            for frame in self.keyframes
            for answer in frame.answers
            if answer.status == "fail" and question in (None, answer.question)
        ]

    @property
    def blocks_physics(self) -> bool:
        """Whether camera, placement or contact fails anywhere."""
        return any(answer.question in GATING for _, answer in self.failures())


class Correction(Record):
    """One row of `ledger.jsonl`: one hypothesis tried at one keyframe, and whether it was kept."""

    round: int
    event: str
    question: Question
    hypothesis: Literal["camera", "pose", "size", "contact"]
    target: str
    change: str
    before: float
    after: float
    unit: str
    kept: bool
    reason: str
