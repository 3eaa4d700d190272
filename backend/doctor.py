"""What is installed here, which providers are usable, what is missing and how to get it."""

import ctypes
import os
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

from mjcf_export.document import Record
from mjcf_export.errors import Real2GymError

SYSTEM_PACKAGES = "libegl1 libgl1 libgl1-mesa-dri libx11-6 libxrender1 libxfixes3 libxi6 libxkbcommon0 libsm6"
FREE_SPACE = 2 * 1024**3


class Finding(Record):
    """One thing the product uses: `needed` by the default path, or an optional provider."""

    name: str
    state: Literal["ok", "optional", "missing"]
    detail: str = ""
    remedy: str = ""
    needed: bool = False


def examine() -> list[Finding]:
    """All findings, needed things first. Nothing is downloaded or changed."""
    return [
        _python(),
        *(_package(name, needed=True, remedy="pip install real2gym") for name in ("mujoco", "trimesh", "coacd", "av")),
        _egl(),
        _blender(),
        *_robots(),
        _space(),
        _sam2(),
        *(
            _package(name, needed=False, remedy=f"pip install {name}")
            for name in ("openai", "ray", "robot_descriptions")
        ),
    ]


def _python() -> Finding:
    found = ".".join(str(part) for part in sys.version_info[:3])
    good = sys.version_info[:2] in {(3, 11), (3, 13)}
    return Finding(
        name="Python",
        state="ok" if good else "optional",
        detail=found,
        remedy=""
        if good
        else "Blender's wheel exists for Python 3.11 and 3.13; use one of them, or install Blender 4.2+",
        needed=True,
    )


def _package(name: str, *, needed: bool, remedy: str) -> Finding:
    try:
        return Finding(name=name, state="ok", detail=version(name.replace("_", "-")), needed=needed)
    except PackageNotFoundError:
        return Finding(name=name, state="missing" if needed else "optional", remedy=remedy, needed=needed)


def _egl() -> Finding:
    remedy = f"apt-get install {SYSTEM_PACKAGES}"
    if not sys.platform.startswith("linux"):
        return Finding(name="offscreen rendering", state="ok", detail="native OpenGL", needed=True)
    try:
        ctypes.CDLL("libEGL.so.1")
    except OSError as error:
        return Finding(name="offscreen rendering", state="missing", detail=str(error), remedy=remedy, needed=True)
    return Finding(name="offscreen rendering", state="ok", detail="EGL", needed=True)


def _blender() -> Finding:
    if find_spec("bpy") is not None:
        return Finding(name="Blender", state="ok", detail=f"bpy {version('bpy')} (wheel)", needed=True)
    program = os.environ.get("REAL2GYM_BLENDER") or shutil.which("blender")
    if program:
        return Finding(name="Blender", state="ok", detail=program, needed=True)
    remedy = "pip install 'real2gym[blender]', or install Blender 4.2+ and set REAL2GYM_BLENDER"
    return Finding(name="Blender", state="missing", remedy=remedy, needed=True)


def _robots() -> list[Finding]:
    from mjcf_export.robots import known_robots, load_robot

    findings = []
    for name in known_robots():
        try:
            load_robot(name)
            findings.append(Finding(name=f"robot {name}", state="ok"))
        except Real2GymError as error:
            findings.append(Finding(name=f"robot {name}", state="optional", remedy=str(error)))
    return findings


def _space() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    good = free > FREE_SPACE
    return Finding(
        name="disk",
        state="ok" if good else "missing",
        detail=f"{free / 1024**3:.1f} GiB free",
        remedy="" if good else "a run needs up to 2 GiB: free some space",
        needed=True,
    )


def _sam2() -> Finding:
    checkpoint = os.environ.get("REAL2GYM_SAM2_CHECKPOINT")
    absent = [package for package in ("torch", "sam2") if find_spec(package) is None]
    if absent:
        return Finding(
            name="SAM2", state="optional", detail=f"not installed: {', '.join(absent)}", remedy="make models"
        )
    if not checkpoint:
        remedy = "set REAL2GYM_SAM2_CHECKPOINT to a SAM2 checkpoint (.pt) that you downloaded"
        return Finding(name="SAM2", state="optional", detail="installed, no checkpoint configured", remedy=remedy)
    if not Path(checkpoint).is_file():
        return Finding(name="SAM2", state="optional", detail=f"{checkpoint}: no such file", remedy="correct the path")
    return Finding(name="SAM2", state="ok", detail=checkpoint)
