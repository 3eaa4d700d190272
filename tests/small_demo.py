"""A demonstration folder of a second, prompted, without a robot: enough for the first stages of a run."""

import json
from pathlib import Path

import cv2
import numpy as np

SIZE = (160, 120)
FRAMES = 8


def write_small_demo(folder: Path) -> Path:
    """A red block that slides over a grey table, as numbered pictures; returns `folder`."""
    pictures = folder / "ext1"
    pictures.mkdir(parents=True)
    noise = np.random.default_rng(4).normal(0, 3, (SIZE[1], SIZE[0], 3))
    for index in range(FRAMES):
        image = np.full((SIZE[1], SIZE[0], 3), 120.0) + noise
        left = 30 + 8 * index
        image[50:76, left : left + 30] += (80, -70, -70)
        cv2.imwrite(str(pictures / f"{index:04d}.png"), np.clip(image, 0, 255).astype(np.uint8)[..., ::-1])
    raw = {
        "version": 1,
        "task": "slide the block",
        "views": [{"name": "ext1", "video": "ext1", "fps": 8}],
        "objects": [
            {"name": "block", "roles": ["moved"], "prompts": [{"view": "ext1", "frame": 0, "box": [28, 48, 62, 78]}]}
        ],
    }
    (folder / "demo.json").write_text(json.dumps(raw))
    return folder
