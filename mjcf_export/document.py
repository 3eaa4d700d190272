"""What every document of a run shares: validated JSON, arrays beside it, atomic writes, content hashes."""

import errno
import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, ClassVar, Literal, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from mjcf_export.errors import InputError, MissingError

Provenance = Literal["measured", "asset", "estimated", "calibrated", "assumed"]
"""Where a number came from."""
PARTIAL = ".partial-"
"""How the names of files and folders begin that are still being written."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
"""System error numbers of a disk, quota or allowed file size that is used up."""
ROOM = 200 * 1024**2
"""Bytes a run may need in all."""


class Record(BaseModel):
    """A part of a document: unknown fields are refused, numbers are finite."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False, validate_assignment=True)


class Document(Record):
    """A versioned JSON document of the run folder.

    Subclasses set `VERSION`; a file of another version is refused, never reinterpreted.
    """

    VERSION: ClassVar[int] = 1
    version: int = 1

    def save(self, path: Path) -> None:
        """Write the document to `path` atomically.

        Raises:
            MissingError: the disk is full or not writable.
        """
        text = self.model_dump_json(indent=1)
        write_atomically(path, lambda stream: stream.write(text.encode()))

    @classmethod
    def load(cls, path: Path) -> Self:
        """Read and validate `path`.

        Raises:
            InputError: the file is missing, not JSON, of another version, or breaks the schema.
        """
        try:
            raw = json.loads(path.read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise InputError(f"{path}: no such file; expected a {cls.__name__} document") from error
        except (UnicodeDecodeError, json.JSONDecodeError, IsADirectoryError) as error:
            raise InputError(f"{path}: not a JSON document ({error})") from error
        return cls.parse(raw, path)

    @classmethod
    def parse(cls, raw: object, path: Path) -> Self:
        """Validate `raw`, read from `path`; see `load` for the errors."""
        if not isinstance(raw, dict):
            raise InputError(f"{path}: expected a JSON object holding a {cls.__name__}")
        found = raw.get("version", cls.VERSION)
        if found != cls.VERSION:
            raise InputError(
                f"{path}: {cls.__name__} version {found}, this release reads version {cls.VERSION}; "
                "write it again with this release (start a new run folder)"
            )
        try:
            return cls.model_validate(raw)
        except ValidationError as error:
            raise InputError(f"{path}: {describe_validation(error)}") from error


def describe_validation(error: ValidationError) -> str:
    """One line per broken field: where it is, what is wrong, what was given."""
    lines = []
    for item in error.errors(include_url=False):
        where = ".".join(str(part) for part in item["loc"]) or "document"
        given = repr(item.get("input"))
        lines.append(f"{where}: {item['msg']} (given {given[:80]})")
    return "; ".join(lines)


def write_atomically(path: Path, write: Callable[[IO[bytes]], object]) -> None:
    """Write `path` through a temporary name in the same folder, then rename.

    Raises:
        MissingError: the disk is full or the folder is not writable; `path` is then as it was.
    """
    with atomic_path(path) as temporary, temporary.open("wb") as stream:
        write(stream)
        stream.flush()
        os.fsync(stream.fileno())


@contextmanager
def atomic_path(path: Path) -> Iterator[Path]:
    """A temporary path that becomes `path` when the block ends without an error.

    The temporary name keeps the suffix, for writers that choose a format by it.

    Raises:
        MissingError: the disk is full or the folder is not writable.
    """
    temporary: Path | None = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(prefix=PARTIAL, suffix=path.suffix, dir=path.parent)
        os.close(handle)
        temporary = Path(name)
        yield temporary
        temporary.chmod(0o644)
        os.replace(temporary, path)
    except OSError as error:
        if error.errno in FULL:
            raise full_disk(path) from error
        if error.errno in {errno.EACCES, errno.EROFS, errno.ENOTDIR}:
            raise MissingError(f"{path}: cannot be written ({error.strerror}); choose another folder") from error
        raise
    finally:
        if temporary is not None:
            temporary.unlink(missing_ok=True)


def full_disk(path: Path) -> MissingError:
    """The error of a disk that is too full to write `path`: what is left, how much to free."""
    folder = next((item for item in path.absolute().parents if item.is_dir()), Path.cwd())
    left = shutil.disk_usage(folder).free
    short = max(ROOM - left, 0)
    if short == 0:
        return MissingError(
            f"{path}: the disk is full for this user: a quota or the allowed file size (`ulimit -f`) is used up; "
            "raise it and run again; finished stages are kept"
        )
    return MissingError(
        f"{path}: the disk is full ({left / 1024**2:.0f} MiB left); free {short / 1024**2:.0f} MiB in {folder} and run "
        "again; finished stages are kept"
    )


def save_arrays(path: Path, arrays: Mapping[str, np.ndarray[Any, Any]]) -> None:
    """Write named arrays as a compressed `.npz`, atomically."""
    write_atomically(path, lambda stream: np.savez_compressed(stream, **arrays))


def load_arrays(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """Read every array of an `.npz` (never pickled objects).

    Raises:
        InputError: the file is missing, not an `.npz`, or holds objects.
    """
    try:
        with np.load(path, allow_pickle=False) as archive:
            return {name: archive[name] for name in archive.files}
    except FileNotFoundError as error:
        raise InputError(f"{path}: no such file") from error
    except (OSError, ValueError, AttributeError, EOFError) as error:
        raise InputError(f"{path}: not a readable .npz of plain arrays ({error})") from error
    except Exception as error:  # zipfile raises its own family for a truncated archive
        if type(error).__module__ == "zipfile":
            raise InputError(f"{path}: corrupt .npz archive ({error})") from error
        raise


def hash_files(paths: Iterable[Path]) -> str:
    """SHA-256 over the names and bytes of `paths`; a folder stands for all its files, by their paths inside it."""
    digest = hashlib.sha256()
    for path in paths:
        files = sorted(item for item in path.rglob("*") if item.is_file()) if path.is_dir() else [path]
        for file in files:
            name = file.relative_to(path).as_posix() if file != path else file.name
            digest.update(name.encode())
            with file.open("rb") as stream:
                digest.update(hashlib.file_digest(stream, "sha256").digest())
    return digest.hexdigest()


def resolve_inside(root: Path, relative: str) -> Path:
    """The absolute path of `relative` under `root`.

    Raises:
        InputError: the path leaves `root` (also through a link) or does not exist.
    """
    path = (root / relative).resolve()
    if not path.is_relative_to(root.resolve()):
        raise InputError(f"{relative}: the path leaves its folder {root}; put the file inside it")
    if not path.exists():
        raise InputError(f"{path}: no such file, named in {root}")
    return path
