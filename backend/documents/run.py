"""The run folder: where each document lies, and the record of what each stage did."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar, Literal

from mjcf_export.document import Document, Record

Progress = Callable[[float, str], None]
"""Called by long work with the fraction done (0..1) and a short message."""


def part_of(progress: Progress, low: float, high: float) -> Progress:
    """Progress of a part of the work, from `low` to `high` of the whole."""
    return lambda fraction, message: progress(low + (high - low) * fraction, message)


def unseen(fraction: float, message: str) -> None:
    """Progress too fine to show."""


class StageRecord(Record):
    """One stage's last outcome. `inputs` is the hash that decides whether it must run again."""

    state: Literal["running", "done", "failed"]
    inputs: str
    outputs: dict[str, str] = {}
    parameters: dict[str, Any] = {}
    seconds: float = 0.0
    message: str = ""


class RunRecord(Document):
    """`run.json`: every stage's record and the versions that made it."""

    VERSION: ClassVar[int] = 1
    demonstration: str = ""
    robot: str | None = None
    tools: dict[str, str] = {}
    stages: dict[str, StageRecord] = {}


class ExecutedFolder:
    """The scene and motion that physics executes: the reconstruction, or its adaptation to a target robot."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.scene_folder = root / "scene"
        self.scene = root / "scene" / "scene.json"
        self.motion = root / "motion.json"
        self.motion_arrays = root / "motion.npz"


class RunFolder:
    """Paths of a run's documents. Nothing is created until a stage writes."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.record = root / "run.json"
        self.demo = root / "demo" / "demo.json"
        self.observations = root / "observations" / "observations.json"
        self.masks = root / "observations" / "observations.npz"
        self.scene_folder = root / "scene"
        self.scene = root / "scene" / "scene.json"
        self.motion = root / "motion" / "motion.json"
        self.motion_arrays = root / "motion" / "motion.npz"
        self.diagnosis = root / "diagnosis" / "diagnosis.json"
        self.ledger = root / "diagnosis" / "ledger.jsonl"
        self.executed = ExecutedFolder(root / "executed")
        self.mjcf_folder = root / "mjcf"
        self.mjcf = root / "mjcf" / "scene.xml"
        self.criteria = root / "rollout" / "criteria.json"
        self.rollout = root / "rollout" / "rollout.json"
        self.rollout_arrays = root / "rollout" / "rollout.npz"
        self.verdict = root / "rollout" / "verdict.json"
        self.blend = root / "blender" / "scene.blend"
        self.renders = root / "blender" / "frames"
        self.compare = root / "compare"
        self.report = root / "report.html"
