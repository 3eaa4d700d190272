"""The local correction loop: one hypothesis a round, in the order of fixing, kept only when it measures better."""

from collections.abc import Callable
from pathlib import Path

from backend.documents.demonstration import Demonstration
from backend.documents.diagnosis import FIX_ORDER, Answer, Correction, Diagnosis, Keyframe, Question
from backend.documents.motion import Motion
from backend.documents.observations import Masks, Observations
from backend.documents.run import Progress, part_of, unseen
from backend.reconstruct import hypotheses
from backend.reconstruct.case import Case
from backend.reconstruct.diagnosis import examine
from backend.reconstruct.hypotheses import Change
from mjcf_export.frames import Array
from mjcf_export.scene import Scene

ROUNDS = 10
BETTER = 0.95
"""A figure has improved when it falls below this share of what it was."""
Tried = tuple[str, str]
Hypothesis = tuple[str, Callable[[Case, str, str], Change | None]]
HYPOTHESES: dict[Question, tuple[Hypothesis, ...]] = {
    "camera": (("camera", lambda case, subject, _: hypotheses.move_camera(case, subject)),),
    "placement": (
        ("pose", lambda case, subject, _: hypotheses.move_object(case, subject)),
        ("size", lambda case, subject, _: hypotheses.resize_object(case, subject)),
    ),
    "contact": (("contact", hypotheses.touch),),
}


def correct(
    demo: Demonstration,
    observations: Observations,
    masks: Masks,
    scene: Scene,
    scene_folder: Path,
    motion: Motion,
    arrays: dict[str, Array],
    progress: Progress,
) -> tuple[Scene, Diagnosis, list[Correction]]:
    """Diagnose, and correct locally until nothing more improves.

    `arrays` is updated in place where a kept correction moves an object's track.

    Args:
        demo: the demonstration.
        observations: what perception saw.
        masks: its masks.
        scene: the reconstruction.
        scene_folder: where its meshes and textures lie.
        motion: the reference motion with its events.
        arrays: the motion's arrays.
        progress: called with the fraction done.

    Returns:
        The corrected scene, its diagnosis, and every round that was tried, kept or not.
    """
    case = Case.of(demo, observations, masks, scene, scene_folder, motion, arrays)
    diagnosis = examine(case, part_of(progress, 0.0, 0.4))
    case, diagnosis, ledger = corrected(case, diagnosis, part_of(progress, 0.4, 0.95))
    arrays.update(case.arrays)
    progress(1.0, f"{sum(row.kept for row in ledger)} of {len(ledger)} corrections kept")
    return case.scene, diagnosis, ledger


def corrected(case: Case, diagnosis: Diagnosis, progress: Progress) -> tuple[Case, Diagnosis, list[Correction]]:
    """The case after the loop, its diagnosis and every round tried, from a case and its diagnosis."""
    ledger: list[Correction] = []
    tried: set[Tried] = set()
    while len(ledger) < ROUNDS:
        chosen = _next(diagnosis, tried)
        if chosen is None:
            break
        question, frame, answer, (kind, hypothesis) = chosen
        subject = answer.subject or ""
        tried.add((kind, subject))
        progress(len(ledger) / ROUNDS, f"{kind} of {subject}")
        change = None if subject in case.missing() else hypothesis(case, subject, frame.event)
        if change is None:
            continue
        trial = case.with_scene(change.scene, change.arrays)
        after = examine(trial, unseen)
        row = judge(len(ledger) + 1, question, frame, subject, (kind, change.text), (diagnosis, after))
        ledger.append(row)
        if row.kept:
            case, diagnosis = trial, after
            tried = {item for item in tried if item[1] != subject or item[0] == kind}
    return case, diagnosis, ledger


def _next(diagnosis: Diagnosis, tried: set[Tried]) -> tuple[Question, Keyframe, Answer, Hypothesis] | None:
    """The first failed question in the order of fixing that has a hypothesis left, at its worst keyframe."""
    for question in FIX_ORDER:
        failures = sorted(diagnosis.failures(question), key=lambda item: -severity(item[1]))
        for frame, answer in failures:
            for hypothesis in HYPOTHESES.get(question, ()):
                if answer.subject is not None and (hypothesis[0], answer.subject) not in tried:
                    return question, frame, answer, hypothesis
    return None


def severity(answer: Answer) -> float:
    """How far a figure lies beyond its threshold."""
    if answer.value is None or not answer.threshold:
        return 0.0
    return abs(answer.value) / abs(answer.threshold)


def figure(diagnosis: Diagnosis, question: Question, subject: str) -> float:
    """The sum over keyframes and views of a question's figure about one subject."""
    return float(
        sum(
            abs(answer.value)
            for frame in diagnosis.keyframes
            for answer in frame.answers
            if answer.question == question and answer.value is not None and answer.subject == subject
            and answer.status == "fail"
        )
    )  # fmt: skip


def broken(before: Diagnosis, after: Diagnosis) -> list[str]:
    """Answers that passed before and fail now."""
    passed = {
        (frame.event, frame.view, answer.question)
        for frame in before.keyframes
        for answer in frame.answers
        if answer.status == "pass" and answer.question in FIX_ORDER
    }
    return [
        f"{answer.question} at {frame.event} in {frame.view}"
        for frame, answer in after.failures()
        if (frame.event, frame.view, answer.question) in passed
    ]


def judge(
    number: int,
    question: Question,
    frame: Keyframe,
    subject: str,
    change: tuple[str, str],
    diagnoses: tuple[Diagnosis, Diagnosis],
) -> Correction:
    """The ledger's row: kept when the figure improves and nothing that passed fails."""
    before, after = (figure(diagnosis, question, subject) for diagnosis in diagnoses)
    worse = broken(*diagnoses)
    improved = after <= BETTER * before
    if not improved:
        reason = "the figure did not improve"
    elif worse:
        reason = f"now fails: {', '.join(worse[:3])}"
    else:
        reason = "improved, and nothing that passed fails"
    unit = next(a.unit for a in frame.answers if a.question == question)
    return Correction(
        round=number, event=frame.event, question=question, hypothesis=change[0], target=subject,
        change=change[1], before=round(before, 3), after=round(after, 3), unit=unit, kept=improved and not worse,
        reason=reason,
    )  # fmt: skip


def blamed(diagnosis: Diagnosis) -> tuple[Question, str | None] | None:
    """The first question that fails, in the order of fixing, and its subject; None when nothing does."""
    for question in FIX_ORDER:
        failures = sorted(diagnosis.failures(question), key=lambda item: -severity(item[1]))
        if failures:
            return question, failures[0][1].subject
    return None
