"""What the objects stand on: the table with its texture."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from backend.reconstruct.appearance import safe_name, spread_gutter, write_png
from backend.reconstruct.evidence import largest_piece
from backend.reconstruct.lens import Lens
from backend.reconstruct.lighting import surface_colour
from backend.reconstruct.pictures import Image, Pictures, in_view, sample
from backend.reconstruct.placement import Fitted
from mjcf_export.document import Provenance
from mjcf_export.frames import Array, apply, inverse, rotation_about, transform
from mjcf_export.scene import Body, Box, Material, Pose
from mjcf_export.shapes import texel_points

THICKNESS = 0.04
MARGIN = 0.12
LOW = 0.12
REACH = 1.1
"""The table is looked for this far around the objects (metres)."""
CELL = 0.006
TEXTURE = (1024, 1536)
ALIKE = 2.2
"""Distance in units of the usual Lab spread within which a patch of ground is table."""
STRIP = 17
"""Cells: what is narrower is not the table but something of its colour beside it."""
YAWS = np.radians(np.arange(-44.0, 46.0, 1.0))
LIGHTNESS = 3.0
"""Shadows change lightness more than hue."""
BESIDE = 0.05
"""What shows this close to the table's edge (metres) may be the table still."""
BEYOND = 0.01
"""Share of the pictures that must show what is beyond the table for its colour to be known."""
Grounds = Mapping[str, tuple[Image, npt.NDArray[np.bool_]]]
"""By view: the picture without what moves or stands, and where that was never seen."""


def build_table(
    name: str,
    height: float,
    lenses: Sequence[Lens],
    pictures: Pictures,
    footprints: Array,
    folder: Path,
    provenance: Provenance,
) -> tuple[Body, Material]:
    """The support as a box with its top at `height`, as wide as the views show it and under all `footprints`.

    Args:
        name: of the body.
        height: of its top, metres.
        lenses: the views.
        pictures: their pictures.
        footprints: ground points `(N, 2)` it must reach under.
        folder: scene folder; the texture is written below it.
        provenance: where `height` came from.
    """
    grounds = {lens.name: pictures.bare(lens.name) for lens in lenses}
    low, high, yaw = _extent(height, lenses, grounds, footprints)
    size = (float(high[0] - low[0]), float(high[1] - low[1]), THICKNESS)
    turn = rotation_about((0, 0, 1), yaw)
    centre = turn[:2, :2] @ ((low + high) / 2)
    pose = transform((*centre, height - THICKNESS))
    pose[:3, :3] = turn
    body = Body(
        name=name, roles=("support",), shape=Box(size=size), pose=Pose.from_matrix(pose), friction=0.7, material=name,
        provenance={"pose": provenance, "size": "estimated"},
    )  # fmt: skip
    return body, _table_material(body, lenses, grounds, folder)


def backdrop(table: Body, lenses: Sequence[Lens], pictures: Pictures) -> tuple[float, float, float] | None:
    """The usual sRGB colour of what the views show beyond the table; None where they show nothing else."""
    assert isinstance(table.shape, Box)
    colours = []
    for lens in lenses:
        picture, hidden = pictures.bare(lens.name)
        rows, columns = np.nonzero(~hidden)
        pixels = np.column_stack([columns, rows]).astype(np.float64)
        top = table.pose.position[2] + table.shape.size[2]
        ground = apply(inverse(table.pose.matrix), lens.on_plane(pixels, top))
        inside = (np.abs(ground[:, :2]) < np.array(table.shape.size[:2]) / 2 + BESIDE).all(axis=1)
        colours.append(picture[rows[~inside], columns[~inside]])
    beyond = np.concatenate(colours)
    if len(beyond) < BEYOND * sum(lens.size[0] * lens.size[1] for lens in lenses):
        return None
    red, green, blue = (float(value) for value in np.median(beyond, axis=0) / 255)
    return red, green, blue


def _extent(
    height: float,
    lenses: Sequence[Lens],
    grounds: Grounds,
    footprints: Array,
) -> tuple[Array, Array, float]:
    """Bounds `(2,)`, `(2,)` of the table in a frame turned by the returned yaw."""
    middle = footprints.mean(axis=0)
    steps = np.arange(-REACH, REACH, CELL)
    grid = np.stack(np.meshgrid(steps, steps, indexing="xy"), axis=-1) + middle
    colours, known = _ground_colours(grid.reshape(-1, 2), height, lenses, grounds)
    alike = np.zeros(len(known), dtype=bool)
    near = np.linalg.norm(grid.reshape(-1, 2)[:, None] - footprints[None], axis=2).min(axis=1) < 0.08
    if (known & near).sum() > 30:
        lab = cv2.cvtColor((colours / 255).astype(np.float32)[None], cv2.COLOR_RGB2LAB)[0]
        usual = np.median(lab[known & near], axis=0)
        spread = np.median(np.abs(lab[known & near] - usual), axis=0)
        apart = (lab - usual) / (3.0 + 2 * spread) / (LIGHTNESS, 1.0, 1.0)
        alike = known & (np.linalg.norm(apart, axis=1) < ALIKE)
    shape = grid.shape[:2]
    sheet = _sheet(alike.reshape(shape).astype(np.uint8))
    yaw, seen = 0.0, footprints
    foreign = np.zeros((0, 2))
    if sheet.any():
        rows, columns = np.nonzero(sheet)
        seen = np.column_stack([steps[columns], steps[rows]]) + middle
        foreign = grid.reshape(-1, 2)[known & ~sheet.ravel()]
        yaw = _square_yaw(seen, foreign)
    back = rotation_about((0, 0, 1), -yaw)[:2, :2]
    needed = footprints @ back.T
    low, high = _trimmed(seen @ back.T, foreign @ back.T)
    low = np.minimum(low, needed.min(axis=0) - MARGIN)
    high = np.maximum(high, needed.max(axis=0) + MARGIN)
    return low, high, yaw


def _sheet(alike: npt.NDArray[np.uint8]) -> npt.NDArray[np.bool_]:
    """The largest piece of ground that looks alike, its holes filled, without strips that hang on to it."""
    closed = cv2.morphologyEx(alike, cv2.MORPH_CLOSE, np.ones((9, 9), np.uint8))
    whole = largest_piece(cv2.morphologyEx(closed, cv2.MORPH_OPEN, np.ones((7, 7), np.uint8)) > 0)
    trimmed = cv2.morphologyEx(whole.astype(np.uint8), cv2.MORPH_OPEN, np.ones((STRIP, STRIP), np.uint8))
    return largest_piece(trimmed > 0) if trimmed.any() else whole


def _square_yaw(inside: Array, foreign: Array) -> float:
    """The turn (radians) of the rectangle round ground points `(N, 2)` that takes in least of what is something else.

    Where the picture cuts the table off there is nothing to take in, so a part of it tells the turn of the whole.
    """
    hull = cv2.convexHull(inside.astype(np.float32))[:, 0].astype(np.float64)
    taken = []
    for yaw in YAWS:
        back = rotation_about((0, 0, 1), -yaw)[:2, :2]
        corners, others = hull @ back.T, foreign @ back.T
        low, high = corners.min(axis=0), corners.max(axis=0)
        taken.append(int(((others > low) & (others < high)).all(axis=1).sum()))
    least = min(taken)
    close = [float(yaw) for yaw, count in zip(YAWS, taken, strict=True) if count <= least + 0.01 * len(inside)]
    return min(close, key=abs)


def _trimmed(inside: Array, foreign: Array) -> tuple[Array, Array]:
    """Bounds `(2,)` of ground points `(N, 2)`, each side moved in while most of what is seen along it is foreign."""
    low, high = np.percentile(inside, 1, axis=0), np.percentile(inside, 99, axis=0)
    moved = True
    while moved and (high - low > 4 * CELL).all():
        moved = False
        for axis in range(2):
            for side, step in ((low, CELL), (high, -CELL)):
                edge = side[axis]
                counts = []
                for points in (inside, foreign):
                    within = ((points >= low) & (points <= high)).all(axis=1)
                    counts.append(int((within & (np.abs(points[:, axis] - edge) < 1.5 * CELL)).sum()))
                if counts[1] > counts[0]:
                    side[axis] += step
                    moved = True
    return low, high


def _ground_colours(
    ground: Array,
    height: float,
    lenses: Sequence[Lens],
    grounds: Grounds,
) -> tuple[Array, npt.NDArray[np.bool_]]:
    """Colours `(N, 3)` of ground points `(N, 2)`, views blended and matched in brightness, and which are known."""
    points = np.column_stack([ground, np.full(len(ground), height)])
    total = np.zeros((len(points), 3))
    weight = np.zeros(len(points))
    for lens in lenses:
        pixels, depth = lens.project(points)
        shown = in_view(lens, pixels, depth)
        column = np.clip(np.round(pixels[:, 0]).astype(int), 0, lens.size[0] - 1)
        row = np.clip(np.round(pixels[:, 1]).astype(int), 0, lens.size[1] - 1)
        picture, hidden = grounds[lens.name]
        shown &= ~hidden[row, column]
        slope = np.abs((lens.pose[2, 3] - height) / np.linalg.norm(points - lens.pose[:3, 3], axis=1))
        border = np.minimum(pixels, np.array(lens.size) - pixels).min(axis=1) / (0.15 * lens.size[1])
        merit = slope * (lens.intrinsics[0, 0] / np.maximum(depth, 0.05)) ** 2 * np.clip(border, 0.01, 1)
        merit = np.where(shown, merit, 0.0)
        seen = merit > 0
        if not seen.any():
            continue
        colours = sample(picture, pixels[seen])
        both = weight[seen] > 0
        if both.sum() > 200:
            usual = np.median(total[seen][both] / weight[seen][both][:, None], axis=0)
            colours *= np.clip(usual / np.maximum(np.median(colours[both], axis=0), 1.0), 0.5, 2.0)
        total[seen] += colours * merit[seen, None]
        weight[seen] += merit[seen]
    known = weight > 0
    colours = np.zeros_like(total)
    colours[known] = np.clip(total[known] / weight[known, None], 0, 255)
    return colours, known


def _table_material(body: Body, lenses: Sequence[Lens], grounds: Grounds, folder: Path) -> Material:
    points, normals, valid = texel_points(body.shape, folder, TEXTURE)
    top = valid & (normals[..., 2] > 0.9)
    matrix = body.pose.matrix
    world = apply(matrix, points[top])
    colours, known = _ground_colours(world[:, :2], float(world[0, 2]), lenses, grounds)
    name = body.name
    if known.sum() < 50:
        return Material(name=name, color=(0.55, 0.5, 0.45), roughness=0.7)
    colours = surface_colour(colours, np.ones(len(colours)))
    usual = np.median(colours[known], axis=0)
    image = np.full((*valid.shape, 3), usual)
    rows, columns = np.nonzero(top)
    window = np.s_[rows.min() : rows.max() + 1, columns.min() : columns.max() + 1]
    image[top] = np.where(known[:, None], colours, usual)
    hole = np.zeros(valid.shape, dtype=np.uint8)
    hole[top] = (~known).astype(np.uint8)
    image[window] = _close(image[window], hole[window].astype(bool))
    image = spread_gutter(image, valid)
    relative = f"textures/{safe_name(name)}.png"
    write_png(folder / relative, image)
    r, g, b = (float(v) for v in np.clip(usual / 255, 0, 1))
    return Material(name=name, color=(r, g, b), roughness=0.7, specular=0.0, texture=relative)


def _close(image: Array, hole: npt.NDArray[np.bool_]) -> Array:
    """Unknown texels blended from what surrounds them, from coarse to fine."""
    total, weight = image * ~hole[..., None], (~hole).astype(np.float64)
    filled = image.copy()
    missing = hole.copy()
    for sigma in (4, 12, 36, 100):
        if not missing.any():
            break
        blurred = cv2.GaussianBlur(total, (0, 0), sigma)
        share = cv2.GaussianBlur(weight, (0, 0), sigma)
        ready = missing & (share > 0.02)
        filled[ready] = blurred[ready] / share[ready, None]
        missing &= ~ready
    return filled


def ground_footprints(objects: Sequence[Fitted], paths: Sequence[Array], height: float) -> Array:
    """Ground points `(N, 2)` the table must lie under: the objects, and where the tcp came low."""
    spots = [pose[:2, 3] for fitted in objects for pose in fitted.poses]
    for path in paths:
        low = path[path[:, 2, 3] < height + LOW]
        spots.extend(low[:: max(1, len(low) // 20), :2, 3])
    return np.array(spots)
