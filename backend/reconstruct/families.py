"""The shape families that analysis by synthesis can choose from, as small parameter vectors."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from backend.reconstruct.silhouettes import box_parts, frusta, ring
from mjcf_export.frames import Array
from mjcf_export.scene import Box, Cylinder, Lathe, Shape, Tray

WALL = 0.003
BOWL_LEVELS = 6
TURNED_LEVELS = 6


@dataclass(frozen=True)
class Guess:
    """A first idea of an object's extents, metres."""

    width: float
    height: float


@dataclass(frozen=True)
class Family:
    """One family. Parameters are unconstrained reals: logarithms of lengths, logits of fractions."""

    name: str
    hollow: bool
    turned: bool
    lying: bool
    words: tuple[str, ...]
    start: Callable[[Guess], Array]
    parts: Callable[[Array], list[Array]]
    shape: Callable[[Array, float, float], Shape]
    extents: Callable[[Array], Array]
    gripped: Callable[[Array, float], float]
    """Radius (turned) or half the width at a height above the bottom, metres."""

    @property
    def parameters(self) -> int:
        """How many numbers the family needs."""
        return len(self.start(Guess(0.05, 0.05)))


def _logit(value: float) -> float:
    return float(np.log(value / (1 - value)))


def _sigmoid(value: float) -> float:
    return float(1 / (1 + np.exp(-np.clip(value, -20, 20))))


def _lengths(parameters: Array, count: int) -> Array:
    lengths: Array = np.exp(np.clip(parameters[:count], np.log(5e-4), np.log(5.0)))
    return lengths


def _tuple3(values: Array) -> tuple[float, float, float]:
    return float(values[0]), float(values[1]), float(values[2])


def _points(profile: Array) -> tuple[tuple[float, float], ...]:
    return tuple((float(r), float(z)) for r, z in profile)


def _profile_extents(profile: Array) -> Array:
    return np.array([2 * profile[:, 0].max(), 2 * profile[:, 0].max(), profile[-1, 1]])


def cup_profile(parameters: Array) -> Array:
    """Straight-sided cup: bottom radius, rim radius, height."""
    bottom, rim, height = _lengths(parameters, 3)
    return np.array([[bottom, 0.0], [rim, height]])


def bowl_profile(parameters: Array) -> Array:
    """Curved bowl or plate: foot radius, rim radius, height and how early it flares."""
    bottom, rim, height = _lengths(parameters, 3)
    flare = 0.2 + 0.8 * _sigmoid(float(parameters[3]))
    level = np.linspace(0, 1, BOWL_LEVELS)
    return np.column_stack([bottom + (rim - bottom) * level**flare, height * level])


def bottle_profile(parameters: Array) -> Array:
    """Body radius, height, neck radius, and where the shoulder starts and ends."""
    body, height, neck = _lengths(parameters, 3)
    shoulder = 0.3 + 0.6 * _sigmoid(float(parameters[3]))
    top = shoulder + (1 - shoulder) * (0.1 + 0.8 * _sigmoid(float(parameters[4])))
    neck = min(neck, 0.98 * body)
    return np.array([[body, 0.0], [body, shoulder * height], [neck, top * height], [neck, height]])


def turned_profile(parameters: Array) -> Array:
    """Free radii at equal heights."""
    lengths = _lengths(parameters, TURNED_LEVELS + 1)
    return np.column_stack([lengths[:-1], np.linspace(0, lengths[-1], TURNED_LEVELS)])


def hollow(outer: Array, wall: float, floor: float) -> Lathe:
    """A cup or bowl around a cavity: the outer profile moved in by the wall and cut at the floor."""
    height = float(outer[-1, 1])
    floor = min(floor, 0.6 * height)
    levels = np.unique(np.concatenate([[floor], outer[outer[:, 1] > floor + 1e-4, 1]]))
    radii = np.interp(levels, outer[:, 1], outer[:, 0])
    slope = np.gradient(np.interp(levels, outer[:, 1], outer[:, 0]), levels) if len(levels) > 1 else np.zeros(1)
    across = np.maximum(wall * np.minimum(np.hypot(1, slope), 3.0), 2e-4)
    across[-1] = wall
    inner = np.maximum(radii - across, 1e-3)
    return Lathe(outer=_points(outer), inner=_points(np.column_stack([inner, levels])))


def with_floor(shape: Shape, floor: float) -> Shape:
    """A hollow body with its cavity's floor elsewhere, its wall kept; a closed body as it is."""
    if isinstance(shape, Tray):
        return shape.model_copy(update={"floor": floor})
    if isinstance(shape, Lathe) and shape.inner is not None:
        return hollow(np.array(shape.outer), shape.outer[-1][0] - shape.inner[-1][0], floor)
    return shape


def _lathe_family(
    name: str,
    words: tuple[str, ...],
    start: Callable[[Guess], Array],
    profile: Callable[[Array], Array],
    *,
    is_hollow: bool,
) -> Family:
    def shape(parameters: Array, wall: float, floor: float) -> Shape:
        outer = profile(parameters)
        return hollow(outer, wall, floor) if is_hollow else Lathe(outer=_points(outer))

    def parts(parameters: Array) -> list[Array]:
        rings = frusta(profile(parameters))
        return [np.vstack(rings)] if is_hollow else rings

    return Family(
        name=name,
        hollow=is_hollow,
        turned=True,
        lying=False,
        words=words,
        start=start,
        parts=parts,
        shape=shape,
        extents=lambda parameters: _profile_extents(profile(parameters)),
        gripped=lambda parameters, z: float(np.interp(z, profile(parameters)[:, 1], profile(parameters)[:, 0])),
    )


def _cylinder_parts(parameters: Array) -> list[Array]:
    radius, height = _lengths(parameters, 2)
    return [np.vstack([ring(radius, 0), ring(radius, height)])]


def _cylinder(parameters: Array, _wall: float, _floor: float) -> Shape:
    radius, height = (float(v) for v in _lengths(parameters, 2))
    return Cylinder(radius=radius, height=height)


def _cylinder_extents(parameters: Array) -> Array:
    radius, height = _lengths(parameters, 2)
    return np.array([2 * radius, 2 * radius, height])


BOX = Family(
    "box", False, False, False,
    ("box", "block", "cube", "carton", "brick", "package", "book", "sponge", "eraser", "bag"),
    lambda guess: np.log([guess.width, guess.width, guess.height]),
    lambda p: box_parts(_lengths(p, 3)),
    lambda p, _w, _f: Box(size=_tuple3(_lengths(p, 3))),
    lambda p: _lengths(p, 3),
    lambda p, _z: float(_lengths(p, 3)[1] / 2),
)  # fmt: skip
TRAY = Family(
    "tray", True, False, False,
    ("tray", "basket", "bin", "drawer", "crate", "container box", "pan"),
    lambda guess: np.log([guess.width, guess.width, guess.height]),
    lambda p: box_parts(_lengths(p, 3)),
    lambda p, wall, floor: Tray(size=_tuple3(_lengths(p, 3)), wall=wall, floor=min(floor, 0.6 * _lengths(p, 3)[2])),
    lambda p: _lengths(p, 3),
    lambda p, _z: float(_lengths(p, 3)[1] / 2),
)  # fmt: skip
CYLINDER = Family(
    "cylinder", False, True, False,
    ("can", "cylinder", "tin", "jar", "disc", "puck", "roll"),
    lambda guess: np.log([guess.width / 2, guess.height]),
    _cylinder_parts, _cylinder, _cylinder_extents,
    lambda p, _z: float(_lengths(p, 1)[0]),
)  # fmt: skip
LYING = Family(
    "lying cylinder", False, False, True,
    ("marker", "pen", "pencil", "rod", "stick", "screwdriver", "spoon"),
    lambda guess: np.log([min(guess.height, guess.width) / 2, guess.width]),
    _cylinder_parts, _cylinder,
    lambda p: np.array([_lengths(p, 2)[1], 2 * _lengths(p, 1)[0], 2 * _lengths(p, 1)[0]]),
    lambda p, _z: float(_lengths(p, 1)[0]),
)  # fmt: skip
CUP = _lathe_family(
    "cup",
    ("cup", "mug", "glass", "bucket", "pot", "beaker", "tumbler"),
    lambda guess: np.log([0.4 * guess.width, 0.5 * guess.width, guess.height]),
    cup_profile,
    is_hollow=True,
)
BOWL = _lathe_family(
    "bowl",
    ("bowl", "plate", "dish", "saucer", "basin", "sink"),
    lambda guess: np.append(np.log([0.3 * guess.width, 0.5 * guess.width, guess.height]), _logit(0.4)),
    bowl_profile,
    is_hollow=True,
)
BOTTLE = _lathe_family(
    "bottle",
    ("bottle", "flask", "shampoo", "ketchup", "mustard", "bleach", "vase"),
    lambda guess: np.concatenate(
        [np.log([0.5 * guess.width, guess.height, 0.25 * guess.width]), [_logit(0.6), _logit(0.5)]]
    ),
    bottle_profile,
    is_hollow=False,
)
TURNED = _lathe_family(
    "turned",
    (),
    lambda guess: np.log(np.append(np.full(TURNED_LEVELS, 0.45 * guess.width), guess.height)),
    turned_profile,
    is_hollow=False,
)
FAMILIES: tuple[Family, ...] = (BOX, TRAY, CYLINDER, LYING, CUP, BOWL, BOTTLE, TURNED)


@dataclass(frozen=True)
class Prior:
    """What role and words say about the family: `allowed` to try and a penalty in pixels for each."""

    allowed: tuple[Family, ...]
    penalty: dict[str, float]
    named: bool


def family_prior(name: str, description: str, roles: tuple[str, ...]) -> Prior:
    """The documented prior: containers are hollow; a word that names a family makes the others cost 0.4 px."""
    text = f" {name} {description} ".lower().replace("_", " ").replace("-", " ")
    words = text.split()
    matched = [
        family
        for family in FAMILIES
        if any(f" {word} " in text or any(piece.startswith(word) for piece in words) for word in family.words)
    ]
    hollow_wanted = "container" in roles or any(family.hollow for family in matched)
    solid_named = matched and not any(family.hollow for family in matched)
    if hollow_wanted and not (solid_named and "container" not in roles):
        allowed = tuple(family for family in FAMILIES if family.hollow)
    else:
        allowed = tuple(family for family in FAMILIES if not family.hollow)
    if LYING in allowed and LYING not in matched:
        allowed = tuple(family for family in allowed if family is not LYING)
    named = [family for family in matched if family in allowed]
    kin = {"cup": "bowl", "bowl": "cup"}
    penalty = {}
    for family in allowed:
        if not named or family in named:
            penalty[family.name] = 0.0
        elif any(kin.get(other.name) == family.name for other in named):
            penalty[family.name] = 0.15
        else:
            penalty[family.name] = 0.4
    return Prior(allowed, penalty, bool(named))
