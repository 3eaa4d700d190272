"""What a Scene shape becomes under a linear map: the same family where that is possible."""

from dataclasses import dataclass

import numpy as np

from mjcf_export.frames import Array
from mjcf_export.scene import Box, Cylinder, Extrusion, Lathe, Mesh, Shape, Tray

from .records import rotation_angle_small

SHEAR_TOLERANCE = 2e-5
SCALE_TOLERANCE = 3e-6
ROUND_TOLERANCE = 2e-5
"""How far the scales of x and y may differ on a shape that has one radius or wall."""


@dataclass(frozen=True)
class Reshaped:
    """The shape, the rotation `(3, 3)` of its frame, and its origin in the mapped old frame."""

    shape: Shape
    rotation: Array
    origin: Array


def reshape(shape: Shape, linear: Array, near: Array) -> Reshaped | None:
    """`shape` after the linear map `(3, 3)`, or None when it leaves its family.

    Args:
        shape: as it was.
        linear: rotation, scale, mirror; from the old frame to the world.
        near: `(3, 3)` rotation to prefer among those that a symmetric shape allows.
    """
    scale = np.linalg.norm(linear, axis=0)
    frame = linear / scale
    if np.abs(frame.T @ frame - np.eye(3)).max() > SHEAR_TOLERANCE:
        return None
    scale = np.where(np.abs(scale - 1) <= SCALE_TOLERANCE, 1.0, scale)
    unscaled = bool((scale == 1.0).all())
    flip = np.ones(3)
    if np.linalg.det(frame) < 0:
        axes = _mirror_axes(shape)
        if not axes:
            return None
        options = [1.0 - 2.0 * np.eye(3)[axis] for axis in axes]
        flip = min(options, key=lambda option: rotation_angle_small(near.T @ (frame * option)))
    scaled = shape if unscaled and not isinstance(shape, Extrusion) else _scaled(shape, scale, flip)
    if scaled is None:
        return None
    if isinstance(shape, Extrusion) and unscaled and (flip > 0).all():
        scaled = shape
    rotation = frame * flip
    origin = np.zeros(3)
    if flip[2] < 0 and isinstance(scaled, Box | Cylinder):
        height = scaled.size[2] if isinstance(scaled, Box) else scaled.height
        origin = rotation @ np.array([0.0, 0.0, -height])
    return Reshaped(scaled, rotation, origin)


def _mirror_axes(shape: Shape) -> tuple[int, ...]:
    """Axes along which a mirror image stays in the family; along z a box or cylinder then hangs from its origin."""
    if isinstance(shape, Mesh):
        return ()
    return (0, 1, 2) if isinstance(shape, Box | Cylinder) else (0, 1)


def _scaled(shape: Shape, scale: Array, flip: Array) -> Shape | None:
    sx, sy, sz = (float(value) for value in scale)
    if isinstance(shape, Box):
        return Box(size=(shape.size[0] * sx, shape.size[1] * sy, shape.size[2] * sz))
    if isinstance(shape, Extrusion):
        polygon = [(x * sx * float(flip[0]), y * sy * float(flip[1])) for x, y in shape.polygon]
        if flip[0] * flip[1] < 0:
            polygon.reverse()
        return Extrusion(polygon=tuple(polygon), height=shape.height * sz)
    if isinstance(shape, Mesh) or abs(sx - sy) > ROUND_TOLERANCE * max(sx, sy):
        return None
    across = float(np.sqrt(sx * sy))
    if isinstance(shape, Cylinder):
        return Cylinder(radius=shape.radius * across, height=shape.height * sz)
    if isinstance(shape, Tray):
        size = (shape.size[0] * across, shape.size[1] * across, shape.size[2] * sz)
        return Tray(size=size, wall=shape.wall * across, floor=shape.floor * sz)
    outer = tuple((r * across, z * sz) for r, z in shape.outer)
    inner = None if shape.inner is None else tuple((r * across, z * sz) for r, z in shape.inner)
    return Lathe(outer=outer, inner=inner)


def affine_between(before: Array, after: Array) -> tuple[Array, Array] | None:
    """Linear part `(3, 3)` and offset `(3,)` that carry points `before` onto `after` `(V, 3)`, or None.

    This recognises applied transforms: the vertices moved, but only by one affine map.
    """
    if before.shape != after.shape:
        return None
    size = float(np.ptp(before, axis=0).max())
    tolerance = 1e-6 * max(size, float(np.abs(after).max()))
    if np.abs(after - before).max() <= tolerance:
        return np.eye(3), np.zeros(3)
    centred = before - before.mean(axis=0)
    solution, _, rank, _ = np.linalg.lstsq(centred, after - after.mean(axis=0), rcond=1e-6)
    if rank < 3:
        return None
    linear = solution.T
    offset = after.mean(axis=0) - linear @ before.mean(axis=0)
    if np.abs(before @ linear.T + offset - after).max() > 4 * tolerance:
        return None
    return linear, offset
