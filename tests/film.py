"""Videos whose pictures say which frame they are, and the recordings that may lie beside a checkout."""

from fractions import Fraction
from pathlib import Path

import av
import numpy as np

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
"""Real recordings, where this machine has them."""
WIDTH, HEIGHT, FRAMES = 160, 120, 12
HOME = np.array([0.0, -0.785, 0.0, -2.356, 0.0, 1.571, 0.785])
BLOCK = (40, 50, 70, 75)


def picture(index: int) -> np.ndarray:
    """A grey table with a yellow block and a white bar whose column says which frame it is."""
    image = np.full((HEIGHT, WIDTH, 3), 90, np.uint8)
    image[60:, :] = 120
    image[BLOCK[1] : BLOCK[3], BLOCK[0] : BLOCK[2]] = (210, 180, 30)
    image[4:20, 8 * index : 8 * index + 8] = 255
    return image


def bar(image: np.ndarray) -> int:
    """Which frame a decoded picture is, read off the white bar."""
    return int(np.argmax(image[8:16].mean(axis=(0, 2)))) // 8


def write_video(path: Path, codec: str = "libx264", times: list[int] | None = None, count: int = FRAMES) -> Path:
    """A video of `count` pictures; `times` are presentation stamps in milliseconds."""
    options = {"libx264": {"crf": "12"}, "libx265": {"x265-params": "log-level=none"}, "libsvtav1": {"preset": "10"}}
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=10, options=options.get(codec, {}))
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        stream.codec_context.time_base = stream.time_base = Fraction(1, 1000)
        container.start_encoding()
        for index in range(count):
            frame = av.VideoFrame.from_ndarray(picture(index), format="rgb24")
            frame.pts, frame.time_base = times[index] if times else 100 * index, Fraction(1, 1000)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path
