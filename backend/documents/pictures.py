"""Pictures wanted from Blender, for one process to render together."""

from typing import ClassVar

from pydantic import Field

from mjcf_export.document import Document, Record


class Picture(Record):
    """One picture of an animated .blend: file `<camera>/<frame, six digits>.png` below the output folder.

    `time` is seconds on the motion's clock; `width` pixels across, the height follows.
    """

    camera: str
    frame: int = Field(ge=0)
    time: float
    width: int = Field(gt=0)
    samples: int = Field(gt=0)


class Pictures(Document):
    """A list of pictures to render."""

    VERSION: ClassVar[int] = 1
    pictures: tuple[Picture, ...] = ()
