"""File names and folders of an export: safe unique names, collected assets, atomic replacement."""

import os
import re
import shutil
import tempfile
import unicodedata
from pathlib import Path

import mujoco

from mjcf_export.document import PARTIAL
from mjcf_export.errors import InputError


class FileNames:
    """Gives out file names that are plain ASCII and never repeat, whatever the case of the letters."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def take(self, name: str, suffix: str) -> str:
        """A fresh file name made from `name`."""
        plain = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
        stem = re.sub(r"[^A-Za-z0-9._-]+", "_", plain).strip("._-")[:80] or "item"
        candidate, count = stem, 1
        while candidate.lower() in self._taken:
            count += 1
            candidate = f"{stem}_{count}"
        self._taken.add(candidate.lower())
        return candidate + suffix


def collect_files(spec: mujoco.MjSpec, assets: Path) -> None:
    """Write every mesh and texture of `spec` below `assets` and let the spec name them relative to it.

    Files from elsewhere (robot models) are copied to `robots/`; those held in memory are written as they are.

    Raises:
        InputError: a file that the spec names does not exist.
    """
    assets.mkdir(parents=True)
    held = dict(spec.assets)
    for name, content in held.items():
        (assets / name).write_bytes(content.encode() if isinstance(content, str) else content)
    names = FileNames()
    copied: dict[Path, str] = {}
    for element in (*spec.meshes, *spec.textures, *spec.hfields, *spec.skins):
        if not element.file or element.file in held:
            continue
        source = Path(element.file)
        if not source.is_file():
            raise InputError(f"{source}: no such file, named by {element.name}")
        if source not in copied:
            copied[source] = f"robots/{names.take(source.stem, source.suffix.lower())}"
            (assets / "robots").mkdir(exist_ok=True)
            shutil.copyfile(source, assets / copied[source])
        element.file = copied[source]
    spec.assets = held | {file: (assets / file).read_bytes() for file in copied.values()}


def replace_folder(new: Path, target: Path) -> None:
    """Let `new` take the place of `target`, which is removed after the swap."""
    if not target.exists():
        os.replace(new, target)
        return
    old = Path(tempfile.mkdtemp(prefix=f"{PARTIAL}{target.name}-", dir=target.parent))
    os.replace(target, old)
    try:
        os.replace(new, target)
    except OSError:
        os.replace(old, target)
        raise
    shutil.rmtree(old, ignore_errors=True)
