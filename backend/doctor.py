"""What is installed here, which providers are usable, what is missing and how to get it."""

import ctypes
import os
import shutil
import sys
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal

from packaging.requirements import Requirement

from mjcf_export.document import ROOM, Record
from mjcf_export.errors import InputError, Real2GymError

SYSTEM_PACKAGES = "libegl1 libgl1 libgl1-mesa-dri libx11-6 libxrender1 libxfixes3 libxi6 libxkbcommon0 libsm6"
EXTRAS = {"openai": "agent", "ray": "ray"}
WEIGHTS = (
    "download a checkpoint (sam2.1_hiera_tiny.pt, 156 MB, from https://github.com/facebookresearch/sam2) and set "
    "REAL2GYM_SAM2_CHECKPOINT to its path"
)


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
        *_packages(),
        _egl(),
        _blender(),
        *_robots(),
        _space(),
        Finding(name="perception: embedded", state="ok", detail="GrabCut and optical flow, no weights", needed=True),
        examine_sam2(),
        *(_extra(package, extra) for package, extra in EXTRAS.items()),
        _more_robots(),
    ]


def required_packages() -> Iterator[str]:
    """Names of the distributions that the installed product asks for on this Python, extras left out."""
    for requirement in map(Requirement, requires("real2gym") or []):
        if requirement.marker is None or requirement.marker.evaluate({"extra": ""}):
            yield requirement.name


def _packages() -> list[Finding]:
    """One finding for all required packages, or one for each that is missing."""
    try:
        names = sorted(required_packages())
    except PackageNotFoundError:
        return [Finding(name="real2gym", state="missing", remedy="pip install -e .", needed=True)]
    missing = [name for name in names if _version(name) is None]
    if missing:
        return [
            Finding(name=name, state="missing", remedy=f"pip install {name}, or `make setup`", needed=True)
            for name in missing
        ]
    detail = f"{len(names)} installed, among them " + ", ".join(
        f"{name} {_version(name)}" for name in ("mujoco", "numpy", "coacd")
    )
    return [Finding(name="packages", state="ok", detail=detail, needed=True)]


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _python() -> Finding:
    found = ".".join(str(part) for part in sys.version_info[:3])
    good = sys.version_info[:2] in {(3, 11), (3, 13)}
    remedy = "Blender's wheel exists for Python 3.11 and 3.13; use one of them, or install Blender 4.2 or newer"
    return Finding(
        name="Python", state="ok" if good else "optional", detail=found, remedy="" if good else remedy, needed=True
    )


def _extra(package: str, extra: str) -> Finding:
    found = _version(package)
    if found is None:
        return Finding(name=package, state="optional", detail="not installed", remedy=f"pip install -e '.[{extra}]'")
    return Finding(name=package, state="ok", detail=found)


def _more_robots() -> Finding:
    name = "more robots (MuJoCo Menagerie)"
    found = _version("robot-descriptions")
    if found is None:
        remedy = "pip install robot_descriptions; it downloads a model when it is first used"
        return Finding(name=name, state="optional", detail="not installed", remedy=remedy)
    return Finding(name=name, state="ok", detail=f"robot_descriptions {found}")


def _egl() -> Finding:
    """Whether MuJoCo draws a picture here, as every stage that looks at the scene needs."""
    name, remedy = "offscreen rendering", f"apt-get install {SYSTEM_PACKAGES}"
    if sys.platform.startswith("linux"):
        try:
            ctypes.CDLL("libEGL.so.1")
        except OSError as error:
            return Finding(name=name, state="missing", detail=str(error), remedy=remedy, needed=True)
    import mujoco

    try:
        model = mujoco.MjModel.from_xml_string("<mujoco/>")
        with mujoco.Renderer(model, 8, 8) as renderer:
            renderer.update_scene(mujoco.MjData(model))
            renderer.render()
    except Exception as error:  # each graphics library fails in its own way
        return Finding(name=name, state="missing", detail=f"MuJoCo cannot draw: {error}", remedy=remedy, needed=True)
    return Finding(name=name, state="ok", detail=os.environ.get("MUJOCO_GL", "native OpenGL").upper(), needed=True)


def _blender() -> Finding:
    from backend.blender import blender_command

    try:
        command = blender_command()
    except Real2GymError as error:
        return Finding(name="Blender", state="missing", detail="not found", remedy=str(error), needed=True)
    wheel = command[0] == sys.executable
    return Finding(name="Blender", state="ok", detail=f"bpy {version('bpy')}" if wheel else command[0], needed=True)


def _robots() -> list[Finding]:
    from mjcf_export.robots import known_robots, load_robot

    findings = []
    for name in known_robots():
        try:
            robot = load_robot(name)
            grip = f", opens {robot.gripper.stroke * 1000:.0f} mm" if robot.gripper is not None else ""
            detail = f"{len(robot.arm_joints)} joints{grip}"
            findings.append(Finding(name=f"robot {name}", state="ok", detail=detail))
        except Real2GymError as error:
            findings.append(Finding(name=f"robot {name}", state="optional", remedy=str(error)))
    return findings


def _space() -> Finding:
    free = shutil.disk_usage(Path.cwd()).free
    good = free > ROOM
    return Finding(
        name="disk",
        state="ok" if good else "missing",
        detail=f"{free / 1024**3:.1f} GiB free here",
        remedy="" if good else f"a run needs up to {ROOM / 1024**2:.0f} MiB: free {(ROOM - free) / 1024**2:.0f} MiB",
        needed=True,
    )


def examine_sam2() -> Finding:
    """Whether the SAM 2 provider is installed and configured."""
    from backend.perception.sam2_tracker import checkpoint_file, missing_packages, settings

    name = "perception: SAM2"
    absent = missing_packages()
    if absent:
        remedy = f"make models; then {WEIGHTS}"
        return Finding(name=name, state="optional", detail=f"not installed: {', '.join(absent)}", remedy=remedy)
    if settings() is None:
        return Finding(name=name, state="optional", detail="installed, no checkpoint configured", remedy=WEIGHTS)
    try:
        return Finding(name=name, state="ok", detail=str(checkpoint_file()))
    except InputError as error:
        return Finding(name=name, state="optional", detail=str(error), remedy="correct the path, or unset the variable")
