"""One view without calibration: its pitch, roll, height and focal length solved with the objects that stand before it.

The world then has Z along the support's normal, the support at z = 0, and X along the camera's right. Scale comes from
the sizes the user knows; without any it is assumed, and said so.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.demonstration import Demonstration, Trust, View
from backend.reconstruct.evidence import Outline
from backend.reconstruct.families import BOX, CUP, FAMILIES, Family, Prior
from backend.reconstruct.fitting import POSE, POSE_SCALE, Candidate, Support, first_look, minimise, outline_residuals
from backend.reconstruct.lens import Lens
from backend.reconstruct.metrology import size_residuals
from backend.reconstruct.vanishing import Usual, attitude, line_segments, looking
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, inverse

FIELD_OF_VIEW = np.radians(68.0)
"""Horizontal field of view assumed when nothing is known of the lens."""
FOCAL_SIGMA = 0.35
PITCH = np.radians(35.0)
PITCH_SIGMA = np.radians(15.0)
ROLL_SIGMA = np.radians(3.0)
GIVEN_SIGMA = 1e-4
"""Of the logarithm of a focal length that the user gave."""
BORDER = 7
"""Pixels across within which an edge belongs to an outline."""
USUAL_SIZE = 0.06
"""Width of an object on a table when none is known (metres, within a factor of 1.6)."""
SIZE_SIGMA = 0.5
SQUARE_SIGMA = 0.12
"""Boxes of unknown size are about as wide as deep."""
POINTS_NEEDED = 4
FARTHEST = 12.0
"""Camera heights beyond which nothing on a table is looked for."""


@dataclass(frozen=True)
class Solved:
    """The lens, and what was assumed to find it."""

    lens: Lens
    notes: tuple[str, ...]


@dataclass(frozen=True)
class Standing:
    """An object used to find the camera."""

    name: str
    family: Family
    outlines: tuple[Outline, ...]
    size: Array | None


def assumed_lens(view: View, size: tuple[int, int]) -> Lens:
    """The view's lens with given or assumed intrinsics, its pose still unknown.

    Args:
        view: the view.
        size: width and height in pixels.
    """
    given = view.intrinsics is not None
    focal = size[0] / 2 / np.tan(FIELD_OF_VIEW / 2)
    intrinsics = (
        np.array(view.intrinsics, dtype=np.float64)
        if given
        else np.array([[focal, 0, (size[0] - 1) / 2], [0, focal, (size[1] - 1) / 2], [0, 0, 1.0]])
    )
    trust: Trust = view.trust.intrinsics if given else "assumed"
    return Lens(view.name, size, intrinsics, np.eye(4), view.distortion, "estimated", trust)


def solve_camera(
    demo: Demonstration, view: View, lens: Lens, standing: Sequence[Standing], picture: npt.NDArray[np.uint8]
) -> Solved:
    """The camera over the support.

    Four or more clicked points of known position decide it alone. Else the picture's straight edges say how it is held
    and how wide it sees, as far as they can, and the objects do the rest: the camera and every object's shape and
    place are fitted together to the outlines, with known sizes holding the scale.

    Args:
        demo: the demonstration, for its clicked points.
        view: the view.
        lens: its intrinsics.
        standing: objects on the support with their outlines.
        picture: the view without what moves.

    Raises:
        InputError: there is nothing to find the camera from.
    """
    clicked = _from_points(demo, view, lens)
    if clicked is not None:
        return clicked
    if not standing:
        raise InputError(
            f"view {view.name}: no extrinsics and no object at rest to find the camera from; give a box prompt of an "
            f"object on the table and its size, or {POINTS_NEEDED} clicked points of known positions (correspondences)"
        )
    free_focal = lens.intrinsics_trust == "assumed"
    told = attitude(_edges_beside(standing, picture), lens.intrinsics[:2, 2], _usual(lens, free_focal))
    pitches = np.clip(told.mean[1] + told.sigma[1] * np.array([-1.0, 0.0, 1.0]), np.radians(4), np.radians(86))
    fits = [
        _joint(lens, grounded, float(pitch), told)
        for pitch in pitches
        if (grounded := _grounded(lens, standing, float(pitch), told))
    ]
    if not fits:
        raise InputError(
            f"view {view.name}: {', '.join(item.name for item in standing)} lie above the horizon, so nothing is known "
            "to stand on the support; give a box prompt of an object on the table and its size"
        )
    best = min(fits, key=lambda result: (-result[2], result[1]))[0]
    known = [item.name for item in standing if item.size is not None]
    notes = [
        f"view {view.name}: camera pose estimated from the outlines of {', '.join(item.name for item in standing)} "
        "standing on the support and the straight edges in the picture"
    ]
    if free_focal:
        degrees = 2 * np.degrees(np.arctan(lens.size[0] / 2 / best.intrinsics[0, 0]))
        notes.append(f"view {view.name}: intrinsics not given; horizontal field of view taken as {degrees:.0f} degrees")
    notes.append(
        f"scale fixed by the known size of {', '.join(known)}"
        if known
        else f"scale assumed: objects are taken to be about {100 * USUAL_SIZE:.0f} cm wide; give one size to fix it"
    )
    return Solved(replace(best, scale="estimated" if known else "assumed"), tuple(notes))


def _from_points(demo: Demonstration, view: View, lens: Lens) -> Solved | None:
    clicks = [
        click
        for click in demo.correspondences
        if click.view == view.name and click.point is not None and click.frame_of == "world"
    ]
    if len(clicks) < POINTS_NEEDED:
        return None
    points = np.array([click.point for click in clicks], dtype=np.float64)
    pixels = np.array([click.pixel for click in clicks], dtype=np.float64)
    found, turn, shift = cv2.solvePnP(
        points, pixels, lens.intrinsics, np.array(lens.distortion or (0.0,) * 5), flags=cv2.SOLVEPNP_SQPNP
    )
    if not found:
        raise InputError(f"view {view.name}: the clicked points do not determine a camera; check their positions")
    world = np.eye(4)
    world[:3, :3] = cv2.Rodrigues(turn)[0]
    world[:3, 3] = shift[:, 0]
    placed = lens.at(inverse(world), "estimated")
    miss = float(np.linalg.norm(placed.project(points)[0] - pixels, axis=1).mean())
    return Solved(
        placed, (f"view {view.name}: camera from {len(clicks)} clicked points, {miss:.1f} px off on average",)
    )


def _usual(lens: Lens, free_focal: bool) -> Usual:
    """What is believed of the camera before looking."""
    mean = np.array([np.log(lens.intrinsics[0, 0]), PITCH, 0.0])
    return Usual(mean, np.array([FOCAL_SIGMA if free_focal else GIVEN_SIGMA, PITCH_SIGMA, ROLL_SIGMA]))


def _edges_beside(standing: Sequence[Standing], picture: npt.NDArray[np.uint8]) -> Array:
    """Straight edges `(N, 4)` of the surroundings: a cup's sides are straight too, but lean with its shape."""
    lines = line_segments(picture)
    taken = np.zeros(picture.shape[:2], np.uint8)
    for outline in (outline for item in standing for outline in item.outlines):
        taken |= cv2.dilate(outline.mask.astype(np.uint8), np.ones((BORDER, BORDER)))
    u, v = np.round((lines[:, :2] + lines[:, 2:]) / 2).astype(int).T
    return np.asarray(lines[taken[v, u] == 0])


def _grounded(lens: Lens, standing: Sequence[Standing], pitch: float, told: Usual) -> list[Standing]:
    """The objects whose feet lie below the horizon at a starting attitude."""
    placed = _zoomed(lens, float(np.exp(told.mean[0]) / lens.intrinsics[0, 0])).at(looking(pitch, told.mean[2], 1.0))
    return [item for item in standing if all(below_horizon(outline, placed) for outline in item.outlines)]


def below_horizon(outline: Outline, lens: Lens, height: float = 0.0) -> bool:
    """Whether the foot of an outline lies on the support, at most `FARTHEST` camera heights away."""
    u0, _, u1, v1 = outline.box
    foot = lens.on_plane(np.array([[(u0 + u1) / 2, v1]]), height)[0]
    return bool(np.linalg.norm(foot - lens.pose[:3, 3]) < FARTHEST * (lens.pose[2, 3] - height))


def _joint(lens: Lens, standing: Sequence[Standing], pitch: float, told: Usual) -> tuple[Lens, float, int]:
    """The lens and the cost of one joint fit from a starting pitch, and how many objects it explains."""
    ratio = float(np.exp(told.mean[0]) / lens.intrinsics[0, 0])
    wide = _zoomed(lens, ratio)
    height = _height_guess(wide, standing, pitch)
    placed = wide.at(looking(pitch, told.mean[2], height), "estimated")
    camera = np.array([pitch, told.mean[2], np.log(height), np.log(ratio)])
    starts, counts = [camera], []
    for item in standing:
        seen = [replace(outline, lens=placed, window=0) for outline in item.outlines]
        centres, guess = first_look(seen, [Support(0.0, 1e-3)])
        first = item.family.start(guess)
        starts += [first, np.array([*centres[0], 0.4, 0.0])]
        counts.append(len(first))

    def unpack(vector: Array) -> tuple[Lens, list[Candidate]]:
        moved = _zoomed(lens, float(np.exp(vector[3]))).at(
            looking(vector[0], vector[1], float(np.exp(vector[2]))), "estimated"
        )
        candidates, at = [], 4
        for item, count in zip(standing, counts, strict=True):
            candidates.append(
                Candidate(item.family, vector[at : at + count], vector[at + count : at + count + POSE][None])
            )
            at += count + POSE
        return moved, candidates

    def residuals(vector: Array) -> Array:
        moved, candidates = unpack(vector)
        seen_so = np.array([np.log(lens.intrinsics[0, 0]) + vector[3], vector[0], vector[1]])
        values = [(seen_so - told.mean) / told.sigma, np.array([vector[2] + 0.5])]
        for item, candidate in zip(standing, candidates, strict=True):
            seen = [replace(outline, lens=moved, window=0) for outline in item.outlines]
            values.append(outline_residuals(candidate, item.family.parts(candidate.parameters), seen))
            values.append(_size_prior(candidate, item.size))
            values.append(np.array([candidate.poses[0, 3] / 1e-4]))
        return np.concatenate(values)

    start = np.concatenate(starts)
    scale = [np.array([0.05, 0.02, 0.1, 0.1])]
    for count in counts:
        scale += [np.full(count, 0.1), POSE_SCALE]
    result = minimise(residuals, start, np.concatenate(scale), 60)
    return unpack(result.x)[0], float(result.cost), len(standing)


def _zoomed(lens: Lens, ratio: float) -> Lens:
    """The lens with its focal length multiplied."""
    intrinsics = lens.intrinsics.copy()
    intrinsics[:2, :2] *= ratio
    return replace(lens, intrinsics=intrinsics)


def _size_prior(candidate: Candidate, size: Array | None) -> Array:
    extents = candidate.extents
    usual = np.log(max(float(extents[:2].mean()), 1e-4) / USUAL_SIZE) / SIZE_SIGMA
    square = 0.0 if candidate.family.turned else np.log(extents[0] / extents[1]) / SQUARE_SIGMA
    known = np.zeros(3) if size is None else size_residuals(candidate, size)
    return np.array([usual, square, *known])


def _height_guess(lens: Lens, standing: Sequence[Standing], pitch: float) -> float:
    """Camera height from how large things of known, or usual, size appear."""
    heights = []
    for item in standing:
        u0, v0, u1, v1 = item.outlines[0].box
        focal = float(lens.intrinsics[0, 0])
        if item.size is not None and np.isfinite(item.size[2]):
            tall = max((v1 - v0) - np.sin(pitch) * (u1 - u0), 0.3 * (v1 - v0))
            depth = focal * float(item.size[2]) * np.cos(pitch) / tall
        else:
            wide = item.size[0] if item.size is not None and np.isfinite(item.size[0]) else USUAL_SIZE
            depth = focal * float(wide) / (u1 - u0)
        ray = np.linalg.inv(lens.intrinsics) @ np.array([(u0 + u1) / 2, v1, 1.0])
        down = float(looking(pitch, 0.0, 0.0)[2, :3] @ ray)
        if down < -0.02:
            heights.append((item.size is None, -down * depth))
    if not heights:
        return 0.6
    sure = [height for assumed, height in heights if not assumed]
    return float(np.median(sure or [height for _, height in heights]))


def family_for(prior: Prior) -> Family:
    """The family that stands in for an object while the camera is found."""
    ranked = sorted(
        prior.allowed, key=lambda family: (prior.penalty[family.name], family not in (BOX, CUP), family.parameters)
    )
    return ranked[0] if ranked else FAMILIES[0]


def recentred(lens: Lens, origin: Array) -> Lens:
    """The lens in a world whose origin is moved to `origin` `(2,)` on the support."""
    pose = lens.pose.copy()
    pose[:2, 3] -= origin
    return lens.at(pose)
