"""Pictures of the open file: RGB by Cycles or Workbench, exact object ids and optical depth by Cycles."""

import ctypes
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bpy
import numpy as np

from backend.documents.pictures import Picture
from mjcf_export.document import atomic_path, write_atomically
from mjcf_export.errors import InputError, MissingError

from .cameras import look_through
from .data_passes import data_picture, data_shading, write_gray16
from .records import PREFIX

Progress = Callable[[float, str], None]
PASSES = ("rgb", "ids", "depth")
ENGINES = ("cycles", "workbench")


@dataclass(frozen=True)
class Quality:
    """How to render. `bounces` are diffuse light bounces; `denoise` None means where this Blender can."""

    engine: str = "cycles"
    samples: int = 4
    bounces: int = 2
    denoise: bool | None = None
    width: int | None = None
    height: int | None = None
    exposure: float | None = None


@dataclass(frozen=True)
class Shot:
    """One picture: the number that names its file, and the Blender frame (may be fractional) it shows."""

    number: int
    frame: float


def render_shots(
    camera: str,
    shots: Sequence[Shot],
    out: Path,
    quality: Quality,
    wanted: Sequence[str] = ("rgb",),
    progress: Progress | None = None,
    pose: Callable[[Shot], None] | None = None,
) -> list[Path]:
    """Render each shot from `camera` into `out/<number>.png`, or `out/<pass>/...` when several passes are wanted.

    `ids` are 16-bit PNG with `ids.json` naming them (0 is the background), `depth` 16-bit PNG of optical z in
    millimetres with 0 where there is nothing.

    Args:
        camera: a camera's Scene name.
        shots: what to render.
        out: folder, made when needed.
        quality: engine and settings.
        wanted: among `rgb`, `ids`, `depth`.
        progress: called after each picture.
        pose: sets the objects for a shot; by default the Blender frame is set.

    Raises:
        InputError: unknown camera, pass or engine.
        MissingError: Workbench without EGL.
    """
    unknown = sorted(set(wanted) - set(PASSES))
    if unknown:
        raise InputError(f"pass {', '.join(unknown)}: unknown; there are {', '.join(PASSES)}")
    look_through(camera_object(camera), quality.width, quality.height)
    place = pose or _at_frame
    folders = {name: out / name if len(wanted) > 1 else out for name in wanted}
    data = [name for name in ("ids", "depth") if name in wanted]
    total, done, written = len(shots) * (("rgb" in wanted) + bool(data)), 0, []
    if "rgb" in wanted:
        prepare(quality)
        for shot in shots:
            place(shot)
            written.append(_render_png(folders["rgb"] / f"{shot.number:06d}.png"))
            done += 1
            if progress:
                progress(done / total, f"{camera} {done}/{total}")
    if data:
        with data_shading() as names:
            for shot in shots:
                place(shot)
                ids, depth = data_picture()
                if "ids" in data:
                    written.append(write_gray16(folders["ids"] / f"{shot.number:06d}.png", ids))
                if "depth" in data:
                    written.append(write_gray16(folders["depth"] / f"{shot.number:06d}.png", np.round(1e3 * depth)))
                done += 1
                if progress:
                    progress(done / total, f"{camera} {done}/{total}")
        if "ids" in data:
            text = json.dumps(names, indent=1)
            write_atomically(folders["ids"] / "ids.json", lambda stream: stream.write(text.encode()))
    return written


def render_pictures(wanted: Sequence[Picture], out: Path, progress: Progress | None = None) -> list[Path]:
    """Render each picture by Cycles into `out/<camera>/<frame>.png`; those of one camera, size and quality together.

    Raises:
        InputError: unknown camera.
    """
    rate = bpy.context.scene.render.fps / bpy.context.scene.render.fps_base
    groups: dict[tuple[str, int, int], list[Shot]] = {}
    for picture in wanted:
        shots = groups.setdefault((picture.camera, picture.width, picture.samples), [])
        shots.append(Shot(picture.frame, picture.time * rate))
    written: list[Path] = []
    for (camera, width, samples), shots in groups.items():

        def report(done: float, message: str, count: int = len(shots), before: int = len(written)) -> None:
            if progress:
                progress((before + done * count) / len(wanted), message)

        written += render_shots(camera, shots, out / camera, Quality(samples=samples, width=width), ("rgb",), report)
    return written


def camera_object(name: str) -> Any:
    """The camera of that Scene or Blender name.

    Raises:
        InputError: there is none.
    """
    cameras = [item for item in bpy.context.scene.objects if item.type == "CAMERA"]
    for item in cameras:
        if name in {item.name, item.get(PREFIX + "name")}:
            return item
    raise InputError(f"camera {name}: not in this .blend, which has {', '.join(sorted(item.name for item in cameras))}")


def prepare(quality: Quality) -> None:
    """Set the engine for RGB pictures.

    Raises:
        InputError: unknown engine.
        MissingError: Workbench without EGL (Blender would abort).
    """
    scene = bpy.context.scene
    if quality.exposure is not None:
        scene.view_settings.exposure = quality.exposure
    scene.render.film_transparent = False
    scene.render.use_persistent_data = True
    scene.render.use_compositing = scene.render.use_sequencer = False
    if quality.engine == "cycles":
        scene.render.engine = "CYCLES"
        _prepare_cycles(scene.cycles, quality)
    elif quality.engine == "workbench":
        _require_egl()
        scene.render.engine = "BLENDER_WORKBENCH"
        scene.display.render_aa = "8"
        shading = scene.display.shading
        shading.light, shading.color_type = "STUDIO", "TEXTURE"
        shading.show_shadows, shading.show_cavity = True, True
    else:
        raise InputError(f"engine {quality.engine}: unknown; there are {', '.join(ENGINES)}")


def _prepare_cycles(cycles: Any, quality: Quality) -> None:
    cycles.device = "CPU"
    cycles.samples = quality.samples
    cycles.use_adaptive_sampling = cycles.use_light_tree = False
    cycles.max_bounces = cycles.diffuse_bounces = cycles.glossy_bounces = quality.bounces
    cycles.transparent_max_bounces = 4
    cycles.transmission_bounces = cycles.volume_bounces = 0
    cycles.caustics_reflective = cycles.caustics_refractive = False
    cycles.sample_clamp_indirect = 4.0
    cycles.use_auto_tile = False
    cycles.pixel_filter_type, cycles.filter_width = "BLACKMAN_HARRIS", 1.5
    cycles.use_denoising = False
    if quality.denoise is not False:
        try:
            cycles.denoiser = "OPENIMAGEDENOISE"
            cycles.denoising_prefilter = "NONE"
            if hasattr(cycles, "denoising_quality"):
                cycles.denoising_quality = "FAST"
            cycles.use_denoising = True
        except TypeError as error:
            if quality.denoise:
                raise MissingError(
                    "this Blender lacks OpenImageDenoise; render without --denoise, or use Blender from blender.org"
                ) from error


def _require_egl() -> None:
    if not sys.platform.startswith("linux") or not bpy.app.background:
        return
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError as error:
        raise MissingError(
            "libEGL.so.1: Workbench needs it and would abort; run `apt-get install libegl1 libgl1-mesa-dri`, "
            "or use --engine cycles"
        ) from error


def _at_frame(shot: Shot) -> None:
    whole = int(np.floor(shot.frame))
    bpy.context.scene.frame_set(whole, subframe=float(shot.frame - whole))


def _render_png(path: Path) -> Path:
    scene = bpy.context.scene
    settings = scene.render.image_settings
    if hasattr(settings, "media_type"):
        settings.media_type = "IMAGE"
    settings.file_format, settings.color_mode, settings.color_depth = "PNG", "RGB", "8"
    settings.compression = 15
    with atomic_path(path) as temporary:
        scene.render.filepath = str(temporary.absolute())
        bpy.ops.render.render(write_still=True)
    return path
