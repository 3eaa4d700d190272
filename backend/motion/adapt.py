"""Who executes the motion: the recorded robot as it moved, the target robot, or a plan made from the events."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from backend.documents.motion import Motion
from backend.documents.run import Progress
from backend.motion.clearance import Clearance
from backend.motion.goals import picks_of
from backend.motion.holds import motion_holds
from backend.motion.kinematics import Kinematics
from backend.motion.planner import plan_pick_place
from backend.motion.retarget import Carried, base_candidates, carry_over, pad_aligned, reachable
from backend.motion.world import World
from mjcf_export.errors import InputError
from mjcf_export.export import build_spec
from mjcf_export.frames import Array
from mjcf_export.robots import RobotModel, load_robot
from mjcf_export.scene import Pose, Robot, Scene
from mjcf_export.shapes import extents

DEFAULT_ROBOT = "fr3_robotiq_2f85"
_BASES_TRIED = 41
_PLANS_TRIED = 4
Adapted = tuple[Scene, Motion, dict[str, Array]]


def adapt_motion(
    scene: Scene,
    scene_folder: Path,
    motion: Motion,
    arrays: dict[str, Array],
    robot: str | None,
    progress: Progress,
) -> Adapted:
    """The scene, motion and arrays that are to be executed.

    A recorded motion stays as it is unless `robot` names another model: then the tcp path and the opening are carried
    over, on the recorded base if it reaches, else on one placed by reach; where the path cannot be followed, the
    picks are planned anew from the events. A motion without joints (video only) is always planned. Whatever left the
    record says so in `adapted`.

    Args:
        scene: the reconstruction.
        scene_folder: where its files lie.
        motion: reference motion.
        arrays: its arrays.
        robot: target model, or None for the demonstration's own.
        progress: called with the fraction done and a message.

    Raises:
        InputError: the target cannot do it; the message says why (reach, opening, collision).
    """
    recorded = [item for item in scene.robots if f"{item.name}/qpos" in arrays]
    if recorded and (robot is None or all(item.model == robot for item in recorded)):
        return scene, motion, arrays
    if len(recorded) > 1:
        raise InputError("a motion of several robots cannot be carried over to another model; leave --robot out")
    item = recorded[0] if recorded else (scene.robots[0] if scene.robots else None)
    model = robot or (item.model if item is not None else DEFAULT_ROBOT)
    target = load_robot(model, scene_folder)
    name = item.name if item is not None else "robot"
    reason = ""
    if recorded and f"{name}/opening" in arrays:
        progress(0.1, f"carrying the motion over to {model}")
        try:
            return _retargeted(scene, scene_folder, motion, arrays, (recorded[0], target, model))
        except InputError as error:
            reason = str(error)
    progress(0.5, f"planning the motion for {model}")
    try:
        return _planned(scene, scene_folder, motion, arrays, (name, item, target, model), reason)
    except InputError as error:
        if reason:
            raise InputError(f"{reason}; planned anew: {error}") from error
        raise


def _retargeted(
    scene: Scene,
    scene_folder: Path,
    motion: Motion,
    arrays: dict[str, Array],
    robots: tuple[Robot, RobotModel, str],
) -> Adapted:
    item, target, model = robots
    source = load_robot(item.model, scene_folder)
    time = np.asarray(arrays["time"], dtype=np.float64)
    opening = np.asarray(arrays[f"{item.name}/opening"], dtype=np.float64)
    recorded = Kinematics(source, base=item.base.matrix).tcp(arrays[f"{item.name}/qpos"])
    tcp = pad_aligned(recorded, opening, source, target)
    holds = motion_holds(motion, arrays, {body.name for body in scene.bodies})
    widths = [hold.width for hold in holds if hold.width is not None]
    arm = Kinematics(target)
    failure: InputError | None = None
    for index, base in enumerate(base_candidates(tcp[:, :3, 3], float(item.base.position[2]), item.base.matrix)):
        if index >= _BASES_TRIED:
            break
        placed = arm.at(base)
        if index and not reachable(placed, tcp):
            continue
        try:
            carried = carry_over(placed, time, tcp, opening, widths)
            changed = _with_robot(scene, item.name, model, base, carried.qpos[0], float(carried.opening[0]))
            _refuse_collisions(changed, scene_folder, item.name, carried, holds_windows(motion, arrays, scene))
        except InputError as error:
            failure = error
            if "wide" in str(error):
                raise
            continue
        return _carried_documents(changed, motion, arrays, item.name, carried, (model, index > 0))
    raise failure or InputError(f"robot {model}: no base from which it reaches the demonstrated path")


def _carried_documents(
    scene: Scene, motion: Motion, arrays: dict[str, Array], name: str, carried: Carried, how: tuple[str, bool]
) -> Adapted:
    """Scene, motion and arrays on the new clock."""
    old = np.asarray(arrays["time"], dtype=np.float64)

    def moved(moment: float) -> float:
        return float(np.interp(moment, old, carried.time))

    events = tuple(
        event.model_copy(
            update={"before": moved(event.before), "onset": moved(event.onset), "after": moved(event.after)}
        )
        for event in motion.events
    )
    model, elsewhere = how
    parts = [f"carried over to {model}"]
    parts += ["its base placed by reach"] if elsewhere else []
    parts += [f"slowed up to {carried.stretch:.1f} times to keep its limits"] if carried.stretch > 1.01 else []
    parts += ["opening cut to its stroke"] if carried.clipped else []
    adapted = "; ".join(part for part in (motion.adapted, ", ".join(parts)) if part)
    update = {"source": "retargeted", "adapted": adapted, "events": events, "duration": float(carried.time[-1])}
    changed = {
        **arrays, "time": carried.time, f"{name}/qpos": carried.qpos, f"{name}/tcp": carried.tcp,
        f"{name}/opening": carried.opening,
    }  # fmt: skip
    return scene, motion.model_copy(update=update), changed


def holds_windows(motion: Motion, arrays: dict[str, Array], scene: Scene) -> list[tuple[float, float, str]]:
    """When which body is near the fingers: from closing to open again."""
    holds = motion_holds(motion, arrays, {body.name for body in scene.bodies})
    return [(hold.close_start - 0.3, hold.open_end + 0.3, hold.body) for hold in holds]


def _refuse_collisions(
    scene: Scene, scene_folder: Path, name: str, carried: Carried, windows: list[tuple[float, float, str]]
) -> None:
    """Raise when the arm meets something on the way other than what it handles."""
    world = World(scene, scene_folder, build_spec(scene, scene_folder).compile())
    clear = Clearance(world, name)
    handled = frozenset(body for _, _, body in windows)
    for index in range(0, len(carried.qpos), 3):
        hit = clear.worst(carried.qpos[index], float(carried.opening[index]), handled)
        if hit is not None and hit.depth > 0.003:
            raise InputError(f"robot {name}: collision on the demonstrated path at {carried.time[index]:.2f} s, {hit}")


def _planned(
    scene: Scene,
    scene_folder: Path,
    motion: Motion,
    arrays: dict[str, Array],
    robots: tuple[str, Robot | None, RobotModel, str],
    reason: str,
) -> Adapted:
    name, item, target, model = robots
    picks = picks_of(scene, scene_folder, motion, arrays)
    failure: InputError | None = None
    tried = 0
    for base, given in _bases(scene, scene_folder, item, target):
        placed = _with_robot(scene, name, model, base, target.home, None)
        try:
            plan, planned = plan_pick_place(placed, scene_folder, name, picks)
        except InputError as error:
            failure, tried = error, tried + 1
            if tried >= _PLANS_TRIED:
                break
            continue
        placed = _with_robot(scene, name, model, base, planned[f"{name}/qpos"][0], float(planned[f"{name}/opening"][0]))
        why = "planned object-relatively from the events, re-timed within the robot's limits"
        why += "" if given else ", the robot's base proposed by reach"
        why += f", since {reason}" if reason else ""
        why = "; ".join(part for part in (motion.adapted, why) if part)
        return placed, plan.model_copy(update={"adapted": why, "notes": motion.notes}), planned
    raise failure or InputError(f"robot {model}: no base from which it reaches the objects")


def _bases(scene: Scene, scene_folder: Path, item: Robot | None, target: RobotModel) -> Iterator[tuple[Array, bool]]:
    """Bases worth planning from: the known one, then those that reach above every free body."""
    known = None if item is None or item.provenance.get("base") == "assumed" else item.base.matrix
    if known is not None:
        yield known, True
    bodies = [body for body in scene.bodies if not body.static]
    if not bodies:
        return
    points = np.array([body.pose.position for body in bodies])
    tops = np.array([float(extents(body.shape, scene_folder)[2]) for body in bodies])
    above = np.tile(np.diag([1.0, -1.0, -1.0, 1.0]), (2 * len(points), 1, 1))
    above[:, :3, 3] = np.concatenate([points, points + [0, 0, 0.15]])
    above[:, 2, 3] += np.tile(tops, 2)
    arm = Kinematics(target)
    for base in base_candidates(points, float(points[:, 2].min()), None if item is None else item.base.matrix):
        if _clear_of(scene, scene_folder, base) and reachable(arm.at(base), above):
            yield base, False


def _clear_of(scene: Scene, scene_folder: Path, base: Array) -> bool:
    """Whether nothing free stands where the base would."""
    for body in scene.bodies:
        if not body.static:
            reach = float(np.linalg.norm(extents(body.shape, scene_folder)[:2])) / 2
            if np.linalg.norm(np.array(body.pose.position[:2]) - base[:2, 3]) < reach + 0.15:
                return False
    return True


def _with_robot(scene: Scene, name: str, model: str, base: Array, qpos: Array, opening: float | None) -> Scene:
    """The scene with its robot `name` replaced, or added."""
    made = Robot(
        name=name,
        model=model,
        base=Pose.from_matrix(base),
        qpos=tuple(float(value) for value in qpos),
        opening=opening,
        provenance={"base": "assumed"},
    )
    others = tuple(item for item in scene.robots if item.name != name)
    return scene.model_copy(update={"robots": (made, *others)})
