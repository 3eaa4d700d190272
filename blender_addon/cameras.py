"""Cameras: OpenCV intrinsics and optical frames to Blender's lens, shift and -Z looking cameras, and back.

Pixel coordinates are OpenCV's: the centre of the top-left pixel is (0, 0), so the image spans -0.5 .. width - 0.5.
"""

from dataclasses import dataclass
from typing import Any

import bpy
import numpy as np

from mjcf_export.frames import Array, inverse
from mjcf_export.scene import Camera

from .outliner import collection, new_object
from .records import current_name, kind_of, mark, snap, snap_pose, store, stored

SENSOR = 36.0
FLIP = np.diag([1.0, -1.0, -1.0, 1.0])
"""Between the optical frame and Blender's camera frame, either way."""


@dataclass(frozen=True)
class Lens:
    """Blender's way of saying intrinsics, with a horizontal sensor fit. `aspect` is pixel width over height."""

    focal: float
    shift_x: float
    shift_y: float
    aspect: float


def lens_of(intrinsics: Array, width: int, height: int) -> Lens:
    """The lens that projects as `intrinsics` `(3, 3)` in pixels; skew is left out."""
    fx, fy, cx, cy = intrinsics[0, 0], intrinsics[1, 1], intrinsics[0, 2], intrinsics[1, 2]
    aspect = fy / fx
    return Lens(
        focal=fx * SENSOR / width,
        shift_x=(width / 2 - (cx + 0.5)) / width,
        shift_y=((cy + 0.5) - height / 2) / (aspect * width),
        aspect=aspect,
    )


def build_camera(camera: Camera, index: int, link: Any) -> Any:
    """A camera object; with a mount, parented to the robot's `link` object."""
    data = bpy.data.cameras.new(camera.name)
    lens = lens_of(camera.matrix, camera.width, camera.height)
    data.sensor_fit = "HORIZONTAL"
    data.sensor_width = SENSOR
    data.lens = lens.focal
    data.shift_x, data.shift_y = lens.shift_x, lens.shift_y
    data.clip_start, data.clip_end = 0.005, 100.0
    data.display_size = 0.1
    if camera.focus_distance is not None:
        data.dof.use_dof = True
        data.dof.focus_distance = camera.focus_distance
    data.dof.aperture_fstop = camera.fstop
    made = new_object(camera.name, data, collection("camera"), camera.pose.matrix @ FLIP, link)
    mark(made, "camera", index)
    store(made, camera)
    return made


def read_camera(item: Any, world: Array, mount: tuple[tuple[str, str], Array] | None, unit: float) -> Camera:
    """The camera as it is now.

    Args:
        item: the camera object.
        world: its evaluated matrix `(4, 4)` in metres.
        mount: robot, link and the link's rigid matrix when it is parented to one.
        unit: metres per Blender unit.
    """
    data = item.data
    render = bpy.context.scene.render
    size = {
        "width": render.resolution_x * render.resolution_percentage // 100,
        "height": render.resolution_y * render.resolution_percentage // 100,
    }
    built = kind_of(item) == "camera"
    kept = stored(item, Camera, name=item.name, intrinsics=np.eye(3).tolist(), **size)
    aspect = kept.intrinsics[1][1] / kept.intrinsics[0][0] if built else render.pixel_aspect_x / render.pixel_aspect_y
    found = intrinsics_of(data, kept.width, kept.height, aspect)
    exact = intrinsics_of_lens(_rounded(lens_of(kept.matrix, kept.width, kept.height)), kept.width, kept.height)
    same = built and np.allclose(found, exact, rtol=1e-6, atol=1e-4)
    frame = np.eye(4)
    frame[:3, :3] = world[:3, :3] / np.linalg.norm(world[:3, :3], axis=0)
    if np.linalg.det(frame[:3, :3]) < 0:
        frame[:3, :3] = -frame[:3, :3]
    frame[:3, 3] = world[:3, 3]
    relative = frame @ FLIP if mount is None else inverse(mount[1]) @ frame @ FLIP
    return kept.model_copy(
        update={
            "name": current_name(item, kept.name),
            "intrinsics": kept.intrinsics if same else tuple(tuple(map(float, row)) for row in found),
            "pose": snap_pose(relative, kept.pose if built and _same_mount(kept, mount) else None),
            "mount": None if mount is None else mount[0],
            "focus_distance": snap(data.dof.focus_distance * unit, kept.focus_distance) if data.dof.use_dof else None,
            "fstop": snap(data.dof.aperture_fstop, kept.fstop),
        }
    )


def intrinsics_of(data: Any, width: int, height: int, aspect: float) -> Array:
    """Intrinsics `(3, 3)` in pixels of a Blender camera; `aspect` is fy / fx, the width of a pixel over its height."""
    vertical = data.sensor_fit == "VERTICAL" or (data.sensor_fit == "AUTO" and aspect * width < height)
    sensor = data.sensor_height if data.sensor_fit == "VERTICAL" else data.sensor_width
    across = height / aspect if vertical else width
    fx = data.lens * across / sensor
    cx = width / 2 - data.shift_x * across - 0.5
    cy = height / 2 + data.shift_y * across * aspect - 0.5
    return np.array([[fx, 0, cx], [0, fx * aspect, cy], [0, 0, 1.0]])


def intrinsics_of_lens(lens: Lens, width: int, height: int) -> Array:
    """Intrinsics `(3, 3)` in pixels of a `Lens`."""
    fx = lens.focal * width / SENSOR
    cx = width / 2 - lens.shift_x * width - 0.5
    cy = height / 2 + lens.shift_y * width * lens.aspect - 0.5
    return np.array([[fx, 0, cx], [0, fx * lens.aspect, cy], [0, 0, 1.0]])


def look_through(item: Any, width: int | None = None, height: int | None = None) -> tuple[int, int]:
    """Make `item` the scene's camera with its own resolution and pixel aspect, or scaled to another size.

    Returns:
        The resolution used.
    """
    scene = bpy.context.scene
    scene.camera = item
    render = scene.render
    if kind_of(item) == "camera":
        kept = stored(item, Camera)
        aspect = kept.intrinsics[1][1] / kept.intrinsics[0][0]
        render.resolution_x, render.resolution_y = kept.width, kept.height
        render.pixel_aspect_x, render.pixel_aspect_y = max(1.0, aspect), max(1.0, 1 / aspect)
    native = render.resolution_x, render.resolution_y
    if width or height:
        wide = width or round(native[0] * (height or 1) / native[1])
        high = height or round(native[1] * wide / native[0])
        stretch = (wide / native[0]) / (high / native[1])
        ratio = render.pixel_aspect_x / render.pixel_aspect_y / stretch
        render.resolution_x, render.resolution_y = wide, high
        render.pixel_aspect_x, render.pixel_aspect_y = max(1.0, ratio), max(1.0, 1 / ratio)
    render.resolution_percentage = 100
    return render.resolution_x, render.resolution_y


def _rounded(lens: Lens) -> Lens:
    focal, x, y = (float(np.float32(value)) for value in (lens.focal, lens.shift_x, lens.shift_y))
    return Lens(focal, x, y, lens.aspect)


def _same_mount(kept: Camera, mount: tuple[tuple[str, str], Array] | None) -> bool:
    return kept.mount == (None if mount is None else mount[0])
