"""What each stage of a run does: reads its documents, calls the room that owns the work, writes the results."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from backend.documents.demonstration import Demonstration
from backend.documents.diagnosis import Diagnosis
from backend.documents.motion import Motion
from backend.documents.observations import Masks, Observations
from backend.documents.run import ExecutedFolder, Progress, RunFolder
from backend.documents.verdict import Verdict
from mjcf_export.document import PARTIAL, load_arrays, save_arrays, write_atomically
from mjcf_export.scene import Scene


@dataclass(frozen=True)
class Job:
    """A run folder and its options: `demonstration` (path), `robot` (target name or path), `perception` (settings)."""

    run: RunFolder
    options: dict[str, Any]

    def demonstration(self) -> Demonstration:
        """The demonstration as the load stage recorded it."""
        from backend.demos import load_demonstration

        return load_demonstration(self.run.demo)

    def observations(self) -> tuple[Observations, Masks]:
        """What perception saw."""
        return Observations.load(self.run.observations), Masks.load(self.run.masks)

    def motion(self) -> tuple[Motion, dict[str, Any]]:
        """The reference motion and its arrays."""
        return Motion.load(self.run.motion), load_arrays(self.run.motion_arrays)


def load(job: Job, progress: Progress) -> str:
    """Read and check the user's demonstration; record it with resolved paths."""
    from backend.demos import load_demonstration, save_demonstration
    from backend.demos.models import with_known_robots

    demo = with_known_robots(load_demonstration(job.options["demonstration"]), job.options.get("robot"))
    save_demonstration(demo, job.run.demo.parent)
    return f"{demo.loader}: {len(demo.views)} views, {len(demo.robots)} robots, {len(demo.objects)} objects named"


def observe(job: Job, progress: Progress) -> str:
    """Segment and track the objects; read the robot's own measurements."""
    from backend.perception import observe as perceive

    observations, masks = perceive(job.demonstration(), progress)
    masks.save(job.run.masks)
    observations.save(job.run.observations)
    return f"{len(observations.objects)} objects followed, {len(observations.holds)} grasps measured"


def reconstruct(job: Job, progress: Progress) -> str:
    """Fit shapes and places; find events; write the scene and the reference motion."""
    from backend.reconstruct import reconstruct as fit

    observations, masks = job.observations()
    scene, motion, arrays = fit(job.demonstration(), observations, masks, job.run.scene_folder, progress)
    job.run.ledger.unlink(missing_ok=True)
    scene.save(job.run.scene)
    save_arrays(job.run.motion_arrays, arrays)
    motion.save(job.run.motion)
    return f"{len(scene.bodies)} bodies, {len(motion.events)} events"


def diagnose(job: Job, progress: Progress) -> str:
    """Answer the five questions at every event; correct the scene locally where they fail."""
    from backend.reconstruct import correct

    observations, masks = job.observations()
    motion, arrays = job.motion()
    scene = Scene.load(job.run.scene)
    corrected, diagnosis, ledger = correct(
        job.demonstration(), observations, masks, scene, job.run.scene_folder, motion, arrays, progress
    )
    _append_ledger(job.run.ledger, [json.dumps(row.model_dump()) for row in ledger])
    diagnosis.save(job.run.diagnosis)
    if corrected != scene:
        corrected.save(job.run.scene)
        save_arrays(job.run.motion_arrays, arrays)
    kept = sum(row.kept for row in ledger)
    return f"{len(diagnosis.keyframes)} keyframes, {len(diagnosis.failures())} failed answers, {kept} corrections kept"


def _append_ledger(path: Path, rows: list[str]) -> None:
    """Add the rounds of one diagnosis, unless a run that was killed before it saved its scene has added them."""
    earlier = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    if rows and earlier[-len(rows) :] == rows:
        return
    text = "".join(f"{row}\n" for row in (*earlier, *rows))
    write_atomically(path, lambda stream: stream.write(text.encode()))


def adapt(job: Job, progress: Progress) -> str:
    """Choose who executes the motion: the recorded robot as it moved, or a plan carried over to the target robot."""
    from backend.motion.adapt import adapt_motion
    from mjcf_export.files import replace_folder
    from mjcf_export.robot_carry import carry_robot

    scene = Scene.load(job.run.scene)
    motion, arrays = job.motion()
    target = job.run.executed.root
    new = ExecutedFolder(target.with_name(f"{PARTIAL}{target.name}"))
    try:
        shutil.copytree(job.run.scene_folder, new.scene_folder)
        robot = job.options.get("robot")
        if robot is not None:
            robot = carry_robot(robot, None, new.scene_folder)
        scene, motion, arrays = adapt_motion(scene, new.scene_folder, motion, arrays, robot, progress)
        scene.save(new.scene)
        save_arrays(new.motion_arrays, arrays)
        motion.save(new.motion)
        replace_folder(new.root, target)
    finally:
        shutil.rmtree(new.root, ignore_errors=True)
    return motion.adapted or "executed as recorded"


def export(job: Job, progress: Progress) -> str:
    """Write the MuJoCo model folder and refuse what the audit finds wrong."""
    from mjcf_export.audit import audit_model
    from mjcf_export.export import export_scene

    executed = job.run.executed
    export_scene(Scene.load(executed.scene), executed.scene_folder, job.run.mjcf_folder)
    findings = audit_model(job.run.mjcf)
    return "; ".join(str(finding) for finding in findings) or "audit found nothing"


def validate(job: Job, progress: Progress) -> str:
    """Execute the motion natively and judge it."""
    from backend.physics import validate as execute

    executed = job.run.executed
    _restore_friction(job.run)
    verdict = execute(
        executed.scene_folder,
        Motion.load(executed.motion),
        load_arrays(executed.motion_arrays),
        job.run.mjcf_folder,
        job.run.verdict.parent,
        progress,
        diagnosis=Diagnosis.load(job.run.diagnosis),
    )
    return "accepted" if verdict.accepted else f"rejected: {verdict.message}"


def _restore_friction(run: RunFolder) -> None:
    """Undo what an earlier validation raised, so that this one starts, and reports, from what was reconstructed."""
    from mjcf_export.export import export_scene

    scene, reconstructed = Scene.load(run.executed.scene), Scene.load(run.scene)
    before = {body.name: body for body in reconstructed.bodies}
    restored = scene
    for body in scene.bodies:
        if body.name in before and body.friction != before[body.name].friction:
            update = {"friction": before[body.name].friction, "provenance": before[body.name].provenance}
            restored = restored.replace_body(body.model_copy(update=update))
    if restored != scene:
        restored.save(run.executed.scene)
        export_scene(restored, run.executed.scene_folder, run.mjcf_folder)


def blender(job: Job, progress: Progress) -> str:
    """Build the editable Blender scene and key the native trajectory into it, or the reference where there is none."""
    from backend.blender import run_blender
    from backend.evaluate.shown_motion import write_reference_poses

    run = job.run
    command = ["build", str(run.executed.scene_folder), str(run.blend)]
    if run.rollout.exists():
        run_blender([*command, "--rollout", str(run.rollout.parent)])
        return str(run.blend.name)
    run_blender([*command, "--poses", str(write_reference_poses(run, run.blend.with_name("reference.npz")))])
    return f"{run.blend.name}, moved by the reference motion: nothing was executed"


def compare(job: Job, progress: Progress) -> str:
    """Put Real, Blender and MuJoCo side by side at the same source frames."""
    from backend.evaluate.compare import compare_run

    return compare_run(job.run, progress)


def report(job: Job, progress: Progress) -> str:
    """Write the self-contained report."""
    from backend.evaluate.report import write_report

    return write_report(job.run).name


def verdict_of(run: RunFolder) -> Verdict | None:
    """The run's verdict, if it got that far."""
    return Verdict.load(run.verdict) if run.verdict.exists() else None
