"""Everything a run has so far, each document or the reason why it is not there."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
from pydantic import ValidationError

from backend.documents.comparison import Comparison
from backend.documents.demonstration import Demonstration
from backend.documents.diagnosis import Correction, Diagnosis
from backend.documents.motion import Event, Motion
from backend.documents.observations import Observations
from backend.documents.run import RunFolder, RunRecord
from backend.documents.verdict import Criteria, Rollout, Substitution, Verdict
from backend.evaluate.clock import SourceClock
from backend.substitutions import substitutions_of
from mjcf_export.document import load_arrays
from mjcf_export.errors import InputError
from mjcf_export.scene import Scene

Found = TypeVar("Found")
Arrays = dict[str, npt.NDArray[Any]]


@dataclass
class RunDocuments:
    """The documents of a run; None where a stage has not run. `broken` says what could not be read."""

    folder: RunFolder
    record: RunRecord | None = None
    demonstration: Demonstration | None = None
    observations: Observations | None = None
    scene: Scene | None = None
    reconstructed: Motion | None = None
    motion: Motion | None = None
    reference: Arrays = field(default_factory=dict)
    diagnosis: Diagnosis | None = None
    ledger: tuple[Correction, ...] | None = None
    criteria: Criteria | None = None
    rollout: Rollout | None = None
    native: Arrays = field(default_factory=dict)
    verdict: Verdict | None = None
    comparison: Comparison | None = None
    substitutions: tuple[Substitution, ...] = ()
    broken: list[str] = field(default_factory=list)

    def events(self) -> list[tuple[Event, float]] | None:
        """The demonstration's events, each with its onset as executed; None before reconstruction."""
        reconstructed = self.reconstructed or self.motion
        if reconstructed is None:
            return None
        clock = SourceClock(reconstructed, self.motion or reconstructed)
        return [(event, clock.motion_time(event.onset)) for event in reconstructed.events]

    def executed_until(self) -> float:
        """Seconds on the motion's clock at which the rollout ended; minus infinity when there is none."""
        return float(self.native["time"][-1]) if "time" in self.native else float("-inf")


def read_run(folder: RunFolder) -> RunDocuments:
    """Read what a run holds. Nothing that is missing or broken raises."""
    run = RunDocuments(folder)

    def read(path: Path, load: Callable[[Path], Found]) -> Found | None:
        if not path.exists():
            return None
        try:
            return load(path)
        except InputError as error:
            run.broken.append(str(error))
            return None

    executed = folder.executed
    run.record = read(folder.record, RunRecord.load)
    run.demonstration = read(folder.demo, Demonstration.load)
    run.observations = read(folder.observations, Observations.load)
    run.scene = read(executed.scene, Scene.load) or read(folder.scene, Scene.load)
    run.reconstructed = read(folder.motion, Motion.load)
    run.motion = read(executed.motion, Motion.load) or run.reconstructed
    run.reference = read(executed.motion_arrays, load_arrays) or read(folder.motion_arrays, load_arrays) or {}
    run.diagnosis = read(folder.diagnosis, Diagnosis.load)
    run.ledger = read(folder.ledger, _ledger)
    run.criteria = read(folder.criteria, Criteria.load)
    run.rollout = read(folder.rollout, Rollout.load)
    run.native = _on_motion_clock(read(folder.rollout_arrays, load_arrays) or {}, run.rollout)
    run.verdict = read(folder.verdict, Verdict.load)
    run.comparison = read(folder.compare / "comparison.json", Comparison.load)
    run.substitutions = _substitutions(run)
    return run


def _substitutions(run: RunDocuments) -> tuple[Substitution, ...]:
    try:
        return substitutions_of(run.folder, run.verdict)
    except InputError:
        return run.verdict.substitutions if run.verdict else ()


def _ledger(path: Path) -> tuple[Correction, ...]:
    rows = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip():
            try:
                rows.append(Correction.model_validate(json.loads(line)))
            except (ValueError, ValidationError) as error:
                raise InputError(f"{path}:{number}: not a row of the correction ledger ({error})") from error
    return tuple(rows)


def _on_motion_clock(arrays: Arrays, rollout: Rollout | None) -> Arrays:
    if rollout is None or "time" not in arrays:
        return {}
    count = len(arrays["time"])
    series = {key: value for key, value in arrays.items() if np.ndim(value) and len(value) == count}
    return {**series, "time": arrays["time"] - rollout.start}
