"""Materials and the surroundings' colour between the Scene and Blender's Principled shader."""

from pathlib import Path
from typing import Any

import bpy
import numpy as np

from mjcf_export.colour import to_linear, to_srgb
from mjcf_export.document import atomic_path, resolve_inside, write_atomically
from mjcf_export.scene import Material

from .records import current_name, mark, snap_all, store, stored

Color = tuple[float, float, float]
ENVIRONMENT, BACKDROP = "Environment", "Backdrop"
"""Nodes of the world's shader."""


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
    shader.inputs["Specular IOR Level"].default_value = material.specular
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
        color, values = made.diffuse_color[:3], (made.roughness, made.metallic, kept.specular)
    else:
        color = shader.inputs["Base Color"].default_value[:3]
        values = tuple(shader.inputs[key].default_value for key in ("Roughness", "Metallic", "Specular IOR Level"))
    exact = linear(known.color) if known else None
    now = snap_all(tuple(color), exact)
    rough, metal, specular = snap_all(values, (known.roughness, known.metallic, known.specular) if known else None)
    image = _base_image(shader, name, notes)
    return Material(
        name=name,
        color=known.color if known and now == exact else _clip(srgb(_triple(now))),
        roughness=rough,
        metallic=metal,
        specular=specular,
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


def build_world(environment: Color, backdrop: Color | None) -> None:
    """Even light of the sRGB colour `environment` from all around; cameras and reflections see the backdrop's."""
    world = bpy.data.worlds.new("World")
    bpy.context.scene.world = world
    world.use_nodes = True
    tree = world.node_tree
    light = _background(world)
    light.name = light.label = ENVIRONMENT
    _fill(light, environment)
    world.color = linear(environment)
    if backdrop is None:
        return
    seen = tree.nodes.new("ShaderNodeBackground")
    seen.name = seen.label = BACKDROP
    _fill(seen, backdrop)
    path, mixed = tree.nodes.new("ShaderNodeLightPath"), tree.nodes.new("ShaderNodeMixShader")
    tree.links.new(path.outputs["Is Diffuse Ray"], mixed.inputs[0])
    tree.links.new(seen.outputs[0], mixed.inputs[1])
    tree.links.new(light.outputs[0], mixed.inputs[2])
    output = next(node for node in tree.nodes if node.type == "OUTPUT_WORLD")
    tree.links.new(mixed.outputs[0], output.inputs["Surface"])
    for node, place in ((light, (-320, 0)), (seen, (-320, 160)), (path, (-320, 520)), (mixed, (0, 160))):
        node.location = place
    output.location = (240, 160)


def read_world(scene: Any, kept: tuple[Color | None, Color | None], notes: list[str]) -> tuple[Color, Color | None]:
    """SRGB of environment and backdrop, those `kept` where they still agree."""
    world = scene.world
    if world is None:
        return (0.0, 0.0, 0.0), None
    if not world.use_nodes or _background(world) is None:
        return _agreed(tuple(world.color), kept[0]), None
    seen = world.node_tree.nodes.get(BACKDROP)
    backdrop = None if seen is None else _agreed(_radiance(seen, notes), kept[1])
    return _agreed(_radiance(_background(world), notes), kept[0]), backdrop


def _background(world: Any) -> Any:
    """The node of the light from all around: the one named so, else any background."""
    nodes = [node for node in world.node_tree.nodes if node.type == "BACKGROUND"]
    return next((node for node in nodes if node.name == ENVIRONMENT), nodes[0] if nodes else None)


def _fill(background: Any, color: Color) -> None:
    background.inputs["Color"].default_value = (*linear(color), 1.0)
    background.inputs["Strength"].default_value = 1.0


def _radiance(background: Any, notes: list[str]) -> Any:
    if background.inputs["Color"].is_linked:
        notes.append("world: the background is textured; only its plain colour is read")
    return background.inputs["Strength"].default_value * np.array(background.inputs["Color"].default_value[:3])


def _agreed(now: Any, exact: Color | None) -> Color:
    """SRGB of the linear colour `now`, or `exact` where it still agrees."""
    color = _triple(now)
    known = linear(exact) if exact is not None else None
    return exact if exact is not None and snap_all(color, known) == known else srgb(color)


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
