"""What the robot measured: which object each hold was on, and what width and tcp say of its size and place."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from backend.documents.observations import Hold, Masks, Observations
from backend.reconstruct.evidence import Window, frames_within, signed_distance
from backend.reconstruct.families import Family
from backend.reconstruct.fitting import Candidate
from backend.reconstruct.lens import Lens
from mjcf_export.frames import Array

FAR_PIXELS = 60.0
"""A hold further than this from every mask is on nothing that was observed."""
RIM_SHARE = 0.4
"""A hollow body gripped at less than this share of its width is held by its wall."""
WIDTH_SIGMA = 0.0015
LATERAL_SIGMA = 0.006
ALONG_SIGMA = 0.02
TURN_SIGMA = 0.09
SETTLE = 0.3


@dataclass(frozen=True)
class Grip:
    """A hold with the object it was on."""

    hold: Hold
    name: str

    @property
    def grasp(self) -> Array:
        """The tcp `(4, 4)` in the world when the gripper had closed."""
        return np.array(self.hold.grasp_tcp)

    @property
    def release(self) -> Array:
        """The tcp `(4, 4)` in the world when the gripper opened."""
        return np.array(self.hold.release_tcp)

    @property
    def yaw(self) -> float:
        """Direction of closing on the ground, radians."""
        closing = self.grasp[:2, 1]
        return float(np.arctan2(closing[1], closing[0]))


def assign_holds(observations: Observations, masks: Masks, lenses: Sequence[Lens]) -> list[Grip]:
    """The object of each hold: the one whose mask lies nearest to the projected tcp just before it closed."""
    grips = []
    for hold in observations.holds:
        distances = {
            item.name: _distance(item.name, hold, observations, masks, lenses)
            for item in observations.objects
            if not item.roles or not set(item.roles) <= {"support", "fixed"}
        }
        for item in observations.objects:
            if item.name in distances and "moved" in item.roles:
                distances[item.name] -= 10.0
        near = min(distances, key=lambda name: distances[name], default=None)
        if near is not None and distances[near] < FAR_PIXELS:
            grips.append(Grip(hold, near))
    return sorted(grips, key=lambda grip: grip.hold.grasp)


def first_grip(grips: Sequence[Grip], name: str) -> Grip | None:
    """The first hold of an object, if it was held."""
    return next((grip for grip in grips if grip.name == name), None)


def _distance(name: str, hold: Hold, observations: Observations, masks: Masks, lenses: Sequence[Lens]) -> float:
    point = np.array(hold.grasp_tcp)[None, :3, 3]
    found = []
    for lens in lenses:
        key = f"mask/{lens.name}/{name}"
        if key not in masks:
            continue
        pixel, depth = lens.project(point)
        times = np.array(observations.times[lens.name])
        frames = frames_within(times, Window(0.0, hold.close_start))[::-1]
        mask = next((m for m in (masks.frame(key, frame) for frame in frames[:40]) if m.sum() > 12), None)
        if mask is None or depth[0] <= 0:
            continue
        u = int(np.clip(np.round(pixel[0, 0]), 0, lens.size[0] - 1))
        v = int(np.clip(np.round(pixel[0, 1]), 0, lens.size[1] - 1))
        if signed_distance(mask)[v, u] < 0:
            found.append(0.0)
            continue
        rows, columns = np.nonzero(mask)
        found.append(float(np.hypot(rows - pixel[0, 1], columns - pixel[0, 0]).min()))
    return float(np.mean(found)) if found else float("inf")


def rest_windows(name: str, grips: Sequence[Grip], end: float) -> list[Window]:
    """When an object rests: before its first hold, between holds, after its last one (seconds)."""
    own = [grip.hold for grip in grips if grip.name == name]
    if not own:
        return [Window(0.0, end)]
    windows = [Window(0.0, own[0].close_start)]
    for hold, following in zip(own, [*own[1:], None], strict=True):
        stop = end if following is None else following.close_start
        windows.append(Window(min(hold.open_end + SETTLE, end), stop))
    return windows


def held_by_rim(candidate: Candidate, grip: Grip) -> bool:
    """Whether a hollow body was held by its wall rather than around it."""
    across = float(min(candidate.extents[:2]))
    return candidate.family.hollow and grip.hold.width < RIM_SHARE * across


def grip_residuals(grip: Grip | None, size: Array | None) -> Callable[[Family], Callable[[Candidate], Array] | None]:
    """Residuals, in standard deviations, of a measured hold and of sizes the user knows.

    Args:
        grip: the first hold of the object, from its first place of rest.
        size: known extents `(3,)` in metres, NaN where unknown.
    """

    def residuals(candidate: Candidate) -> Array:
        values = [] if size is None else [size_residuals(candidate, size)]
        if grip is not None:
            values.append(_hold_residuals(candidate, grip))
        return np.concatenate(values)

    def for_family(_family: Family) -> Callable[[Candidate], Array] | None:
        return None if grip is None and size is None else residuals

    return for_family


def size_residuals(candidate: Candidate, size: Array) -> Array:
    """Relative errors of the known extents at one per cent; width and depth may be swapped."""
    extents = candidate.extents
    swapped = extents[[1, 0, 2]]
    best = min((_relative(option, size) for option in (extents, swapped)), key=lambda v: float(v @ v))
    return best / 0.01


def _relative(extents: Array, size: Array) -> Array:
    known = np.isfinite(size)
    return np.where(known, extents / np.where(known, size, 1.0) - 1, 0.0)


def _hold_residuals(candidate: Candidate, grip: Grip) -> Array:
    tcp = grip.grasp
    x, y, yaw, z = candidate.poses[0]
    offset = np.array([x, y]) - tcp[:2, 3]
    closing = tcp[:2, 1]
    flat = float(np.linalg.norm(closing))
    if flat < 0.5:
        return np.zeros(4)
    closing = closing / flat
    across = np.array([-closing[1], closing[0]])
    height = float(tcp[2, 3] - z)
    extents = candidate.extents
    level = float(np.clip(height, 0, extents[2]))
    off_height = max(0.0, height - float(extents[2]), -height) / 0.006
    lateral = float(offset @ closing)
    if held_by_rim(candidate, grip):
        radius = candidate.family.gripped(candidate.parameters, level) - grip.hold.width / 2
        distance = float(np.linalg.norm(offset)) if candidate.family.turned else abs(lateral)
        return np.array([(distance - radius) / LATERAL_SIGMA, off_height, 0.0, 0.0])
    if candidate.family.turned:
        width = 2 * candidate.family.gripped(candidate.parameters, level)
        turn = 0.0
    else:
        turn = yaw - grip.yaw
        quarter = round(turn / (np.pi / 2))
        width = float(extents[0] if quarter % 2 == 0 else extents[1])
        turn = (turn - quarter * np.pi / 2) / TURN_SIGMA
    return np.array(
        [
            (width - grip.hold.width) / WIDTH_SIGMA,
            lateral / LATERAL_SIGMA,
            float(offset @ across) / ALONG_SIGMA,
            np.hypot(turn, off_height) if off_height else turn,
        ]
    )
