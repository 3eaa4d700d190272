"""Labelled contact sheets (PNG) and side-by-side films (MP4)."""

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt
from PIL import Image as Pil
from PIL import ImageDraw, ImageFont

from mjcf_export.document import atomic_path

Image = npt.NDArray[np.uint8]

_GAP = 6
_PAPER = (255, 255, 255)
_INK = (25, 25, 25)
_EMPTY = (225, 225, 225)
_MILLISECOND = Fraction(1, 1000)


def fit(image: Image, width: int) -> Image:
    """The picture resampled to a width, its shape kept."""
    if image.shape[1] == width:
        return image
    height = round(image.shape[0] * width / image.shape[1])
    method = cv2.INTER_AREA if width < image.shape[1] else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(image, (width, height), interpolation=method), dtype=np.uint8)


def empty_tile(width: int, height: int, text: str) -> Image:
    """A grey tile that says why there is no picture."""
    tile = Pil.new("RGB", (width, height), _EMPTY)
    draw = ImageDraw.Draw(tile)
    draw.text((width / 2, height / 2), text, fill=_INK, font=_font(_text_size(width)), anchor="mm")
    return np.asarray(tile, dtype=np.uint8)


def contact_sheet(
    tiles: Sequence[Sequence[Image]], rows: Sequence[str], columns: Sequence[str], text: int | None = None
) -> Image:
    """A grid of pictures with a label for each row and each column, on white.

    Args:
        tiles: rows of pictures; all of one column have one size, all of one row one height.
        rows: labels on the left, of one or more lines.
        columns: labels on top.
        text: pixels of the labels' height; by the pictures' width when None.
    """
    widths = [tile.shape[1] for tile in tiles[0]]
    heights = [row[0].shape[0] for row in tiles]
    size = text or _text_size(int(np.median(widths)))
    font = _font(size)
    left = max(int(font.getlength(line)) for label in rows for line in label.split("\n")) + 2 * _GAP
    top = size + 2 * _GAP
    canvas = Pil.new("RGB", (left + sum(widths) + _GAP * len(widths), top + sum(heights) + _GAP * len(heights)), _PAPER)
    draw = ImageDraw.Draw(canvas)
    x = left
    for column, width in enumerate(widths):
        draw.text((x + width / 2, top / 2), columns[column], fill=_INK, font=font, anchor="mm")
        y = top
        for row, height in enumerate(heights):
            canvas.paste(Pil.fromarray(tiles[row][column]), (x, y))
            y += height + _GAP
        x += width + _GAP
    y = top
    for label, height in zip(rows, heights, strict=True):
        draw.text((_GAP, y + height / 2), label, fill=_INK, font=font, anchor="lm")
        y += height + _GAP
    return np.asarray(canvas, dtype=np.uint8)


def film_frame(tiles: Sequence[Image], labels: Sequence[str], caption: str) -> Image:
    """Pictures side by side under their labels, a caption below; width and height are even."""
    sheet = contact_sheet([tiles], [" "], labels)
    size = _text_size(tiles[0].shape[1])
    height = sheet.shape[0] + size + _GAP
    canvas = Pil.new("RGB", (sheet.shape[1] + sheet.shape[1] % 2, height + height % 2), _PAPER)
    canvas.paste(Pil.fromarray(sheet), (0, 0))
    draw = ImageDraw.Draw(canvas)
    draw.text((canvas.width / 2, sheet.shape[0] + size / 2), caption, fill=_INK, font=_font(size), anchor="mm")
    return np.asarray(canvas, dtype=np.uint8)


def write_png(path: Path, image: Image) -> None:
    """Write a picture atomically."""
    with atomic_path(path) as temporary:
        Pil.fromarray(image).save(temporary, "PNG", compress_level=4)


def write_film(path: Path, frames: Sequence[Image], times: Sequence[float]) -> None:
    """Write an H.264 MP4 whose frames are shown at `times` (seconds, increasing), atomically."""
    first = times[0]
    with atomic_path(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=30, options={"crf": "20", "preset": "fast"})
        stream.height, stream.width = frames[0].shape[:2]
        stream.pix_fmt = "yuv420p"
        stream.codec_context.time_base = stream.time_base = _MILLISECOND
        for image, time in zip(frames, times, strict=True):
            frame = av.VideoFrame.from_ndarray(image, format="rgb24")
            frame.pts, frame.time_base = round((time - first) * 1000), _MILLISECOND
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))


def _text_size(width: int) -> int:
    return int(np.clip(width // 18, 11, 24))


@cache
def _font(size: int) -> ImageFont.FreeTypeFont:
    import matplotlib

    return ImageFont.truetype(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / "DejaVuSans.ttf"), size)
