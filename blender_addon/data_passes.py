"""Exact object ids and optical depth: one Cycles sample through each pixel's centre, everything emitting its number."""

import struct
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bpy
import numpy as np
import numpy.typing as npt

from mjcf_export.document import write_atomically

from .records import PREFIX, kind_of, order


@contextmanager
def data_shading() -> Iterator[dict[str, int]]:
    """While open, renders show object number in red and optical z in green; everything is put back afterwards.

    Yields:
        The number of each body and robot by its Scene name, from 1.
    """
    scene = bpy.context.scene
    layer = bpy.context.view_layer
    names, numbers = number_objects()
    before = {item.name: item.pass_index for item in scene.objects}
    lights = [item for item in scene.objects if item.type == "LIGHT" and not item.hide_render]
    kept = (layer.material_override, scene.world, scene.camera.data.dof.use_dof, scene.render.engine)
    material = _number_material()
    try:
        for item in scene.objects:
            item.pass_index = numbers.get(item.name, 0)
        for item in lights:
            item.hide_render = True
        layer.material_override, scene.world = material, None
        scene.camera.data.dof.use_dof = False
        _one_sample(scene)
        yield names
    finally:
        layer.material_override, scene.world, scene.camera.data.dof.use_dof, scene.render.engine = kept
        for item in lights:
            item.hide_render = False
        for item in scene.objects:
            item.pass_index = before.get(item.name, 0)
        bpy.data.materials.remove(material)


def number_objects() -> tuple[dict[str, int], dict[str, int]]:
    """Numbers by Scene name of bodies and robots, and by object name of all that belongs to them."""
    owners = order(item for item in bpy.context.scene.objects if kind_of(item) in {"body", "robot"})
    names: dict[str, int] = {}
    objects: dict[str, int] = {}
    for owner in owners:
        name = str(owner.get(PREFIX + "name", owner.name))
        number = names.setdefault(owner.name if name in names else name, len(names) + 1)
        objects[owner.name] = number
    for item in bpy.context.scene.objects:
        above = item
        while above is not None and above.name not in objects:
            above = above.parent
        if above is not None:
            objects[item.name] = objects[above.name]
    return names, objects


def data_picture() -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float64]]:
    """Object numbers `(H, W)` and optical depth `(H, W)` in metres, 0 where there is nothing, of the scene as it is."""
    scene = bpy.context.scene
    settings = scene.render.image_settings
    if hasattr(settings, "media_type"):
        settings.media_type = "IMAGE"
    settings.file_format, settings.color_mode, settings.color_depth = "OPEN_EXR", "RGB", "32"
    settings.exr_codec = "NONE"
    with tempfile.TemporaryDirectory(prefix="real2gym_") as folder:
        path = Path(folder) / "data.exr"
        scene.render.filepath = str(path)
        bpy.ops.render.render(write_still=True)
        image = bpy.data.images.load(str(path))
        try:
            image.colorspace_settings.name = "Non-Color"
            width, height = image.size
            flat = np.empty(width * height * image.channels, dtype=np.float32)
            image.pixels.foreach_get(flat)
            pixels = flat.reshape(height, width, image.channels)[::-1].astype(np.float64)
        finally:
            bpy.data.images.remove(image)
    return np.round(pixels[..., 0]).astype(np.int64), pixels[..., 1]


def write_gray16(path: Path, values: npt.NDArray[Any]) -> Path:
    """Write `(H, W)` values, clipped to 0..65535, as a 16-bit grey PNG."""
    grey = np.clip(values, 0, 65535).astype(">u2")
    height, width = grey.shape
    rows = np.hstack([np.zeros((height, 1), dtype=np.uint8), grey.view(np.uint8).reshape(height, 2 * width)])

    def chunk(name: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))

    header = struct.pack(">IIBBBBB", width, height, 16, 0, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows.tobytes(), 6)) + chunk(b"IEND", b"")
    write_atomically(path, lambda stream: stream.write(b"\x89PNG\r\n\x1a\n" + body))
    return path


def _number_material() -> Any:
    material = bpy.data.materials.new("real2gym numbers")
    material.use_nodes = True
    material.cycles.emission_sampling = "NONE"
    nodes, links = material.node_tree.nodes, material.node_tree.links
    nodes.clear()
    number, view = nodes.new("ShaderNodeObjectInfo"), nodes.new("ShaderNodeCameraData")
    both, glow = nodes.new("ShaderNodeCombineXYZ"), nodes.new("ShaderNodeEmission")
    output = nodes.new("ShaderNodeOutputMaterial")
    links.new(number.outputs["Object Index"], both.inputs["X"])
    links.new(view.outputs["View Z Depth"], both.inputs["Y"])
    links.new(both.outputs["Vector"], glow.inputs["Color"])
    links.new(glow.outputs["Emission"], output.inputs["Surface"])
    return material


def _one_sample(scene: Any) -> None:
    scene.render.engine = "CYCLES"
    scene.render.film_transparent = True
    scene.render.use_persistent_data = True
    scene.render.use_compositing = scene.render.use_sequencer = False
    cycles = scene.cycles
    cycles.device, cycles.samples, cycles.max_bounces = "CPU", 1, 0
    cycles.use_denoising = cycles.use_adaptive_sampling = cycles.use_auto_tile = False
    cycles.sample_clamp_direct = 0.0
    cycles.film_exposure = 1.0
    cycles.pixel_filter_type, cycles.filter_width = "BOX", 0.01
