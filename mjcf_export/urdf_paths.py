"""Mesh paths of a URDF, resolved without leaving the folder it came in."""

from pathlib import Path
from urllib.parse import unquote, urlparse

from mjcf_export.errors import InputError


def allowed_folder(path: Path, root: Path | None) -> Path:
    """The folder every file of the URDF must lie in: `root`, else its ROS package's parent, else its own folder."""
    if root is not None:
        return root.resolve()
    folder = path.resolve().parent
    for ancestor in (folder, *folder.parents):
        if (ancestor / "package.xml").is_file():
            return ancestor.parent
    return folder


def resolve_mesh(name: str, urdf: Path, folder: Path, where: str) -> Path:
    """The file a `<mesh filename>` means.

    `package://p/rest` and plain relative paths are looked up beside the URDF and in each folder above it, up to
    `folder`.

    Raises:
        InputError: it does not exist, or lies outside `folder`.
    """
    if not name:
        raise InputError(f"{where}: mesh has no filename")
    scheme, relative = _split(name)
    if scheme not in {"", "package", "model", "file"}:
        raise InputError(f"{where}: mesh {name}: {scheme}:// is not supported; use package:// or a relative path")
    outside = False
    for candidate in _candidates(relative, scheme, urdf.resolve().parent, folder):
        resolved = candidate.resolve()
        if not resolved.is_relative_to(folder):
            outside = outside or resolved.exists() or ".." in Path(relative).parts
        elif resolved.is_file():
            return resolved
    if outside or Path(relative).is_absolute():
        raise InputError(f"{where}: mesh {name} leaves the folder {folder}; put the file inside it")
    raise InputError(f"{where}: mesh {name} not found in {folder}; add the file or correct the path")


def _split(name: str) -> tuple[str, str]:
    if "://" not in name:
        return "", name.replace("\\", "/")
    parsed = urlparse(name)
    rest = unquote(parsed.netloc + parsed.path)
    return parsed.scheme, rest


def _candidates(relative: str, scheme: str, start: Path, folder: Path) -> list[Path]:
    if Path(relative).is_absolute():
        return [Path(relative)]
    ancestors = [item for item in (start, *start.parents) if item.is_relative_to(folder)]
    found = [ancestor / relative for ancestor in ancestors]
    if scheme in {"package", "model"}:
        package, _, rest = relative.partition("/")
        found += [ancestor / rest for ancestor in ancestors if ancestor.name == package]
        found += [ancestor / rest for ancestor in ancestors]
    return found
