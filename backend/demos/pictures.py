"""Reading pictures in order from a video file or a folder of numbered images."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import av
import cv2
import numpy as np
import numpy.typing as npt

from mjcf_export.errors import InputError
from mjcf_export.frames import Array

Image = npt.NDArray[np.uint8]

IMAGE_SUFFIXES = (".jpg", ".jpeg", ".png")
_EXPECTED = "expected H.264, H.265, VP9 or AV1 video, or a folder of numbered JPEG or PNG images"


@dataclass(frozen=True)
class PictureInfo:
    """What a whole source holds after decoding it.

    Attributes:
        count: frames decoded.
        width: pixels.
        height: pixels.
        times: `(count,)` seconds of the source's own clock, starting at 0; None when it has none.
        kept: the frames that were asked for, by index.
    """

    count: int
    width: int
    height: int
    times: Array | None
    kept: dict[int, Image] = field(default_factory=dict)


def image_files(folder: Path) -> list[Path]:
    """The numbered images of `folder` in order of their number.

    Raises:
        InputError: there is none, or two carry the same number.
    """
    files = [item for item in folder.iterdir() if item.suffix.lower() in IMAGE_SUFFIXES]
    numbers: dict[int, Path] = {}
    for item in files:
        digits = re.findall(r"\d+", item.stem)
        if not digits:
            raise InputError(f"{item}: an image of a sequence needs a number in its name, such as 000012.png")
        number = int(digits[-1])
        if number in numbers:
            raise InputError(f"{item} and {numbers[number].name} carry the same number {number}")
        numbers[number] = item
    if not numbers:
        raise InputError(f"{folder}: no JPEG or PNG images in this folder; {_EXPECTED}")
    return [numbers[number] for number in sorted(numbers)]


def frame_count(path: Path) -> int:
    """Frames the source announces: packets of the video stream, or image files. Nothing is decoded."""
    return len(image_files(path)) if path.is_dir() else len(_packet_times(path))


def probe(path: Path, keep: frozenset[int] = frozenset(), part: tuple[int, int] | None = None) -> PictureInfo:
    """Decode all of a source (or the frames `[first, stop)` of it) and say what it holds.

    Raises:
        InputError: it is missing, cannot be decoded, holds no frame, or changes its size.
    """
    announced = frame_count(path)
    first, stop = part or (0, announced)
    if announced == 0:
        raise InputError(f"{path}: the video holds no frames; {_EXPECTED}")
    if not 0 <= first < stop <= announced:
        raise InputError(f"{path}: frames [{first}, {stop}) are not in the video, which holds {announced} frames")
    kept: dict[int, Image] = {}
    times: list[float | None] = []
    size: tuple[int, int] | None = None
    for index, (time, image) in enumerate(decode(path, range(first, stop))):
        if size is None:
            size = (image.shape[0], image.shape[1])
        elif size != image.shape[:2]:
            raise InputError(
                f"{path}: frame {index} is {image.shape[1]}x{image.shape[0]}, the first is {size[1]}x{size[0]}; "
                "all frames of a view must have one size"
            )
        times.append(time)
        if index in keep:
            kept[index] = image
    if size is None:
        raise InputError(f"{path}: the video holds no frame that can be decoded; {_EXPECTED}")
    missing = (stop - first) - len(times)
    if missing > max(1, (stop - first) // 100):
        raise InputError(
            f"{path}: corrupt video: {stop - first} frames are announced, only {len(times)} can be decoded; "
            "encode it again"
        )
    return PictureInfo(len(times), size[1], size[0], _clock(times), kept)


def decode(path: Path, wanted: range) -> Iterator[tuple[float | None, Image]]:
    """The frames whose index is in `wanted`, with their time on the source's clock (None where it has none).

    Raises:
        InputError: the source cannot be opened or decoded.
    """
    if path.is_dir():
        files = image_files(path)
        for index in wanted:
            if index < len(files):
                yield None, read_image(files[index])
        return
    yield from _decode_video(path, wanted)


def read_image(path: Path) -> Image:
    """One image as RGB `(H, W, 3)`.

    Raises:
        InputError: the file is not a readable picture.
    """
    raw = cv2.imdecode(np.frombuffer(path.read_bytes(), dtype=np.uint8), cv2.IMREAD_COLOR) if _size(path) else None
    if raw is None:
        raise InputError(f"{path}: not a readable JPEG or PNG picture")
    return np.asarray(cv2.cvtColor(raw, cv2.COLOR_BGR2RGB), dtype=np.uint8)


def _size(path: Path) -> int:
    return path.stat().st_size


def _open(path: Path) -> tuple[Any, Any]:
    try:
        container = av.open(str(path))
    except (av.FFmpegError, OSError, ValueError) as error:
        raise InputError(f"{path}: not a readable video ({error}); {_EXPECTED}") from error
    if not container.streams.video:
        container.close()
        raise InputError(f"{path}: the file has no video stream; {_EXPECTED}")
    stream = container.streams.video[0]
    stream.thread_type = "AUTO"
    return container, stream


def _packet_times(path: Path) -> list[int | None]:
    """Presentation stamps of the packets that are shown, in presentation order, in stream time base."""
    container, stream = _open(path)
    with container:
        try:
            stamps = [p.pts for p in container.demux(stream) if p.size and not p.is_discard]
        except (av.FFmpegError, ValueError) as error:
            raise InputError(f"{path}: corrupt video ({error}); encode it again") from error
    return list(stamps) if any(stamp is None for stamp in stamps) else sorted(stamps)


def _decode_video(path: Path, wanted: range) -> Iterator[tuple[float | None, Image]]:
    stamps = _packet_times(path) if wanted.start > 0 else []
    container, stream = _open(path)
    with container:
        index = 0
        begin = stamps[wanted.start] if wanted.start < len(stamps) else None
        if begin is not None:
            container.seek(begin, stream=stream, backward=True)
        try:
            for frame in container.decode(stream):
                if begin is not None:
                    if frame.pts is not None and frame.pts < begin:
                        continue
                    index, begin = wanted.start, None
                if index >= wanted.stop:
                    break
                if index in wanted:
                    yield frame.time, np.asarray(frame.to_ndarray(format="rgb24"), dtype=np.uint8)
                index += 1
        except (av.FFmpegError, ValueError) as error:
            raise InputError(
                f"{path}: corrupt video, frame {index} cannot be decoded ({error}); encode it again"
            ) from error


def _clock(times: list[float | None]) -> Array | None:
    known = [time for time in times if time is not None]
    if not known or len(known) != len(times):
        return None
    return np.array(known) - known[0]
