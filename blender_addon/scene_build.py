"""Scene document to an editable .blend."""

from pathlib import Path
from typing import Any

import bpy

from mjcf_export.document import atomic_path
from mjcf_export.errors import InputError
from mjcf_export.scene import SCENE_FILE, Scene

from .bodies import build_body, parent_body
from .cameras import build_camera, look_through
from .carried import carry
from .lights import build_light
from .materials import build_material, build_world
from .outliner import COLLECTIONS, collection
from .records import mark, store
from .robots import build_robot, links_of

FRAMES_PER_SECOND = 30


def empty_file() -> None:
    """Replace what is open by an empty file with factory settings (enabled extensions stay)."""
    bpy.ops.wm.read_homefile(use_factory_startup=True, use_empty=True)


def load_scene(folder: Path) -> Scene:
    """The document of a scene folder.

    Raises:
        InputError: it is missing or does not fit the schema.
    """
    return Scene.load(folder / SCENE_FILE)


def build_scene(scene: Scene, folder: Path) -> None:
    """Fill the open file's scene with everything `scene` holds; files are read from `folder`.

    Raises:
        InputError: a file is missing, a mount names an unknown robot or link, or parents form a circle.
    """
    holder = bpy.context.scene
    holder.name = scene.name
    mark(holder, "scene")
    store(holder, scene, skip=("bodies", "robots", "cameras", "lights", "materials"))
    holder.unit_settings.system, holder.unit_settings.scale_length = "METRIC", 1.0
    holder.render.fps, holder.render.fps_base = FRAMES_PER_SECOND, 1.0
    holder.view_settings.view_transform, holder.view_settings.look = "Standard", "None"
    holder.view_settings.exposure, holder.view_settings.gamma = scene.exposure, 1.0
    holder.frame_start = holder.frame_current = 0
    for kind in COLLECTIONS:
        collection(kind)
    carry(holder, scene, folder)
    build_world(scene.environment, scene.backdrop)
    _build_bodies(scene, folder)
    for index, robot in enumerate(scene.robots):
        build_robot(robot, index, folder)
    for index, light in enumerate(scene.lights):
        build_light(light, index)
    cameras = [build_camera(camera, i, _mount(camera.mount, camera.name)) for i, camera in enumerate(scene.cameras)]
    if cameras:
        look_through(cameras[0])
    bpy.context.view_layer.update()


def save_blend(path: Path) -> None:
    """Save the open file to `path`, compressed, atomically."""
    path = path.absolute()
    with atomic_path(path) as temporary:
        temporary.unlink()  # Blender would keep the empty file as a backup beside the new one
        bpy.ops.wm.save_as_mainfile(filepath=str(temporary), copy=True, compress=True, check_existing=False)


def _build_bodies(scene: Scene, folder: Path) -> None:
    materials: dict[str, Any] = {m.name: build_material(m, i, folder) for i, m in enumerate(scene.materials)}
    made: dict[str, Any] = {}
    for index, body in enumerate(scene.bodies):
        material = materials[body.material] if body.material else None
        joints = [joint for joint in scene.joints if joint.body == body.name]
        made[body.name] = build_body(body, index, folder, material, joints)
    parents = {body.name: body.parent for body in scene.bodies}
    for body in scene.bodies:
        _refuse_circle(body.name, parents)
        if body.parent is not None:
            parent_body(made[body.name], made[body.parent])


def _refuse_circle(name: str, parents: dict[str, str | None]) -> None:
    seen = [name]
    above = parents[name]
    while above is not None:
        if above in seen:
            raise InputError(f"bodies {' -> '.join([*seen, above])}: parents form a circle; take one parent away")
        seen.append(above)
        above = parents[above]


def _mount(mount: tuple[str, str] | None, camera: str) -> Any:
    if mount is None:
        return None
    links = links_of(mount[0])
    if mount[1] not in links:
        raise InputError(
            f"camera {camera}: mounted on unknown link {mount[1]} of robot {mount[0]}; there are {sorted(links)}"
        )
    return links[mount[1]]
