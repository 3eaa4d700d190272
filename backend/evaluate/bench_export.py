"""The export bench: meshes to MuJoCo with collision, timed beside obj2mjcf with CoACD in the same run.

Both sides start from the same OBJ files, without any cache, and end with a written model that MuJoCo compiled.
"""

import contextlib
import io
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backend.documents.run import Progress
from backend.evaluate.bench_meshes import bench_meshes
from mjcf_export.cavities import open_fraction
from mjcf_export.collision import collision_pieces
from mjcf_export.errors import MissingError
from mjcf_export.export import export_scene
from mjcf_export.meshes import load_mesh, read_mesh, write_mesh
from mjcf_export.scene import Body, Mesh, Scene
from mjcf_export.triangles import TriangleMesh

MAX_TIME = 0.5
MIN_OPEN = 90.0
GOALS = {
    "time_over_obj2mjcf": f"at most {MAX_TIME}",
    "cavities_open_pct": f"at least {MIN_OPEN:g} and no less than obj2mjcf's",
}


@dataclass(frozen=True)
class _Side:
    """One exporter on one mesh: seconds, number of convex pieces, open share of the cavity (None without one)."""

    seconds: float
    pieces: int
    open: float | None

    def describe(self) -> dict[str, float | int | None]:
        opened = None if self.open is None else round(100 * self.open, 1)
        return {"seconds": round(self.seconds, 3), "pieces": self.pieces, "open_pct": opened}


def run() -> dict[str, Any]:
    """The whole bench; see `bench`."""
    return bench()


def bench(
    worlds: Path | None = None,
    count: int | None = None,
    robot: str | None = None,
    progress: Progress = lambda done, message: None,
) -> dict[str, Any]:
    """Export every bench mesh with both exporters.

    Args:
        worlds: not used by this bench.
        count: only the first so many meshes.
        robot: not used by this bench.
        progress: called with the fraction done and a message.

    Returns:
        `{"bench", "figures", "goals", "met", "details"}`; times are wall seconds, first runs, no cache.

    Raises:
        MissingError: obj2mjcf, CoACD or trimesh is not installed.
    """
    convert = _load_obj2mjcf()
    meshes = list(bench_meshes().items())[:count]
    details = []
    pairs: list[tuple[_Side, _Side]] = []
    with tempfile.TemporaryDirectory(prefix="real2gym-bench-") as folder:
        for index, (name, mesh) in enumerate(meshes):
            progress(index / len(meshes), f"{name}: ours, then obj2mjcf")
            root = Path(folder) / name
            write_mesh(TriangleMesh(mesh.vertices, mesh.faces), root / f"{name}.obj")
            visual = load_mesh(root, f"{name}.obj").mesh
            ours, theirs = _ours(root, name, visual), _theirs(root, name, visual, convert)
            pairs.append((ours, theirs))
            details.append(
                {"mesh": name, "faces": len(mesh.faces), "ours": ours.describe(), "obj2mjcf": theirs.describe()}
            )
    progress(1.0, "done")
    figures = _figures(pairs)
    met = figures["time_over_obj2mjcf"] <= MAX_TIME and figures["cavities_open_pct"] >= max(
        MIN_OPEN, figures["obj2mjcf_cavities_open_pct"]
    )
    return {"bench": "export", "figures": figures, "goals": GOALS, "met": bool(met), "details": details}


def _figures(pairs: list[tuple[_Side, _Side]]) -> dict[str, float]:
    ours, theirs = (sum(pair[side].seconds for pair in pairs) for side in (0, 1))
    ratios = [one.seconds / two.seconds for one, two in pairs]
    opened = [
        100 * float(np.mean([found for pair in pairs if (found := pair[side].open) is not None] or [1.0]))
        for side in (0, 1)
    ]
    return {
        "time_over_obj2mjcf": round(ours / theirs, 4),
        "worst_mesh_time_over_obj2mjcf": round(max(ratios), 4),
        "cavities_open_pct": round(opened[0], 2),
        "obj2mjcf_cavities_open_pct": round(opened[1], 2),
        "seconds": round(ours, 2),
        "obj2mjcf_seconds": round(theirs, 2),
        "pieces": float(sum(pair[0].pieces for pair in pairs)),
        "obj2mjcf_pieces": float(sum(pair[1].pieces for pair in pairs)),
    }


def _ours(root: Path, name: str, visual: TriangleMesh) -> _Side:
    file = root / f"{name}_ours.obj"
    file.write_bytes((root / f"{name}.obj").read_bytes())
    shape = Mesh(file=file.name)
    scene = Scene(name=name, bodies=(Body(name=name, shape=shape),))
    started = time.perf_counter()
    export_scene(scene, root, root / "mjcf", cache=root / "cache")
    seconds = time.perf_counter() - started
    pieces = [piece.surface() for piece in collision_pieces(shape, root, root / "cache")]
    return _Side(seconds, len(pieces), open_fraction(visual, pieces))


def _theirs(root: Path, name: str, visual: TriangleMesh, convert: Callable[[Path], None]) -> _Side:
    alone = root / "obj2mjcf"
    alone.mkdir()
    file = alone / f"{name}.obj"
    file.write_bytes((root / f"{name}.obj").read_bytes())
    started = time.perf_counter()
    with _quiet():
        convert(file)
    seconds = time.perf_counter() - started
    pieces = [read_mesh(path) for path in sorted((alone / name).glob("*_collision_*.obj"))]
    return _Side(seconds, len(pieces), open_fraction(visual, pieces))


def _load_obj2mjcf() -> Callable[[Path], None]:
    try:
        import coacd
        import trimesh  # noqa: F401
        from obj2mjcf.cli import Args, process_obj
    except ImportError as error:
        raise MissingError(
            f"bench export: the baseline needs obj2mjcf and coacd ({error}); pip install obj2mjcf==0.0.25 coacd"
        ) from error
    coacd.set_log_level("error")

    def convert(file: Path) -> None:
        options = Args(obj_dir=str(file.parent), decompose=True, save_mjcf=True, compile_model=True, overwrite=True)
        process_obj(file, options)

    return convert


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with contextlib.redirect_stdout(io.StringIO()):
        yield
