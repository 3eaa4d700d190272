"""Native validation of an exported scene: correct contact where needed, then judge a fresh run from the disk."""

from pathlib import Path

import numpy as np

from backend.documents.diagnosis import Diagnosis
from backend.documents.motion import Motion
from backend.documents.run import Progress
from backend.documents.verdict import Check, Criteria, Verdict
from backend.motion.kinematics import Kinematics
from backend.motion.world import World
from backend.physics.correct import Corrected, correct_motion
from backend.physics.final import CORRECTED, run_fresh, save_inputs
from mjcf_export.export import export_scene
from mjcf_export.frames import Array
from mjcf_export.scene import SCENE_FILE, Scene


def validate(
    scene_folder: Path,
    motion: Motion,
    arrays: dict[str, Array],
    mjcf_folder: Path,
    out: Path,
    progress: Progress,
    *,
    criteria: Criteria | None = None,
    diagnosis: Diagnosis | None = None,
    corrections: bool = True,
) -> Verdict:
    """Execute `motion` in the exported scene by actuators, friction and gravity alone, and judge it.

    Writes `criteria.json`, `executed.json` and `.npz` (the motion with its corrections), `controls.npz`,
    `rollout.json` and `.npz`, and `verdict.json` into `out`. When friction has to be raised, the scene and its export
    are written again with it, so that the verdict is bound to the model it was reached on.

    Args:
        scene_folder: holds `scene.json`.
        motion: what to execute.
        arrays: its arrays.
        mjcf_folder: the scene's export.
        out: folder for the rollout.
        progress: called with the fraction done and a message.
        criteria: thresholds and predicates; the defaults with the scene's task when None.
        diagnosis: physics does not start while it blocks.
        corrections: whether contact may be corrected.

    Raises:
        InputError: the scene, the export or the motion cannot be used.
    """
    out.mkdir(parents=True, exist_ok=True)
    scene = Scene.load(scene_folder / SCENE_FILE)
    if criteria is None:
        criteria = Criteria(predicates=scene.task.predicates)
    if diagnosis is not None and diagnosis.blocks_physics:
        return _blocked(diagnosis, out, criteria)
    progress(0.0, "settling and executing")
    world = World.load(scene_folder, mjcf_folder)
    corrected = correct_motion(world, motion, arrays, criteria, progress, corrections)
    if corrected.attempt.friction:
        _write_friction(scene, scene_folder, mjcf_folder, corrected.attempt.friction)
    executed = _executed(world, motion, arrays, corrected, criteria)
    save_inputs(out, executed, corrected.attempt.arrays, corrected.controls, criteria)
    progress(0.85, "final run from the files on disk")
    verdict = run_fresh(scene_folder, mjcf_folder, out)
    progress(1.0, "accepted" if verdict.accepted else f"rejected: {verdict.message}")
    return verdict


def _executed(
    world: World, motion: Motion, arrays: dict[str, Array], corrected: Corrected, criteria: Criteria
) -> Motion:
    """The motion as executed: its corrections noted, and adapted when it left the demonstrated path."""
    notes = tuple(CORRECTED + note for note in corrected.attempt.notes)
    away = 0.0
    for item in world.scene.robots:
        name = f"{item.name}/qpos"
        if item.name in motion.robots and not np.array_equal(arrays[name], corrected.attempt.arrays[name]):
            arm = Kinematics(world.robots[item.name].robot, base=item.base.matrix)
            moved = arm.tcp(corrected.attempt.arrays[name])[:, :3, 3] - arm.tcp(arrays[name])[:, :3, 3]
            away = max(away, float(np.linalg.norm(moved, axis=1).max()))
    adapted = motion.adapted
    if away > criteria.tcp_error and adapted is None:
        adapted = f"contact corrections left the demonstrated path by {away * 1000:.0f} mm"
    return motion.model_copy(update={"notes": (*motion.notes, *notes), "adapted": adapted})


def _write_friction(scene: Scene, scene_folder: Path, mjcf_folder: Path, friction: dict[str, float]) -> None:
    for name, value in friction.items():
        body = scene.body(name)
        provenance = {**body.provenance, "friction": "calibrated"}
        scene = scene.replace_body(body.model_copy(update={"friction": value, "provenance": provenance}))
    scene.save(scene_folder / SCENE_FILE)
    export_scene(scene, scene_folder, mjcf_folder)


def _blocked(diagnosis: Diagnosis, out: Path, criteria: Criteria) -> Verdict:
    """The verdict when the diagnosis forbids physics."""
    checks = tuple(
        Check(
            name=f"diagnosis {answer.question} at {frame.event} in {frame.view}",
            stage="settle",
            status="fail",
            value=answer.value,
            unit=answer.unit,
            threshold=answer.threshold,
            detail=answer.detail,
        )
        for frame, answer in diagnosis.failures()
        if answer.question in {"camera", "placement", "contact"}
    )
    criteria.save(out / "criteria.json")
    for name in ("rollout.json", "rollout.npz"):
        (out / name).unlink(missing_ok=True)
    message = f"not executed: the diagnosis fails at {len(checks)} points, first {checks[0].name} ({checks[0].detail})"
    verdict = Verdict(accepted=False, checks=checks, message=message)
    verdict.save(out / "verdict.json")
    return verdict
