"""Criteria fixed before a run, the native rollout, and the verdict over it."""

from typing import ClassVar, Literal

from pydantic import Field

from mjcf_export.document import Document, Provenance, Record
from mjcf_export.scene import Predicate

Stage = Literal["settle", "approach", "orientation", "closure", "load", "transport", "release", "whole"]
STAGES: tuple[Stage, ...] = ("settle", "approach", "orientation", "closure", "load", "transport", "release", "whole")


class Criteria(Document):
    """Predicates and thresholds, hashed into the verdict. SI units."""

    VERSION: ClassVar[int] = 1
    predicates: tuple[Predicate, ...] = ()
    settle_time: float = 2.0
    linear_speed: float = 0.01
    angular_speed: float = 0.1
    still_time: float = 0.5
    pad_force: float = 0.5
    released_force: float = 0.02
    penetration: float = 0.002
    lift_height: float = 0.02
    slip: float = 0.02
    upright_tilt: float = 0.35
    tcp_error: float = 0.02


class Check(Record):
    """One measured value against one threshold."""

    name: str
    stage: Stage
    status: Literal["pass", "fail", "not evaluated"]
    value: float | None = None
    unit: str = ""
    comparison: Literal["<=", ">=", "=="] = "<="
    threshold: float | None = None
    detail: str = ""


class Substitution(Record):
    """Something that stands in for what was asked or measured."""

    what: str
    why: str
    provenance: Provenance = "assumed"


class Rollout(Document):
    """A native execution; the arrays lie in `rollout.npz` beside it, N control steps each.

    `time` `(N,)`, `qpos` `(N, nq)`, `qvel` `(N, nv)`, `ctrl` `(N, nu)`, `body/<name>` `(N, 7)` world pose of the body
    frame, `<robot>/tcp` `(N, 4, 4)`, `<robot>/opening` `(N,)`, `pad/<robot>/<left|right>/<body>` `(N,)` newtons,
    `state/<event>` one `mjSTATE_INTEGRATION` vector at that event.
    """

    VERSION: ClassVar[int] = 1
    model: str = "mjcf/scene.xml"
    mujoco_version: str
    physics_dt: float
    control_dt: float
    steps: int
    start: float = Field(0.0, description="rollout time at which the motion's clock is zero (after settling)")
    stages: dict[str, tuple[float, float]] = {}
    bodies: tuple[str, ...] = ()
    robots: tuple[str, ...] = ()
    warnings: dict[str, int] = {}


class Verdict(Document):
    """Whether the action was done, and everything needed to believe it."""

    VERSION: ClassVar[int] = 1
    accepted: bool
    failed_stage: Stage | None = None
    checks: tuple[Check, ...] = ()
    adapted: str | None = None
    substitutions: tuple[Substitution, ...] = ()
    corrections: tuple[str, ...] = ()
    hashes: dict[str, str] = {}
    message: str = ""
