"""A robot's own files brought beside a scene, so that the scene folder is complete and can be moved."""

import shutil
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from pathlib import Path

from mjcf_export.document import resolve_inside
from mjcf_export.errors import InputError
from mjcf_export.robot_arms import read_mjcf
from mjcf_export.robots import load_robot
from mjcf_export.urdf_paths import allowed_folder, resolve_mesh

SUFFIXES = frozenset({".urdf", ".xml", ".mjcf"})
FOLDER = "robots"


def is_robot_file(model: str) -> bool:
    """Whether `model` is the path of a URDF or MJCF rather than a known name."""
    return Path(model).suffix.lower() in SUFFIXES


def carry_robot(model: str, root: Path | None, scene_folder: Path) -> str:
    """Copy the file `model` and every file it names below `scene_folder`; a known name stays as it is.

    Args:
        model: a known name, or the path of a URDF or MJCF.
        root: the folder that the file and what it names may not leave; None where the user named it directly: then
            its ROS package, else its own folder.
        scene_folder: where the scene's files lie.

    Returns:
        The model as the scene names it: the known name, or the path relative to `scene_folder`.

    Raises:
        InputError: the robot cannot be used, or a file it names is missing or leaves its folder.
    """
    if not is_robot_file(model):
        return model
    path = Path(model).resolve() if root is None else resolve_inside(root, model)
    load_robot(str(path), root)
    folder = allowed_folder(path, root)
    target = scene_folder / FOLDER / path.stem
    for file in sorted({path, *_named_files(path, folder)}):
        copy = target / file.relative_to(folder)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(file, copy)
    return (target / path.relative_to(folder)).relative_to(scene_folder).as_posix()


def _named_files(path: Path, folder: Path) -> Iterator[Path]:
    if path.suffix.lower() == ".urdf":
        for mesh in ET.parse(path).iter("mesh"):
            yield resolve_mesh(mesh.get("filename", ""), path, folder, str(path))
        return
    yield from _includes(path)
    spec = read_mjcf(path)
    for item in (*spec.meshes, *spec.textures):
        if item.file:
            yield _inside(Path(item.file).resolve(), folder, path)


def _includes(path: Path) -> Iterator[Path]:
    for item in ET.parse(path).iter("include"):
        included = (path.parent / item.get("file", "")).resolve()
        yield included
        yield from _includes(included)


def _inside(file: Path, folder: Path, path: Path) -> Path:
    if not file.is_relative_to(folder):
        raise InputError(f"{path}: {file} leaves the folder {folder}; put the file inside it")
    return file
