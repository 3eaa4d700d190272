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
from backend.documents.run import Progress, RunFolder
from backend.documents.verdict import Verdict
from mjcf_export.document import hash_files, load_arrays, save_arrays, write_atomically
from mjcf_export.errors import InputError
from mjcf_export.scene import Scene


@dataclass(frozen=True)
class Job:
    """A run folder and its options: `demonstration` (path) and `robot` (target name or path, or None)."""

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


def demonstration_hash(path: Path) -> str:
    """Hash of the user's demonstration: a folder with everything in it, or one file."""
    if not path.exists():
        raise InputError(f"{path}: no such demonstration; expected a folder with demo.json, a dataset or a video")
    return hash_files([path])


def load(job: Job, progress: Progress) -> str:
    """Read and check the user's demonstration; record it with resolved paths."""
    from backend.demos import load_demonstration, save_demonstration

    demo = load_demonstration(Path(job.options["demonstration"]))
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
    lines = "".join(json.dumps(row.model_dump()) + "\n" for row in ledger)
    write_atomically(job.run.ledger, lambda stream: stream.write(lines.encode()))
    if corrected != scene:
        corrected.save(job.run.scene)
    diagnosis.save(job.run.diagnosis)
    kept = sum(row.kept for row in ledger)
    return f"{len(diagnosis.keyframes)} keyframes, {len(diagnosis.failures())} failed answers, {kept} corrections kept"


def adapt(job: Job, progress: Progress) -> str:
    """Choose who executes the motion: the recorded robot as it moved, or a plan carried over to the target robot."""
    from backend.motion.adapt import adapt_motion

    scene = Scene.load(job.run.scene)
    motion, arrays = job.motion()
    executed = job.run.executed
    shutil.rmtree(executed.root, ignore_errors=True)
    shutil.copytree(job.run.scene_folder, executed.scene_folder)
    scene, motion, arrays = adapt_motion(
        scene, job.run.scene_folder, motion, arrays, job.options.get("robot"), progress
    )
    scene.save(executed.scene)
    save_arrays(executed.motion_arrays, arrays)
    motion.save(executed.motion)
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


def blender(job: Job, progress: Progress) -> str:
    """Build the editable Blender scene and key the native trajectory into it."""
    from backend.blender import run_blender

    executed = job.run.executed
    still = job.run.blend.with_name("still.blend")
    run_blender(["build", str(executed.scene_folder), str(still)])
    progress(0.6, "keying the native trajectory")
    run_blender(["animate", str(still), str(job.run.rollout.parent), str(job.run.blend)])
    still.unlink(missing_ok=True)
    return str(job.run.blend.name)


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
