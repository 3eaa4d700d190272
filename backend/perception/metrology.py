"""What the robot measured with its own gripper: when it closed, how wide it stalled, where it let go."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.ndimage import median_filter
from scipy.spatial.transform import Rotation, Slerp

from backend.documents.observations import Hold
from mjcf_export.frames import Array

SMALLEST_GRASP = 0.0015
"""Openings (m) below this count as closed on nothing."""
SMALLEST_MOTION = 0.004
"""A gripper that closes or opens by less than this (m) has not grasped or released."""
SHORTEST_HOLD = 0.15
"""Seconds between closing and opening below which nothing was carried."""


@dataclass(frozen=True)
class Grip:
    """One closing of the gripper, as indices into the record: start of closing, stalled, last stalled, open again."""

    start: int
    stalled: int
    last: int
    opened: int
    width: float
    released: bool


def measure_holds(robot: str, time: Array, opening: Array, tcp: Array) -> tuple[list[Hold], list[str]]:
    """Every grasp in a robot's record, and notes on closings that held nothing.

    Args:
        robot: the robot's name.
        time: `(N,)` seconds.
        opening: `(N,)` metres between the pads; encoder noise is tolerated.
        tcp: `(N, 4, 4)` tcp in the world.
    """
    holds, notes = [], []
    for grip in find_grips(time, opening):
        if grip.width < SMALLEST_GRASP:
            notes.append(f"{robot}: the gripper closed on nothing at {time[grip.stalled]:.2f} s")
            continue
        if not grip.released:
            notes.append(f"{robot}: still holding at the end of its record ({time[-1]:.2f} s)")
        grasp, release = _crossing(time, opening, grip, closing=True), _crossing(time, opening, grip, closing=False)
        holds.append(
            Hold(
                robot=robot,
                close_start=float(time[grip.start]),
                grasp=grasp,
                release=release,
                open_end=float(time[grip.opened]),
                width=grip.width,
                grasp_tcp=_rows(tcp_at(time, tcp, grasp)),
                release_tcp=_rows(tcp_at(time, tcp, release)),
            )
        )
    return holds, notes


def find_grips(time: Array, opening: Array) -> list[Grip]:
    """Closings and the openings that follow them, in order.

    The opening is reduced to its turning points (reversals beyond noise); each valley that lies `SMALLEST_MOTION` below
    the peak before it and lasts is a grip, its width the median of the samples that stay on the valley's floor.
    """
    if len(opening) < 3:
        return []
    smooth = median_filter(opening, size=5, mode="nearest") if len(opening) >= 15 else opening.copy()
    noise = float(np.median(np.abs(np.diff(opening)))) * 1.4826 / np.sqrt(2)
    tolerance = max(0.0006, 3 * noise)
    turns = _turning_points(smooth, max(SMALLEST_MOTION, 6 * noise))
    grips = []
    for position, valley in enumerate(turns):
        before = smooth[turns[position - 1]] if position else -np.inf
        if before - smooth[valley] < SMALLEST_MOTION:
            continue
        following = turns[position + 1] if position + 1 < len(turns) else None
        grip = _measure(smooth, opening, (turns[position - 1], valley, following), tolerance)
        if time[grip.last] - time[grip.stalled] >= SHORTEST_HOLD:
            grips.append(grip)
    return grips


def tcp_at(time: Array, tcp: Array, moment: float) -> Array:
    """The tcp `(4, 4)` at a time, interpolated (clamped to the record)."""
    moment = float(np.clip(moment, time[0], time[-1]))
    if len(time) == 1:
        alone: Array = tcp[0].copy()
        return alone
    after = int(np.clip(np.searchsorted(time, moment), 1, len(time) - 1))
    pair = slice(after - 1, after + 1)
    result = np.eye(4)
    result[:3, :3] = Slerp(time[pair], Rotation.from_matrix(tcp[pair, :3, :3]))(moment).as_matrix()
    share = (moment - time[after - 1]) / (time[after] - time[after - 1])
    result[:3, 3] = (1 - share) * tcp[after - 1, :3, 3] + share * tcp[after, :3, 3]
    return result


def _turning_points(values: Array, reversal: float) -> list[int]:
    """Indices of alternating extremes whose difference is at least `reversal`; the ends count."""
    turns = [0]
    best, rising = 0, 0
    for index, value in enumerate(values):
        if (rising >= 0 and value > values[best]) or (rising <= 0 and value < values[best]):
            best = index
        if rising == 0 and abs(value - values[0]) >= reversal:
            rising, best = (1 if value > values[0] else -1), index
        elif rising * (values[best] - value) >= reversal:
            turns.append(best)
            rising, best = -rising, index
    if best != turns[-1]:
        turns.append(best)
    return turns


def _measure(smooth: Array, opening: Array, turns: tuple[int, int, int | None], tolerance: float) -> Grip:
    """Edges and width of one grip from the peaks around its valley."""
    peak, valley, following = turns
    end = len(smooth) - 1 if following is None else following
    floor = float(smooth[valley])
    level = np.flatnonzero(np.abs(smooth[peak : end + 1] - floor) <= max(2 * tolerance, 0.0012)) + peak
    width = float(np.median(opening[level]))
    middle = (smooth[peak] + floor) / 2
    falling = peak + int(np.argmax(smooth[peak : valley + 1] <= middle))
    start = peak + int(np.flatnonzero(smooth[peak : falling + 1] >= smooth[peak] - tolerance)[-1])
    on_floor = np.flatnonzero(smooth[falling : end + 1] <= width + tolerance) + falling
    stalled, last = int(on_floor[0]), int(on_floor[-1])
    released = following is not None and smooth[following] - floor >= SMALLEST_MOTION
    opened = len(smooth) - 1
    if released:
        risen = np.flatnonzero(smooth[last : end + 1] >= smooth[end] - tolerance)
        opened = last + int(risen[0])
    return Grip(start, stalled, last, opened, max(0.0, width), released)


def _crossing(time: Array, opening: Array, grip: Grip, *, closing: bool) -> float:
    """Time at which the moving opening meets the stalled width, by a line through its slope there."""
    if closing:
        span = np.arange(grip.start, grip.stalled + 1)
    elif grip.released:
        span = np.arange(grip.last, grip.opened + 1)
    else:
        return float(time[grip.last])
    middle = (opening[span[0]] + opening[span[-1]]) / 2
    height = abs(float(opening[span[0]] - opening[span[-1]]))
    steep = span[np.abs(opening[span] - middle) <= 0.4 * height]
    edge = float(time[grip.stalled if closing else grip.last])
    if len(steep) < 2 or height < SMALLEST_MOTION:
        return edge
    slope, offset = np.polyfit(time[steep], opening[steep], 1)
    moment = (grip.width - offset) / slope if abs(slope) > 1e-6 else edge
    step = float(np.median(np.diff(time)))
    return float(np.clip(moment, edge - 3 * step, edge + 3 * step))


def _rows(matrix: npt.NDArray[np.float64]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in row) for row in matrix)
