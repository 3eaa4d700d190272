"""Real, Blender and MuJoCo pictures of the same source frames, and how alike they are."""

from typing import ClassVar

from mjcf_export.document import Document, Record


class FrameComparison(Record):
    """One source frame in one view. `motion_time` is the moment of the executed motion that is shown beside it.

    `executed` is false when the rollout ended before that moment, and simulated pictures then do not exist; or when
    nothing was executed, and they show the reference motion. `figures` are
    `<pair>/ssim` (structural similarity of luminance, 1 is equal) and `<pair>/difference` (mean absolute difference
    of 0..255) for the pairs `blender`, `mujoco` (each against the real picture) and `renderers` (against each other),
    and `iou/<object>` (observed mask against MuJoCo's).
    """

    view: str
    frame: int
    time: float
    motion_time: float
    executed: bool
    events: tuple[str, ...] = ()
    figures: dict[str, float] = {}


class Comparison(Document):
    """`compare/comparison.json`; pictures lie beside it, paths relative to it."""

    VERSION: ClassVar[int] = 1
    frames: tuple[FrameComparison, ...] = ()
    sheets: dict[str, str] = {}
    film: str | None = None
    notes: tuple[str, ...] = ()

    def mean(self, figure: str) -> float | None:
        """Mean of a figure over the frames that have it."""
        values = [frame.figures[figure] for frame in self.frames if figure in frame.figures]
        return sum(values) / len(values) if values else None
