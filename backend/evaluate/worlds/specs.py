"""The twelve worlds as numbers: what stands where, what is true of it, and how it is to be handled.

Positions are metres on the table in the robot's base frame, angles radians; `grip` says where the expert takes the
moved body. None of these numbers reaches the product: it sees only the rendered demonstration.
"""

import math
from dataclasses import dataclass, field
from typing import Literal

from mjcf_export.scene import Box, Cylinder, Extrusion, Lathe, Role, Shape, Tray

MeshKind = Literal["mug", "banana"]
Pattern = Literal["plain", "stripes", "wood", "carton", "checks", "speckle"]


@dataclass(frozen=True)
class Look:
    """A procedural surface: a pattern over two sRGB colours."""

    color: tuple[float, float, float]
    pattern: Pattern = "plain"
    second: tuple[float, float, float] = (0.9, 0.9, 0.9)
    roughness: float = 0.55


@dataclass(frozen=True)
class Item:
    """One thing on the table; `shape` is a parametric shape or the name of a generated mesh."""

    name: str
    description: str
    roles: tuple[Role, ...]
    shape: Shape | MeshKind
    xy: tuple[float, float]
    look: Look
    yaw: float = 0.0
    mass: float = 0.1
    friction: float = 0.7


@dataclass(frozen=True)
class Grip:
    """Where the expert takes the moved body, in the body's frame.

    `point` is where the pads' centre goes; `closing` the direction the fingers close in (radians about z);
    `width` the body's width there; the gripper comes straight down, opened by `room` more than that.
    """

    point: tuple[float, float, float]
    closing: float
    width: float
    room: float = 0.036


@dataclass(frozen=True)
class WorldSpec:
    """One world: the moved body, what it is moved to, what else stands there, and how it is seen.

    The moved body is let go with its bottom `place_height` above the table, over the target's centre plus
    `place_offset` (in the target's frame), turned to `place_yaw`.
    """

    name: str
    task: str
    moved: Item
    target: Item
    grip: Grip
    place_height: float
    predicates: tuple[tuple[str | float, ...], ...]
    seed: int
    place_yaw: float = 0.0
    place_offset: tuple[float, float] = (0.0, 0.0)
    others: tuple[Item, ...] = ()
    table: Look = field(default_factory=lambda: Look((0.55, 0.38, 0.22), "wood", (0.42, 0.27, 0.14)))
    table_height: float = 0.0
    depth: bool = False


def cup(radius: float, height: float, wall: float, floor: float, taper: float = 0.86) -> Lathe:
    """A hollow cup: rim `radius` outside, foot narrower by `taper`."""
    foot = radius * taper
    at_floor = foot + (radius - foot) * floor / height
    return Lathe(outer=((foot, 0.0), (radius, height)), inner=((at_floor - wall, floor), (radius - wall, height)))


def bowl(radius: float, height: float, wall: float, floor: float, foot: float = 0.5) -> Lathe:
    """A hollow round bowl: rim `radius` outside, curved wall, flat foot."""
    steps = 9
    outer = [(radius * (foot + (1 - foot) * math.sin(math.pi / 2 * i / steps) ** 0.9), height * (i / steps) ** 1.3)
             for i in range(steps + 1)]  # fmt: skip
    heights = [floor + (height - floor) * i / steps for i in range(steps + 1)]
    inner = []
    for z in heights:
        for (r0, z0), (r1, z1) in zip(outer, outer[1:], strict=False):
            if z0 - 1e-12 <= z <= z1 + 1e-12:
                inner.append((r0 + (r1 - r0) * (z - z0) / (z1 - z0) - wall, z))
                break
    return Lathe(outer=tuple(outer), inner=tuple(inner))


def bottle(radius: float, height: float, neck: float) -> Lathe:
    """A solid bottle with a shoulder and a neck of radius `neck`."""
    return Lathe(
        outer=(
            (radius * 0.94, 0.0),
            (radius, 0.006),
            (radius, 0.55 * height),
            (radius * 0.93, 0.61 * height),
            (neck * 1.3, 0.74 * height),
            (neck, 0.78 * height),
            (neck, 0.97 * height),
            (neck * 0.9, height),
        )  # fmt: skip
    )


def star(outer: float, inner: float, points: int, height: float) -> Extrusion:
    """A blunt star with `points` arms."""
    corners = []
    for i in range(2 * points):
        r, a = (outer if i % 2 == 0 else inner), math.pi * i / points
        corners.append((r * math.cos(a), r * math.sin(a)))
    return Extrusion(polygon=tuple(corners), height=height)


def _plate(radius: float) -> Lathe:
    return Lathe(outer=((radius * 0.62, 0.0), (radius * 0.7, 0.006), (radius, 0.016)),
                 inner=((radius * 0.6, 0.006), (radius * 0.66, 0.0085), (radius - 0.003, 0.016)))  # fmt: skip


RED, BLUE, GREEN = (0.72, 0.08, 0.07), (0.05, 0.16, 0.55), (0.07, 0.42, 0.16)
YELLOW, ORANGE, WHITE = (0.85, 0.62, 0.05), (0.85, 0.33, 0.04), (0.86, 0.85, 0.82)
TEAL, PURPLE, GREY = (0.05, 0.42, 0.43), (0.33, 0.10, 0.45), (0.35, 0.36, 0.38)
LIGHT_OAK = Look((0.72, 0.56, 0.37), "wood", (0.58, 0.42, 0.26), 0.5)
WALNUT = Look((0.40, 0.25, 0.15), "wood", (0.26, 0.15, 0.08), 0.45)
PALE = Look((0.70, 0.69, 0.66), "speckle", (0.52, 0.51, 0.49), 0.6)
SLATE = Look((0.24, 0.26, 0.29), "speckle", (0.33, 0.35, 0.38), 0.7)

WORLDS: tuple[WorldSpec, ...] = (
    WorldSpec(
        name="block_into_cup", task="put the yellow block into the blue cup", seed=11,
        moved=Item("block", "yellow wooden block", ("moved",), Box(size=(0.040, 0.040, 0.040)), (0.47, 0.15),
                   Look(YELLOW, "wood", (0.78, 0.52, 0.04)), yaw=0.35, mass=0.045, friction=0.6),
        target=Item("cup", "blue striped cup", ("container",), cup(0.044, 0.088, 0.0035, 0.005), (0.52, -0.12),
                    Look(BLUE, "stripes", WHITE, 0.35), mass=0.16, friction=0.6),
        grip=Grip((0, 0, 0.026), 0.0, 0.040), place_height=0.086, place_yaw=0.9,
        predicates=(("inside", "block", "cup"),),
    ),
    WorldSpec(
        name="cup_onto_plate", task="put the red cup onto the plate", seed=12, table=LIGHT_OAK, table_height=0.02,
        moved=Item("cup", "red cup", ("moved", "container"), cup(0.037, 0.095, 0.0035, 0.005, 0.82), (0.45, -0.16),
                   Look(RED, "plain", roughness=0.3), mass=0.14, friction=0.6),
        target=Item("plate", "white plate with a blue ring", ("support",), _plate(0.10), (0.54, 0.13),
                    Look(WHITE, "checks", BLUE, 0.25), mass=0.35),
        grip=Grip((0, 0, 0.070), 0.4, 0.0705), place_height=0.008, place_yaw=0.3,
        predicates=(("on", "cup", "plate"), ("upright", "cup", 0.35)),
    ),
    WorldSpec(
        name="bowl_stacking", task="stack the green bowl in the white bowl", seed=13, table=WALNUT,
        moved=Item("green_bowl", "small green bowl", ("moved",), bowl(0.052, 0.048, 0.0045, 0.006), (0.46, 0.16),
                   Look(GREEN, "plain", roughness=0.35), mass=0.15, friction=0.6),
        target=Item("white_bowl", "large white bowl", ("container",), bowl(0.080, 0.056, 0.005, 0.007),
                    (0.52, -0.13), Look(WHITE, "stripes", TEAL, 0.3), mass=0.30, friction=0.6),
        grip=Grip((0, 0.0490, 0.040), math.pi / 2, 0.0048, 0.022), place_height=0.018,
        predicates=(("on", "green_bowl", "white_bowl"), ("upright", "green_bowl", 0.35)),
    ),
    WorldSpec(
        name="bottle_upright", task="stand the green bottle on the coaster", seed=14, table=PALE,
        moved=Item("bottle", "green bottle", ("moved",), bottle(0.031, 0.170, 0.014), (0.44, 0.12),
                   Look(GREEN, "carton", YELLOW, 0.25), yaw=0.4, mass=0.22, friction=0.6),
        target=Item("coaster", "cork coaster", ("support",), Cylinder(radius=0.052, height=0.008), (0.55, -0.10),
                    Look((0.60, 0.42, 0.26), "speckle", (0.45, 0.30, 0.17), 0.9), mass=0.05),
        grip=Grip((0, 0, 0.148), 0.3, 0.028), place_height=0.0095, place_yaw=-0.2,
        predicates=(("on", "bottle", "coaster"), ("upright", "bottle", 0.2)),
    ),
    WorldSpec(
        name="carton_move", task="move the printed carton onto the blue mat", seed=15, table_height=0.03,
        moved=Item("carton", "printed carton", ("moved",), Box(size=(0.085, 0.052, 0.105)), (0.48, -0.15),
                   Look(ORANGE, "carton", WHITE), yaw=0.3, mass=0.18, friction=0.55),
        target=Item("mat", "blue mat", ("support",), Box(size=(0.15, 0.13, 0.006)), (0.50, 0.14),
                    Look(BLUE, "checks", (0.12, 0.27, 0.66), 0.8), yaw=-0.2, mass=0.08),
        grip=Grip((0, 0, 0.078), math.pi / 2, 0.052), place_height=0.0075, place_yaw=-0.25,
        predicates=(("on", "carton", "mat"), ("upright", "carton", 0.35)),
    ),
    WorldSpec(
        name="star_into_tray", task="put the purple star into the tray", seed=16, table=SLATE, depth=True,
        moved=Item("star", "purple star", ("moved",), star(0.030, 0.0215, 6, 0.034), (0.45, -0.14),
                   Look(PURPLE, "plain", roughness=0.5), yaw=0.2, mass=0.05, friction=0.6),
        target=Item("tray", "wooden tray", ("container",), Tray(size=(0.20, 0.15, 0.042), wall=0.006, floor=0.006),
                    (0.52, 0.13), Look((0.72, 0.56, 0.37), "wood", (0.6, 0.45, 0.28)), yaw=0.15, mass=0.35),
        grip=Grip((0, 0, 0.024), math.pi / 6, 0.050), place_height=0.012, place_yaw=0.6, place_offset=(0.02, 0.01),
        predicates=(("inside", "star", "tray"),),
    ),
    WorldSpec(
        name="can_onto_box", task="put the can on top of the box", seed=17, table=LIGHT_OAK,
        moved=Item("can", "red striped can", ("moved",), Cylinder(radius=0.033, height=0.100), (0.46, 0.15),
                   Look(RED, "stripes", WHITE, 0.25), mass=0.20, friction=0.6),
        target=Item("box", "cardboard box", ("support",), Box(size=(0.15, 0.12, 0.062)), (0.53, -0.12),
                    Look((0.58, 0.44, 0.29), "carton", (0.25, 0.18, 0.12), 0.85), yaw=0.25, mass=0.25),
        grip=Grip((0, 0, 0.070), 0.6, 0.066), place_height=0.0635,
        predicates=(("on", "can", "box"), ("upright", "can", 0.35)),
    ),
    WorldSpec(
        name="small_box_into_bowl", task="put the small orange box into the bowl", seed=18, table=PALE,
        moved=Item("small_box", "small orange box", ("moved",), Box(size=(0.048, 0.036, 0.030)), (0.46, -0.15),
                   Look(ORANGE, "checks", YELLOW), yaw=0.5, mass=0.04, friction=0.6),
        target=Item("bowl", "teal bowl", ("container",), bowl(0.075, 0.060, 0.0045, 0.006), (0.53, 0.12),
                    Look(TEAL, "stripes", WHITE, 0.3), mass=0.32, friction=0.6),
        grip=Grip((0, 0, 0.024), math.pi / 2, 0.036), place_height=0.042, place_yaw=0.3,
        predicates=(("inside", "small_box", "bowl"),),
    ),
    WorldSpec(
        name="banana_into_tray", task="put the banana into the white tray", seed=19, table=WALNUT, table_height=-0.02,
        moved=Item("banana", "yellow banana", ("moved",), "banana", (0.46, 0.15),
                   Look(YELLOW, "speckle", (0.62, 0.42, 0.06), 0.6), yaw=0.5, mass=0.12, friction=0.7),
        target=Item("tray", "white tray", ("container",), Tray(size=(0.25, 0.17, 0.046), wall=0.005, floor=0.005),
                    (0.53, -0.12), Look(WHITE, "plain", roughness=0.35), yaw=-0.1, mass=0.4),
        grip=Grip((0, -0.0051, 0.024), math.pi / 2, 0.043), place_height=0.01, place_yaw=-0.1,
        predicates=(("inside", "banana", "tray"),),
    ),
    WorldSpec(
        name="mug_onto_coaster", task="put the white mug on the red coaster", seed=20,
        moved=Item("mug", "white mug with a handle", ("moved", "container"), "mug", (0.45, -0.14),
                   Look(WHITE, "stripes", TEAL, 0.25), yaw=-0.6, mass=0.24, friction=0.6),
        target=Item("coaster", "red coaster", ("support",), Box(size=(0.11, 0.11, 0.007)), (0.54, 0.12),
                    Look(RED, "checks", (0.55, 0.05, 0.05), 0.85), yaw=0.3, mass=0.06),
        grip=Grip((-0.0161, 0, 0.062), math.pi / 2, 0.072), place_height=0.0085, place_yaw=0.25,
        predicates=(("on", "mug", "coaster"), ("upright", "mug", 0.35)),
    ),
    WorldSpec(
        name="cylinder_into_tray", task="put the green cylinder into the grey tray", seed=21, table=LIGHT_OAK,
        depth=True,
        moved=Item("cylinder", "green cylinder", ("moved",), Cylinder(radius=0.022, height=0.043), (0.47, 0.16),
                   Look(GREEN, "plain", roughness=0.5), mass=0.07, friction=0.6),
        target=Item("tray", "grey tray", ("container",), Tray(size=(0.18, 0.18, 0.050), wall=0.006, floor=0.006),
                    (0.52, -0.12), Look(GREY, "speckle", (0.5, 0.5, 0.52)), yaw=0.4, mass=0.4),
        grip=Grip((0, 0, 0.026), 0.5, 0.044), place_height=0.01,
        predicates=(("inside", "cylinder", "tray"), ("upright", "cylinder", 0.35)),
    ),
    WorldSpec(
        name="block_on_block", task="stack the red block on the blue block", seed=22, table=PALE,
        moved=Item("red_block", "red block", ("moved",), Box(size=(0.042, 0.042, 0.042)), (0.45, -0.13),
                   Look(RED, "plain"), yaw=0.7, mass=0.05, friction=0.7),
        target=Item("blue_block", "blue block", ("support",), Box(size=(0.050, 0.050, 0.046)), (0.52, 0.12),
                    Look(BLUE, "plain"), yaw=0.2, mass=0.08, friction=0.7),
        grip=Grip((0, 0, 0.026), 0.0, 0.042), place_height=0.0475, place_yaw=0.2,
        others=(Item("green_block", "green block", ("distractor",), Box(size=(0.045, 0.045, 0.045)), (0.60, -0.06),
                     Look(GREEN, "plain"), yaw=1.1, mass=0.06),),
        predicates=(("on", "red_block", "blue_block"),),
    ),
)  # fmt: skip
"""The suite; every name, number and seed here is part of each world's content hash."""


def world_specs(names: tuple[str, ...] | None = None, count: int | None = None) -> tuple[WorldSpec, ...]:
    """The worlds of these names, or the first `count`, or all.

    Raises:
        KeyError: a name is not one of the suite's; the message lists those there are.
    """
    known = {spec.name: spec for spec in WORLDS}
    if names is not None:
        unknown = [name for name in names if name not in known]
        if unknown:
            raise KeyError(f"no world {', '.join(unknown)}; there are {', '.join(known)}")
        return tuple(known[name] for name in names)
    return WORLDS[:count]
