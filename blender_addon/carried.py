"""Files of the scene folder that travel inside the .blend as they are: meshes, convex pieces, robot descriptions."""

from pathlib import Path
from typing import Any

from mjcf_export.document import resolve_inside
from mjcf_export.errors import InputError
from mjcf_export.scene import Mesh, Scene

FILES = "r2g_files"
LIMIT = 500_000_000
ROBOT_SUFFIXES = {".urdf", ".xml", ".mjcf"}


def carry(holder: Any, scene: Scene, folder: Path) -> None:
    """Store on the Blender scene `holder` every file that `scene` names, and the whole folder of a robot's own model.

    Raises:
        InputError: a file is missing or leaves the folder, or they are more than 500 MB together.
    """
    names = named_files(scene, folder)
    size = sum(path.stat().st_size for path in names.values())
    if size > LIMIT:
        raise InputError(f"{folder}: {size / 1e6:.0f} MB of meshes and robot files; the .blend carries at most 500 MB")
    if names:
        holder[FILES] = [{"path": name, "data": path.read_bytes()} for name, path in names.items()]


def named_files(scene: Scene, folder: Path) -> dict[str, Path]:
    """Mesh files, pieces and robot descriptions (with all that lies beside them) by their path relative to `folder`."""
    names: dict[str, Path] = {}
    for body in scene.bodies:
        if isinstance(body.shape, Mesh):
            for name in (body.shape.file, *body.shape.pieces):
                names[name] = resolve_inside(folder, name)
    root = folder.resolve()
    for robot in scene.robots:
        if Path(robot.model).suffix.lower() not in ROBOT_SUFFIXES:
            continue
        around = resolve_inside(folder, robot.model).parent
        for file in sorted(item for item in around.rglob("*") if item.is_file()):
            relative = file.relative_to(root)
            if around != root or relative.parts[0] not in {"textures", "scene.json"}:
                names[relative.as_posix()] = file
    return names


def unpack(holder: Any, out: Path) -> None:
    """Write the carried files below `out`."""
    for item in holder.get(FILES, []):
        target = (out / item["path"]).resolve()
        if not target.is_relative_to(out.resolve()):
            raise InputError(f"{item['path']}: a carried file would leave {out}; the .blend was tampered with")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(bytes(item["data"]))
