"""What perception saw: masks and tracks per object and view, what the robot measured, confidences.

Arrays in `observations.npz` (read and written with `Masks`):

- `mask/<view>/<object>`: `(T, H, ceil(W / 8))` uint8, bits packed along the width; all zero where not visible.
- `robot/<view>`: the same for the robot's silhouette, rendered from its recorded joints where the camera is known.
"""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from pydantic import Field

from mjcf_export.document import Document, Record, load_arrays, save_arrays
from mjcf_export.scene import Matrix4, Role

Mask = npt.NDArray[np.bool_]


class Track(Record):
    """One object in one view, per source frame. `confidence` is 0 where the object was not found."""

    view: str
    confidence: tuple[float, ...]
    area: tuple[float, ...]
    lost: tuple[int, ...] = ()
    recovered: tuple[int, ...] = ()


class ObservedObject(Record):
    """An object that perception followed. `source` says where its first mask came from."""

    name: str
    roles: tuple[Role, ...] = ()
    description: str = ""
    source: str = "prompt"
    tracks: tuple[Track, ...] = ()


class Hold(Record):
    """The robot's own measurement of one grasp: when it closed, held and opened, and how wide it stalled.

    Times are seconds; `width` metres between the pads; poses are the tcp in the world.
    """

    robot: str
    close_start: float
    grasp: float
    release: float
    open_end: float
    width: float = Field(ge=0)
    grasp_tcp: Matrix4
    release_tcp: Matrix4


class Observations(Document):
    """Everything the later stages may know of the pictures and the robot's record. `sizes` are `(W, H)` by view."""

    VERSION: ClassVar[int] = 1
    provider: str
    checkpoint_sha256: str | None = None
    frames: dict[str, int]
    times: dict[str, tuple[float, ...]]
    sizes: dict[str, tuple[int, int]]
    objects: tuple[ObservedObject, ...] = ()
    holds: tuple[Hold, ...] = ()
    notes: tuple[str, ...] = ()


class Masks:
    """Boolean masks `(T, H, W)` by key, kept packed in memory and on disk."""

    def __init__(self, packed: dict[str, npt.NDArray[Any]], widths: dict[str, int]) -> None:
        self._packed = packed
        self._widths = widths

    @classmethod
    def of(cls, masks: dict[str, Mask]) -> "Masks":
        """Pack masks given as `{"mask/<view>/<object>": (T, H, W)}`."""
        packed = {key: np.packbits(mask, axis=-1) for key, mask in masks.items()}
        return cls(packed, {key: mask.shape[-1] for key, mask in masks.items()})

    def keys(self) -> list[str]:
        """The keys there are."""
        return list(self._packed)

    def __contains__(self, key: str) -> bool:
        return key in self._packed

    def __getitem__(self, key: str) -> Mask:
        """The whole stack `(T, H, W)`; raises KeyError with the keys there are."""
        if key not in self._packed:
            raise KeyError(f"no masks {key}; there are {self.keys()}")
        return np.unpackbits(self._packed[key], axis=-1, count=self._widths[key]).astype(bool)

    def frame(self, key: str, index: int) -> Mask:
        """One mask `(H, W)`."""
        return np.unpackbits(self._packed[key][index], axis=-1, count=self._widths[key]).astype(bool)

    def save(self, path: Path) -> None:
        """Write to `.npz`, atomically."""
        widths = {f"width:{key}": np.array(width) for key, width in self._widths.items()}
        save_arrays(path, {**self._packed, **widths})

    @classmethod
    def load(cls, path: Path) -> "Masks":
        """Read from `.npz`; raises InputError when it cannot be read."""
        arrays = load_arrays(path)
        widths = {key[6:]: int(value) for key, value in arrays.items() if key.startswith("width:")}
        return cls({key: value for key, value in arrays.items() if not key.startswith("width:")}, widths)
