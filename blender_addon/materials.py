"""Materials and the surroundings' colour between the Scene and Blender's Principled shader."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np

from mjcf_export.colour import to_linear, to_srgb
from mjcf_export.document import atomic_path, resolve_inside, write_atomically
from mjcf_export.scene import Material

from .records import current_name, mark, snap, snap_all, store, stored

Color = tuple[float, float, float]


def linear(color: Color) -> Color:
    """Scene-linear values of an sRGB colour."""
    red, green, blue = to_linear(np.array(color)).tolist()
    return red, green, blue


def srgb(color: Color) -> Color:
    """SRGB of scene-linear values."""
    red, green, blue = to_srgb(np.array(color)).tolist()
    return red, green, blue


def build_material(material: Material, index: int, folder: Path) -> Any:
    """A Principled material; a texture is packed and drives the base colour."""
    made = bpy.data.materials.new(material.name)
    made.use_fake_user = True
    mark(made, "material", index)
    store(made, material)
    shader = surface(made, linear(material.color), material.roughness, material.metallic)
    if material.texture is not None:
        image = bpy.data.images.load(str(resolve_inside(folder, material.texture)))
        image.pack()
        image["r2g_file"] = material.texture
        node = made.node_tree.nodes.new("ShaderNodeTexImage")
        node.image = image
        node.location = (-320, 260)
        made.node_tree.links.new(node.outputs["Color"], shader.inputs["Base Color"])
    return made


def surface(made: Any, color: Color, roughness: float, metallic: float) -> Any:
    """Give a material one Principled shader with scene-linear `color`, and return the node."""
    made.use_nodes = True
    shader = _principled(made)
    if shader is None:
        shader = made.node_tree.nodes.new("ShaderNodeBsdfPrincipled")
        output = made.node_tree.nodes.new("ShaderNodeOutputMaterial")
        made.node_tree.links.new(shader.outputs["BSDF"], output.inputs["Surface"])
    shader.inputs["Base Color"].default_value = (*color, 1.0)
    shader.inputs["Roughness"].default_value = roughness
    shader.inputs["Metallic"].default_value = metallic
    made.diffuse_color = (*color, 1.0)
    made.roughness = roughness
    made.metallic = metallic
    return shader


def read_material(made: Any, out: Path, notes: list[str]) -> Material:
    """The material as it is now; its texture is written below `out`."""
    kept = stored(made, Material, name=made.name)
    known = kept if made.get("real2gym") == "material" else None
    name = current_name(made, kept.name)
    shader = _principled(made) if made.use_nodes else None
    if shader is None:
        notes.append(f"material {name}: has no Principled shader; its viewport colour is taken")
        color, rough, metal = made.diffuse_color[:3], made.roughness, made.metallic
    else:
        color = shader.inputs["Base Color"].default_value[:3]
        rough, metal = (shader.inputs[key].default_value for key in ("Roughness", "Metallic"))
    exact = linear(known.color) if known else None
    now = snap_all(tuple(color), exact)
    image = _base_image(shader, name, notes)
    return Material(
        name=name,
        color=known.color if known and now == exact else _clip(srgb(_triple(now))),
        roughness=snap(rough, known.roughness if known else None),
        metallic=snap(metal, known.metallic if known else None),
        texture=None if image is None else write_image(image, out),
    )


def is_textured(name: str | None) -> bool:
    """Whether the material called `name` takes its base colour from a node."""
    made = bpy.data.materials.get(name) if name else None
    shader = _principled(made) if made is not None and made.use_nodes else None
    return shader is not None and bool(shader.inputs["Base Color"].is_linked)


def write_image(image: Any, out: Path) -> str:
    """Write `image` as PNG below `out`, byte for byte when it is the packed original, and return its relative path."""
    original = image.get("r2g_file")
    if original and image.packed_file is not None and not image.is_dirty:
        data = image.packed_file.data
        write_atomically(out / original, lambda stream: stream.write(data))
        return str(original)
    relative = f"textures/{file_stem(image.name)}.png"
    target = image.copy()
    try:
        with atomic_path(out / relative) as temporary:
            target.file_format = "PNG"
            target.save(filepath=str(temporary))
    finally:
        bpy.data.images.remove(target)
    return relative


def file_stem(name: str) -> str:
    """A file name without folders or an image suffix, safe on every system."""
    stem = name.rsplit(".", 1)[0] if name.lower().endswith((".png", ".jpg", ".jpeg", ".exr", ".tif", ".tga")) else name
    return "".join(c if c.isascii() and (c.isalnum() or c in "-_") else f"_{ord(c):x}_" for c in stem) or "unnamed"


def build_world(environment: Color) -> None:
    """A flat background of the sRGB colour `environment`."""
    world = bpy.data.worlds.new("World")
    bpy.context.scene.world = world
    world.use_nodes = True
    background = next(node for node in world.node_tree.nodes if node.type == "BACKGROUND")
    background.inputs["Color"].default_value = (*linear(environment), 1.0)
    background.inputs["Strength"].default_value = 1.0
    world.color = linear(environment)


def read_world(scene: Any, exact: Color | None, notes: list[str]) -> Color:
    """SRGB of the background, or `exact` where it still agrees."""
    world = scene.world
    if world is None:
        return (0.0, 0.0, 0.0)
    color, strength = tuple(world.color), 1.0
    if world.use_nodes:
        background = next((node for node in world.node_tree.nodes if node.type == "BACKGROUND"), None)
        if background is not None:
            color = background.inputs["Color"].default_value[:3]
            strength = background.inputs["Strength"].default_value
            if background.inputs["Color"].is_linked:
                notes.append("world: the background is textured; only its plain colour is read")
    now = _triple(strength * np.array(color))
    known = linear(exact) if exact is not None else None
    return exact if exact is not None and snap_all(now, known) == known else srgb(now)


def _principled(made: Any) -> Any:
    if made.node_tree is None:
        return None
    return next((node for node in made.node_tree.nodes if node.type == "BSDF_PRINCIPLED"), None)


def _base_image(shader: Any, name: str, notes: list[str]) -> Any:
    if shader is None or not shader.inputs["Base Color"].is_linked:
        return None
    source = shader.inputs["Base Color"].links[0].from_node
    if source.type == "TEX_IMAGE" and source.image is not None:
        return source.image
    notes.append(f"material {name}: its base colour comes from nodes that cannot be read; bake it to an image texture")
    return None


def _triple(values: Any) -> Color:
    red, green, blue = (float(value) for value in values)
    return red, green, blue


def _clip(color: Color) -> Color:
    return _triple(np.clip(color, 0.0, 1.0))
