"""The benches by name. Each measures the product beside its baseline in the same run."""

from importlib import import_module
from pathlib import Path
from typing import Any

from backend.documents.run import Progress
from mjcf_export.errors import InputError

MODULES = {
    "make-worlds": "backend.evaluate.worlds",
    "reconstruction": "backend.evaluate.bench_reconstruction",
    "diagnosis": "backend.evaluate.bench_diagnosis",
    "physics": "backend.evaluate.bench_physics",
    "export": "backend.evaluate.bench_export",
}


def run_bench(name: str, worlds: Path, count: int | None, robot: str | None, progress: Progress) -> dict[str, Any]:
    """Figures, goals and details of the bench `name`.

    Args:
        name: one of `MODULES`.
        worlds: folder of the hidden worlds; benches that need them make those that are missing.
        count: how many worlds or cases, all when None.
        robot: target robot for `reconstruction`; the demonstration's own when None.
        progress: called with the fraction done and a message.

    Returns:
        `{"bench", "figures": {name: number}, "goals": {name: text}, "met": bool, "details": [...]}`.

    Raises:
        InputError: there is no such bench.
    """
    if name not in MODULES:
        raise InputError(f"{name}: unknown bench; there are {', '.join(MODULES)}")
    bench = import_module(MODULES[name])
    result: dict[str, Any] = bench.bench(worlds=worlds, count=count, robot=robot, progress=progress)
    return result
