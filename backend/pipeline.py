"""The stages of a run, in order: each reruns only when its inputs, parameters or code changed."""

import hashlib
import json
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from backend import stages
from backend.documents.run import Progress, RunFolder, RunRecord, StageRecord
from mjcf_export.document import hash_files
from mjcf_export.errors import InputError, Real2GymError

PACKAGE_ROOT = Path(__file__).resolve().parent.parent
StageProgress = Callable[[str, float, str], None]
"""Called with the stage's name, the fraction done and a message."""


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    Attributes:
        name: as `run.json` and the command line call it.
        work: does the step; returns its parameters' worth of notes for the record.
        inputs: the documents it reads, some of which may not exist.
        outputs: what must exist afterwards.
        rooms: source folders whose change makes the step run again.
        options: names of the run's options that it depends on.
    """

    name: str
    work: Callable[[stages.Job, Progress], str]
    inputs: Callable[[RunFolder], Iterable[Path]]
    outputs: Callable[[RunFolder], Iterable[Path]]
    rooms: tuple[str, ...]
    options: tuple[str, ...] = ()


STAGES: tuple[Stage, ...] = (
    Stage("load", stages.load, lambda run: (), lambda run: (run.demo,), ("backend/demos",), ("demonstration",)),
    Stage(
        "observe",
        stages.observe,
        lambda run: (run.demo,),
        lambda run: (run.observations, run.masks),
        ("backend/perception", "backend/demos"),
        ("demonstration",),
    ),
    Stage(
        "reconstruct",
        stages.reconstruct,
        lambda run: (run.demo, run.observations, run.masks),
        lambda run: (run.scene, run.motion, run.motion_arrays),
        ("backend/reconstruct", "mjcf_export"),
    ),
    Stage(
        "diagnose",
        stages.diagnose,
        lambda run: (run.demo, run.observations, run.masks, run.scene_folder, run.motion, run.motion_arrays),
        lambda run: (run.diagnosis,),
        ("backend/reconstruct",),
    ),
    Stage(
        "adapt",
        stages.adapt,
        lambda run: (run.scene_folder, run.motion, run.motion_arrays),
        lambda run: (run.executed.scene, run.executed.motion),
        ("backend/motion", "mjcf_export"),
        ("robot",),
    ),
    Stage(
        "export",
        stages.export,
        lambda run: (run.executed.scene_folder,),
        lambda run: (run.mjcf,),
        ("mjcf_export",),
    ),
    Stage(
        "validate",
        stages.validate,
        lambda run: (run.executed.root, run.mjcf_folder, run.diagnosis),
        lambda run: (run.verdict, run.rollout, run.rollout_arrays),
        ("backend/physics", "backend/motion"),
    ),
    Stage(
        "blender",
        stages.blender,
        lambda run: (run.executed.scene_folder, run.rollout, run.rollout_arrays),
        lambda run: (run.blend,),
        ("blender_addon",),
    ),
    Stage(
        "compare",
        stages.compare,
        lambda run: (run.demo, run.blend, run.mjcf_folder, run.rollout_arrays),
        lambda run: (run.compare,),
        ("backend/evaluate", "blender_addon"),
    ),
    Stage(
        "report",
        stages.report,
        lambda run: (run.verdict, run.compare, run.diagnosis, run.observations),
        lambda run: (run.report,),
        ("backend/evaluate",),
    ),
)
STAGE_NAMES = tuple(stage.name for stage in STAGES)


@dataclass
class Pipeline:
    """A run folder and the options its stages take."""

    run: RunFolder
    options: dict[str, Any] = field(default_factory=dict)

    def execute(self, until: str, progress: StageProgress, *, only: str | None = None) -> list[str]:
        """Run every stage up to `until` that is not up to date; with `only`, that stage is run in any case.

        Returns:
            Names of the stages that ran.

        Raises:
            InputError: the run folder is in use, or of another version.
            Real2GymError: a stage's own error; its state is recorded as failed, earlier results stay.
        """
        self.run.root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self.run.root / ".lock")
        try:
            with lock.acquire(timeout=0):
                return self._execute(until, progress, only)
        except Timeout as error:
            raise InputError(f"{self.run.root}: another process is working in this run folder; wait for it") from error

    def _execute(self, until: str, progress: StageProgress, only: str | None) -> list[str]:
        record = RunRecord.load(self.run.record) if self.run.record.exists() else RunRecord()
        record.tools = tool_versions()
        demonstration = self.options.get("demonstration") or record.demonstration
        if not demonstration:
            raise InputError(
                f"{self.run.root}: not a run folder; start it with `real2gym run DEMO --out {self.run.root}`"
            )
        record.demonstration = str(demonstration)
        options = {"robot": record.robot, **self.options, "demonstration": record.demonstration}
        record.robot = options["robot"]
        job = stages.Job(self.run, options)
        ran = []
        for stage in STAGES[: STAGE_NAMES.index(until) + 1]:
            if stage.name == only or not self._fresh(stage, record, job):
                self._run_stage(stage, record, job, progress)
                ran.append(stage.name)
            else:
                progress(stage.name, 1.0, "up to date")
        return ran

    def _fresh(self, stage: Stage, record: RunRecord, job: stages.Job) -> bool:
        last = record.stages.get(stage.name)
        if last is None or last.state != "done" or last.inputs != input_hash(stage, job):
            return False
        return all(path.exists() for path in stage.outputs(self.run))

    def _run_stage(self, stage: Stage, record: RunRecord, job: stages.Job, progress: StageProgress) -> None:
        parameters = {name: job.options.get(name) for name in stage.options}
        record.stages[stage.name] = StageRecord(state="running", inputs="", parameters=parameters)
        record.save(self.run.record)
        begun = time.perf_counter()
        try:
            progress(stage.name, 0.0, "")
            message = stage.work(job, lambda fraction, text: progress(stage.name, fraction, text))
        except BaseException as error:
            text = str(error) if isinstance(error, Real2GymError) else f"{type(error).__name__}: {error}"
            seconds = time.perf_counter() - begun
            record.stages[stage.name] = StageRecord(
                state="failed", inputs="", seconds=seconds, message=text, parameters=parameters
            )
            record.save(self.run.record)
            raise
        # Taken afterwards: diagnosis corrects the scene that it read, and is fresh for the corrected one.
        record.stages[stage.name] = StageRecord(
            state="done",
            inputs=input_hash(stage, job),
            outputs={str(path.relative_to(self.run.root)): hash_files([path]) for path in stage.outputs(self.run)},
            seconds=time.perf_counter() - begun,
            message=message,
            parameters=parameters,
        )
        record.save(self.run.record)
        progress(stage.name, 1.0, message)


def input_hash(stage: Stage, job: stages.Job) -> str:
    """SHA-256 over a stage's input documents, options and source code."""
    digest = hashlib.sha256()
    digest.update(hash_files(path for path in stage.inputs(job.run) if path.exists()).encode())
    if "demonstration" in stage.options:
        digest.update(stages.demonstration_hash(Path(job.options["demonstration"])).encode())
    parameters = {name: job.options.get(name) for name in stage.options if name != "demonstration"}
    digest.update(json.dumps(parameters, sort_keys=True, default=str).encode())
    digest.update(source_hash(stage.rooms).encode())
    return digest.hexdigest()


@cache
def source_hash(rooms: tuple[str, ...]) -> str:
    """SHA-256 of the Python sources in `rooms`, relative to the installed packages."""
    return hash_files(path for room in rooms for path in sorted((PACKAGE_ROOT / room).rglob("*.py")))


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = [("python", platform.python_version())]
    for package in ("real2gym", "mujoco", "numpy", "opencv-contrib-python-headless", "coacd", "bpy", "pydantic"):
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def tool_versions() -> dict[str, str]:
    """Versions of Python and the packages that decide a result."""
    return dict(_versions())
