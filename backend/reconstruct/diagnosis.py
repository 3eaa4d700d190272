"""The diagnosis: the five questions at every event keyframe in every view that has a camera."""

from collections.abc import Mapping
from pathlib import Path

from backend.documents.demonstration import Demonstration
from backend.documents.diagnosis import Answer, Diagnosis, Keyframe
from backend.documents.motion import Motion
from backend.documents.observations import Masks, Observations
from backend.documents.run import Progress
from backend.reconstruct import questions
from backend.reconstruct.case import Case
from backend.reconstruct.questions import Frame
from backend.reconstruct.stage import Stage
from mjcf_export.frames import Array
from mjcf_export.scene import Scene


def diagnose(
    demo: Demonstration,
    observations: Observations,
    masks: Masks,
    scene: Scene,
    scene_folder: Path,
    motion: Motion,
    arrays: Mapping[str, Array],
    progress: Progress,
) -> Diagnosis:
    """Answer the five questions at every event keyframe and view.

    Args:
        demo: the demonstration.
        observations: what perception saw.
        masks: its masks.
        scene: the reconstruction.
        scene_folder: where its meshes and textures lie.
        motion: the reference motion with its events.
        arrays: the motion's arrays.
        progress: called with the fraction done.
    """
    case = Case.of(demo, observations, masks, scene, scene_folder, motion, arrays)
    return examine(case, progress)


def examine(case: Case, progress: Progress) -> Diagnosis:
    """The diagnosis of a case that is already loaded."""
    keyframes = case.keyframes()
    frames: list[tuple[Frame, list[Answer]]] = []
    with Stage(case.scene, case.folder) as stage:
        for number, (event, view, index, time) in enumerate(keyframes):
            progress(number / max(len(keyframes), 1), f"{event.id} in {view}")
            lens = case.lens(view)
            questions.pose_stage(case, stage, time)
            shot = stage.draw(lens, colour=True, depth=True)
            frame = Frame(event, view, index, time, lens, shot, case.pictures.frame(view, index))
            for body in case.objects():
                miss = questions.miss_of(case, body, frame)
                if miss is not None:
                    frame.misses[body.name] = miss
            answers = [
                questions.difference(case, stage, frame),
                questions.camera(case, stage, frame),
                questions.contact(case, stage, frame),
                questions.appearance(case, stage, frame),
            ]
            frames.append((frame, answers))
    grown = questions.inflations(case, [frame for frame, _ in frames])
    result = []
    for frame, answers in frames:
        answers.insert(2, questions.placement(case, frame, grown))
        result.append(
            Keyframe(event=frame.event.id, view=frame.view, frame=frame.index, time=frame.time, answers=tuple(answers))
        )
    if not result:
        result = [
            Keyframe(event="start", view=lens.name, frame=0, time=0.0, answers=(questions.absence(name),))
            for name in case.missing()
            for lens in case.lenses[:1]
        ]
    progress(1.0, f"{len(result)} keyframes")
    return Diagnosis(keyframes=tuple(result))
