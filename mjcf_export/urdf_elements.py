"""The elements of a URDF as plain records, every malformed one a named error."""

import xml.etree.ElementTree as ET
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from mjcf_export.errors import InputError
from mjcf_export.frames import Array
from mjcf_export.urdf_paths import resolve_mesh

MOVING = ("revolute", "continuous", "prismatic")
MAX_SCALE = 1000.0
MAX_LENGTH = 20.0
BALANCE_TOLERANCE = 0.02


@dataclass(frozen=True)
class Shape:
    """One visual or collision geometry in its link's frame.

    `kind` is box, cylinder, sphere, capsule or mesh; `size` holds MuJoCo's half sizes, or a mesh's scale.
    """

    kind: str
    size: tuple[float, ...]
    origin: Array
    mesh: Path | None = None
    rgba: tuple[float, float, float, float] | None = None


@dataclass(frozen=True)
class Inertia:
    """Mass (kg), centre-of-mass frame in the link, and the inertia tensor `(3, 3)` about it (kg m²)."""

    mass: float
    origin: Array
    tensor: Array


@dataclass
class Link:
    """A rigid link."""

    name: str
    inertia: Inertia | None
    visuals: list[Shape]
    collisions: list[Shape]


@dataclass
class Joint:
    """A joint; `limits` is None for continuous joints, `mimic` is (leader, multiplier, offset)."""

    name: str
    kind: str
    parent: str
    child: str
    origin: Array
    axis: tuple[float, float, float]
    limits: tuple[float, float] | None = None
    effort: float | None = None
    damping: float = 0.0
    friction: float = 0.0
    mimic: tuple[str, float, float] | None = None

    @property
    def moving(self) -> bool:
        """Whether the joint has a degree of freedom."""
        return self.kind in MOVING


def read_materials(tree: ET.Element, path: Path) -> dict[str, tuple[float, float, float, float]]:
    """Colours of the named materials, wherever in the file they are defined."""
    found = {}
    for item in tree.iter("material"):
        color = item.find("color")
        if color is not None and item.get("name"):
            found[item.get("name", "")] = _rgba(color, f"{path}: material {item.get('name')}")
    return found


def _rgba(color: ET.Element, where: str) -> tuple[float, float, float, float]:
    r, g, b, a = _numbers(color.get("rgba", ""), 4, f"{where}: color rgba")
    return r, g, b, a


def _numbers(text: str, count: int, where: str) -> tuple[float, ...]:
    try:
        values = tuple(float(part) for part in text.split())
    except ValueError as error:
        raise InputError(f"{where}: expected {count} numbers, found {text!r}") from error
    if len(values) != count or not np.isfinite(values).all():
        raise InputError(f"{where}: expected {count} finite numbers, found {text!r}")
    return values


def _number(item: ET.Element | None, name: str, default: float | None, where: str) -> float:
    text = item.get(name) if item is not None else None
    if text is None:
        if default is None:
            raise InputError(f"{where}: has no {name}")
        return default
    return _numbers(text, 1, f"{where}: {name}")[0]


def _origin(item: ET.Element, where: str) -> Array:
    """The `(4, 4)` transform of an element's <origin>; identity when absent."""
    matrix = np.eye(4)
    origin = item.find("origin")
    if origin is not None:
        matrix[:3, 3] = _numbers(origin.get("xyz", "0 0 0"), 3, f"{where}: origin xyz")
        roll, pitch, yaw = _numbers(origin.get("rpy", "0 0 0"), 3, f"{where}: origin rpy")
        cr, sr, cp, sp, cy, sy = (f(a) for a in (roll, pitch, yaw) for f in (np.cos, np.sin))
        matrix[:3, :3] = [
            [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr],
            [sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr],
            [-sp, cp * sr, cp * cr],
        ]
    return matrix


class ElementReader:
    """Turns XML elements into records, with errors that say where."""

    def __init__(self, path: Path, folder: Path, materials: dict[str, tuple[float, float, float, float]]) -> None:
        self.path = path
        self.folder = folder
        self.materials = materials

    def link(self, item: ET.Element) -> Link:
        """The record of a <link>."""
        name = self._name(item)
        where = f"{self.path}: link {name}"
        return Link(
            name,
            self._inertia(item.find("inertial"), where),
            [self._shape(shape, f"{where}: visual {index + 1}") for index, shape in enumerate(item.findall("visual"))],
            [
                self._shape(shape, f"{where}: collision {index + 1}")
                for index, shape in enumerate(item.findall("collision"))
            ],
        )

    def joint(self, item: ET.Element) -> Joint:
        """The record of a <joint>."""
        name = self._name(item)
        where = f"{self.path}: joint {name}"
        kind = item.get("type", "")
        if kind not in (*MOVING, "fixed"):
            raise InputError(f"{where}: type {kind!r} is not supported; use {', '.join(MOVING)} or fixed")
        ends = [element.get("link") if (element := item.find(end)) is not None else None for end in ("parent", "child")]
        if not ends[0] or not ends[1]:
            raise InputError(f"{where}: needs a <parent link=…> and a <child link=…>")
        axis_item = item.find("axis")
        axis = _numbers(axis_item.get("xyz", "") if axis_item is not None else "1 0 0", 3, f"{where}: axis")
        length = float(np.linalg.norm(axis))
        if kind in MOVING and length < 1e-6:
            raise InputError(f"{where}: the axis is zero; give it a direction")
        joint = Joint(name, kind, ends[0], ends[1], _origin(item, where), _unit(axis, length))
        if joint.moving:
            self._dynamics(item, joint, where)
        return joint

    def _dynamics(self, item: ET.Element, joint: Joint, where: str) -> None:
        limit, dynamics, mimic = item.find("limit"), item.find("dynamics"), item.find("mimic")
        joint.damping = max(_number(dynamics, "damping", 0.0, where), 0.0)
        joint.friction = max(_number(dynamics, "friction", 0.0, where), 0.0)
        effort = _number(limit, "effort", 0.0, where)
        joint.effort = effort if effort > 0 else None
        if mimic is not None:
            multiplier = _number(mimic, "multiplier", 1.0, f"{where}: mimic")
            joint.mimic = (mimic.get("joint", ""), multiplier, _number(mimic, "offset", 0.0, f"{where}: mimic"))
        if joint.kind == "continuous":
            return
        unbounded = limit is None or limit.get("lower") == limit.get("upper")
        if unbounded and joint.mimic is None:
            raise InputError(f"{where}: has no limits; a {joint.kind} joint needs <limit lower=… upper=…>")
        lower, upper = _number(limit, "lower", 0.0, where), _number(limit, "upper", 0.0, where)
        if lower > upper:
            raise InputError(f"{where}: limits are inverted (lower {lower:g} above upper {upper:g}); swap them")
        if lower == upper and joint.mimic is None:
            raise InputError(f"{where}: limits leave no range ({lower:g}); make the joint fixed or widen them")
        joint.limits = (lower, upper) if lower < upper else None

    def _name(self, item: ET.Element) -> str:
        name = item.get("name")
        if not name:
            raise InputError(f"{self.path}: a <{item.tag}> has no name")
        return name

    def _inertia(self, item: ET.Element | None, where: str) -> Inertia | None:
        if item is None:
            return None
        mass = _number(item.find("mass"), "value", 0.0, f"{where}: mass")
        if mass < 0:
            raise InputError(f"{where}: mass {mass:g} is negative")
        if mass == 0:
            return None
        entries = item.find("inertia")
        xx, xy, xz, yy, yz, zz = (
            _number(entries, name, 0.0, f"{where}: inertia") for name in ("ixx", "ixy", "ixz", "iyy", "iyz", "izz")
        )
        tensor = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        return Inertia(mass, _origin(item, f"{where}: inertial"), _balanced(tensor, where))

    def _shape(self, item: ET.Element, where: str) -> Shape:
        geometry = item.find("geometry")
        if geometry is None or not len(geometry):
            raise InputError(f"{where}: has no <geometry>")
        shape = geometry[0]
        rgba = self._colour(item, where)
        origin = _origin(item, where)
        if shape.tag == "mesh":
            scale = _numbers(shape.get("scale", "1 1 1"), 3, f"{where}: mesh scale")
            if min(scale) <= 0:
                raise InputError(
                    f"{where}: mesh scale {shape.get('scale')} is not positive; mirror the mesh file instead"
                )
            if max(scale) > MAX_SCALE:
                raise InputError(f"{where}: mesh scale {shape.get('scale')} is huge; meshes are read in metres")
            mesh = resolve_mesh(shape.get("filename", ""), self.path, self.folder, where)
            return Shape("mesh", scale, origin, mesh, rgba)
        if shape.tag == "box":
            size = tuple(value / 2 for value in _numbers(shape.get("size", ""), 3, f"{where}: box size"))
        elif shape.tag in {"cylinder", "capsule"}:
            size = (_number(shape, "radius", None, where), _number(shape, "length", None, where) / 2)
        elif shape.tag == "sphere":
            size = (_number(shape, "radius", None, where),)
        else:
            raise InputError(f"{where}: geometry <{shape.tag}> is not supported; use box, cylinder, sphere or mesh")
        if min(size) <= 0 or max(size) > MAX_LENGTH:
            raise InputError(f"{where}: {shape.tag} size must be positive and at most {MAX_LENGTH:g} m, in metres")
        return Shape(shape.tag, size, origin, None, rgba)

    def _colour(self, item: ET.Element, where: str) -> tuple[float, float, float, float] | None:
        material = item.find("material")
        if material is None:
            return None
        color = material.find("color")
        return _rgba(color, where) if color is not None else self.materials.get(material.get("name", ""))


def _unit(axis: tuple[float, ...], length: float) -> tuple[float, float, float]:
    x, y, z = (value / max(length, 1e-12) for value in axis)
    return x, y, z


def _balanced(tensor: Array, where: str) -> Array:
    """The tensor, rounding errors of the triangle inequality A + B >= C taken out.

    Raises:
        InputError: the tensor is no inertia of any body.
    """
    moments, axes = np.linalg.eigh(tensor)
    shown = ", ".join(f"{moment:.3g}" for moment in moments)
    if moments[0] <= 0:
        raise InputError(f"{where}: inertia has principal moments {shown}; all must be positive")
    excess = moments[2] - moments[0] - moments[1]
    if excess <= 0:
        return tensor
    if excess > BALANCE_TOLERANCE * moments[2]:
        raise InputError(
            f"{where}: inertia has principal moments {shown}; each must be at most the sum of the other two "
            "(check the units and the frame of <inertia>)"
        )
    moments = moments + excess
    balanced: Array = axes @ np.diag(moments) @ axes.T
    return balanced
