"""Where things stand: the common support height, what rests on or in what, and where a carried object ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from backend.reconstruct.evidence import Outline, Window
from backend.reconstruct.families import with_floor
from backend.reconstruct.fitting import Candidate, Support, pose_only
from backend.reconstruct.lens import Lens
from backend.reconstruct.metrology import Grip, held_by_rim
from backend.reconstruct.resize import scaled
from mjcf_export.document import Provenance
from mjcf_export.frames import Array, inverse
from mjcf_export.scene import Cylinder, Lathe, Shape, Tray
from mjcf_export.shapes import cavity, extents

STACKED = 0.008
"""An object this far above the support stands on something else (metres)."""
CRISP, KNOWN = 0.8, 0.0015
"""Largest residual of an outline (pixels) and of the height it gives (metres) for a floor to be read off it."""
THIN = 0.0015
"""No floor is thinner (metres)."""
MISJUDGED = 0.008
"""How far an outline can misjudge a body's height (metres)."""


@dataclass(frozen=True)
class Fitted:
    """One reconstructed object: what was fitted, the shape made of it and where it rested."""

    name: str
    candidate: Candidate
    windows: tuple[Window, ...]
    outlines: tuple[Outline, ...]
    shape: Shape
    poses: tuple[Array, ...]
    """Body frames `(4, 4)`, one a window of rest."""
    grips: tuple[Grip, ...] = ()
    provenance: dict[str, Provenance] = field(default_factory=dict)
    residuals: dict[str, float] = field(default_factory=dict)
    supports: tuple[str, ...] = ()
    """What it stands on or in, one a window; the support's name for the common plane."""

    @property
    def finite_residuals(self) -> dict[str, float]:
        """The residuals a document can hold."""
        return {key: float(value) for key, value in self.residuals.items() if np.isfinite(value)}

    @property
    def initial(self) -> Array:
        """The first pose."""
        return self.poses[0]

    @property
    def final(self) -> Array:
        """The last pose."""
        return self.poses[-1]


def height_guess(outlines: Mapping[str, Sequence[Outline]], grips: Sequence[Grip]) -> float:
    """A first support height: where the lowest points of the outlines meet between views, else under the holds."""
    heights = []
    for seen in outlines.values():
        first = [outline for outline in seen if outline.window == 0]
        if len(first) < 2:
            continue
        system, right = np.zeros((3, 3)), np.zeros(3)
        for outline in first:
            u0, _, u1, v1 = outline.box
            origin, direction = outline.lens.rays(np.array([[(u0 + u1) / 2, v1 - 0.15 * (v1 - outline.box[1])]]))
            across = np.eye(3) - np.outer(direction[0], direction[0])
            system += across
            right += across @ origin
        if np.linalg.cond(system) < 1e4:
            heights.append(float(np.linalg.solve(system, right)[2]))
    if heights:
        return float(np.median(heights))
    if grips:
        return float(min(grip.grasp[2, 3] for grip in grips)) - 0.02
    return 0.0


def common_height(candidates: Sequence[Candidate]) -> tuple[float, float]:
    """The height most objects stand at and its standard deviation, from free fits of each (metres)."""
    heights = np.array([candidate.poses[0, 3] for candidate in candidates])
    spread = np.array([max(float(candidate.spread[-1]), 5e-4) for candidate in candidates])
    order = np.argsort(heights)
    weight = 1 / spread[order] ** 2
    middle = heights[order][int(np.searchsorted(np.cumsum(weight), weight.sum() / 2))]
    near = np.abs(heights - middle) < np.maximum(3 * spread, 0.004)
    if not near.any():
        near[np.argmin(np.abs(heights - middle))] = True
    weights = 1 / spread[near] ** 2
    return float(np.average(heights[near], weights=weights)), float(1 / np.sqrt(weights.sum()))


def carried_pose(grip: Grip, pose: Array, candidate: Candidate) -> Array:
    """The object's frame `(4, 4)` in the tcp while held: closing centres it between the pads."""
    relative = inverse(grip.grasp) @ pose
    if not held_by_rim(candidate, grip):
        middle = inverse(grip.grasp) @ pose @ np.array([0, 0, grip_level(grip, pose, candidate), 1.0])
        relative[:3, 3] -= np.array([0, middle[1], 0])
    return relative


def grip_level(grip: Grip, pose: Array, candidate: Candidate) -> float:
    """Height on the object at which it was held, metres above its bottom."""
    return float(np.clip(grip.grasp[2, 3] - pose[2, 3], 0, candidate.extents[2]))


def upright_at(pose: Array, xyz: Array) -> Array:
    """`pose` turned to stand upright, keeping its heading, moved to `xyz`."""
    heading = _heading(pose)
    standing = np.eye(4)
    standing[:2, :2] = [[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]]
    standing[:3, 3] = xyz
    return standing


def rest_height(
    shape: Shape, xy: Array, others: Sequence[tuple[str, Shape, Array]], ground: tuple[str, float]
) -> tuple[str, float, bool]:
    """What a body set down at `xy` comes to rest on: its name, the height, and whether it is in its cavity.

    Args:
        shape: the body's shape.
        xy: where its axis is.
        others: `(name, shape, pose)` of bodies it may rest on.
        ground: name and height of the support.
    """
    best = (ground[0], ground[1], False)
    size = extents(shape, Path())
    for name, other, pose in others:
        offset = float(np.linalg.norm(xy - pose[:2, 3]))
        reach = float(extents(other, Path())[:2].max()) / 2
        if offset > reach:
            continue
        room = cavity(other)
        top = float(pose[2, 3] + extents(other, Path())[2])
        if room is None:
            level, inside = top, False
        else:
            sunk = _sunk(shape, other, offset, footprint_radius(shape))
            if sunk is None:
                sunk = _sunk(shape, other, offset, float(size[:2].min()) / 2)
            level, inside = (float(pose[2, 3]) + sunk, True) if sunk is not None else (top, False)
        if level > best[1]:
            best = (name, level, inside)
    return best


def footprint_radius(shape: Shape) -> float:
    """Radius of the circle around a shape's footprint, metres."""
    size = extents(shape, Path())[:2]
    return float(size.max()) / 2 if isinstance(shape, Lathe | Cylinder) else float(np.linalg.norm(size)) / 2


def _sunk(shape: Shape, other: Shape, offset: float, radius: float) -> float | None:
    """How high above the other's bottom a body dropped into its cavity comes to rest; None when it does not fit."""
    room = cavity(other)
    if room is None:
        return None
    height = float(extents(shape, Path())[2])
    levels = np.linspace(0, 1, 24)
    outer = (
        np.interp(levels * height, [z for _, z in shape.outer], [r for r, _ in shape.outer])
        if isinstance(shape, Lathe)
        else np.full(24, radius)
    )
    if room.profile is None:
        wide = float(min(room.opening))
        return room.floor if outer.max() <= wide else None
    table = np.array(room.profile)
    slack = min(offset, 0.3 * float(table[-1, 0]))
    for rise in np.linspace(room.floor, room.rim, 60):
        at = rise + levels * height
        within = at <= room.rim
        if (outer[within] <= np.interp(at[within], table[:, 1], table[:, 0]) - 0.2 * slack + 5e-4).all():
            return float(rise) if rise < room.rim - 1e-4 else None
    return None


def into_cavity(xy: Array, radius: float, other: Shape, pose: Array) -> Array:
    """`xy` moved so that a footprint of `radius` lies within the cavity of `other`."""
    room = cavity(other)
    if room is None:
        return xy
    offset = xy - pose[:2, 3]
    limit = max(float(room.radius(room.floor + 0.3 * (room.rim - room.floor))) - radius, 0.0)
    distance = float(np.linalg.norm(offset))
    moved: Array = xy if distance <= limit else pose[:2, 3] + offset * limit / distance
    return moved


@dataclass(frozen=True)
class Seen:
    """Where an object was seen after it was set down.

    `pose` is `(x, y, yaw, z)`, `rms` the outline's residual in pixels, `height_sigma` how well `z` is known (metres).
    """

    pose: Array
    rms: float
    height_sigma: float

    @property
    def tells_height(self) -> bool:
        """Whether it was seen well enough for the height of what it stands on."""
        return self.rms <= CRISP and self.height_sigma <= KNOWN

    def offset(self, host: Array) -> float:
        """How far it stands from the axis of a body at `host` `(4, 4)`, metres."""
        return float(np.linalg.norm(self.pose[:2] - host[:2, 3]))


def seen_at(
    fitted: Fitted,
    outlines: Sequence[Outline],
    expected: Array,
    others: Sequence[tuple[str, Shape, Array]],
    ground: tuple[str, float],
) -> Seen | None:
    """Where an object rests by its outlines in a later window; None when they do not tell.

    Args:
        fitted: the object.
        outlines: its outlines in that window, relabelled to window 0.
        expected: body frame `(4, 4)` where the hand left it.
        others: bodies it may rest on, with their poses then.
        ground: name and height of the support.
    """
    if not outlines or fitted.candidate.family.lying:
        return None
    _, level, inside = rest_height(fitted.shape, expected[:2, 3], others, ground)
    guess = np.array([*expected[:2, 3], _heading(expected), level])
    sigma = np.array([0.012, 0.012, 0.15, 0.05])
    support = Support(level, 0.004 if inside else 0.002)
    pose, rms, spread = pose_only(fitted.candidate, outlines, support, guess, (guess, sigma))
    return Seen(pose, rms, float(spread[3]))


def with_seen_floor(host: Fitted, standing: Fitted, seen: Seen) -> Fitted:
    """A container whose floor nobody knew, with the floor at the height where what stands on it was seen."""
    room = cavity(host.shape)
    if room is None or not seen.tells_height or host.provenance.get("floor") != "assumed":
        return host
    floor = float(seen.pose[3] - host.final[2, 3])
    foot = footprint_radius(standing.shape)
    flat = isinstance(host.shape, Tray) or seen.offset(host.final) + foot < float(room.radius(max(floor, room.floor)))
    if not flat or not THIN <= floor <= 0.4 * room.rim:
        return host
    return replace(host, shape=with_floor(host.shape, floor), provenance={**host.provenance, "floor": "estimated"})


def with_seen_top(host: Fitted, standing: Fitted, seen: Seen) -> Fitted:
    """A closed body as high as where what stands on it was seen: its own outline tells its height less well."""
    if cavity(host.shape) is not None or not seen.tells_height or host.candidate.family.lying:
        return host
    before = float(extents(host.shape, Path())[2])
    height = float(seen.pose[3] - host.final[2, 3])
    beneath = (
        seen.offset(host.final) + 0.5 * footprint_radius(standing.shape) < float(host.candidate.extents[:2].min()) / 2
    )
    if not beneath or not max(THIN, before - MISJUDGED) <= height <= before + MISJUDGED:
        return host
    shape = scaled(host.shape, (1.0, 1.0, height / before))
    return host if shape is None else replace(host, shape=shape)


def resettle(
    fitted: Fitted,
    window: int,
    seen: Seen | None,
    expected: Array,
    others: Sequence[tuple[str, Shape, Array]],
    ground: tuple[str, float],
) -> Fitted:
    """`fitted` with the pose of a later window of rest, from where it was seen and where the hand let go of it.

    Args:
        fitted: the object.
        window: which window of rest.
        seen: where its outlines put it.
        expected: body frame `(4, 4)` where the hand left it.
        others: bodies it may rest on, with their poses then.
        ground: name and height of the support.
    """
    xy, heading = (expected[:2, 3], _heading(expected)) if seen is None else (seen.pose[:2], float(seen.pose[2]))
    residuals = dict(fitted.residuals) | ({} if seen is None else {f"outline_px_{window}": seen.rms})
    name, level, inside = rest_height(fitted.shape, xy, others, ground)
    if inside:
        host = next(item for item in others if item[0] == name)
        xy = into_cavity(xy, footprint_radius(fitted.shape), host[1], host[2])
    pose = upright_at(expected, np.array([*xy, level]))
    pose[:2, :2] = [[np.cos(heading), -np.sin(heading)], [np.sin(heading), np.cos(heading)]]
    if fitted.candidate.family.lying:
        pose = fitted.initial.copy()
        pose[:3, 3] += expected[:3, 3] - fitted.initial[:3, 3]
        pose[2, 3] = level + fitted.initial[2, 3] - ground[1]
    return replace(fitted, poses=(*fitted.poses, pose), supports=(*fitted.supports, name), residuals=residuals)


def _heading(pose: Array) -> float:
    return float(np.arctan2(pose[1, 0], pose[0, 0]))


def lens_views(outlines: Sequence[Outline]) -> tuple[Lens, ...]:
    """The views that saw an object."""
    return tuple({outline.lens.name: outline.lens for outline in outlines}.values())
