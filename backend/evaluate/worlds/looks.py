"""Procedural textures: patterns drawn in code, written as PNG beside the true scene."""

from collections.abc import Callable
from pathlib import Path

import cv2
import numpy as np
import numpy.typing as npt

from backend.evaluate.worlds.specs import Look
from mjcf_export.document import atomic_path
from mjcf_export.scene import Material

Image = npt.NDArray[np.float64]
SIZE = 512


def noise(rng: np.random.Generator, cells: tuple[int, int], size: tuple[int, int] = (SIZE, SIZE)) -> Image:
    """Smooth noise in 0..1, `(H, W)`, with `cells` (rows, columns) features."""
    coarse = rng.random((cells[0] + 3, cells[1] + 3)).astype(np.float32)
    fine = cv2.resize(coarse, (size[1] + size[1] // 4, size[0] + size[0] // 4), interpolation=cv2.INTER_CUBIC)
    smooth = fine[: size[0], : size[1]].astype(np.float64)
    return (smooth - smooth.min()) / max(float(np.ptp(smooth)), 1e-9)


def _plain(rng: np.random.Generator) -> Image:
    return 0.12 * noise(rng, (24, 24))


def _stripes(rng: np.random.Generator) -> Image:
    rows = np.linspace(0, 1, SIZE)[:, None] + 0.002 * noise(rng, (6, 6))
    bands = np.zeros((SIZE, SIZE))
    for centre, half in ((0.24, 0.035), (0.40, 0.012), (0.68, 0.06)):
        bands = np.maximum(bands, np.abs(rows - centre) < half)
    return cv2.GaussianBlur(bands, (3, 3), 0)


def _wood(rng: np.random.Generator) -> Image:
    rows = np.linspace(0, 1, SIZE)[:, None]
    warp = noise(rng, (5, 2))
    rings = 0.5 + 0.5 * np.sin(2 * np.pi * (9 * rows + 2.2 * warp))
    grain = noise(rng, (220, 6))
    planks = (np.abs((rows * 4) % 1.0 - 0.5) > 0.492).astype(float)
    shade = np.repeat(rng.random(4), SIZE // 4)[:, None]
    return np.clip(0.38 * rings**2 + 0.34 * grain + 0.22 * shade + 0.5 * planks, 0, 1)


def _carton(rng: np.random.Generator) -> Image:
    image = (0.06 * noise(rng, (40, 40))).astype(np.float32)
    cv2.rectangle(image, (0, 60), (SIZE, 150), 0.95, -1)
    cv2.circle(image, (150, 330), 84, 0.85, -1)
    cv2.circle(image, (150, 330), 52, 0.1, -1)
    for i, width in enumerate((190, 150, 170, 110)):
        cv2.rectangle(image, (280, 250 + 46 * i), (280 + width, 268 + 46 * i), 0.9, -1)
    x = 40
    while x < SIZE - 40:
        bar = int(rng.integers(3, 12))
        cv2.rectangle(image, (x, 448), (x + bar, 492), 0.95, -1)
        x += bar + int(rng.integers(4, 14))
    return image.astype(np.float64)


def _checks(rng: np.random.Generator) -> Image:
    cell = SIZE // 8
    rows, columns = np.divmod(np.arange(SIZE * SIZE), SIZE)
    board = ((rows // cell + columns // cell) % 2).reshape(SIZE, SIZE).astype(np.float64)
    return np.clip(board * 0.85 + 0.1 * noise(rng, (30, 30)), 0, 1)


def _speckle(rng: np.random.Generator) -> Image:
    fine = noise(rng, (160, 160))
    return np.clip(0.55 * (fine > 0.62) + 0.4 * noise(rng, (12, 12)) * fine + 0.12 * noise(rng, (60, 60)), 0, 1)


PATTERNS: dict[str, Callable[[np.random.Generator], Image]] = {
    "plain": _plain, "stripes": _stripes, "wood": _wood, "carton": _carton, "checks": _checks, "speckle": _speckle,
}  # fmt: skip


def texture(look: Look, seed: int) -> npt.NDArray[np.uint8]:
    """The pattern of `look` as uint8 RGB `(512, 512, 3)`."""
    rng = np.random.default_rng(seed)
    amount = PATTERNS[look.pattern](rng)[..., None]
    colour = np.array(look.color) * (1 - amount) + np.array(look.second) * amount
    colour *= 1 + 0.03 * (noise(rng, (9, 9))[..., None] - 0.5)
    return np.clip(colour * 255 + 0.5, 0, 255).astype(np.uint8)


def write_material(name: str, look: Look, seed: int, scene_folder: Path) -> Material:
    """Write the texture to `textures/<name>.png` of the scene folder and return the material that uses it."""
    relative = f"textures/{name}.png"
    with atomic_path(scene_folder / relative) as temporary:
        cv2.imwrite(str(temporary), texture(look, seed)[..., ::-1])
    return Material(name=name, color=look.color, roughness=look.roughness, texture=relative)
