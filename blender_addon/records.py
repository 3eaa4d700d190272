"""Records of the Scene kept as custom properties, for everything Blender has no place of its own for.

A datablock that stands for a part of the Scene carries `real2gym = <kind>` and one property `r2g_<field>` for each
field of its record. Numbers and flat lists of numbers are native (double precision, editable in the sidebar), the
rest is JSON. What Blender does have a place for is stored too, as it was when built: reading keeps the stored value
where Blender's single-precision one still agrees with it, and takes Blender's where the user changed it.
"""

import json
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
from pydantic import BaseModel, TypeAdapter, ValidationError

from mjcf_export.document import describe_validation
from mjcf_export.errors import InputError
from mjcf_export.frames import Array, rotation_angle
from mjcf_export.scene import Pose

KIND = "real2gym"
PREFIX = "r2g_"
POSITION_TOLERANCE = 2e-6
ANGLE_TOLERANCE = 4e-6
VALUE_TOLERANCE = 1e-6

Model = TypeVar("Model", bound=BaseModel)


def mark(holder: Any, kind: str, index: int = 0) -> None:
    """Say that `holder` stands for the `index`-th `kind` of the Scene, under its present name."""
    holder[KIND] = kind
    holder[PREFIX + "index"] = index
    holder[PREFIX + "built_name"] = holder.name


def kind_of(holder: Any) -> str | None:
    """What `holder` stands for, or None."""
    value = holder.get(KIND)
    return value if isinstance(value, str) else None


def order(holders: Iterable[Any]) -> list[Any]:
    """Built things in the order they had in the Scene, then new ones by name."""
    return sorted(holders, key=lambda item: (item.get(PREFIX + "index", 1 << 30), item.name))


def store(holder: Any, record: BaseModel, skip: Sequence[str] = ()) -> None:
    """Write the fields of `record` on `holder`; absent means None."""
    for name, value in record.model_dump(mode="json").items():
        if name in skip or value is None:
            continue
        native = isinstance(value, str | float) or (
            isinstance(value, list) and bool(value) and all(isinstance(item, float) for item in value)
        )
        holder[PREFIX + name] = value if native else json.dumps(value)


def stored(holder: Any, model: type[Model], **defaults: Any) -> Model:
    """The record kept on `holder`, with `defaults` for required fields that it lacks.

    Raises:
        InputError: a property does not fit its field.
    """
    raw: dict[str, Any] = dict(defaults)
    for name, field in model.model_fields.items():
        key = PREFIX + name
        if key not in holder:
            continue
        value = holder[key]
        value = value.to_list() if hasattr(value, "to_list") else value
        if isinstance(value, str) and not _accepts(field.annotation, value):
            try:
                value = json.loads(value)
            except json.JSONDecodeError as error:
                raise InputError(
                    f"{holder.name}: custom property {key} = {value!r} cannot be read ({error})"
                ) from error
        raw[name] = value
    try:
        return model.model_validate(raw)
    except ValidationError as error:
        raise InputError(f"{holder.name}: custom properties {PREFIX}*: {describe_validation(error)}") from error


def current_name(holder: Any, record_name: str) -> str:
    """The record's name unless the user renamed the datablock (Blender itself shortens and numbers names)."""
    return record_name if holder.get(PREFIX + "built_name") == holder.name else str(holder.name)


def snap(value: float, exact: float | None, tolerance: float = VALUE_TOLERANCE) -> float:
    """`exact` where `value` agrees with it to single precision, else `value`."""
    if exact is not None and abs(value - exact) <= tolerance * max(1.0, abs(exact)):
        return exact
    return float(value)


def snap_all(values: Sequence[float], exact: Sequence[float] | None) -> tuple[float, ...]:
    """`snap` for each component."""
    known: Sequence[float | None] = exact if exact is not None else [None] * len(values)
    return tuple(snap(float(value), kept) for value, kept in zip(values, known, strict=True))


def snap_pose(matrix: Array, exact: Pose | None) -> Pose:
    """The rigid pose of `matrix` `(4, 4)`; coordinates and rotation are those of `exact` where they agree with it."""
    found = Pose.from_matrix(matrix)
    if exact is None:
        return found
    x, y, z = (
        snap(value, kept, POSITION_TOLERANCE) for value, kept in zip(found.position, exact.position, strict=True)
    )
    turned = rotation_angle_small(matrix[:3, :3].T @ exact.matrix[:3, :3])
    return Pose(position=(x, y, z), quaternion=exact.quaternion if turned <= ANGLE_TOLERANCE else found.quaternion)


def rotation_angle_small(rotation: Array) -> float:
    """Angle of a rotation, accurate near zero where the arc cosine is not."""
    skew = np.array([rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1]])
    sine = float(np.linalg.norm(skew)) / 2
    return float(np.arcsin(min(sine, 1.0))) if np.trace(rotation) > 2 else rotation_angle(rotation)


def _accepts(annotation: Any, value: str) -> bool:
    try:
        TypeAdapter(annotation).validate_python(value)
    except ValidationError:
        return False
    return True
