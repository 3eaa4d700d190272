"""Materials, lights and cameras of a scene in MuJoCo's terms."""

import io
from pathlib import Path

import mujoco
import numpy as np

from mjcf_export.colour import to_linear
from mjcf_export.document import resolve_inside
from mjcf_export.errors import InputError, MissingError
from mjcf_export.files import FileNames
from mjcf_export.frames import Array
from mjcf_export.scene import Camera, Light, Material, Scene

_FLIP = np.diag([1.0, -1.0, -1.0])
"""OpenCV optical axes to MuJoCo's camera, which looks along -Z with +Y up."""


def add_materials(spec: mujoco.MjSpec, scene: Scene, folder: Path, names: FileNames) -> None:
    """Materials with their textures (PNG, held in `spec.assets`), and a sky of the backdrop's colour."""
    sky = np.clip(scene.environment if scene.backdrop is None else scene.backdrop, 0, 1)
    spec.add_texture(
        name="environment",
        type=mujoco.mjtTexture.mjTEXTURE_SKYBOX,
        builtin=mujoco.mjtBuiltin.mjBUILTIN_FLAT,
        rgb1=sky,
        rgb2=sky,
        width=64,
        height=384,
    )
    for material in scene.materials:
        _add_material(spec, material, folder, names)


def _add_material(spec: mujoco.MjSpec, material: Material, folder: Path, names: FileNames) -> None:
    colour = (1.0, 1.0, 1.0) if material.texture else material.color
    made = spec.add_material(
        name=material.name,
        rgba=(*np.clip(colour, 0, 1), 1.0),
        specular=1.2 * material.specular * (1 - material.roughness),
        shininess=(1 - material.roughness) ** 2,
        roughness=material.roughness,
        metallic=material.metallic,
    )
    if material.texture:
        file = names.take(f"{material.name}_texture", ".png")
        spec.assets = {**spec.assets, file: png_bytes(resolve_inside(folder, material.texture))}
        spec.add_texture(name=f"{material.name}/texture", type=mujoco.mjtTexture.mjTEXTURE_2D, file=file)
        made.textures[int(mujoco.mjtTextureRole.mjTEXROLE_RGB)] = f"{material.name}/texture"


def png_bytes(path: Path) -> bytes:
    """The picture at `path` as an 8-bit RGB PNG.

    Raises:
        InputError: the file is not a picture.
    """
    try:
        from PIL import Image, UnidentifiedImageError
    except ImportError as error:
        if path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n":
            return path.read_bytes()
        raise MissingError(f"{path}: converting it to PNG needs pillow (pip install pillow)") from error
    try:
        with Image.open(path) as image:
            stream = io.BytesIO()
            image.convert("RGB").save(stream, "PNG")
    except (UnidentifiedImageError, OSError) as error:
        raise InputError(f"{path}: not a readable picture ({error})") from error
    return stream.getvalue()


def add_cameras(spec: mujoco.MjSpec, scene: Scene) -> None:
    """Every camera, in the world or in the robot link it is mounted on.

    Raises:
        InputError: a mount names a link that is not there.
    """
    for camera in scene.cameras:
        parent = spec.worldbody if camera.mount is None else _mount(spec, camera)
        add_camera(parent, camera)


def _mount(spec: mujoco.MjSpec, camera: Camera) -> mujoco.MjsBody:
    assert camera.mount is not None
    robot, link = camera.mount
    body = spec.body(f"{robot}/{link}")
    if body is None:
        links = [item.name.removeprefix(f"{robot}/") for item in spec.bodies if item.name.startswith(f"{robot}/")]
        raise InputError(f"camera {camera.name}: robot {robot} has no link {link}; there are {links}")
    return body


def add_camera(parent: mujoco.MjsBody, camera: Camera) -> None:
    """Add `camera` to `parent`; pixel (0, 0) is the centre of the first pixel, as in OpenCV."""
    k = camera.matrix
    pose = camera.pose.matrix.copy()
    pose[:3, :3] = pose[:3, :3] @ _FLIP
    quaternion = np.empty(4)
    mujoco.mju_mat2Quat(quaternion, pose[:3, :3].flatten())
    made = parent.add_camera(name=camera.name, pos=pose[:3, 3], quat=quaternion)
    made.resolution = (camera.width, camera.height)
    made.sensor_size = (camera.width * 1e-5, camera.height * 1e-5)
    made.focal_pixel = (k[0, 0], k[1, 1])
    made.principal_pixel = principal_offset(camera)


def principal_offset(camera: Camera) -> tuple[float, float]:
    """MuJoCo's `principalpixel`: from the principal point to the image centre, pixels."""
    k = camera.matrix
    return float(camera.width / 2 - k[0, 2] - 0.5), float(camera.height / 2 - k[1, 2] - 0.5)


def add_lights(spec: mujoco.MjSpec, scene: Scene) -> None:
    """Lights whose strengths share the display's range as their irradiance and the environment do."""
    target = np.mean([body.pose.position for body in scene.bodies], axis=0) if scene.bodies else np.zeros(3)
    headlight = spec.visual.headlight
    if not scene.lights:
        headlight.ambient, headlight.diffuse, headlight.specular = (0.35,) * 3, (0.5,) * 3, (0.1,) * 3
        return
    shares = np.array([_radiance(light, target) for light in scene.lights])
    ambient = to_linear(np.array(scene.environment))
    total = float((shares.sum(axis=0) + ambient).mean())
    gain = min(total ** (1 / 2.2), 1.1) / max(total, 1e-9)
    headlight.ambient, headlight.diffuse, headlight.specular = ambient * gain, (0.0,) * 3, (0.0,) * 3
    strongest = int(np.argmax(shares.sum(axis=1)))
    for index, (light, share) in enumerate(zip(scene.lights, shares, strict=True)):
        pose = light.pose.matrix
        spec.worldbody.add_light(
            name=light.name,
            type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL if light.kind == "sun" else mujoco.mjtLightType.mjLIGHT_SPOT,
            pos=pose[:3, 3],
            dir=-pose[:3, 2] if light.kind != "point" else _towards(target, pose[:3, 3]),
            diffuse=np.clip(share * gain, 0, 1),
            specular=np.clip(share * gain * 0.3, 0, 1),
            ambient=(0.0, 0.0, 0.0),
            cutoff=85.0,
            exponent=0.0 if light.kind == "point" else 1.0,
            castshadow=index == strongest,
        )


def _towards(target: Array, origin: Array) -> Array:
    direction: Array = target - origin
    length = float(np.linalg.norm(direction))
    return direction / length if length > 1e-6 else np.array([0.0, 0.0, -1.0])


def _radiance(light: Light, target: Array) -> Array:
    """Linear radiance `(3,)` of a white surface at `target` facing the light, as in Blender."""
    if light.kind == "sun":
        irradiance = light.energy
    else:
        distance = max(float(np.linalg.norm(np.array(light.pose.position) - target)), 0.1)
        irradiance = light.energy / (np.pi * distance**2 * (4 if light.kind == "point" else 1))
    radiance: Array = irradiance / np.pi * np.array(light.color)
    return radiance
