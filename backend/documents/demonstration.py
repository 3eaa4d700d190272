"""The demonstration folder as a document: views, robots, hands, prompts and hints (docs/demonstration.md)."""

from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from backend.documents.predicates import parse_predicate
from mjcf_export.document import Document, Record
from mjcf_export.scene import Predicate, Role

Matrix3 = tuple[tuple[float, float, float], tuple[float, float, float], tuple[float, float, float]]
Vec4 = tuple[float, float, float, float]
Matrix4 = tuple[Vec4, Vec4, Vec4, Vec4]
Trust = Literal["measured", "calibrated", "estimated", "assumed"]
Pixel = tuple[float, float]


class ViewTrust(Record):
    """How far the given camera values are trusted; only measured and calibrated ones are frozen."""

    intrinsics: Trust = "measured"
    extrinsics: Trust = "measured"


class Mount(Record):
    """A wrist camera: the optical frame's pose fixed in a robot link."""

    link: str
    pose: Matrix4


class View(Record):
    """One camera: its video and what is known of it. Paths are relative to the demonstration folder.

    `frames` is the part `[first, stop)` of the video that belongs to the demonstration; indices and times then start
    at `first`.
    """

    name: str = Field(min_length=1)
    video: str
    frames: tuple[int, int] | None = None
    timestamps: str | None = None
    fps: float | None = Field(default=None, gt=0)
    intrinsics: Matrix3 | None = None
    distortion: tuple[float, ...] = ()
    extrinsics: Matrix4 | str | None = None
    trust: ViewTrust = ViewTrust()
    mount: Mount | None = None
    depth: str | None = None


class DemoRobot(Record):
    """A robot that acts in the demonstration, or a target for human hands."""

    name: str = Field(min_length=1)
    model: str
    base: Matrix4 | None = None
    states: str | None = None


class Prompt(Record):
    """Where an object is in one frame: a box `(x0, y0, x1, y1)` and/or points with labels (1 on it, 0 off it)."""

    view: str
    frame: int = Field(default=0, ge=0)
    box: tuple[float, float, float, float] | None = None
    points: tuple[Pixel, ...] = ()
    labels: tuple[int, ...] = ()

    @model_validator(mode="after")
    def _something(self) -> Self:
        if self.box is None and not self.points:
            raise ValueError("a prompt needs a box or points")
        if self.labels and len(self.labels) != len(self.points):
            raise ValueError(f"{len(self.points)} points but {len(self.labels)} labels")
        return self


class DemoObject(Record):
    """What the user says is there."""

    name: str = Field(min_length=1)
    roles: tuple[Role, ...] = ()
    description: str = ""
    size: tuple[float | None, float | None, float | None] | None = None
    prompts: tuple[Prompt, ...] = ()


class Correspondence(Record):
    """A clicked pixel whose point is known, or known only to lie on a support."""

    view: str
    frame: int = Field(default=0, ge=0)
    pixel: Pixel
    point: tuple[float, float, float] | None = None
    frame_of: str = "world"
    on: str | None = None

    @model_validator(mode="after")
    def _known(self) -> Self:
        if (self.point is None) == (self.on is None):
            raise ValueError("a correspondence needs either `point` or `on`")
        return self


TABLES = {"table", "desk", "counter", "worktop", "bench", "floor", "ground"}
"""Words in the name of a common support."""


class Demonstration(Document):
    """The demonstration as the user gives it (`demo.json`), and as loaders of other formats write it.

    `root` is the folder that relative paths start from; it is set on loading and not part of the file. `source` is
    set only in a run's own copy: where the demonstration came from; paths there are absolute.
    """

    VERSION: ClassVar[int] = 1
    task: str = ""
    actor: Literal["robot", "human"] = "robot"
    views: tuple[View, ...] = Field(min_length=1)
    robots: tuple[DemoRobot, ...] = ()
    world: str | None = None
    time_scale: float = Field(default=1.0, gt=0)
    hands: str | None = None
    objects: tuple[DemoObject, ...] = ()
    correspondences: tuple[Correspondence, ...] = ()
    predicates: Annotated[tuple[Predicate, ...], Field()] = ()
    loader: str = "folder"
    notes: tuple[str, ...] = ()
    source: str | None = None
    root: Path = Field(default=Path("."), exclude=True)

    @model_validator(mode="before")
    @classmethod
    def _predicates(cls, raw: Any) -> Any:
        if isinstance(raw, dict) and "predicates" in raw:
            raw = {**raw, "predicates": [parse_predicate(item) for item in raw["predicates"]]}
        return raw

    @model_validator(mode="after")
    def _references(self) -> Self:
        views = [view.name for view in self.views]
        for kind, names in (
            ("views", views),
            ("robots", [robot.name for robot in self.robots]),
            ("objects", [item.name for item in self.objects]),
        ):
            doubled = sorted({name for name in names if names.count(name) > 1})
            if doubled:
                raise ValueError(f"{kind}: names used twice: {', '.join(doubled)}")
        for item in self.objects:
            for prompt in item.prompts:
                if prompt.view not in views:
                    raise ValueError(f"object {item.name}: prompt in unknown view {prompt.view}; there are {views}")
        for click in self.correspondences:
            if click.view not in views:
                raise ValueError(f"correspondence in unknown view {click.view}; there are {views}")
        if self.world is not None and self.world not in {robot.name for robot in self.robots}:
            raise ValueError(f"world names no robot: {self.world}")
        return self

    @property
    def table_name(self) -> str:
        """The common support's name: the one points were clicked on or called a table, else one without a prompt.

        Other supports (a plate, a box to stack on) are objects like the rest.
        """
        clicked = {click.on for click in self.correspondences}
        supports = [item for item in self.objects if set(item.roles) == {"support"}]
        named = [item for item in supports if item.name in clicked or TABLES & set(item.name.lower().split("_"))]
        bare = [item for item in supports if not item.prompts]
        return next((item.name for item in (*named, *bare)), "table")

    def view(self, name: str) -> View:
        """The view called `name`; raises KeyError with the names there are."""
        for view in self.views:
            if view.name == name:
                return view
        raise KeyError(f"no view {name}; there are {[view.name for view in self.views]}")
