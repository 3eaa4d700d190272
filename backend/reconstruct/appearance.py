"""Textures of objects, baked from the views: every texel takes the colour of the surface point it stands for."""

from collections.abc import Sequence
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt
from scipy.spatial import cKDTree

from backend.reconstruct.evidence import Outline
from backend.reconstruct.lighting import surface_colour
from backend.reconstruct.pictures import Image, Pictures, in_view, sample
from backend.reconstruct.placement import Fitted
from mjcf_export.document import write_atomically
from mjcf_export.frames import Array, apply
from mjcf_export.raster import rasterise
from mjcf_export.scene import Material
from mjcf_export.shapes import TriangleMesh, shape_mesh, texel_points

TEXTURE = 128
FACING = 0.15
"""Least cosine between a texel's normal and the view that may colour it."""
DEPTH_SLACK = 0.006
WIDE = 1500
"""Pixels of mask from which two, not one, are left out along its edge."""


def bake_object(fitted: Fitted, pictures: Pictures, folder: Path) -> Material:
    """The material of an object: a baked texture where the views show it, one colour where they do not."""
    points, normals, valid = texel_points(fitted.shape, folder, TEXTURE)
    mesh = shape_mesh(fitted.shape, folder)
    flat, normal = points[valid], normals[valid]
    total = np.zeros((len(flat), 3))
    weight = np.zeros(len(flat))
    for outline in fitted.outlines:
        if outline.window < len(fitted.poses):
            colours, share = _seen(flat, normal, mesh, fitted.poses[outline.window], outline, pictures)
            total += colours * share[:, None]
            weight += share
    name = fitted.name
    known = weight > 0
    upward = np.mean([(normal @ pose[:3, :3].T)[:, 2] for pose in fitted.poses], axis=0)
    if known.sum() < 8:
        return Material(name=name, color=mask_colour(fitted.outlines, pictures))
    colours = np.zeros_like(total)
    colours[known] = surface_colour(total[known] / weight[known, None], upward[known])
    colours[~known] = fill_unseen(flat, normal, colours, known, turned=fitted.candidate.family.turned)
    image = np.full((*valid.shape, 3), np.median(colours[known], axis=0))
    image[valid] = colours
    image = spread_gutter(image, valid)
    relative = f"textures/{safe_name(name)}.png"
    write_png(folder / relative, image)
    middle = np.median(colours[known], axis=0) / 255
    return Material(name=name, color=_unit(middle), specular=0.0, texture=relative)


def _seen(
    points: Array, normals: Array, mesh: TriangleMesh, pose: Array, outline: Outline, pictures: Pictures
) -> tuple[Array, Array]:
    lens = outline.lens
    world = apply(pose, points)
    pixels, depth = lens.project(world)
    towards = lens.pose[:3, 3] - world
    towards /= np.linalg.norm(towards, axis=1, keepdims=True)
    facing = np.einsum("nk,nk->n", normals @ pose[:3, :3].T, towards)
    shown = in_view(lens, pixels, depth) & (facing > FACING)
    edge = 2 if np.count_nonzero(outline.mask) > WIDE else 1
    inside = cv2.erode(outline.mask.astype(np.uint8), np.ones((3, 3), np.uint8), iterations=edge) > 0
    inside &= ~outline.hidden
    column = np.clip(np.round(pixels[:, 0]).astype(int), 0, lens.size[0] - 1)
    row = np.clip(np.round(pixels[:, 1]).astype(int), 0, lens.size[1] - 1)
    shown &= inside[row, column]
    shown &= depth < _front(mesh, pose, outline, pixels) + DEPTH_SLACK
    share = np.where(shown, facing / np.maximum(depth, 0.05) ** 2, 0.0)
    return sample(pictures.fused(outline), pixels), share


def _front(mesh: TriangleMesh, pose: Array, outline: Outline, pixels: Array) -> Array:
    """Depth of the mesh's nearest surface behind each pixel `(N, 2)`."""
    lens = outline.lens
    corner = np.array(outline.corner)
    rows, columns = outline.distance.shape
    vertices, depth = lens.project(apply(pose, mesh.vertices))
    local = vertices[mesh.faces] - corner + 0.5
    owner, weights = rasterise(local, (rows, columns), -depth[mesh.faces])
    front = np.where(owner >= 0, np.einsum("hwk,hwk->hw", weights, depth[mesh.faces][owner]), np.inf)
    at = np.round(pixels - corner).astype(int)
    return np.asarray(front[np.clip(at[:, 1], 0, rows - 1), np.clip(at[:, 0], 0, columns - 1)])


def fill_unseen(points: Array, normals: Array, colours: Array, known: npt.NDArray[np.bool_], *, turned: bool) -> Array:
    """Colours for the texels no view shows: of the seen texel most like them, the shape's symmetry considered."""
    reach = max(float(np.ptp(points, axis=0).max()), 1e-3)
    if turned:
        radius = np.linalg.norm(points[:, :2], axis=1)
        outward = np.einsum("nk,nk->n", points[:, :2], normals[:, :2]) / np.maximum(radius, 1e-6)
        features = np.column_stack([radius / reach, points[:, 2] / reach, 0.5 * outward, 0.5 * normals[:, 2]])
    else:
        features = np.column_stack([np.abs(points[:, :2]) / reach, points[:, 2] / reach, 0.7 * np.abs(normals)])
    tree = cKDTree(features[known])
    count = min(12, int(known.sum()))
    _, index = tree.query(features[~known], k=count)
    return np.asarray(np.median(colours[known][np.reshape(index, (-1, count))], axis=1))


def spread_gutter(image: Array, valid: npt.NDArray[np.bool_]) -> Array:
    """Gutter texels take the colour of the nearest valid one, so that filtering does not bleed."""
    _, labels = cv2.distanceTransformWithLabels(
        (~valid).astype(np.uint8), cv2.DIST_L2, 5, labelType=cv2.DIST_LABEL_PIXEL
    )
    lookup = np.zeros((labels.max() + 1, 3))
    lookup[labels[valid]] = image[valid]
    return np.asarray(np.where(valid[..., None], image, lookup[labels]))


def mask_colour(outlines: Sequence[Outline], pictures: Pictures) -> tuple[float, float, float]:
    """The median colour under an object's masks, 0..1."""
    pixels: list[Image] = [pictures.fused(outline)[outline.mask] for outline in outlines]
    return _unit(np.median(np.vstack(pixels), axis=0) / 255) if pixels else (0.6, 0.6, 0.6)


def _unit(colour: Array) -> tuple[float, float, float]:
    r, g, b = (float(v) for v in np.clip(colour, 0, 1))
    return r, g, b


def safe_name(name: str) -> str:
    """A file name for a body's name."""
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "_" for c in name)
    return kept or "body"


def write_png(path: Path, image: Array) -> None:
    """Write an RGB image `(H, W, 3)` of 0..255 as PNG, atomically."""
    encoded = cv2.imencode(".png", np.clip(np.round(image[..., ::-1]), 0, 255).astype(np.uint8))[1]
    write_atomically(path, lambda stream: stream.write(encoded.tobytes()))
