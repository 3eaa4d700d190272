"""sRGB and linear light."""

import numpy as np

from mjcf_export.frames import Array


def to_linear(colour: Array) -> Array:
    """SRGB in 0..1 to linear light (IEC 61966-2-1)."""
    return np.where(colour <= 0.04045, colour / 12.92, ((np.maximum(colour, 0) + 0.055) / 1.055) ** 2.4)


def to_srgb(linear: Array) -> Array:
    """Linear light to sRGB in 0..1 (IEC 61966-2-1)."""
    return np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * np.maximum(linear, 1e-9) ** (1 / 2.4) - 0.055)
