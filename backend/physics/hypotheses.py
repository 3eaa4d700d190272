"""What might be wrong with a failed hold, in the order of calibration: alignment, closure, load, friction."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from backend.documents.motion import Motion
from backend.documents.verdict import Check
from backend.motion.holds import Hold
from backend.motion.kinematics import Kinematics
from backend.motion.shift import shift_tcp
from backend.motion.world import World
from backend.physics.staged import Outcome
from mjcf_export.frames import Array, apply, inverse
from mjcf_export.shapes import cavity, shape_mesh

REACH = 0.015
"""Largest tcp shift in metres, in all, at one event."""
FRICTION_CAP = 1.0
FRICTION_FACTOR = 1.5
"""Friction may be raised by this factor of what the scene says, once."""
SLIPPERY = 0.1
"""Friction below this is a statement about the surface, not a rough estimate of it."""
_BEFORE, _AFTER = 0.8, 0.8
"""Seconds over which a shift is blended in and out."""
_IK_LEFT = 0.001
_TRUSTED = {"measured", "calibrated", "asset"}


@dataclass(frozen=True)
class Attempt:
    """A motion with the corrections made so far.

    Attributes:
        arrays: of the motion, changed.
        squeeze: force per finger as a share of the usual one.
        friction: friction of bodies that was changed.
        shifts: total world shift per hold and end (`grasp` or `release`).
        notes: one sentence per correction.
    """

    arrays: dict[str, Array]
    squeeze: float = 1.0
    friction: dict[str, float] = field(default_factory=dict)
    shifts: dict[str, Array] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Bench:
    """What hypotheses are made from."""

    world: World
    motion: Motion
    arms: dict[str, Kinematics]


def hypotheses(bench: Bench, attempt: Attempt, outcome: Outcome) -> Iterator[Attempt]:
    """Corrected attempts worth executing after a failed one, most likely first."""
    hold = outcome.hold
    if hold is None or outcome.failed in {None, "settle"}:
        return
    if any(check.value is None or check.name == "predicates" for check in outcome.failures):
        return  # nothing to improve on: a state that is not finite, a container without a cavity
    if outcome.failed in {"approach", "orientation", "closure", "load", "transport"}:
        yield from _grasp_shifts(bench, attempt, hold, outcome)
        yield from _squeezes(attempt, outcome)
        yield from _frictions(bench, attempt, hold)
    else:
        yield from _release_shifts(bench, attempt, hold, outcome)
        yield from _grasp_shifts(bench, attempt, hold, outcome)
        yield from _squeezes(attempt, outcome)


def _grasp_shifts(bench: Bench, attempt: Attempt, hold: Hold, outcome: Outcome) -> Iterator[Attempt]:
    tick = _tick(outcome, hold.close_start)
    frame = _tcp_at(bench, attempt, hold, hold.grasp)
    lateral, depth = _measured_offset(bench, hold, frame, outcome.recording.matrix(hold.body, tick))
    local = [np.array([0.0, lateral, 0.0]), np.array([0.0, lateral, depth])] if abs(lateral) > 0.001 else []
    local += [np.array([0.0, 0.0, step]) for step in (depth, 0.006, -0.006, 0.012, -0.012) if abs(step) > 0.001]
    local += [np.array([0.0, step, 0.0]) for step in (0.006, -0.006, 0.012, -0.012)]
    local += [np.array([step, 0.0, 0.0]) for step in (0.008, -0.008)]
    window = (hold.close_start - _BEFORE, hold.close_start - 0.05, hold.held + 0.2, hold.held + 0.2 + _AFTER)
    for offset in local:
        made = _shifted(bench, attempt, hold, "grasp", frame[:3, :3] @ offset, window)
        if made is not None:
            yield made


def _release_shifts(bench: Bench, attempt: Attempt, hold: Hold, outcome: Outcome) -> Iterator[Attempt]:
    tick = _tick(outcome, hold.release)
    centring = _to_goal(bench, hold, outcome, tick)
    world = [] if centring is None else [centring, centring + (0, 0, 0.006)]
    world += [np.array([0.0, 0.0, step]) for step in (-0.006, 0.006, -0.012, 0.012)]
    window = (hold.release - _BEFORE, hold.release - 0.1, hold.open_end + 0.1, hold.open_end + 0.1 + _AFTER)
    for offset in world:
        made = _shifted(bench, attempt, hold, "release", offset, window)
        if made is not None:
            yield made


def _squeezes(attempt: Attempt, outcome: Outcome) -> Iterator[Attempt]:
    """Gentler where the pads sink in, tighter where they do not hold."""
    sinks = any(check.name.startswith("penetration") for check in outcome.failures)
    for squeeze in (0.6, 0.35) if sinks else (1.4,):
        if abs(squeeze - attempt.squeeze) > 1e-6:
            note = f"closure: the gripper squeezes with {squeeze:.0%} of the usual force"
            yield replace(attempt, squeeze=squeeze, notes=(*attempt.notes, note))


def _frictions(bench: Bench, attempt: Attempt, hold: Hold) -> Iterator[Attempt]:
    """More friction on the held body, where nobody measured it."""
    body = bench.world.scene.body(hold.body)
    raised = min(FRICTION_CAP, FRICTION_FACTOR * body.friction)
    known = body.provenance.get("friction") in _TRUSTED or body.friction < SLIPPERY
    if known or hold.body in attempt.friction or raised <= body.friction + 1e-6:
        return
    note = f"friction: {hold.body} {body.friction:.2f} -> {raised:.2f}"
    yield replace(attempt, friction=attempt.friction | {hold.body: raised}, notes=(*attempt.notes, note))


def _shifted(
    bench: Bench, attempt: Attempt, hold: Hold, end: str, shift: Array, window: tuple[float, float, float, float]
) -> Attempt | None:
    """The attempt with one more tcp shift, held within reach; None when nothing is left of it or the arm cannot."""
    key = f"{end} {hold.robot} {hold.body} {hold.grasp:.3f}"
    before = attempt.shifts.get(key, np.zeros(3))
    total = before + shift
    length = float(np.linalg.norm(total))
    total = total * min(1.0, REACH / max(length, 1e-9))
    shift = total - before
    if float(np.linalg.norm(shift)) < 0.001:
        return None
    name = f"{hold.robot}/qpos"
    time = np.asarray(attempt.arrays["time"], dtype=np.float64)
    qpos, left = shift_tcp(bench.arms[hold.robot], time, attempt.arrays[name], shift, window)
    if left > _IK_LEFT:
        return None
    arrays = {**attempt.arrays, name: qpos}
    if f"{hold.robot}/tcp" in arrays:
        arrays[f"{hold.robot}/tcp"] = bench.arms[hold.robot].tcp(qpos)
    x, y, z = (round(float(value) * 1000, 1) for value in shift)
    note = f"alignment: tcp shifted by ({x}, {y}, {z}) mm at the {end} of {hold.body}"
    return replace(attempt, arrays=arrays, shifts={**attempt.shifts, key: total}, notes=(*attempt.notes, note))


def _tcp_at(bench: Bench, attempt: Attempt, hold: Hold, moment: float) -> Array:
    time = np.asarray(attempt.arrays["time"], dtype=np.float64)
    joints = attempt.arrays[f"{hold.robot}/qpos"]
    row = np.array([np.interp(moment, time, joints[:, column]) for column in range(joints.shape[1])])
    return bench.arms[hold.robot].tcp(row)


def _measured_offset(bench: Bench, hold: Hold, tcp: Array, body: Array) -> tuple[float, float]:
    """How far the part of the body nearest the pads lies off their middle: along closing and along approach, metres."""
    gripper = bench.world.robots[hold.robot].robot.gripper
    if gripper is None:
        return 0.0, 0.0
    mesh = shape_mesh(bench.world.scene.body(hold.body).shape, bench.world.folder)
    normals, areas = mesh.face_normals()
    generator = np.random.default_rng(0)
    faces = generator.choice(len(areas), 3000, p=areas / areas.sum())
    weights = generator.dirichlet((1.0, 1.0, 1.0), 3000)
    points = np.einsum("nk,nkc->nc", weights, mesh.triangles[faces])
    local = apply(inverse(tcp) @ body, points)
    width = gripper.stroke if hold.width is None else hold.width
    local[:, 2] -= gripper.pad_offset(width)
    near = local[np.linalg.norm(local[:, [0, 2]], axis=1) < 0.012]
    lateral = 0.0
    if len(near):
        low, high = float(near[:, 1].min()), float(near[:, 1].max())
        lateral = (low + high) / 2 if high - low <= gripper.stroke else min((low, high), key=abs)
    axis = local[np.linalg.norm(local[:, :2], axis=1) < 0.02]
    depth = float(axis[:, 2].min()) + 0.012 if len(axis) else 0.0
    return float(np.clip(lateral, -REACH, REACH)), float(np.clip(depth, 0.0, REACH))


def _to_goal(bench: Bench, hold: Hold, outcome: Outcome, tick: int) -> Array | None:
    """World shift `(3,)` that centres the held body on what it is to be inside or on."""
    for predicate in bench.world.scene.task.predicates:
        if (
            predicate.name not in {"inside", "on", "inserted"}
            or len(predicate.args) < 2
            or predicate.args[0] != hold.body
        ):
            continue
        target = str(predicate.args[1])
        shape = bench.world.scene.body(target).shape
        hollow = cavity(shape, bench.world.folder)
        centre = outcome.recording.matrix(target, tick) @ np.array([*(hollow.centre if hollow else (0, 0)), 0.0, 1.0])
        held = outcome.recording.matrix(hold.body, tick)[:3, 3]
        shift = np.array([centre[0] - held[0], centre[1] - held[1], 0.0])
        return shift * min(1.0, REACH / max(float(np.linalg.norm(shift)), 1e-9))
    return None


def _tick(outcome: Outcome, moment: float) -> int:
    """Recorded step nearest to a time on the motion's clock."""
    recording = outcome.recording
    return min(int(np.searchsorted(recording.time, outcome.windows["settle"][1] + moment)), recording.steps - 1)


def severity(check: Check) -> float:
    """How far a failed check is from its threshold, in thresholds."""
    if check.value is None or check.threshold is None:
        return 10.0
    scale = max(abs(check.threshold), 1e-6)
    return min(10.0, abs(check.value - check.threshold) / scale)
