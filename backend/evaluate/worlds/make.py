"""Making the worlds: scene, expert, pictures, demonstration and hidden truth, each made once and kept."""

import hashlib
import json
import shutil
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from backend.documents.run import Progress
from backend.evaluate.worlds.expert import (
    Performance,
    kinematics_of,
    perform,
    plan,
    start_joints,
    true_events,
    true_world,
)
from backend.evaluate.worlds.layout import ROBOT, build_scene, items
from backend.evaluate.worlds.record import Pictures, write_demonstration
from backend.evaluate.worlds.render import (
    Picture,
    frame_ticks,
    pose_arrays,
    render_frames,
    renderer_version,
    robot_joints,
)
from backend.evaluate.worlds.sensor import depth_sensor, photograph
from backend.evaluate.worlds.specs import WORLDS, WorldSpec, world_specs
from backend.evaluate.worlds.truth import Truth, masks_and_depth
from backend.motion.kinematics import Kinematics
from backend.motion.world import World
from mjcf_export.document import hash_files, save_arrays, write_atomically
from mjcf_export.errors import InputError
from mjcf_export.scene import Scene

STAMP = "world.json"
FRAMES = "frames"
MINUTES = 60.0
"""What making the whole suite may take on two cores."""
CODE = ("layout", "looks", "meshes", "expert", "truth", "render", "sensor", "record")


def demo_folder(out: Path, name: str) -> Path:
    """The demonstration of a made world: what the product may read."""
    return out / name / "demo"


def truth_folder(out: Path, name: str) -> Path:
    """The hidden truth of a made world: a scene folder with `truth.json`, `poses.npz` and `masks.npz`."""
    return out / name / "truth"


def content_key(spec: WorldSpec, picture: Picture) -> str:
    """Hash of everything a world is made from: its numbers, this package's code, the renderer."""
    here = Path(__file__).parent
    parts = [
        repr(spec), json.dumps(asdict(picture)), renderer_version(), hash_files(here / f"{name}.py" for name in CODE),
    ]  # fmt: skip
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def make_worlds(
    out: Path,
    count: int | None = None,
    names: tuple[str, ...] | None = None,
    progress: Progress | None = None,
    picture: Picture | None = None,
) -> list[Path]:
    """Make worlds under `out/<world>/{demo,truth}`; those that are there already and unchanged are kept.

    Args:
        out: the folder of the suite.
        count: the first so many of the suite; all when None.
        names: these instead.
        progress: called with the fraction of the whole and what is being made.
        picture: how the demonstrations are filmed.

    Returns:
        The worlds' folders.

    Raises:
        InputError: an unknown name or a count below one.
        MissingError: Blender or an OpenGL library is not here.
    """
    if count is not None and count < 1:
        raise InputError(f"worlds: asked for {count}; give a number of at least 1")
    try:
        specs = world_specs(names, count)
    except KeyError as error:
        raise InputError(str(error.args[0])) from error
    filmed = picture or Picture()
    kinematics: Kinematics | None = None
    for index, spec in enumerate(specs):

        def report(done: float, message: str, index: int = index, name: str = spec.name) -> None:
            if progress is not None:
                progress((index + done) / len(specs), f"{name}: {message}")

        if _is_made(out / spec.name, content_key(spec, filmed)):
            report(1.0, "kept")
            continue
        kinematics = kinematics or kinematics_of()
        make_world(spec, out, kinematics, filmed, report)
    return [out / spec.name for spec in specs]


def bench(
    worlds: Path = Path("runs/worlds"),
    count: int | None = None,
    robot: str | None = None,
    progress: Progress = lambda done, message: None,
) -> dict[str, Any]:
    """`make_worlds` as a bench: how many worlds there are, how many were made now and in what time.

    Args:
        worlds: the folder of the suite.
        count: only the first so many; all when None.
        robot: not used.
        progress: called with the fraction done and a message.
    """
    begun = time.perf_counter()
    kept = {
        spec.name for spec in world_specs(None, count) if _is_made(worlds / spec.name, content_key(spec, Picture()))
    }
    folders = make_worlds(worlds, count, None, progress)
    minutes = (time.perf_counter() - begun) / 60
    details = [
        {
            "world": folder.name,
            "kept": folder.name in kept,
            "frames": Truth.load(folder / "truth" / "truth.json").frames,
        }
        for folder in folders
    ]
    allowed = MINUTES * len(folders) / len(WORLDS)
    return {
        "bench": "make-worlds",
        "figures": {"worlds": len(folders), "made_now": len(folders) - len(kept), "minutes": round(minutes, 2)},
        "goals": {"minutes": f"at most {allowed:g}"},
        "met": minutes <= allowed,
        "details": details,
    }


def rehearse(spec: WorldSpec, scene_folder: Path, kinematics: Kinematics) -> tuple[Scene, World, Performance]:
    """Build the true scene of a world in `scene_folder` and let the expert perform in it."""
    start = start_joints(kinematics, spec.table_height)
    scene = build_scene(spec, scene_folder, tuple(float(value) for value in start))
    world = true_world(scene, scene_folder)
    return scene, world, perform(spec, world, plan(spec, kinematics, start))


def make_world(spec: WorldSpec, out: Path, kinematics: Kinematics, picture: Picture, progress: Progress) -> None:
    """Make one world; see `make_worlds`. Pictures are kept per content, so that a stopped run goes on."""
    home, truth, demo = out / spec.name, truth_folder(out, spec.name), demo_folder(out, spec.name)
    (home / STAMP).unlink(missing_ok=True)
    for stale in (truth, demo):
        shutil.rmtree(stale, ignore_errors=True)
    progress(0.0, "performing")
    scene, world, performance = rehearse(spec, truth, kinematics)
    ticks = frame_ticks(performance, picture)
    arrays = pose_arrays(world, performance, ticks)
    frames = render_frames(
        truth, arrays, [camera.name for camera in scene.cameras],
        _frames_folder(home, truth, arrays, picture), picture, lambda done, text: progress(0.05 + 0.85 * done, text),
    )  # fmt: skip
    progress(0.9, "masks")
    names = [item.name for item in items(spec)]
    masks, depth = masks_and_depth(world, performance.full[ticks], scene.cameras, names)
    pictures = {}
    for offset, camera in enumerate(scene.cameras):
        rng = np.random.default_rng(spec.seed * 1000 + offset)
        seen = photograph(frames[camera.name], rng)
        recorded = depth_sensor(depth[camera.name], rng) if spec.depth else None
        pictures[camera.name] = Pictures(seen, performance.time[ticks], recorded)
    write_demonstration(spec, scene, performance, pictures, masks, demo)
    _write_truth(spec, world, performance, len(ticks), truth)
    masks.save(truth / "masks.npz")
    stamp = json.dumps({"key": content_key(spec, picture), "checks": {c.name: c.value for c in performance.checks}})
    write_atomically(home / STAMP, lambda stream: stream.write(stamp.encode()))
    progress(1.0, "made")


def _write_truth(spec: WorldSpec, world: World, performance: Performance, frames: int, folder: Path) -> None:
    save_arrays(folder / "poses.npz", {
        "time": performance.time,
        f"{ROBOT}/qpos": performance.full[:, robot_joints(world)],
        f"{ROBOT}/opening": performance.opening,
        f"{ROBOT}/tcp": performance.tcp,
        **{f"body/{name}": poses for name, poses in performance.bodies.items()},
    })  # fmt: skip
    Truth(
        world=spec.name,
        moved=spec.moved.name,
        target=spec.target.name,
        duration=float(performance.time[-1]),
        frames=frames,
        events=true_events(spec, performance),
    ).save(folder / "truth.json")


def _frames_folder(home: Path, truth: Path, arrays: dict[str, np.ndarray], picture: Picture) -> Path:  # type: ignore[type-arg]
    """Where the clean pictures of exactly this content are kept; those of other content are removed."""
    digest = hashlib.sha256(hash_files([truth]).encode())
    digest.update(json.dumps(asdict(picture)).encode() + renderer_version().encode())
    for name in sorted(arrays):
        digest.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    folder = home / FRAMES / digest.hexdigest()[:16]
    for other in (home / FRAMES).glob("*"):
        if other != folder:
            shutil.rmtree(other, ignore_errors=True)
    return folder


def _is_made(home: Path, key: str) -> bool:
    try:
        stamp = json.loads((home / STAMP).read_text())
    except (OSError, json.JSONDecodeError):
        return False
    return isinstance(stamp, dict) and stamp.get("key") == key and (home / "demo" / "demo.json").exists()
