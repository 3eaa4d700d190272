"""The stages of a run, in order: each reruns only when its inputs, parameters or code changed."""

import contextlib
import hashlib
import json
import platform
import shutil
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from backend import stages
from backend.demos.files import listing, named_files
from backend.documents.run import Progress, RunFolder, RunRecord, StageRecord
from backend.perception.sam2_tracker import settings
from backend.sources import source_hash
from mjcf_export.document import FULL, PARTIAL, full_disk, hash_files
from mjcf_export.errors import InputError, MissingError, Real2GymError

LOCK = ".lock"
BRIM = 2 * 1024**2
"""Free bytes under which a failed stage is put down to the full disk."""
PACKAGES = ("real2gym", "mujoco", "numpy", "opencv-contrib-python-headless", "coacd", "bpy", "pydantic")
StageProgress = Callable[[str, float, str], None]
"""Called with the stage's name, the fraction done and a message."""


@dataclass(frozen=True)
class Stage:
    """One step of a run.

    Attributes:
        name: as `run.json` and the command line call it.
        work: does the step; returns a sentence for the record.
        inputs: the documents and files it reads, some of which may not exist.
        outputs: what it writes; what does not apply to a run may be left out.
        options: names of the run's options that it depends on.
        programs: packages that it runs in another process; their code counts as its own.
        renews: earlier stages whose work it does again where it changes what they read (raised friction).
    """

    name: str
    work: Callable[[stages.Job, Progress], str]
    inputs: Callable[[RunFolder], Iterable[Path]]
    outputs: Callable[[RunFolder], Iterable[Path]]
    options: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    renews: tuple[str, ...] = ()


def _footage(run: RunFolder) -> tuple[Path, ...]:
    """The demonstration as loaded, with the videos, depth and robot files that it names."""
    return (run.demo.parent, *named_files(run.demo))


STAGES: tuple[Stage, ...] = (
    Stage("load", stages.load, lambda run: (), lambda run: (run.demo,), ("demonstration", "robot")),
    Stage("observe", stages.observe, _footage, lambda run: (run.observations, run.masks), ("perception",)),
    Stage(
        "reconstruct",
        stages.reconstruct,
        lambda run: (*_footage(run), run.observations, run.masks),
        lambda run: (run.scene, run.motion, run.motion_arrays),
    ),
    Stage(
        "diagnose",
        stages.diagnose,
        lambda run: (*_footage(run), run.observations, run.masks, run.scene_folder, run.motion, run.motion_arrays),
        lambda run: (run.diagnosis, run.ledger),
    ),
    Stage(
        "adapt",
        stages.adapt,
        lambda run: (run.scene_folder, run.motion, run.motion_arrays),
        lambda run: (run.executed.scene, run.executed.motion, run.executed.motion_arrays),
        ("robot",),
    ),
    Stage(
        "export",
        stages.export,
        lambda run: (run.executed.scene_folder,),
        lambda run: (run.mjcf,),
    ),
    Stage(
        "validate",
        stages.validate,
        lambda run: (run.executed.root, run.mjcf_folder, run.diagnosis),
        lambda run: (run.criteria, run.verdict, run.rollout, run.rollout_arrays),
        renews=("export",),
    ),
    Stage(
        "blender",
        stages.blender,
        lambda run: (run.executed.root, run.rollout, run.rollout_arrays),
        lambda run: (run.blend,),
        programs=("blender_addon",),
    ),
    Stage(
        "compare",
        stages.compare,
        lambda run: (*_footage(run), run.masks, run.motion, run.executed.root, run.blend, run.mjcf_folder,
                     run.rollout, run.rollout_arrays),
        lambda run: (run.compare,),
        programs=("blender_addon",),
    ),
    Stage(
        "report",
        stages.report,
        lambda run: (run.demo, run.observations, run.scene_folder, run.motion, run.diagnosis.parent, run.executed.root,
                     run.verdict.parent, run.compare),
        lambda run: (run.report,),
    ),
)  # fmt: skip
STAGE_NAMES = tuple(stage.name for stage in STAGES)


@dataclass
class Pipeline:
    """A run folder and the options its stages take: `demonstration`, `robot`, `perception`."""

    run: RunFolder
    options: dict[str, Any] = field(default_factory=dict)

    def execute(self, until: str, progress: StageProgress, *, only: str | None = None) -> list[str]:
        """Run every stage up to `until` that is not up to date; with `only`, that stage is run in any case.

        A folder that did not exist and whose demonstration is refused is not left behind.

        Returns:
            Names of the stages that ran.

        Raises:
            InputError: the folder is in use, of another version, or no run folder.
            MissingError: the folder cannot be written, or the disk is full.
            Real2GymError: a stage's own error; its state is recorded as failed, earlier results stay.
        """
        new = not self.run.root.exists()
        self._claim()
        lock = FileLock(self.run.root / LOCK)
        try:
            with lock.acquire(timeout=0):
                remove_partial(self.run.root)
                return self._execute(until, progress, only)
        except Timeout as error:
            raise InputError(f"{self.run.root}: another process is working in this run folder; wait for it") from error
        finally:
            if new and not self.run.demo.exists():
                shutil.rmtree(self.run.root, ignore_errors=True)

    def _claim(self) -> None:
        """Make the folder, or refuse one that holds anything else than a run."""
        root = self.run.root
        if root.exists() and not root.is_dir():
            raise InputError(f"{root}: is a file; --out names the folder of the run")
        if root.is_dir() and not self.run.record.exists() and any(item.name != LOCK for item in root.iterdir()):
            raise InputError(f"{root}: holds files but no run.json; choose a new folder, or the folder of a run")
        try:
            root.mkdir(parents=True, exist_ok=True)
            (root / LOCK).touch()
        except OSError as error:
            if error.errno in FULL:
                raise full_disk(root) from error
            raise MissingError(f"{root}: cannot be written ({error.strerror}); choose another folder") from error

    def _execute(self, until: str, progress: StageProgress, only: str | None) -> list[str]:
        record = RunRecord.load(self.run.record) if self.run.record.exists() else RunRecord()
        record.tools = tool_versions()
        demonstration = self.options.get("demonstration") or record.demonstration
        if not demonstration:
            raise InputError(
                f"{self.run.root}: not a run folder; start it with `real2gym run DEMO --out {self.run.root}`"
            )
        record.demonstration = str(demonstration)
        options = {
            "robot": record.robot, "perception": settings(), **self.options, "demonstration": record.demonstration,
        }  # fmt: skip
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
        return all((self.run.root / name).exists() for name in last.outputs)

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
            record.stages[stage.name] = StageRecord(
                state="failed", inputs="", seconds=time.perf_counter() - begun, message=text, parameters=parameters
            )
            with contextlib.suppress(Real2GymError, OSError):  # the stage's own error matters more
                record.save(self.run.record)
            if isinstance(error, Exception) and not isinstance(error, InputError | MissingError):
                self._blame_disk(error)
            raise
        # Taken afterwards: diagnosis corrects the scene that it read, and is fresh for the corrected one.
        record.stages[stage.name] = StageRecord(
            state="done",
            inputs=input_hash(stage, job),
            outputs={
                str(path.relative_to(self.run.root)): hash_files([path])
                for path in stage.outputs(self.run)
                if path.exists()
            },
            seconds=time.perf_counter() - begun,
            message=message,
            parameters=parameters,
        )
        for name in stage.renews:
            earlier = STAGES[STAGE_NAMES.index(name)]
            record.stages[name] = record.stages[name].model_copy(update={"inputs": input_hash(earlier, job)})
        record.save(self.run.record)
        progress(stage.name, 1.0, message)

    def _blame_disk(self, error: Exception) -> None:
        """Say that the disk is full where a stage failed on one; programs and libraries report it in many ways."""
        number = error.errno if isinstance(error, OSError) else None
        if number in FULL or shutil.disk_usage(self.run.root).free < BRIM:
            named = getattr(error, "filename", None)
            raise full_disk(Path(named) if isinstance(named, str) else self.run.root) from error


def remove_partial(root: Path) -> None:
    """Remove what a killed process left half-written."""
    for path in list(root.rglob(f"{PARTIAL}*")):
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def input_hash(stage: Stage, job: stages.Job) -> str:
    """SHA-256 over a stage's inputs, options, source code and the versions of what it builds on."""
    digest = hashlib.sha256()
    for path in stage.inputs(job.run):
        if path.exists():
            digest.update(content_hash(path).encode())
    parameters = {name: job.options.get(name) for name in stage.options}
    if "demonstration" in parameters:
        digest.update(listing(str(parameters["demonstration"]), job.run.root).encode())
    if parameters.get("robot") is not None and Path(str(parameters["robot"])).is_file():
        digest.update(content_hash(Path(str(parameters["robot"]))).encode())
    digest.update(json.dumps(parameters, sort_keys=True, default=str).encode())
    digest.update(source_hash(stage.work, stage.programs).encode())
    digest.update(json.dumps(tool_versions(), sort_keys=True).encode())
    return digest.hexdigest()


def content_hash(path: Path) -> str:
    """SHA-256 of a file or folder; a file that has not been touched since is not read again."""
    if path.is_dir():
        return hash_files([path])
    state = path.stat()
    return _file_hash(path, state.st_size, state.st_mtime_ns)


@cache
def _file_hash(path: Path, size: int, changed: int) -> str:
    return hash_files([path])


@cache
def _versions() -> tuple[tuple[str, str], ...]:
    found = [("python", platform.python_version())]
    for package in PACKAGES:
        try:
            found.append((package, version(package)))
        except PackageNotFoundError:
            continue
    return tuple(found)


def tool_versions() -> dict[str, str]:
    """Versions of Python and the packages that decide a result."""
    return dict(_versions())
