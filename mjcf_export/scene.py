"""The Scene document: the contract between Blender, the exporter and the backend.

Every body's frame has its origin at the centre of the bottom of its shape, +Z up, so that a body resting on a
support at height `h` has `pose.position[2] == h`. Lengths are metres, masses kilograms, angles radians.
"""

from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
from pydantic import Field, field_validator, model_validator

from mjcf_export.document import Document, Provenance, Record
from mjcf_export.frames import Array, matrix_quaternion, transform

Vec3 = tuple[float, float, float]
Length = Annotated[float, Field(gt=0, le=100)]
Role = Literal["moved", "container", "support", "articulated", "fixed", "distractor"]
Matrix4 = tuple[tuple[float, ...], ...]


class Pose(Record):
    """A rigid pose in the parent frame (the world unless said otherwise)."""

    position: Vec3 = (0.0, 0.0, 0.0)
    quaternion: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)

    @field_validator("quaternion")
    @classmethod
    def _unit(cls, value: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
        norm = float(np.linalg.norm(value))
        if abs(norm - 1) > 1e-3:
            raise ValueError(f"quaternion wxyz must have unit length, has {norm:.4f}")
        return value if abs(norm - 1) < 1e-9 else tuple(float(v / norm) for v in value)  # type: ignore[return-value]

    @property
    def matrix(self) -> Array:
        """The pose as a `(4, 4)` transform."""
        return transform(self.position, self.quaternion)

    @classmethod
    def from_matrix(cls, matrix: Array) -> Self:
        """The pose of a rigid `(4, 4)` transform."""
        x, y, z = (float(v) for v in matrix[:3, 3])
        w, i, j, k = (float(v) for v in matrix_quaternion(matrix))
        return cls(position=(x, y, z), quaternion=(w, i, j, k))


class Box(Record):
    """A solid cuboid: full extents along x, y, z."""

    kind: Literal["box"] = "box"
    size: tuple[Length, Length, Length]


class Cylinder(Record):
    """A solid upright cylinder."""

    kind: Literal["cylinder"] = "cylinder"
    radius: Length
    height: Length


class Lathe(Record):
    """A profile turned about z: solid (bottle) or hollow and open at the top (cup, bowl).

    `outer` and `inner` list `(radius, z)` from the bottom up, z increasing; `outer` starts at z = 0. For a hollow
    body `inner` starts at the height of the cavity floor, ends at the rim's height, and stays inside `outer`.
    """

    kind: Literal["lathe"] = "lathe"
    outer: tuple[tuple[float, float], ...] = Field(min_length=2)
    inner: tuple[tuple[float, float], ...] | None = None

    @model_validator(mode="after")
    def _profile(self) -> Self:
        outer = np.array(self.outer)
        if abs(outer[0, 1]) > 1e-9 or (np.diff(outer[:, 1]) <= 0).any() or (outer[:, 0] < 0).any():
            raise ValueError("outer profile must start at z=0, rise, and have radii >= 0")
        if outer[:, 0].max() < 1e-4:
            raise ValueError("outer profile has no radius")
        if self.inner is not None:
            inner = np.array(self.inner)
            if len(inner) < 2 or (np.diff(inner[:, 1]) <= 0).any() or inner[0, 1] <= 0:
                raise ValueError("inner profile needs two points, must rise, and start above the bottom")
            if inner[-1, 1] > outer[-1, 1] + 1e-9:
                raise ValueError("inner profile rises above the rim")
            if (np.interp(inner[:, 1], outer[:, 1], outer[:, 0]) - inner[:, 0] < 1e-4).any():
                raise ValueError("inner profile must stay at least 0.1 mm inside the outer one")
        return self


class Tray(Record):
    """A cuboid open at the top: outer extents, wall and floor thickness."""

    kind: Literal["tray"] = "tray"
    size: tuple[Length, Length, Length]
    wall: Length
    floor: Length

    @model_validator(mode="after")
    def _hollow(self) -> Self:
        if 2 * self.wall >= min(self.size[:2]) or self.floor >= self.size[2]:
            raise ValueError("walls or floor leave no cavity")
        return self


class Extrusion(Record):
    """A simple polygon (counter-clockwise, metres) raised along z."""

    kind: Literal["extrusion"] = "extrusion"
    polygon: tuple[tuple[float, float], ...] = Field(min_length=3)
    height: Length


class Mesh(Record):
    """A triangle mesh file beside the scene; its origin is the centre of its bottom, metres.

    `pieces` names convex collision meshes when they were made beforehand; otherwise the exporter makes them.
    """

    kind: Literal["mesh"] = "mesh"
    file: str
    pieces: tuple[str, ...] = ()


Shape = Annotated[Box | Cylinder | Lathe | Tray | Extrusion | Mesh, Field(discriminator="kind")]


class Material(Record):
    """How a surface looks: sRGB colour in 0..1 and an optional texture file (PNG) beside the scene."""

    name: str
    color: tuple[float, float, float] = (0.6, 0.6, 0.6)
    roughness: float = Field(0.6, ge=0, le=1)
    metallic: float = Field(0.0, ge=0, le=1)
    specular: float = Field(
        0.5, ge=0, le=1, description="mirroring of a smooth non-metal; 0.5 is usual, 0 where a texture shows it already"
    )
    texture: str | None = None


class Body(Record):
    """A thing in the scene. It is static when its roles are only support or fixed, else it moves freely."""

    name: str = Field(min_length=1)
    roles: tuple[Role, ...] = ("moved",)
    description: str = ""
    shape: Shape
    pose: Pose = Pose()
    mass: float | None = Field(None, gt=0)
    density: float = Field(500.0, gt=0)
    friction: float = Field(0.7, ge=0)
    material: str | None = None
    parent: str | None = None
    provenance: dict[str, Provenance] = {}
    residuals: dict[str, float] = {}

    @property
    def static(self) -> bool:
        """Whether the body is part of the fixed world."""
        return bool(self.roles) and set(self.roles) <= {"support", "fixed"}


class Joint(Record):
    """An articulation between `body` and its `parent`; axis and origin in the body's frame."""

    name: str
    body: str
    kind: Literal["prismatic", "revolute"]
    axis: Vec3
    origin: Vec3 = (0.0, 0.0, 0.0)
    range: tuple[float, float]
    damping: float = Field(0.1, ge=0)
    friction: float = Field(0.0, ge=0)
    position: float = 0.0


class Robot(Record):
    """A robot in the scene. `model` is a known name or a URDF/MJCF path relative to the scene's folder."""

    name: str
    model: str
    base: Pose = Pose()
    qpos: tuple[float, ...] | None = None
    opening: float | None = Field(None, ge=0)
    provenance: dict[str, Provenance] = {}


class Camera(Record):
    """A view: OpenCV optical frame, camera-to-world pose, or fixed in a robot link when `mount` is set."""

    name: str
    width: int = Field(gt=0)
    height: int = Field(gt=0)
    intrinsics: tuple[Vec3, Vec3, Vec3]
    distortion: tuple[float, ...] = ()
    pose: Pose = Pose()
    mount: tuple[str, str] | None = None
    focus_distance: float | None = Field(None, gt=0, description="metres in focus; None is a pinhole")
    fstop: float = Field(8.0, gt=0)
    provenance: dict[str, Provenance] = {}

    @property
    def matrix(self) -> Array:
        """Intrinsics `(3, 3)` in pixels."""
        return np.array(self.intrinsics)


class Light(Record):
    """A light. `energy` is watts for point and area, W/m² for sun, as in Blender; it shines along -Z of its pose.

    `size` is the edge of an area, the radius of a point (metres), or the angular diameter of a sun (radians, at most
    pi); `color` is linear.
    """

    name: str
    kind: Literal["sun", "area", "point"] = "area"
    pose: Pose = Pose()
    energy: float = Field(100.0, ge=0)
    size: float = Field(1.0, ge=0)
    color: tuple[float, float, float] = (1.0, 1.0, 1.0)


class Predicate(Record):
    """A declarative goal, e.g. `inside(block, cup)`; the names are those of the design, section 5."""

    name: Literal[
        "inside", "on", "upright", "lifted", "carried", "at", "open", "closed", "inserted", "poured",
        "separated", "released", "retracted", "stable",
    ]  # fmt: skip
    args: tuple[str | float | tuple[float, ...], ...] = ()

    def __str__(self) -> str:
        return f"{self.name}({', '.join(str(arg) for arg in self.args)})"


class Task(Record):
    """What the demonstration achieves."""

    text: str = ""
    predicates: tuple[Predicate, ...] = ()


class Scene(Document):
    """One metric, Z-up world: bodies, joints, robots, cameras, lights, materials and the task."""

    VERSION: ClassVar[int] = 1
    name: str = "scene"
    bodies: tuple[Body, ...] = ()
    joints: tuple[Joint, ...] = ()
    robots: tuple[Robot, ...] = ()
    cameras: tuple[Camera, ...] = ()
    lights: tuple[Light, ...] = ()
    materials: tuple[Material, ...] = ()
    environment: tuple[float, float, float] = Field((0.5, 0.5, 0.5), description="sRGB of the light from all around")
    backdrop: tuple[float, float, float] | None = Field(
        None, description="sRGB seen behind everything and in reflections; the environment's when none"
    )
    exposure: float = Field(0.0, description="stops added when rendering")
    task: Task = Task()

    @model_validator(mode="after")
    def _references(self) -> Self:
        for kind in ("bodies", "joints", "robots", "cameras", "lights", "materials"):
            names = [item.name for item in getattr(self, kind)]
            doubled = sorted({name for name in names if names.count(name) > 1})
            if doubled:
                raise ValueError(f"{kind}: names used twice: {', '.join(doubled)}")
        bodies = {body.name for body in self.bodies}
        materials = {material.name for material in self.materials}
        for body in self.bodies:
            if body.material is not None and body.material not in materials:
                raise ValueError(f"body {body.name}: unknown material {body.material}; there are {sorted(materials)}")
            if body.parent is not None and body.parent not in bodies:
                raise ValueError(f"body {body.name}: unknown parent {body.parent}; there are {sorted(bodies)}")
        for joint in self.joints:
            if joint.body not in bodies:
                raise ValueError(f"joint {joint.name}: unknown body {joint.body}; there are {sorted(bodies)}")
        return self

    def body(self, name: str) -> Body:
        """The body called `name`.

        Raises:
            KeyError: there is none; the message lists those there are.
        """
        for body in self.bodies:
            if body.name == name:
                return body
        raise KeyError(f"no body {name}; there are {[body.name for body in self.bodies]}")

    def camera(self, name: str) -> Camera:
        """The camera called `name`; raises KeyError with the names there are."""
        for camera in self.cameras:
            if camera.name == name:
                return camera
        raise KeyError(f"no camera {name}; there are {[camera.name for camera in self.cameras]}")

    def replace_body(self, body: Body) -> "Scene":
        """A copy in which `body` takes the place of the one with its name."""
        return self.model_copy(
            update={"bodies": tuple(body if item.name == body.name else item for item in self.bodies)}
        )


SCENE_FILE = Path("scene.json")
"""Name of the document inside the scene folder; meshes and textures lie beside it."""
