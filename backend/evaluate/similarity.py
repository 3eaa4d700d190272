"""How alike two pictures or two masks are."""

from typing import Any

import cv2
import numpy as np
import numpy.typing as npt

Image = npt.NDArray[np.uint8]
Mask = npt.NDArray[np.bool_]

_WINDOW = (11, 11)
_SIGMA = 1.5


def ssim(first: Image, second: Image) -> float:
    """Structural similarity of the luminance of two RGB pictures of one size (Wang et al. 2004); 1 when equal."""
    x, y = _luminance(first), _luminance(second)
    mean_x, mean_y = _blur(x), _blur(y)
    var_x, var_y = _blur(x * x) - mean_x**2, _blur(y * y) - mean_y**2
    covariance = _blur(x * y) - mean_x * mean_y
    c1, c2 = (0.01 * 255) ** 2, (0.03 * 255) ** 2
    index = ((2 * mean_x * mean_y + c1) * (2 * covariance + c2)) / ((mean_x**2 + mean_y**2 + c1) * (var_x + var_y + c2))
    return float(index.mean())


def mean_difference(first: Image, second: Image) -> float:
    """Mean absolute difference of two RGB pictures, 0..255."""
    return float(np.abs(first.astype(np.float32) - second.astype(np.float32)).mean())


def overlap(first: Mask, second: Mask) -> float | None:
    """Intersection over union of two masks; None when both are empty."""
    union = np.count_nonzero(first | second)
    return float(np.count_nonzero(first & second) / union) if union else None


def _luminance(image: Image) -> npt.NDArray[np.float32]:
    return np.asarray(cv2.cvtColor(image, cv2.COLOR_RGB2GRAY), dtype=np.float32)


def _blur(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return np.asarray(cv2.GaussianBlur(values, _WINDOW, _SIGMA))
