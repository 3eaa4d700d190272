"""Shapes with other extents: what the size hypothesis changes, walls and floors kept as they are."""

import numpy as np

from mjcf_export.scene import Box, Cylinder, Extrusion, Lathe, Mesh, Shape, Tray


def scaled(shape: Shape, factors: tuple[float, float, float]) -> Shape | None:
    """The shape with its width, depth and height multiplied; None for a mesh, whose file stays as it is.

    Turned bodies take the first factor for their radius. Wall and floor thickness do not change.
    """
    fx, fy, fz = factors
    match shape:
        case Box():
            return Box(size=(shape.size[0] * fx, shape.size[1] * fy, shape.size[2] * fz))
        case Tray():
            size = (shape.size[0] * fx, shape.size[1] * fy, shape.size[2] * fz)
            return Tray(size=size, wall=shape.wall, floor=min(shape.floor, 0.6 * size[2]))
        case Cylinder():
            return Cylinder(radius=shape.radius * fx, height=shape.height * fz)
        case Extrusion():
            return Extrusion(polygon=tuple((x * fx, y * fy) for x, y in shape.polygon), height=shape.height * fz)
        case Lathe():
            return _scaled_lathe(shape, fx, fz)
        case Mesh():
            return None


def _scaled_lathe(shape: Lathe, fr: float, fz: float) -> Lathe:
    outer = np.array(shape.outer)
    grown = outer * (fr, fz)
    if shape.inner is None:
        return Lathe(outer=tuple((float(r), float(z)) for r, z in grown))
    inner = np.array(shape.inner)
    wall = np.interp(inner[:, 1], outer[:, 1], outer[:, 0]) - inner[:, 0]
    floor, rim = inner[0, 1], inner[-1, 1]
    top = rim * fz
    part = (inner[:, 1] - floor) / (rim - floor)
    bottom = min(floor, 0.6 * top)
    levels = bottom + part * (top - bottom)
    radii = np.maximum(np.interp(levels, grown[:, 1], grown[:, 0]) - wall, 1e-3)
    return Lathe(
        outer=tuple((float(r), float(z)) for r, z in grown),
        inner=tuple((float(r), float(z)) for r, z in zip(radii, levels, strict=True)),
    )
