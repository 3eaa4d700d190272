"""Lights between the Scene and Blender."""

import math
from typing import Any

import bpy

from mjcf_export.frames import Array
from mjcf_export.scene import Light

from .outliner import collection, new_object
from .records import current_name, kind_of, mark, snap, snap_all, snap_pose, store, stored

KINDS = {"SUN": "sun", "AREA": "area", "POINT": "point", "SPOT": "point"}


def build_light(light: Light, index: int) -> Any:
    """A light object."""
    data = bpy.data.lights.new(light.name, light.kind.upper())
    data.energy = light.energy
    data.color = light.color
    if light.kind == "area":
        data.shape = "SQUARE"
        data.size = light.size
    elif light.kind == "sun":
        data.angle = min(light.size, math.pi)
    else:
        data.shadow_soft_size = light.size
    made = new_object(light.name, data, collection("light"), light.pose.matrix)
    mark(made, "light", index)
    store(made, light)
    return made


def read_light(item: Any, frame: Array, unit: float, notes: list[str]) -> Light:
    """The light as it is now; `frame` is its rigid evaluated matrix in metres."""
    data = item.data
    built = kind_of(item) == "light"
    kept = stored(item, Light, name=item.name)
    kind = KINDS[data.type]
    if data.type == "SPOT":
        notes.append(f"light {item.name}: a spot is read as a point light")
    if data.type == "AREA":
        size = data.size * unit
        if data.shape in {"RECTANGLE", "ELLIPSE"}:
            size = math.sqrt(data.size * data.size_y) * unit
            notes.append(f"light {item.name}: read as a square of the same area")
        size *= math.sqrt(abs(item.matrix_world.to_scale()[0] * item.matrix_world.to_scale()[1]))
        exact = kept.size
    elif data.type == "SUN":
        size = data.angle
        exact = min(kept.size, math.pi)
    else:
        size = data.shadow_soft_size * unit
        exact = kept.size
    same = built and kept.kind == kind
    now = snap(size, exact if same else None)
    return Light.model_validate(
        {
            "name": current_name(item, kept.name),
            "kind": kind,
            "pose": snap_pose(frame, kept.pose if built else None),
            "energy": snap(data.energy, kept.energy if built else None),
            "size": kept.size if same and now == exact else now,
            "color": snap_all(tuple(data.color), kept.color if built else None),
        }
    )
