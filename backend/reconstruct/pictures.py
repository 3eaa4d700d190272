"""The pictures of all views: what each looks like without the robot, and over each rest of an object."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import cv2
import numpy as np
import numpy.typing as npt

from backend.demos.video import ViewFrames, load_view
from backend.documents.demonstration import Demonstration
from backend.documents.observations import Masks
from backend.reconstruct.evidence import Outline
from backend.reconstruct.lens import Lens
from mjcf_export.frames import Array

Image = npt.NDArray[np.uint8]
BACKGROUND_FRAMES = 15
BARE_FRAMES = 25
BRIGHTER = 0.75
"""Rank of the colour a clear pixel takes among those it has."""


@dataclass
class Pictures:
    """Decoded views of a demonstration, with what is derived from them kept."""

    views: dict[str, ViewFrames]
    masks: Masks
    _still: dict[str, Image] = field(default_factory=dict)
    _fused: dict[tuple[str, tuple[int, ...]], Image] = field(default_factory=dict)

    @classmethod
    def of(cls, demo: Demonstration, masks: Masks) -> "Pictures":
        """Decode every view."""
        return cls({view.name: load_view(demo, view.name) for view in demo.views}, masks)

    def frame(self, view: str, index: int) -> Image:
        """The picture nearest to a source frame."""
        frames = self.views[view]
        return frames.images[frames.at(index)]

    def still(self, view: str) -> Image:
        """The median picture of a view: what does not move."""
        if view not in self._still:
            images = self.views[view].images
            chosen = np.unique(np.linspace(0, len(images) - 1, BACKGROUND_FRAMES).astype(int))
            self._still[view] = np.median(images[chosen], axis=0).astype(np.uint8)
        return self._still[view]

    def fused(self, outline: Outline) -> Image:
        """The median picture over the frames an outline was fused from, the robot left out."""
        key = (outline.lens.name, outline.frames)
        if key not in self._fused:
            self._fused[key] = self._fuse(*key)
        return self._fused[key]

    def _fuse(self, view: str, frames: tuple[int, ...]) -> Image:
        stack = np.stack([self.frame(view, frame) for frame in frames])
        usual = np.median(stack, axis=0).astype(np.uint8)
        robot = f"robot/{view}"
        if robot not in self.masks or len(stack) == 1:
            return usual
        clear = np.stack([~self.masks.frame(robot, frame) for frame in frames])
        partly = clear.any(axis=0) & ~clear.all(axis=0)
        values = np.where(clear[:, partly, None], stack[:, partly].astype(np.float32), np.nan)
        usual[partly] = np.nanmedian(values, axis=0).astype(np.uint8)
        return usual

    def bare(self, view: str) -> tuple[Image, npt.NDArray[np.bool_]]:
        """A view without robots and objects, and the pixels `(H, W)` that never show what is behind them.

        A pixel takes one of the brighter colours it has while clear: shadows pass and only darken.
        """
        images = self.views[view].images
        chosen = np.unique(np.linspace(0, len(images) - 1, BARE_FRAMES).astype(int))
        known = self.masks.keys()
        keys = [key for key in known if key == f"robot/{view}" or key.startswith(f"mask/{view}/")]
        stack = images[chosen].astype(np.float32)
        clear = np.zeros(images.shape[1:3], dtype=np.int64)
        for row, index in zip(stack, chosen, strict=True):
            hidden = np.zeros(images.shape[1:3], dtype=np.uint8)
            for key in keys:
                hidden |= self.masks.frame(key, int(self.views[view].indices[index]))
            hidden = cv2.dilate(hidden, np.ones((9, 9), np.uint8))
            row[hidden > 0] = np.nan
            clear += hidden == 0
        stack.sort(axis=0)
        rank = np.maximum(np.round(BRIGHTER * (clear - 1)), 0).astype(np.int64)
        picture = np.take_along_axis(stack, rank[None, ..., None], axis=0)[0]
        return np.nan_to_num(picture).astype(np.uint8), clear == 0


def sample(picture: Image, pixels: Array) -> Array:
    """Colours `(N, 3)` of a picture at pixels `(N, 2)`, bilinear."""
    points = pixels.astype(np.float32)
    rows = -(-len(points) // 16384)
    padded = np.zeros((rows * 16384, 2), dtype=np.float32)
    padded[: len(points)] = points
    grid = padded.reshape(rows, 16384, 2)
    sampled = cv2.remap(picture, grid[..., 0], grid[..., 1], cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)
    return np.asarray(sampled.reshape(-1, 3)[: len(points)], dtype=np.float64)


def in_view(lens: Lens, pixels: Array, depth: Array) -> npt.NDArray[np.bool_]:
    """Whether projected points lie inside the picture, a pixel from its border."""
    width, height = lens.size
    return np.asarray(
        (depth > 0.02) & (pixels > 1).all(axis=1) & (pixels[:, 0] < width - 2) & (pixels[:, 1] < height - 2)
    )


def frame_clock(times: Sequence[Array]) -> Array:
    """The clock of the view with the most frames."""
    return max(times, key=len)
