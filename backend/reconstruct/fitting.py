"""Analysis by synthesis: one object's shape and resting poses fitted to its outlines in all views."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import OptimizeResult, least_squares

from backend.reconstruct.evidence import Outline
from backend.reconstruct.families import Family, Guess, Prior
from backend.reconstruct.silhouettes import polygons
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, rotation_about, transform

PIXEL_SIGMA = 0.5
ROBUST = 2.0
EFFECTIVE = 20.0
COMPLEXITY = 0.04
"""Pixels of residual that one more parameter must buy."""
POSE = 4
POSE_SCALE = np.array([0.01, 0.01, 0.2, 0.01])

Extra = Callable[["Candidate"], Array]
"""Further residuals in units of their own standard deviation: metrology, known sizes."""


@dataclass
class Candidate:
    """A family with its parameters and one pose `(x, y, yaw, z)` a window of rest."""

    family: Family
    parameters: Array
    poses: Array
    rms: float = np.inf
    score: float = np.inf
    spread: Array = field(default_factory=lambda: np.zeros(0))

    def pose(self, window: int) -> Array:
        """The body frame `(4, 4)` in the world."""
        return body_pose(self.family, self.parameters, self.poses[window])

    @property
    def extents(self) -> Array:
        """Width, depth, height in metres."""
        return self.family.extents(self.parameters)


def body_pose(family: Family, parameters: Array, pose: Array) -> Array:
    """The body frame `(4, 4)` of a pose `(x, y, yaw, z)`: the point under its middle, at the support."""
    x, y, yaw, z = pose
    matrix = transform((x, y, z))
    matrix[:3, :3] = rotation_about((0, 0, 1), yaw)
    if family.lying:
        length, diameter, _ = family.extents(parameters)
        matrix[:3, 3] += (0, 0, diameter / 2)
        matrix[:3, 3] -= matrix[:3, 0] * length / 2
        matrix[:3, :3] = matrix[:3, :3] @ rotation_about((0, 1, 0), np.pi / 2)
    return matrix


@dataclass(frozen=True)
class Support:
    """The height objects stand at and how sure it is (metres, one standard deviation)."""

    height: float
    sigma: float


def fit_family(
    family: Family,
    outlines: Sequence[Outline],
    supports: Sequence[Support],
    start: tuple[Array, Array],
    *,
    extra: Extra | None = None,
    evaluations: int = 25,
) -> Candidate:
    """Fit one family from one start by robust least squares on outline distances.

    Args:
        family: the family.
        outlines: what was seen; `window` indexes `supports`.
        supports: what each window's rest stands on.
        start: parameters and poses `(windows, 4)` to start from.
        extra: further residuals.
        evaluations: most Jacobians to spend.
    """
    first, poses = start
    count = len(first)
    windows = len(supports)

    def unpack(vector: Array) -> Candidate:
        return Candidate(family, vector[:count], vector[count:].reshape(windows, POSE))

    def residuals(vector: Array) -> Array:
        candidate = unpack(vector)
        parts = family.parts(candidate.parameters)
        values = [outline_residuals(candidate, parts, outlines)]
        for pose, support in zip(candidate.poses, supports, strict=True):
            values.append(np.array([(pose[3] - support.height) / support.sigma]))
        values.append((vector - origin) * 1e-3)
        if extra is not None:
            values.append(extra(candidate))
        return np.concatenate(values)

    origin = np.concatenate([first, poses.ravel()])
    scale = np.concatenate([np.full(count, 0.1), np.tile(POSE_SCALE, windows)])
    result = minimise(residuals, origin, scale, evaluations)
    best = unpack(result.x)
    best.rms = outline_rms(best, outlines)
    best.spread = spread_of(result)
    return best


def minimise(residuals: Callable[[Array], Array], start: Array, scale: Array, evaluations: int) -> OptimizeResult:
    """Least squares with forward differences of a hundredth of each variable's scale."""

    def jacobian(vector: Array) -> Array:
        base = residuals(vector)
        columns = []
        for index, step in enumerate(scale * 0.01):
            moved = vector.copy()
            moved[index] += step
            columns.append((residuals(moved) - base) / step)
        return np.column_stack(columns)

    return least_squares(residuals, start, jac=jacobian, x_scale=scale, max_nfev=evaluations, ftol=1e-4, xtol=1e-6)


def spread_of(result: OptimizeResult) -> Array:
    """Standard deviation of each variable by the curvature at the minimum; infinite where there is none."""
    curvature = result.jac.T @ result.jac + 1e-9 * np.eye(len(result.x))
    try:
        return np.asarray(np.sqrt(np.maximum(np.diag(np.linalg.inv(curvature)), 0)))
    except np.linalg.LinAlgError:
        return np.full(len(result.x), np.inf)


def outline_residuals(candidate: Candidate, parts: Sequence[Array], outlines: Sequence[Outline]) -> Array:
    """Robust outline distances in units of their standard deviation, all outlines together."""
    values = []
    for outline in outlines:
        drawn = polygons(parts, candidate.pose(outline.window), outline.lens)
        if drawn is None:
            values.append(np.full(outline.length(parts), 100.0))
            continue
        residual, share = outline.residuals(drawn)
        robust = np.sign(residual) * ROBUST * np.sqrt(2 * (np.sqrt(1 + (residual / ROBUST) ** 2) - 1))
        values.append(robust * np.sqrt(share * EFFECTIVE / 2) / PIXEL_SIGMA)
    return np.concatenate(values) if values else np.zeros(0)


def outline_rms(candidate: Candidate, outlines: Sequence[Outline]) -> float:
    """Root mean square outline distance in pixels, robust to a tenth of outliers."""
    parts = candidate.family.parts(candidate.parameters)
    worst = []
    for outline in outlines:
        drawn = polygons(parts, candidate.pose(outline.window), outline.lens)
        if drawn is None:
            return float("inf")
        residual, share = outline.residuals(drawn)
        seen = np.abs(residual[share > 0])
        if len(seen):
            worst.append(float(np.sqrt(np.mean(np.minimum(seen, np.quantile(seen, 0.95)) ** 2))))
    return float(np.sqrt(np.mean(np.square(worst)))) if worst else float("inf")


def choose(
    prior: Prior,
    outlines: Sequence[Outline],
    supports: Sequence[Support],
    extra: Callable[[Family], Extra | None] = lambda _family: None,
    yaw: float | None = None,
) -> Candidate:
    """The family and parameters that explain the outlines best.

    Every allowed family is fitted coarsely from several starts; the two best are refined. The score is the outline
    residual in pixels, plus `COMPLEXITY` a parameter, plus the prior's penalty.

    Args:
        prior: families to try and what each costs.
        outlines: what was seen, at least one of window 0.
        supports: what each window's rest stands on.
        extra: metrology residuals for a family.
        yaw: a measured direction of one side, if any (radians, modulo a quarter turn).
    """
    centres, guess = first_look(outlines, supports)
    coarse = []
    for family in prior.allowed:
        turns = (0.0,) if family.turned else _turns(yaw, family)
        for turn in turns:
            poses = np.column_stack([centres, np.full(len(centres), turn), [s.height for s in supports]])
            trial = fit_family(
                family, outlines, supports, (family.start(guess), poses), extra=extra(family), evaluations=8
            )
            trial.score = score(trial, prior)
            coarse.append(trial)
    coarse.sort(key=lambda item: item.score)
    refined = []
    for trial in _best_by_family(coarse)[:3]:
        family = trial.family
        final = fit_family(
            family, outlines, supports, (trial.parameters, trial.poses), extra=extra(family), evaluations=40
        )
        final.score = score(final, prior)
        refined.append(final)
    return min(refined, key=lambda item: item.score)


def score(candidate: Candidate, prior: Prior) -> float:
    """Residual in pixels plus the cost of parameters and of going against the words."""
    return candidate.rms + COMPLEXITY * candidate.family.parameters + prior.penalty[candidate.family.name]


def _best_by_family(candidates: Sequence[Candidate]) -> list[Candidate]:
    seen: dict[str, Candidate] = {}
    for candidate in candidates:
        seen.setdefault(candidate.family.name, candidate)
    return list(seen.values())


def _turns(yaw: float | None, family: Family) -> tuple[float, ...]:
    if yaw is not None and not family.lying:
        return (yaw,)
    span = np.pi if family.lying else np.pi / 2
    return tuple(float(v) for v in (np.arange(4) + 0.5) * span / 4)


def first_look(outlines: Sequence[Outline], supports: Sequence[Support]) -> tuple[Array, Guess]:
    """Ground positions `(windows, 2)` and rough extents from the outlines' bounds."""
    centres = np.full((len(supports), 2), np.nan)
    widths, heights = [], []
    for window, support in enumerate(supports):
        seen = [outline for outline in outlines if outline.window == window]
        spots = []
        for outline in seen:
            u0, v0, u1, v1 = outline.box
            middle = (u0 + u1) / 2
            foot = outline.lens.on_plane(np.array([[middle, v1]]), support.height)[0]
            if not np.isfinite(foot).all():
                continue
            size = outline.lens.pixel_size(foot)
            width = (u1 - u0) * size
            down = outline.lens.pose[:3, 2]
            tilt = float(np.clip(-down[2], 0.05, 0.98))
            level = float(np.sqrt(1 - tilt**2))
            away = down[:2] / max(float(np.linalg.norm(down[:2])), 1e-6)
            spots.append(foot[:2] + away * width / 2)
            widths.append(width)
            heights.append(max(((v1 - v0) * size - tilt * width) / level, 0.2 * width))
        if spots:
            centres[window] = np.mean(spots, axis=0)
    if not widths:
        raise InputError("an object's outline lies above the horizon of every view; check the cameras and prompts")
    known = centres[np.isfinite(centres[:, 0])]
    centres = np.where(np.isfinite(centres), centres, known.mean(axis=0))
    return centres, Guess(float(np.median(widths)), float(np.median(heights)))


def pose_only(
    candidate: Candidate, outlines: Sequence[Outline], support: Support, start: Array, prior: tuple[Array, Array]
) -> tuple[Array, float, Array]:
    """One pose `(x, y, yaw, z)` of a known shape from outlines of window 0, its residual in pixels, and its spread.

    Args:
        candidate: the fitted shape.
        outlines: what was seen, all of window 0.
        support: what it stands on.
        start: first guess `(4,)`.
        prior: expected pose and its standard deviations `(4,)` each.
    """
    parts = candidate.family.parts(candidate.parameters)
    expected, sigma = prior

    def residuals(pose: Array) -> Array:
        trial = Candidate(candidate.family, candidate.parameters, pose[None])
        return np.concatenate(
            [
                outline_residuals(trial, parts, outlines),
                [(pose[3] - support.height) / support.sigma],
                (pose - expected) / sigma,
            ]
        )

    result = minimise(residuals, start, POSE_SCALE, 30)
    trial = Candidate(candidate.family, candidate.parameters, result.x[None])
    return result.x, outline_rms(trial, outlines), spread_of(result)
