"""What an object looks like: colour histograms in Lab, and the colours people name."""

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt
from scipy.ndimage import gaussian_filter

Image = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float32]

BINS = (8, 36, 36)
"""Histogram bins along lightness and the two axes of shading-free chroma."""

COLORS: dict[str, tuple[float, float, float]] = {
    "red": (48, 62, 42),
    "orange": (64, 40, 60),
    "yellow": (84, -2, 72),
    "green": (50, -38, 22),
    "cyan": (75, -32, -12),
    "blue": (48, 0, -40),
    "purple": (40, 38, -36),
    "pink": (72, 32, 4),
    "brown": (38, 16, 24),
    "black": (12, 0, 0),
    "gray": (52, 0, 0),
    "white": (94, 0, 0),
}
"""Typical Lab values (L 0..100) of colour words; a heuristic for ranking regions, never a measurement."""

SYNONYMS = {"grey": "gray", "teal": "cyan", "turquoise": "cyan", "violet": "purple", "beige": "white", "silver": "gray"}


def lab(image: Image) -> Floats:
    """CIE Lab `(H, W, 3)`, L in 0..100, of an RGB image."""
    converted: Floats = cv2.cvtColor(image.astype(np.float32) / 255.0, cv2.COLOR_RGB2LAB)
    return converted


def difference(first: Floats, second: Floats) -> Floats:
    """Colour difference `(H, W)` of two Lab images; lightness counts half, as shadows change it most."""
    delta = first - second
    result: Floats = np.sqrt((0.5 * delta[..., 0]) ** 2 + delta[..., 1] ** 2 + delta[..., 2] ** 2)
    return result


@dataclass(frozen=True)
class Appearance:
    """Smoothed colour histograms of an object and of what surrounds it, each summing to one.

    `typical` is the object's median Lab value `(3,)`.
    """

    object: Floats
    surround: Floats
    typical: Floats

    @classmethod
    def learn(cls, on: Floats, off: Floats) -> "Appearance":
        """From Lab pixels `(N, 3)` on and `(M, 3)` off the object."""
        typical = np.median(on, axis=0) if len(on) else np.zeros(3)
        return cls(histogram(on), histogram(off), typical.astype(np.float32))

    def posterior(self, values: Floats) -> Floats:
        """Probability `(...)` that pixels of these Lab values `(..., 3)` belong to the object, even prior."""
        index = _bins(values)
        on, off = self.object[index], self.surround[index]
        floor = 1e-5
        result: Floats = (on + floor) / (on + off + 2 * floor + np.where(on < floor, floor, 0))
        return result

    def similarity(self, values: Floats) -> float:
        """Share of the pixels `(N, 3)` whose colours the object has; 0 when there are none."""
        if len(values) == 0:
            return 0.0
        return float(np.sqrt(histogram(values) * self.object).sum())

    def resemblance(self, values: Floats) -> float:
        """How near the median of Lab pixels `(N, 3)` is to the object's, 0..1; light may change, hue may not."""
        if len(values) == 0:
            return 0.0
        median = np.median(values, axis=0)
        tint = float(np.linalg.norm(chroma(median) - chroma(self.typical)))
        light = float(np.log((median[0] + 6) / (self.typical[0] + 6)))
        tolerance = 7 + 0.25 * float(np.linalg.norm(chroma(self.typical)))
        return float(np.exp(-((tint / tolerance) ** 2) - (light / (0.7 if light < 0 else 0.45)) ** 2))

    def against(self, values: Floats) -> "Appearance":
        """The same object before another surround, given by its Lab pixels `(N, 3)`."""
        if len(values) == 0:
            return self
        return Appearance(self.object, 0.5 * self.surround + 0.5 * histogram(values), self.typical)


def histogram(values: Floats) -> Floats:
    """Smoothed Lab histogram of pixels `(N, 3)`, summing to one (uniform when there are none)."""
    if len(values) == 0:
        return np.full(BINS, 1.0 / float(np.prod(BINS)), dtype=np.float32)
    counts = np.zeros(BINS, dtype=np.float32)
    np.add.at(counts, _bins(values), 1.0)
    smooth: Floats = gaussian_filter(counts, sigma=(1.1, 0.7, 0.7), mode="nearest")
    smooth /= smooth.sum()
    return smooth


def separability(first: Floats, second: Floats) -> float:
    """1 - Bhattacharyya coefficient of two histograms: 0 the same colours, 1 none in common."""
    return float(1.0 - np.sqrt(first * second).sum())


def named_color(description: str) -> tuple[float, float, float] | None:
    """Lab of the first colour word in `description`; `light` and `dark` before it shift L."""
    words = description.lower().replace("-", " ").split()
    for position, word in enumerate(words):
        name = SYNONYMS.get(word, word)
        if name in COLORS:
            lightness, a, b = COLORS[name]
            before = words[position - 1] if position else ""
            shift = {"light": 18.0, "pale": 18.0, "dark": -18.0}.get(before, 0.0)
            return (min(100.0, max(0.0, lightness + shift)), a, b)
    return None


def color_match(values: Floats, color: tuple[float, float, float]) -> float:
    """How well Lab pixels `(N, 3)` fit a named colour, 0..1.

    Hue direction counts for chromatic words, lightness and low chroma for black, gray and white.
    """
    if len(values) == 0:
        return 0.0
    median = np.median(values, axis=0)
    target = np.array(color)
    strength, wanted = float(np.hypot(*median[1:])), float(np.hypot(*target[1:]))
    if wanted < 5:
        return float(np.exp(-(((median[0] - target[0]) / 25) ** 2) - (strength / 18) ** 2))
    cosine = float(median[1:] @ target[1:] / max(strength * wanted, 1e-6))
    angle = np.arccos(np.clip(cosine, -1, 1))
    return float(np.exp(-((angle / 0.45) ** 2) - ((median[0] - target[0]) / 45) ** 2) * min(1.0, strength / 18))


def chroma(values: Floats) -> Floats:
    """Chroma `(..., 2)` divided by lightness: the same for a surface in light and in soft shadow."""
    result: Floats = values[..., 1:] * (80.0 / (values[..., :1] + 30.0))
    return result


def _bins(values: Floats) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    lightness = np.clip(values[..., 0] / 100 * BINS[0], 0, BINS[0] - 1).astype(np.intp)
    normal = np.clip((chroma(values) + 90) / 180 * BINS[1], 0, BINS[1] - 1).astype(np.intp)
    return lightness, normal[..., 0], normal[..., 1]
