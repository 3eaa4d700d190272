"""What stands in for something that was asked or measured, over all documents of a run."""

from collections.abc import Iterator
from pathlib import Path

from backend.documents.comparison import Comparison
from backend.documents.demonstration import Demonstration
from backend.documents.run import RunFolder
from backend.documents.verdict import Substitution, Verdict
from mjcf_export.scene import Scene

_STAND_IN = ("stands in for", "is assumed", "assumed from")
_MISSING_PICTURES = "are missing:"


def substitutions_of(run: RunFolder, verdict: Verdict | None) -> tuple[Substitution, ...]:
    """Those of the demonstration and the scene, of the verdict where there is one, and of its comparison."""
    found = [*_of_demonstration(run.demo), *_of_scene(run.scene)]
    if verdict is not None:
        found += [*verdict.substitutions, *_of_comparison(run.compare / "comparison.json")]
    return tuple(item for index, item in enumerate(found) if item not in found[:index])


def _of_demonstration(path: Path) -> Iterator[Substitution]:
    """What a loader had to take for granted: another robot of the same kind, a model guessed from a name, a rate."""
    for note in Demonstration.load(path).notes if path.exists() else ():
        if any(words in note for words in _STAND_IN):
            what, _, why = note.partition(": ")
            yield Substitution(what=what, why=why or note)


def _of_scene(path: Path) -> Iterator[Substitution]:
    """Cameras and robot bases that nobody gave."""
    if not path.exists():
        return
    scene = Scene.load(path)
    for camera in scene.cameras:
        for part, source in camera.provenance.items():
            if source == "assumed":
                yield Substitution(what=f"{part} of camera {camera.name}", why="not given by the demonstration")
    for robot in scene.robots:
        if robot.provenance.get("base") == "assumed":
            yield Substitution(what=f"base of robot {robot.name}", why="not given by the demonstration")


def _of_comparison(path: Path) -> Iterator[Substitution]:
    for note in Comparison.load(path).notes if path.exists() else ():
        what, separator, why = note.partition(_MISSING_PICTURES)
        if separator:
            yield Substitution(what=f"{what.strip()} left out", why=why.strip())
