"""What a real camera adds to a clean render: lens blur, exposure drift, vignetting, noise; and depth noise."""

import cv2
import numpy as np
import numpy.typing as npt

from mjcf_export.colour import to_linear, to_srgb

Frames = npt.NDArray[np.uint8]
Depth = npt.NDArray[np.float32]


def photograph(frames: Frames, rng: np.random.Generator) -> Frames:
    """Frames `(T, H, W, 3)` as a consumer camera would record them.

    The lens blurs by 0.55-0.8 px and darkens the corners by about 10 %; exposure and white balance drift slowly by a
    few per cent; photon and read noise are added in linear light.
    """
    count, height, width = frames.shape[:3]
    blur = float(rng.uniform(0.55, 0.8))
    rows, columns = np.mgrid[0:height, 0:width]
    radius2 = ((rows / height - 0.5) ** 2 + (columns / width - 0.5) ** 2) * 2
    vignette = (1 - float(rng.uniform(0.06, 0.12)) * radius2)[..., None]
    balance = 1 + rng.uniform(-0.03, 0.03, 3)
    phase, rate = rng.uniform(0, 2 * np.pi), rng.uniform(0.02, 0.06)
    photons, read = float(rng.uniform(2500, 4500)), float(rng.uniform(0.0012, 0.0022))
    result = np.empty_like(frames)
    for i in range(count):
        gain = 1 + 0.025 * np.sin(phase + rate * 2 * np.pi * i) + rng.normal(0, 0.004)
        soft = cv2.GaussianBlur(frames[i], (0, 0), blur).astype(np.float64) / 255
        light = to_linear(soft) * vignette * balance * gain
        light += rng.normal(size=light.shape) * np.sqrt(light / photons + read**2)
        result[i] = np.clip(to_srgb(np.clip(light, 0, 1)) * 255 + 0.5, 0, 255).astype(np.uint8)
    return result


def depth_sensor(depth: Depth, rng: np.random.Generator) -> npt.NDArray[np.uint16]:
    """True depth `(T, H, W)` metres as a structured-light camera's 16-bit millimetres; 0 where it measured nothing.

    Noise grows with the square of the distance (1.2 mm at 1 m), discontinuities drop out, and so do random specks.
    """
    result = np.zeros(depth.shape, dtype=np.uint16)
    kernel = np.ones((3, 3), np.uint8)
    for i, frame in enumerate(depth):
        noise = cv2.GaussianBlur(rng.normal(size=frame.shape).astype(np.float32), (0, 0), 0.8) * 2.2
        noisy = frame + 0.0012 * frame**2 * noise
        edge = cv2.dilate(frame, kernel) - cv2.erode(frame, kernel) > 0.02 + 0.03 * frame
        dropped = (edge & (rng.random(frame.shape) < 0.75)) | (rng.random(frame.shape) < 0.004) | (frame > 3.5)
        result[i] = np.where(dropped, 0, np.clip(noisy * 1000 + 0.5, 0, 65535)).astype(np.uint16)
    return result
