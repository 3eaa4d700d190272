"""Every object fitted: outlines gathered, families chosen, a common support height, walls, later rests."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from backend.demos.states import RobotStates
from backend.documents.demonstration import Demonstration
from backend.documents.observations import Masks, Observations, ObservedObject
from backend.documents.run import Progress
from backend.reconstruct.evidence import Outline, Window, gather
from backend.reconstruct.families import Family, family_prior
from backend.reconstruct.fitting import Candidate, Extra, Support, choose, fit_family
from backend.reconstruct.held_views import held_outlines
from backend.reconstruct.lens import Lens
from backend.reconstruct.metrology import Grip, assign_holds, first_grip, grip_residuals, held_by_rim
from backend.reconstruct.pictures import Pictures
from backend.reconstruct.placement import (
    STACKED,
    Fitted,
    carried_pose,
    common_height,
    height_guess,
    resettle,
    rest_height,
    seen_at,
    with_seen_floor,
    with_seen_top,
)
from backend.reconstruct.plane_sweep import support_height
from backend.reconstruct.rims import wall_of
from backend.reconstruct.spans import Span, resting
from mjcf_export.document import Provenance
from mjcf_export.frames import Array
from mjcf_export.scene import Shape

FREE = 0.05
"""Standard deviation of the support height before it is known (metres)."""
SETTLED = 0.0005
RAISED_PX = 1.2
"""An outline missed by more than this many pixels may stand on something else than the ground."""
DISAGREE = 0.004
"""Objects that each alone would stand this far apart in height (metres) do not all tell the ground."""
REFIT = 40
"""Most Jacobians spent on a fit from a near one."""
RAISED_GAIN = 0.3
"""How many pixels better it must then be."""
AGREED_PX = 1.5
"""Outlines of an object in the hand that make a fit miss by more say nothing of it: the fingers hide too much."""
POOR = 2.5
"""An outline residual above this many pixels is said so in the notes."""


@dataclass(frozen=True)
class Ground:
    """The common support: its name, height and where the height came from."""

    name: str
    height: float
    sigma: float
    provenance: Provenance


@dataclass(frozen=True)
class Sources:
    """What fitting reads."""

    demo: Demonstration
    observations: Observations
    masks: Masks
    lenses: tuple[Lens, ...]
    grips: tuple[Grip, ...]
    end: float
    """When the demonstration ends, seconds."""
    spans: Mapping[str, Span] = field(default_factory=dict)
    """Carries read off the pictures, where there is no robot's record."""
    records: Mapping[str, RobotStates] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        demo: Demonstration,
        observations: Observations,
        masks: Masks,
        lenses: Sequence[Lens],
        states: Mapping[str, RobotStates],
    ) -> "Sources":
        """The sources of a robot's demonstration, with the holds assigned to objects."""
        grips = [grip for grip in assign_holds(observations, masks, lenses) if grip.hold.robot in states]
        ends = [float(times[-1]) for times in observations.times.values() if len(times)]
        ends += [float(record.time[-1]) for record in states.values()]
        return cls(demo, observations, masks, tuple(lenses), tuple(grips), max(ends), records=states)

    def handled(self) -> list[ObservedObject]:
        """The observed objects that are fitted: all but the common support."""
        common = self.demo.table_name
        return [item for item in self.observations.objects if item.name != common]

    def windows(self, name: str) -> list[Window]:
        """When an object rests."""
        return resting(name, self.spans, self.grips, self.observations, self.end)

    def outlines(self, name: str) -> list[Outline]:
        """An object's fused outlines over its windows of rest, in every view that saw it."""
        return gather(name, self.windows(name), self.lenses, self.observations, self.masks)

    def held(self, name: str) -> list[Outline]:
        """An object's outlines in the hand as further views of its first rest, where one view is all there is."""
        grip = first_grip(self.grips, name)
        if grip is None or len(self.lenses) != 1:
            return []
        return held_outlines(grip, self.records[grip.hold.robot], self.lenses[0], self.observations, self.masks)

    def size(self, name: str) -> Array | None:
        """Extents the user knows, `(3,)` with NaN where unknown; None when none is."""
        hint = next((item.size for item in self.demo.objects if item.name == name), None)
        if hint is None or all(value is None for value in hint):
            return None
        return np.array([np.nan if value is None else value for value in hint], dtype=np.float64)

    def extra(self, name: str) -> "ExtraMaker":
        """Metrology and known sizes of an object, as residuals for a family."""
        grip = first_grip(self.grips, name)
        return ExtraMaker(grip, self.size(name))


@dataclass(frozen=True)
class ExtraMaker:
    """Builds the residuals of one hold and the known sizes."""

    grip: Grip | None
    size: Array | None

    def __call__(self, family: Family) -> Extra | None:
        """The residuals for a family, None when nothing was measured."""
        return grip_residuals(self.grip, self.size)(family)

    @property
    def yaw(self) -> float | None:
        """The measured direction of closing, if any."""
        return None if self.grip is None else self.grip.yaw


def fit_objects(
    sources: Sources, pictures: Pictures, known: Ground | None, progress: Progress
) -> tuple[list[Fitted], Ground, list[str]]:
    """Fit every observed object.

    Args:
        sources: what was observed.
        pictures: the views.
        known: the support when it is known beforehand (uncalibrated views define it).
        progress: told what is being fitted.

    Returns:
        The objects, the support they stand on, and notes on what could not be fitted.
    """
    notes: list[str] = []
    outlines: dict[str, list[Outline]] = {}
    for item in sources.handled():
        seen = sources.outlines(item.name)
        if any(outline.window == 0 for outline in seen):
            outlines[item.name] = seen
        else:
            notes.append(f"object {item.name}: not seen at rest in any usable view; left out")
    name = sources.demo.table_name
    start = known.height if known else height_guess(outlines, sources.grips)
    seen_ground = known or _seen_ground(name, sources, pictures, outlines, start)
    views = {key: [*_first(seen), *sources.held(key)] for key, seen in outlines.items()}
    placed = [key for key, seen in views.items() if len(seen) > 1 or first_grip(sources.grips, key)] or list(views)
    candidates: dict[str, Candidate] = {}
    for index, key in enumerate(placed):
        progress(0.1 + 0.5 * index / len(outlines), f"fitting {key}")
        candidates[key] = _first_fit(sources, key, views[key], seen_ground or start)
        resting_only = _first(outlines[key])
        if len(views[key]) > len(resting_only) and candidates[key].rms > AGREED_PX:
            views[key] = resting_only
            candidates[key] = _first_fit(sources, key, resting_only, seen_ground or start)
    ground = seen_ground or _ground(sources, name, candidates, views, start)
    for key in [key for key in views if key not in placed]:
        progress(0.6, f"fitting {key}")
        candidates[key] = _first_fit(sources, key, views[key], ground)
    fitted = []
    for index, (key, seen) in enumerate(outlines.items()):
        progress(0.6 + 0.2 * index / len(outlines), f"placing {key}")
        candidate = _second_fit(sources, key, views[key], candidates[key], ground)
        fitted.append(_shaped(sources, key, seen, candidate, pictures))
    fitted = _first_supports(fitted, ground)
    fitted = later_rests(fitted, sources, ground)
    notes += [
        f"object {item.name}: the best shape misses its outline by {item.residuals['outline_px']:.1f} px"
        for item in fitted
        if item.residuals["outline_px"] > POOR
    ]
    return fitted, ground, notes


def _prior_of(sources: Sources, name: str) -> tuple[str, str, tuple[str, ...]]:
    item = next(item for item in sources.observations.objects if item.name == name)
    return name, item.description, tuple(item.roles)


def _first(seen: Sequence[Outline]) -> list[Outline]:
    return [outline for outline in seen if outline.window == 0]


def _first_fit(sources: Sources, name: str, seen: Sequence[Outline], ground: Ground | float) -> Candidate:
    """The best family, standing on the ground where that is known, unless only a raised one meets the outlines."""
    maker, prior = sources.extra(name), family_prior(*_prior_of(sources, name))
    if not isinstance(ground, Ground):
        return choose(prior, seen, [Support(ground, FREE)], maker, maker.yaw)
    standing = choose(prior, seen, [Support(ground.height, max(SETTLED, ground.sigma))], maker, maker.yaw)
    if standing.rms < RAISED_PX:
        return standing
    raised = choose(prior, seen, [Support(ground.height, FREE)], maker, maker.yaw)
    lifted = float(raised.poses[0, 3]) - ground.height > STACKED
    return raised if lifted and raised.score < standing.score - RAISED_GAIN else standing


def _seen_ground(
    name: str, sources: Sources, pictures: Pictures, outlines: Mapping[str, Sequence[Outline]], start: float
) -> Ground | None:
    """The support as its own texture shows it."""
    first = [outline for seen in outlines.values() for outline in _first(seen)]
    if not first:
        return None
    spots = np.array([outline.lens.on_plane(outline.centre[None], start)[0, :2] for outline in first])
    spots = spots[np.isfinite(spots).all(axis=1)]
    if not len(spots):
        return None
    found = support_height(sources.lenses, pictures, np.median(spots, axis=0), start)
    return None if found is None else Ground(name, *found, "estimated")


def _ground(
    sources: Sources,
    name: str,
    candidates: Mapping[str, Candidate],
    views: Mapping[str, Sequence[Outline]],
    start: float,
) -> Ground:
    """The height at which the objects stand; where they disagree, the one on which all meet their outlines best."""
    if not candidates:
        return Ground(name, start, FREE, "assumed")
    heights = np.array([candidate.poses[0, 3] for candidate in candidates.values()])
    if np.ptp(heights) < DISAGREE:
        return Ground(name, *common_height(list(candidates.values())), "estimated")

    def miss(height: float) -> float:
        total = 0.0
        for key, free in candidates.items():
            standing = _standing(sources, key, views[key], free, Support(height, SETTLED))
            total += min(standing.rms, free.rms + (RAISED_GAIN if float(free.poses[0, 3]) > height else POOR))
        return total

    best = list(candidates.values())[int(np.argmin([miss(float(height)) for height in heights]))]
    return Ground(name, float(best.poses[0, 3]), max(float(best.spread[-1]), SETTLED), "estimated")


def _standing(
    sources: Sources, name: str, seen: Sequence[Outline], candidate: Candidate, support: Support
) -> Candidate:
    """A candidate fitted on as its family stands on a support."""
    poses = candidate.poses.copy()
    poses[0, 3] = support.height
    extra = sources.extra(name)(candidate.family)
    return fit_family(candidate.family, seen, [support], (candidate.parameters, poses), extra=extra, evaluations=REFIT)


def _second_fit(
    sources: Sources, name: str, seen: Sequence[Outline], candidate: Candidate, ground: Ground
) -> Candidate:
    """Refit on the common height, unless the object clearly stands higher."""
    own, spread = float(candidate.poses[0, 3]), float(candidate.spread[-1])
    raised = own - ground.height > max(STACKED, 3 * spread)
    support = Support(own, 0.003) if raised else Support(ground.height, SETTLED)
    final = _standing(sources, name, seen, candidate, support)
    final.score = candidate.score
    return final


def _shaped(sources: Sources, name: str, seen: Sequence[Outline], candidate: Candidate, pictures: Pictures) -> Fitted:
    """The shape of a fitted candidate, its wall found, with what is known of each number."""
    grips = tuple(grip for grip in sources.grips if grip.name == name)
    first = _first(seen)
    images = {(outline.lens.name, outline.window): pictures.fused(outline) for outline in first}
    provenance: dict[str, Provenance] = {"pose": "estimated", "size": "estimated"}
    residuals = {"outline_px": candidate.rms, "score": candidate.score}
    shape: Shape
    if candidate.family.hollow:
        wall, source = wall_of(candidate, first, images, grips)
        shape = candidate.family.shape(candidate.parameters, wall, max(wall, 0.003))
        provenance["wall"] = source
        provenance["floor"] = "assumed"
    else:
        shape = candidate.family.shape(candidate.parameters, 0.0, 0.0)
    if grips and not held_by_rim(candidate, grips[0]):
        provenance["width"] = "measured"
    return Fitted(
        name=name,
        candidate=candidate,
        windows=tuple(sources.windows(name)),
        outlines=tuple(seen),
        shape=shape,
        poses=(candidate.pose(0),),
        grips=grips,
        provenance=provenance,
        residuals=residuals,
    )


def _first_supports(fitted: Sequence[Fitted], ground: Ground) -> list[Fitted]:
    """What each object stands on at the start, the raised ones set onto what is under them."""
    placed = []
    for item in fitted:
        others = [(other.name, other.shape, other.initial) for other in fitted if other is not item]
        if float(item.candidate.poses[0, 3]) - ground.height < STACKED:
            pose = item.initial.copy()
            pose[2, 3] += ground.height - float(item.candidate.poses[0, 3])
            placed.append(replace(item, poses=(pose,), supports=(ground.name,)))
            continue
        name, level, _ = rest_height(item.shape, item.initial[:2, 3], others, (ground.name, ground.height))
        pose = item.initial.copy()
        if name != ground.name and abs(level - pose[2, 3]) < 0.025:
            pose[2, 3] = level
        placed.append(replace(item, poses=(pose,), supports=(name,)))
    return placed


def later_rests(fitted: Sequence[Fitted], sources: Sources, ground: Ground) -> list[Fitted]:
    """Poses after each hold, in the order the holds happened, each on what lay where it was set down."""
    state = {item.name: item for item in fitted}
    for grip in sources.grips:
        if grip.name not in state:
            continue
        item = state[grip.name]
        window = len(item.poses)
        expected = grip.release @ carried_pose(grip, item.poses[-1], item.candidate)
        level = (ground.name, ground.height)
        outlines = [replace(outline, window=0) for outline in item.outlines if outline.window == window]
        seen = seen_at(item, outlines, expected, _others(state, item.name), level)
        if seen is not None:
            host = rest_height(item.shape, seen.pose[:2], _others(state, item.name), level)[0]
            if host in state:
                state[host] = with_seen_top(with_seen_floor(state[host], item, seen), item, seen)
        state[grip.name] = resettle(item, window, seen, expected, _others(state, item.name), level)
    return [state[item.name] for item in fitted]


def _others(state: Mapping[str, Fitted], name: str) -> list[tuple[str, Shape, Array]]:
    """Name, shape and present pose of every object but one."""
    return [(other.name, other.shape, other.final) for other in state.values() if other.name != name]


def cavities_of(fitted: Sequence[Fitted]) -> Mapping[str, bool]:
    """Whether each object has a cavity deep enough to contain something."""
    return {item.name: item.candidate.family.hollow and float(item.candidate.extents[2]) > 0.03 for item in fitted}
