"""The light the scene is rendered in, and the surface colours that look in it as the pictures do."""

import numpy as np

from mjcf_export.colour import to_linear, to_srgb
from mjcf_export.frames import Array, transform
from mjcf_export.scene import Light, Pose

SKY = 0.75
"""Linear radiance of the even environment."""
LAMP = 0.3
"""Linear radiance the lamp adds to a white table."""
BOUNCE = 0.25
"""How much of the light a table throws back."""
HEIGHT = 1.6
WHITEST = 0.9


def lights_above(centre: Array, height: float) -> tuple[tuple[Light, ...], tuple[float, float, float]]:
    """A soft lamp over the workspace and the environment's sRGB colour.

    Args:
        centre: middle of the workspace `(2,)`.
        height: of the table, metres.
    """
    pose = transform((centre[0], centre[1], height + HEIGHT))
    lamp = Light(name="ceiling", kind="area", pose=Pose.from_matrix(pose), energy=LAMP * np.pi**2 * HEIGHT**2, size=1.2)
    grey = float(to_srgb(np.array(SKY)))
    return (lamp,), (grey, grey, grey)


def shading(upward: Array) -> Array:
    """Linear brightness `(...)` of white surfaces under these lights, by the z of their normals."""
    sky = SKY * ((1 + upward) + (1 - upward) * BOUNCE) / 2
    return np.asarray(sky + LAMP * np.clip(upward, 0, 1))


def surface_colour(seen: Array, upward: Array) -> Array:
    """Colours `(N, 3)` of 0..255 that surfaces must have to look like `seen` `(N, 3)` under these lights."""
    linear = to_linear(seen / 255) / shading(upward)[:, None]
    brightest = linear.max(axis=1, keepdims=True)
    return np.asarray(255 * to_srgb(linear * np.minimum(1.0, WHITEST / np.maximum(brightest, 1e-6))))
