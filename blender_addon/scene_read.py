"""The open .blend to a Scene document, taking what the user did in Blender as the truth.

Nothing in the file is changed: what must be visible to be evaluated is shown in a temporary scene that is removed.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from mjcf_export.document import atomic_path
from mjcf_export.errors import InputError
from mjcf_export.frames import Array
from mjcf_export.scene import SCENE_FILE, Body, Camera, Light, Material, Robot, Scene

from .bodies import FoundBody, read_body, settle_pose
from .cameras import read_camera
from .carried import named_files, unpack
from .keyed import without_trajectory
from .lights import read_light
from .materials import read_material, read_world
from .outliner import COLLECTIONS
from .records import PREFIX, current_name, kind_of, order, snap, stored
from .robots import LINK, ROBOT, links_of, read_robot


def open_blend(path: Path) -> None:
    """Open a .blend without running its scripts.

    Raises:
        InputError: it is missing or not a .blend this Blender can open.
    """
    if not path.is_file():
        raise InputError(f"{path}: no such file; expected a .blend")
    try:
        bpy.ops.wm.open_mainfile(filepath=str(path.absolute()), load_ui=False, use_scripts=False)
    except RuntimeError as error:
        raise InputError(f"{path}: Blender {bpy.app.version_string} cannot open it ({str(error).strip()})") from error


def read_scene(out: Path) -> tuple[Scene, list[str]]:
    """Write the open file's Scene to the folder `out` and return it with notes on what could not be kept.

    Raises:
        InputError: nothing in it is a body, robot or camera; a linked library is missing; a body cannot be read.
    """
    holder = bpy.context.scene
    _refuse_missing_libraries()
    bodies, parts = find_bodies(holder)
    robots = order(item for item in holder.objects if kind_of(item) == "robot")
    cameras = order(item for item in holder.objects if item.type == "CAMERA")
    lights = order(item for item in holder.objects if item.type == "LIGHT")
    if not bodies and not robots and kind_of(holder) != "scene":
        raise InputError(
            "nothing in this .blend belongs to a Real2Gym scene: put the objects in a collection named Bodies, or give "
            'them the custom property real2gym = "body"'
        )
    notes: list[str] = []
    links = [link for robot in robots for link in links_of(_record_name(robot)).values()]
    members = [*bodies, *(part for below in parts.values() for part in below), *robots, *links, *cameras, *lights]
    with (
        tempfile.TemporaryDirectory(prefix="real2gym_") as name,
        without_trajectory(members),
        evaluated(holder, members) as depsgraph,
    ):
        stage = Path(name)
        unpack(holder, stage)
        reader = _Reader(holder, depsgraph, stage, notes)
        scene = reader.scene(bodies, parts, robots, cameras, lights)
        for relative in [*named_files(scene, stage), *(m.texture for m in scene.materials if m.texture)]:
            source = stage / relative
            with atomic_path(out / relative) as temporary:
                shutil.copyfile(source, temporary)
        scene.save(out / SCENE_FILE)
    return scene, notes


def find_bodies(holder: Any) -> tuple[list[Any], dict[str, list[Any]]]:
    """The body objects in order, and by body object name the unmarked geometry parented below it.

    A body is marked so, or lies in the Bodies collection without a body above it.
    """
    folder = next((child for child in holder.collection.children_recursive if child.name == COLLECTIONS["body"]), None)
    inside = set(folder.all_objects) if folder is not None else set()
    foreign = {"robot", "link", "link visual", "tcp", "camera", "light"}

    def candidate(item: Any) -> bool:
        if kind_of(item) == "body":
            return True
        shows = item.type in {"MESH", "CURVE", "SURFACE", "FONT", "META"} or item.instance_collection is not None
        return item in inside and shows and kind_of(item) not in foreign

    def above(item: Any) -> Any:
        parent = item.parent
        while parent is not None and not candidate(parent):
            parent = parent.parent
        return parent

    candidates = [item for item in holder.objects if candidate(item)]
    bodies = [item for item in candidates if kind_of(item) == "body" or above(item) is None]
    known = {item.name for item in bodies}
    parts: dict[str, list[Any]] = {}
    for item in holder.objects:
        if item.name in known or kind_of(item) in foreign or item.type in {"CAMERA", "LIGHT"}:
            continue
        owner = item.parent
        while owner is not None and owner.name not in known:
            owner = owner.parent if kind_of(owner) not in foreign else None
        if owner is not None:
            parts.setdefault(owner.name, []).append(item)
    return order(bodies), parts


@contextmanager
def evaluated(holder: Any, members: list[Any]) -> Iterator[Any]:
    """A depsgraph at the present frame in which every member is evaluated, also hidden and excluded ones."""
    hidden = [item for item in members if item.hide_viewport]
    for item in members:
        if item.mode == "EDIT":
            item.update_from_editmode()
    temporary = bpy.data.scenes.new("real2gym reading")
    try:
        temporary.frame_set(holder.frame_current, subframe=holder.frame_subframe)
        for item in dict.fromkeys(members):
            temporary.collection.objects.link(item)
        for item in hidden:
            item.hide_viewport = False
        layer = temporary.view_layers[0]
        layer.update()
        yield layer.depsgraph
    finally:
        for item in hidden:
            item.hide_viewport = True
        bpy.data.scenes.remove(temporary)


class _Reader:
    def __init__(self, holder: Any, depsgraph: Any, stage: Path, notes: list[str]) -> None:
        self.holder = holder
        self.depsgraph = depsgraph
        self.stage = stage
        self.notes = notes
        self.unit = float(holder.unit_settings.scale_length)

    def scene(
        self, bodies: list[Any], parts: dict[str, list[Any]], robots: list[Any], cameras: list[Any], lights: list[Any]
    ) -> Scene:
        kept = self._kept()
        found = [read_body(item, parts.get(item.name, ()), self.depsgraph, self.unit, self.stage) for item in bodies]
        copies_first = sorted(found, key=lambda item: item.item.get(PREFIX + "built_name") == item.item.name)
        renamed = {_record_name(item.item): item.body.name for item in copies_first}
        joints = tuple(
            joint.model_copy(update={"body": renamed[joint.body]}) for joint in kept.joints if joint.body in renamed
        )
        materials, by_material = self._materials(found)
        colours = (kept.environment, kept.backdrop) if self._built else (None, None)
        environment, backdrop = read_world(self.holder, colours, self.notes)
        return Scene.model_validate(
            {
                **kept.model_dump(exclude={"bodies", "joints", "robots", "cameras", "lights", "materials"}),
                "name": current_name(self.holder, kept.name),
                "bodies": [self._placed(item, found, joints, by_material).model_dump() for item in found],
                "joints": [joint.model_dump() for joint in joints],
                "robots": [self._robot(item).model_dump() for item in robots],
                "cameras": [self._camera(item).model_dump() for item in cameras],
                "lights": [self._light(item).model_dump() for item in lights],
                "materials": [material.model_dump() for material in materials],
                "environment": environment,
                "backdrop": backdrop,
                "exposure": snap(self.holder.view_settings.exposure, kept.exposure),
                "task": _renamed_task(kept.task.model_dump(), renamed),
            }
        )

    @property
    def _built(self) -> bool:
        return kind_of(self.holder) == "scene"

    def _kept(self) -> Scene:
        """The scene's own fields, with stand-ins for the bodies that its joints name."""
        joints = json.loads(self.holder.get(PREFIX + "joints", "[]"))
        stubs = [{"name": name, "shape": {"kind": "box", "size": (1, 1, 1)}} for name in {j["body"] for j in joints}]
        return stored(self.holder, Scene, bodies=stubs)

    def _placed(
        self, found: FoundBody, others: list[FoundBody], joints: tuple[Any, ...], materials: dict[str, str]
    ) -> Body:
        own = [joint for joint in joints if joint.body == found.body.name]
        was = stored(found.item, Body, name=found.body.name, shape=found.body.shape).parent
        parent = next((other for other in others if was is not None and _record_name(other.item) == was), None)
        if parent is not None and not own and found.item.parent != parent.item:
            parent = None
        return found.body.model_copy(
            update={
                "pose": settle_pose(found, None if parent is None else parent.world, own),
                "parent": None if parent is None else parent.body.name,
                "material": None if found.material is None else materials[found.material],
            }
        )

    def _materials(self, found: list[FoundBody]) -> tuple[list[Material], dict[str, str]]:
        used = {item.material for item in found if item.material is not None}
        holders = order(item for item in bpy.data.materials if item.name in used or kind_of(item) == "material")
        read = {item.name: read_material(item, self.stage, self.notes) for item in holders}
        return list(read.values()), {name: material.name for name, material in read.items()}

    def _robot(self, item: Any) -> Robot:
        worlds = {name: self._rigid(link) for name, link in links_of(_record_name(item)).items()}
        return read_robot(item, self._rigid(item), worlds)

    def _camera(self, item: Any) -> Camera:
        parent = item.parent
        mount = None
        if parent is not None and LINK in parent:
            owner = next(
                (r for r in self.holder.objects if kind_of(r) == "robot" and _record_name(r) == parent[ROBOT]), None
            )
            if owner is not None:
                mount = ((current_name(owner, _record_name(owner)), str(parent[LINK])), self._rigid(parent))
        return read_camera(item, self._rigid(item), mount, self.unit)

    def _light(self, item: Any) -> Light:
        return read_light(item, self._rigid(item), self.unit, self.notes)

    def _rigid(self, item: Any) -> Array:
        """The evaluated frame `(4, 4)` in metres without its scale."""
        matrix = np.array(item.evaluated_get(self.depsgraph).matrix_world)
        matrix[:3, 3] *= self.unit
        axes = matrix[:3, :3] / np.linalg.norm(matrix[:3, :3], axis=0)
        left, _, right = np.linalg.svd(axes if np.linalg.det(axes) > 0 else -axes)
        matrix[:3, :3] = left @ right
        return matrix


def _record_name(item: Any) -> str:
    return str(item.get(PREFIX + "name", item.name))


def _renamed_task(task: dict[str, Any], renamed: dict[str, str]) -> dict[str, Any]:
    """The task with the new names of bodies in its predicates."""
    for predicate in task["predicates"]:
        predicate["args"] = tuple(
            renamed.get(value, value) if isinstance(value, str) else value for value in predicate["args"]
        )
    return task


def _refuse_missing_libraries() -> None:
    for library in bpy.data.libraries:
        path = Path(bpy.path.abspath(library.filepath))
        if not path.is_file():
            raise InputError(f"{path}: this linked library is missing; relocate it in Blender (File > External Data)")
