"""The trajectory keyed on an object, and where the object stands without it.

Keying leaves the Scene as it was: each keyed object remembers its place before, and reading a .blend takes it from
there, carried along when the user moved the object at the present frame or changed its keys at the first.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import bpy
import numpy as np

from mjcf_export.frames import Array, inverse, matrix_quaternion, transform

from .records import ANGLE_TOLERANCE, POSITION_TOLERANCE, PREFIX, rotation_angle_small

ACTION = "real2gym"
STILL = PREFIX + "still"
"""Location and wxyz of the object in its parent before it was keyed."""
START = PREFIX + "keyed_start"
"""Location and wxyz of the first key as it was set."""
CHANNELS = (("location", 3), ("rotation_quaternion", 4))


def key_object(item: Any, local: Array, frames: Array) -> None:
    """Linear keyframes of location and rotation of `item` from rigid bases `(F, 4, 4)`; its scale stays."""
    still = still_basis(item)
    item.rotation_mode = "QUATERNION"
    quaternions = np.array([matrix_quaternion(matrix) for matrix in local])
    for row in range(1, len(quaternions)):
        if quaternions[row] @ quaternions[row - 1] < 0:
            quaternions[row] = -quaternions[row]
    values = {"location": local[:, :3, 3], "rotation_quaternion": quaternions}
    curves = _fresh_curves(item)
    for path, width in CHANNELS:
        for channel in range(width):
            curve = curves.new(path, index=channel)
            curve.keyframe_points.add(len(frames))
            points = np.column_stack([frames, values[path][:, channel]]).astype(np.float32)
            curve.keyframe_points.foreach_set("co", points.ravel())
            curve.keyframe_points.foreach_set("interpolation", np.ones(len(frames), dtype=np.int32))
            curve.update()
    item[STILL] = _numbers(still)
    item[START] = [*local[0, :3, 3].tolist(), *quaternions[0].tolist()]


def still_basis(item: Any) -> Array:
    """Where `item` stands `(4, 4)` in its parent, without scale, when the trajectory keyed on it is left out."""
    now = _rigid(item.location, item.matrix_basis.to_quaternion())
    curves = _keyed_curves(item)
    if curves is None or STILL not in item:
        return now
    still = _from_numbers(item[STILL])
    scene = bpy.context.scene
    shown = _at(curves, scene.frame_current + scene.frame_subframe)
    if not _same(now, shown):
        return now @ inverse(shown) @ still
    start, first = _from_numbers(item[START]), _at(curves, 0.0)
    return still if _same(first, start) else first @ inverse(start) @ still


@contextmanager
def without_trajectory(items: Iterable[Any]) -> Iterator[None]:
    """While open, keyed objects stand where they stand without their trajectory; everything is put back afterwards."""
    moved: list[tuple[Any, Any, Any, list[float]]] = []
    try:
        for item in items:
            if _keyed_curves(item) is None or STILL not in item:
                continue
            still, animation = still_basis(item), item.animation_data
            before = [*item.location, *item.rotation_quaternion]
            moved.append((item, animation.action, getattr(animation, "action_slot", None), before))
            animation.action = None
            _place(item, _numbers(still))
        yield
    finally:
        for item, action, slot, _ in moved:
            item.animation_data.action = action
            if slot is not None:
                item.animation_data.action_slot = slot
        if moved:
            bpy.context.view_layer.update()  # evaluates the keys, over which an edit at the present frame then stands
            for item, *_, before in moved:
                _place(item, before)
            bpy.context.view_layer.update()


def _place(item: Any, numbers: list[float]) -> None:
    item.location, item.rotation_quaternion = numbers[:3], numbers[3:]


def _fresh_curves(item: Any) -> Any:
    if item.animation_data is not None:
        item.animation_data_clear()
    action = bpy.data.actions.new(f"{item.name} trajectory")
    action[ACTION] = "trajectory"
    animation = item.animation_data_create()
    animation.action = action
    if not hasattr(action, "layers"):
        return action.fcurves
    slot = action.slots.new(id_type="OBJECT", name=item.name)
    animation.action_slot = slot
    strip = action.layers.new("Layer").strips.new(type="KEYFRAME")
    return strip.channelbag(slot, ensure=True).fcurves


def _keyed_curves(item: Any) -> Any:
    """The curves of the trajectory keyed on `item`; None when it has no such action, or turns by other means."""
    animation = item.animation_data
    action = animation.action if animation is not None else None
    if action is None or action.get(ACTION) != "trajectory" or item.rotation_mode != "QUATERNION":
        return None
    if not hasattr(action, "layers"):
        return action.fcurves
    if not action.layers or not action.layers[0].strips or animation.action_slot is None:
        return None
    bag = action.layers[0].strips[0].channelbag(animation.action_slot)
    return None if bag is None else bag.fcurves


def _at(curves: Any, frame: float) -> Array:
    values = {"location": [0.0, 0.0, 0.0], "rotation_quaternion": [1.0, 0.0, 0.0, 0.0]}
    for curve in curves:
        if curve.data_path in values:
            values[curve.data_path][curve.array_index] = curve.evaluate(frame)
    return _rigid(values["location"], values["rotation_quaternion"])


def _same(first: Array, second: Array) -> bool:
    turned = rotation_angle_small(first[:3, :3].T @ second[:3, :3])
    return bool(np.abs(first[:3, 3] - second[:3, 3]).max() <= POSITION_TOLERANCE and turned <= ANGLE_TOLERANCE)


def _rigid(location: Any, quaternion: Any) -> Array:
    turn = np.array(quaternion, dtype=np.float64)
    return transform(np.array(location, dtype=np.float64), turn / max(float(np.linalg.norm(turn)), 1e-12))


def _numbers(matrix: Array) -> list[float]:
    return [*matrix[:3, 3].tolist(), *matrix_quaternion(matrix).tolist()]


def _from_numbers(numbers: Any) -> Array:
    return _rigid(list(numbers)[:3], list(numbers)[3:])
