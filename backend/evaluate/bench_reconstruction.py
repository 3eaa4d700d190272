"""The reconstruction bench: the product run on every world's demonstration, scored against the hidden truth."""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from backend.documents.demonstration import Demonstration
from backend.documents.motion import Motion
from backend.documents.observations import Masks
from backend.documents.run import Progress, RunFolder
from backend.documents.verdict import Verdict
from backend.evaluate import reconstruction_scores as scores
from backend.evaluate.worlds.make import demo_folder, make_worlds, truth_folder
from backend.evaluate.worlds.truth import Truth
from mjcf_export.document import load_arrays
from mjcf_export.errors import Real2GymError
from mjcf_export.frames import rays, transform
from mjcf_export.scene import SCENE_FILE, Scene

MAX_POSITION_MM, MAX_SIZE_PCT, MAX_RADIUS_MM, MAX_CAMERA_MM = 10.0, 8.0, 3.0, 0.001
ACCEPTED_SHARE, RETARGETED_SHARE = 10 / 12, 7 / 12


def bench(
    worlds: Path = Path("runs/worlds"),
    count: int | None = None,
    robot: str | None = None,
    progress: Progress = lambda done, message: None,
    names: tuple[str, ...] | None = None,
) -> dict[str, Any]:
    """Make the worlds that are missing, run the product up to its verdict on each, and score it.

    Args:
        worlds: folder of the worlds; each run is kept beside its world, in `<world>/run`.
        count: only the first so many worlds.
        robot: target robot; the demonstration's own when None.
        progress: called with the fraction done and a message.
        names: these worlds instead.

    Returns:
        `{"bench", "figures", "goals", "met", "details"}`. The baseline places each object where the ray through the
        middle of its prompt's lower edge in the first view meets the table, as large as its prompt looks there.
    """
    folders = make_worlds(worlds, count, names, lambda done, text: progress(0.3 * done, text))
    details = []
    for index, folder in enumerate(folders):
        share = 0.3 + 0.7 * index / len(folders)
        progress(share, f"{folder.name}: running the product")
        details.append(_run_world(worlds, folder.name, robot))
    progress(1.0, "scored")
    return summary(details, robot)


def summary(details: list[dict[str, Any]], robot: str | None) -> dict[str, Any]:
    """The bench's answer from its per-world rows."""
    figures: dict[str, float | int | None] = {
        "worlds": len(details),
        "accepted": sum(bool(row["accepted"]) for row in details),
        "position_error_mm_median": _median(details, "position_mm"),
        "position_error_mm_baseline": _median(details, "baseline_position_mm"),
        "final_position_error_mm_median": _median(details, "final_position_mm"),
        "rotation_error_deg_median": _median(details, "rotation_deg"),
        "size_error_pct_median": _median(details, "size_pct"),
        "size_error_pct_baseline": _median(details, "baseline_size_pct"),
        "cavity_radius_error_mm_median": _median(details, "cavity_mm"),
        "mask_iou_median": _median(details, "mask_iou"),
        "event_error_s_median": _median(details, "event_s"),
        "camera_error_mm_max": _worst(details, "camera_mm"),
        "camera_error_deg_max": _worst(details, "camera_deg"),
        "objects_missing": sum(len(row.get("missing", ())) for row in details),
        "events_missing": sum(len(row.get("events_missing", ())) for row in details),
        "seconds_median": _middle([row["seconds"] for row in details]),
    }
    needed = math.ceil((ACCEPTED_SHARE if robot is None else RETARGETED_SHARE) * len(details) - 1e-9)
    goals = {"accepted": f"at least {needed}"}
    met = int(figures["accepted"] or 0) >= needed
    if robot is None:
        limits = {
            "position_error_mm_median": MAX_POSITION_MM,
            "size_error_pct_median": MAX_SIZE_PCT,
            "cavity_radius_error_mm_median": MAX_RADIUS_MM,
            "camera_error_mm_max": MAX_CAMERA_MM,
        }
        goals |= {name: f"at most {limit:g}" for name, limit in limits.items()}
        for name, limit in limits.items():
            value = figures[name]
            hollow = name != "cavity_radius_error_mm_median" or any(row.get("hollow") for row in details)
            met = met and (not hollow or (value is not None and value <= limit))
    return {"bench": "reconstruction", "figures": figures, "goals": goals, "met": met, "details": details}


def _run_world(worlds: Path, name: str, robot: str | None) -> dict[str, Any]:
    """One row: the product's verdict on a world, or why it gave none, and the scores of what it made."""
    from backend.pipeline import Pipeline

    run = RunFolder(worlds / name / "run")
    row: dict[str, Any] = {"world": name, "accepted": False, "failed": ""}
    begun = time.perf_counter()
    try:
        options = {"demonstration": str(demo_folder(worlds, name).resolve()), "robot": robot}
        Pipeline(run, options).execute("validate", lambda stage, done, text: None)
    except Real2GymError as error:
        row["failed"] = str(error)
    except Exception as error:  # one broken world must not hide the scores of the others
        row["failed"] = f"internal error: {type(error).__name__}: {error}"
    row["seconds"] = round(time.perf_counter() - begun, 1)
    if not row["failed"]:
        verdict = Verdict.load(run.verdict)
        row["accepted"] = verdict.accepted
        row["failed"] = "" if verdict.accepted else (verdict.message or f"stage {verdict.failed_stage}")
    if run.scene.exists() and run.motion.exists() and run.masks.exists():
        row |= score_run(worlds, name, run)
    return row


def score_run(worlds: Path, name: str, run: RunFolder) -> dict[str, Any]:
    """What a run's scene, motion and masks are worth: lists over objects and views, in mm, % and degrees."""
    folder = truth_folder(worlds, name)
    truth, scene = Truth.load(folder / "truth.json"), Scene.load(folder / SCENE_FILE)
    poses, true_masks = load_arrays(folder / "poses.npz"), Masks.load(folder / "masks.npz")
    found, motion = Scene.load(run.scene), Motion.load(run.motion)
    arrays, masks = load_arrays(run.motion_arrays), Masks.load(run.masks)
    demo = Demonstration.load(demo_folder(worlds, name) / "demo.json")
    named = [item.name for item in demo.objects if item.prompts]
    there = {body.name: body for body in found.bodies}
    row: dict[str, Any] = {"missing": [item for item in named if item not in there], "objects": {}}
    for item in (item for item in named if item in there):
        first, last = (transform(poses[f"body/{item}"][i][:3], poses[f"body/{item}"][i][3:]) for i in (0, -1))
        wanted = scores.placed(scene.body(item), folder, first)
        given = scores.placed(there[item], run.scene_folder)
        scored: dict[str, float] = {
            "position_mm": 1000 * scores.position_error(wanted, given),
            "size_pct": 100 * scores.size_error(wanted, given),
            "rotation_deg": math.degrees(scores.rotation_error(wanted, given)),
        }
        opening = scores.opening_error(wanted, given)
        if opening is not None:
            scored["cavity_mm"] = 1000 * opening
        end = _last_pose(arrays.get(f"object/{item}"))
        if end is not None:
            scored["final_position_mm"] = 1000 * scores.position_error(
                scores.placed(scene.body(item), folder, last), scores.placed(there[item], run.scene_folder, end)
            )
        ious = [scores.mask_iou(true_masks, masks, f"mask/{view.name}/{item}") for view in demo.views]
        seen = [value for value in ious if value is not None]
        if seen:
            scored["mask_iou"] = float(np.mean(seen))
        row["objects"][item] = {key: round(value, 3) for key, value in scored.items()} | {
            "found_as": there[item].shape.kind, "is": scene.body(item).shape.kind
        }  # fmt: skip
    for key in ("position_mm", "size_pct", "rotation_deg", "cavity_mm", "final_position_mm", "mask_iou"):
        row[key] = [values[key] for values in row["objects"].values() if key in values]
    row["hollow"] = any("cavity_mm" in values for values in row["objects"].values())
    timing = scores.event_errors(truth.events, motion.events)
    row["event_s"] = [round(value, 3) for value in timing.values() if value is not None]
    row["events_missing"] = [relation for relation, value in timing.items() if value is None]
    views = {camera.name: camera for camera in found.cameras}
    errors = [scores.camera_error(camera, views[camera.name]) for camera in scene.cameras if camera.name in views]
    row["camera_mm"] = [round(1000 * error[0], 4) for error in errors]
    row["camera_deg"] = [round(math.degrees(error[1]), 4) for error in errors]
    return row | _baseline(demo, scene, folder, poses)


def _baseline(demo: Demonstration, scene: Scene, folder: Path, poses: dict[str, Any]) -> dict[str, list[float]]:
    """Errors of the simplest reconstruction there is: one view's prompts laid on the robot's base plane."""
    view = demo.views[0]
    positions, sizes = [], []
    for item in demo.objects:
        prompt = next((p for p in item.prompts if p.view == view.name and p.box is not None), None)
        if prompt is None or prompt.box is None:
            continue
        x0, y0, x1, y1 = prompt.box
        origin, directions = rays([((x0 + x1) / 2, y1)], view.intrinsics, view.extrinsics)  # type: ignore[arg-type]
        reach = -origin[2] / directions[0, 2]
        ground = origin + reach * directions[0]
        scale = reach / view.intrinsics[0][0]  # type: ignore[index]
        guess = np.array([(x1 - x0) * scale, (x1 - x0) * scale, (y1 - y0) * scale])
        pose = poses[f"body/{item.name}"][0]
        wanted = scores.placed(scene.body(item.name), folder, transform(pose[:3], pose[3:]))
        positions.append(round(1000 * float(np.linalg.norm(ground + (0, 0, guess[2] / 2) - wanted.centre)), 2))
        sizes.append(round(100 * float((np.abs(guess - wanted.size) / wanted.size).mean()), 2))
    return {"baseline_position_mm": positions, "baseline_size_pct": sizes}


def _last_pose(rows: Any) -> Any:
    if rows is None:
        return None
    known = rows[np.isfinite(rows).all(axis=1)]
    return transform(known[-1][:3], known[-1][3:]) if len(known) else None


def _middle(values: list[float]) -> float | None:
    return round(float(np.median(values)), 3) if values else None


def _median(details: list[dict[str, Any]], key: str) -> float | None:
    return _middle([value for row in details for value in row.get(key, ())])


def _worst(details: list[dict[str, Any]], key: str) -> float | None:
    values = [value for row in details for value in row.get(key, ())]
    return max(values) if values else None
