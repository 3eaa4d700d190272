"""Where objects start when nobody said so: from the robot's holds, from change, and from what stands out."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from backend.documents.demonstration import DemoObject
from backend.documents.observations import Hold, Mask
from backend.perception.appearance import Floats, Image, color_match, lab, named_color
from backend.perception.cameras import triangulate
from backend.perception.footage import SETTLING, Footage, Frames, ViewFootage
from backend.perception.motion_region import large_region, moving_region, still_picture
from backend.perception.proposals import Proposal, alike, changed_regions, standing_out
from backend.perception.segmentation import Region, mask_box, outward
from backend.perception.tracking import Target
from mjcf_export.frames import Array
from mjcf_export.scene import Role

AROUND = 0.3
"""Metres around where the robot grasped and released in which objects are proposed."""
SAME_PLACE = 0.035
"""Metres within which rays from several views must meet to see one thing."""


@dataclass
class Seed:
    """An object to follow: its targets per view, and how it came to be proposed."""

    name: str
    roles: tuple[Role, ...] = ()
    description: str = ""
    source: str = "prompt"
    targets: dict[str, Target] = field(default_factory=dict)
    place: Floats | None = None


def propose(
    footage: Footage, wanted: list[DemoObject], known: list[Seed], limit: int = 6
) -> tuple[list[Seed], list[str]]:
    """Seeds for the `wanted` objects (or for whatever is there when none is named), beside the `known` ones.

    Named objects take the proposals that fit their roles and colour words; where none is named they are
    `object_1`, `object_2`, ...
    """
    found = _held(footage) if footage.holds and _placed(footage) else []
    found += [seed for seed in _standing(footage, found) if not _overlaps(seed, found)]
    found = [seed for seed in found if not _overlaps(seed, known)]
    if wanted:
        return _match(footage, wanted, found)
    named = [replace(seed, name=f"object_{number}") for number, seed in enumerate(found[:limit], start=1 + len(known))]
    notes = [f"{seed.name}: proposed from {seed.source}, roles guessed: {', '.join(seed.roles)}" for seed in named]
    return named, notes


def carry_prompts(footage: Footage, seed: Seed, masks: Mapping[str, Mask], hold: Hold | None) -> list[str]:
    """Give a seed a target in every static calibrated view that lacks one, from the masks it has in the others.

    The point is the tcp at the grasp for a held object, else any point along the ray; colour decides along the line.
    """
    notes: list[str] = []
    source = next((name for name in masks if footage.views[name].camera is not None), None)
    if source is None:
        return notes
    color = np.median(lab(footage.views[source].images[seed.targets[source].frame])[masks[source]], axis=0)
    for name, view in footage.views.items():
        if name in seed.targets or view.camera is None or not view.static:
            continue
        found = _seen_along(footage, source, masks[source], view, color.astype(np.float32), hold)
        if found is None:
            notes.append(f"{seed.name}: not found in view {name}; a prompt there would help")
            continue
        seed.targets[name] = _target(seed.name, _first_clear(view, found.mask), found, view)
    return notes


def _held(footage: Footage) -> list[Seed]:
    """One seed per thing that the robot took: what vanished around the tcp at the grasp."""
    seeds: list[Seed] = []
    places: list[Array] = []
    for hold in footage.holds:
        point = np.array(hold.grasp_tcp)[:3, 3]
        if any(np.linalg.norm(point - place) < 0.05 for place in places):
            continue
        places.append(np.array(hold.release_tcp)[:3, 3])
        seed = Seed(f"held_{len(seeds)}", ("moved",), source="the tcp at a grasp", place=point.astype(np.float32))
        for name, view in footage.views.items():
            found = _vanished(view, hold) if view.static and view.camera is not None else None
            if found is not None:
                seed.targets[name] = _target(seed.name, _first_clear(view, found.mask), found, view)
        if seed.targets:
            seeds.append(seed)
    return seeds


def _vanished(view: ViewFootage, hold: Hold) -> Proposal | None:
    """The region around the projected grasp that looked different before the grasp and after the lift."""
    assert view.camera is not None
    before, after = view.between(-np.inf, hold.close_start - 0.05), view.between(hold.open_end + SETTLING, np.inf)
    if len(before) == 0:
        return None
    if len(after) == 0:
        after = view.between((hold.grasp + hold.release) / 2, np.inf)
    if len(after) == 0:
        return None
    pictures, hidden = _still_pair(view, before, after)
    pixel, depth = view.camera.pixels(np.array(hold.grasp_tcp)[None, :3, 3], int(before[-1]))
    scale = view.camera.intrinsics[0, 0] / max(0.05, float(depth[0]))
    reach = max(12.0, 0.06 * scale)
    near = standing_out(pictures[0], pixel, max(24.0, 0.12 * scale), hidden)
    options = changed_regions(*pictures, hidden) + near
    gaps = [(_pixel_gap(option, pixel[0]), option) for option in options]
    close = [(gap, option) for gap, option in gaps if gap < reach]
    if not close:
        return None
    return min(close, key=lambda item: item[0] + (0 if item[1] in options[: len(options) - len(near)] else 6))[1]


def _standing(footage: Footage, held: list[Seed]) -> list[Seed]:
    """What else stands around the robot's grasps and releases, or around what changed, and where it is."""
    per_view: dict[str, list[Proposal]] = {}
    for name, view in footage.views.items():
        if view.static:
            taken = [seed.targets[name].region.box for seed in held if name in seed.targets]
            options = _view_proposals(footage, view)
            per_view[name] = [item for item in options if not any(box and _inside(item, box) for box in taken)]
    groups = _associate(footage, per_view) if _placed(footage) else _alone(per_view)
    releases = [np.array(hold.release_tcp)[:3, 3] for hold in footage.holds]
    seeds = []
    for number, (group, place) in enumerate(groups):
        roles: tuple[Role, ...] = ("distractor",)
        if place is not None and any(np.linalg.norm(place[:2] - release[:2]) < 0.09 for release in releases):
            roles = ("container",)
        seed = Seed(f"standing_{number}", roles, source="what stands out from the support", place=place)
        for name, proposal in group.items():
            view = footage.views[name]
            seed.targets[name] = _target(seed.name, _first_clear(view, proposal.mask), proposal, view)
        seeds.append(seed)
    return sorted(seeds, key=lambda seed: seed.roles != ("container",))


def _view_proposals(footage: Footage, view: ViewFootage) -> list[Proposal]:
    first, last = np.arange(max(1, len(view.times) // 6)), np.arange(len(view.times) * 5 // 6, len(view.times))
    if view.robot is None:
        moving = moving_region(view.images[first], lab(still_picture(view.images, np.arange(len(view.images)), None)))
        hidden = large_region(moving.all(axis=0))
    else:
        hidden = view.robot[first].all(axis=0)
    before = still_picture(view.images, first, view.robot)
    if view.camera is not None and footage.holds:
        tcps = np.array([pose for hold in footage.holds for pose in (hold.grasp_tcp, hold.release_tcp)])
        pixels, depth = view.camera.pixels(tcps[:, :3, 3], 0)
        radius = AROUND * view.camera.intrinsics[0, 0] / max(0.05, float(np.median(depth)))
        return standing_out(before, pixels, radius, hidden)
    after = still_picture(view.images, last, view.robot)
    changed = changed_regions(before, after, hidden)
    if not changed:
        return []
    centers = np.array([item.center for item in changed])
    around = standing_out(before, centers, 0.25 * view.images.shape[2], hidden)
    return [item for item in changed if not any(_shares(item, other) for other in around)][:2] + around


def _associate(
    footage: Footage, per_view: Mapping[str, list[Proposal]]
) -> list[tuple[dict[str, Proposal], Floats | None]]:
    """Groups of proposals, one per view, whose rays meet and whose colours agree; best first."""
    names = [name for name in per_view if footage.views[name].camera is not None]
    if len(names) < 2:
        return [({name: item}, None) for name in names for item in per_view[name]]
    scored = []
    base, others = names[0], names[1:]
    for item in per_view[base]:
        group, place, score = {base: item}, None, 0.0
        for name in others:
            options = [(_agreement(footage, group, name, other), other) for other in per_view[name]]
            best = max(options, key=lambda option: option[0][0], default=None)
            if best is not None and best[0][0] > 0.25:
                group[name], place, score = best[1], best[0][1], score + best[0][0]
        if len(group) > 1:
            scored.append((score, group, place))
    result: list[tuple[dict[str, Proposal], Floats | None]] = []
    for _, group, place in sorted(scored, key=lambda row: -row[0]):
        taken = [other for other, _ in result]
        if not any(_shares(group[name], other[name]) for other in taken for name in set(group) & set(other)):
            result.append((group, place))
    return result


def _agreement(
    footage: Footage, group: Mapping[str, Proposal], name: str, other: Proposal
) -> tuple[float, Floats | None]:
    """How well a proposal fits a group: its ray passes close, and it has the same colour and size in metres."""
    members = {**group, name: other}
    rays, sizes = [], []
    for view_name, item in members.items():
        camera = footage.views[view_name].camera
        assert camera is not None
        rays.append(camera.ray(item.center, 0))
    point, gap = triangulate(rays)
    for view_name, item in members.items():
        camera = footage.views[view_name].camera
        assert camera is not None
        _, depth = camera.pixels(point[None], 0)
        if depth[0] < 0.05:
            return 0.0, None
        sizes.append(np.sqrt(item.mask.sum()) * depth[0] / camera.intrinsics[0, 0])
    colors = min(alike(other.color, item.color) for item in group.values())
    size = float(np.exp(-((np.log(max(sizes) / min(sizes)) / 0.5) ** 2)))
    near = float(np.exp(-((gap / (0.5 * SAME_PLACE)) ** 2))) if gap < SAME_PLACE else 0.0
    return near * (0.3 + 0.7 * colors) * (0.4 + 0.6 * size), point.astype(np.float32)


def _alone(per_view: Mapping[str, list[Proposal]]) -> list[tuple[dict[str, Proposal], Floats | None]]:
    """Without calibration: the proposals of the first view, each alike one of the others joined by colour."""
    names = list(per_view)
    if not names:
        return []
    groups: list[tuple[dict[str, Proposal], Floats | None]] = []
    for item in per_view[names[0]]:
        group = {names[0]: item}
        for name in names[1:]:
            best = max(per_view[name], key=lambda other: alike(item.color, other.color), default=None)
            if best is not None and alike(item.color, best.color) > 0.6:
                group[name] = best
        groups.append((group, None))
    return groups


def _match(footage: Footage, wanted: list[DemoObject], found: list[Seed]) -> tuple[list[Seed], list[str]]:
    """Give the named objects the proposals that fit them best, each once."""
    scores = sorted(
        ((_fit(footage, item, seed), item.name, seed.name) for item in wanted for seed in found), reverse=True
    )
    chosen: dict[str, str] = {}
    for score, name, seed_name in scores:
        if score > 0.15 and name not in chosen and seed_name not in chosen.values():
            chosen[name] = seed_name
    seeds, notes = [], []
    for item in wanted:
        seed = next((seed for seed in found if seed.name == chosen.get(item.name)), None)
        if seed is None:
            notes.append(f"{item.name}: no prompt, and nothing in the pictures fits it; give a box in `prompts`")
            continue
        roles = item.roles or seed.roles
        targets = {name: replace(target, name=item.name) for name, target in seed.targets.items()}
        seeds.append(Seed(item.name, roles, item.description, seed.source, targets, seed.place))
        notes.append(f"{item.name}: no prompt; proposed from {seed.source}")
    return seeds, notes


def _fit(footage: Footage, item: DemoObject, seed: Seed) -> float:
    """How well a proposal fits a named object: its role, and the colour words of its description and name."""
    role = 1.0
    if item.roles:
        moved = "moved" in item.roles
        role = 1.0 if moved == ("moved" in seed.roles) else 0.2
        if "container" in item.roles and not moved:
            role = {"container": 1.0, "distractor": 0.5}.get(seed.roles[0], 0.2)
    color = named_color(f"{item.description} {item.name.replace('_', ' ')}")
    if color is None:
        return 0.7 * role
    matches = []
    for name, target in seed.targets.items():
        box = target.region.box
        assert box is not None
        x0, y0, x1, y1 = (round(value) for value in box)
        patch = lab(np.ascontiguousarray(footage.views[name].images[target.frame][y0:y1, x0:x1]))
        rows, columns = len(patch) // 4, patch.shape[1] // 4
        quarter = patch[rows : len(patch) - rows, columns : patch.shape[1] - columns]
        matches.append(color_match(quarter.reshape(-1, 3), color))
    return role * (0.2 + 0.8 * float(np.mean(matches))) if matches else 0.0


def _seen_along(
    footage: Footage, source: str, mask: Mask, view: ViewFootage, color: Floats, hold: Hold | None
) -> Proposal | None:
    """The proposal of another view that lies along the ray of a mask and has its colour and size."""
    camera = footage.views[source].camera
    assert camera is not None and view.camera is not None
    rows, columns = np.nonzero(mask)
    box = mask_box(mask)
    assert box is not None
    seen = Proposal(mask, box, (float(columns.mean()), float(rows.mean())), color)
    origin, direction = camera.ray(seen.center, 0)
    depths = np.geomspace(0.15, 4.0, 60)
    if hold is not None:
        along = float(direction @ (np.array(hold.grasp_tcp)[:3, 3] - origin))
        depths = np.linspace(along - 0.06, along + 0.06, 7)
    points = origin + depths[:, None] * direction
    pixels, depth = view.camera.pixels(points, 0)
    inside = (depth > 0.05) & (pixels >= 0).all(axis=1) & (pixels < np.array(view.size[::-1])).all(axis=1)
    if not inside.any():
        return None
    first = still_picture(view.images, np.arange(max(1, len(view.times) // 6)), view.robot)
    hidden = view.robot[: max(1, len(view.times) // 6)].all(axis=0) if view.robot is not None else None
    radius = 2.5 * np.sqrt(mask.sum()) + 12
    options = standing_out(first, pixels[inside], max(radius, 40.0), hidden)
    scored = [(_agreement(footage, {source: seen}, view.name, option)[0], option) for option in options]
    best = max(scored, key=lambda row: row[0], default=None)
    return best[1] if best is not None and best[0] > 0.2 else None


def _still_pair(view: ViewFootage, before: Frames, after: Frames) -> tuple[tuple[Image, Image], Mask | None]:
    pictures = (still_picture(view.images, before, view.robot), still_picture(view.images, after, view.robot))
    if view.robot is None:
        return pictures, None
    return pictures, view.robot[before].all(axis=0) | view.robot[after].all(axis=0)


def _first_clear(view: ViewFootage, mask: Mask) -> int:
    """The first frame in which the robot does not cover a region."""
    if view.robot is None:
        return 0
    covered = view.robot[:, mask].mean(axis=1)
    return int(np.argmax(covered < 0.02)) if (covered < 0.02).any() else int(covered.argmin())


def _target(name: str, frame: int, proposal: Proposal, view: ViewFootage) -> Target:
    return Target(name, frame, Region(box=outward(proposal.box, 0.12, view.size)))


def _placed(footage: Footage) -> bool:
    return any(view.camera is not None and view.static for view in footage.views.values())


def _pixel_gap(proposal: Proposal, pixel: Array) -> float:
    rows, columns = np.nonzero(proposal.mask)
    return float(np.hypot(columns - pixel[0], rows - pixel[1]).min())


def _inside(proposal: Proposal, box: tuple[float, float, float, float]) -> bool:
    x, y = proposal.center
    return box[0] <= x <= box[2] and box[1] <= y <= box[3]


def _shares(first: Proposal, second: Proposal) -> bool:
    return bool((first.mask & second.mask).any())


def _overlaps(seed: Seed, others: list[Seed]) -> bool:
    """Whether a seed's box centres lie in the boxes of another, in any view they share."""
    for other in others:
        for name in set(seed.targets) & set(other.targets):
            mine, theirs = seed.targets[name].region.box, other.targets[name].region.box
            if mine is None or theirs is None:
                continue
            x, y = (mine[0] + mine[2]) / 2, (mine[1] + mine[3]) / 2
            if theirs[0] <= x <= theirs[2] and theirs[1] <= y <= theirs[3]:
                return True
    return False
