"""Meshes for the export bench: made here (mug, bowl, bottle, tray, caddy, hook), and YCB scans when they are there."""

import os
from pathlib import Path
from typing import Any

import numpy as np

from mjcf_export.errors import MissingError
from mjcf_export.meshes import load_mesh
from mjcf_export.solids import from_manifold
from mjcf_export.surfaces import tray_surface, turned_surface
from mjcf_export.triangles import TriangleMesh

YCB = ("025_mug", "035_power_drill", "004_sugar_box", "011_banana")
YCB_FILE = "textured_simple_2000.obj"
SIDES = 64


def bench_meshes() -> dict[str, TriangleMesh]:
    """Watertight meshes by name, metres."""
    made = {"mug": _mug(), "bowl": _bowl(), "bottle": _bottle(), "tray": _tray(), "caddy": _caddy(), "hook": _hook()}
    return made | _scans()


def _scans() -> dict[str, TriangleMesh]:
    """YCB objects, from `$REAL2GYM_YCB` or the shared data folder, for which every file is there."""
    root = Path(os.environ.get("REAL2GYM_YCB", Path(__file__).resolve().parents[3] / "shared" / "data" / "ycb_2k"))
    return {f"ycb_{name}": load_mesh(root / name, YCB_FILE).mesh for name in YCB if (root / name / YCB_FILE).is_file()}


def _package() -> Any:
    try:
        import manifold3d
    except ImportError as error:
        raise MissingError("bench export: making its meshes needs manifold3d (pip install manifold3d)") from error
    return manifold3d.Manifold


def _mug() -> TriangleMesh:
    solid = _package()
    body = solid.cylinder(0.095, 0.041, circular_segments=SIDES)
    handle = (
        solid.revolve(_circle(0.005).translate((0.028, 0.0)), SIDES).rotate((90, 0, 0)).translate((0.045, 0, 0.048))
    )
    room = solid.cylinder(0.1, 0.037, circular_segments=SIDES).translate((0, 0, 0.005))
    return from_manifold((body + handle) - room)


def _circle(radius: float) -> Any:
    _package()
    import manifold3d

    return manifold3d.CrossSection.circle(radius, 24)


def _bowl() -> TriangleMesh:
    height, wall = 0.055, 0.004
    z = np.linspace(0, height, 14)
    outer = np.column_stack([0.03 + 0.045 * np.sqrt(z / height), z])
    rise = np.linspace(0.005, height, 14)
    inner = np.column_stack([np.interp(rise, z, outer[:, 0]) - wall, rise])
    return turned_surface(outer, inner, SIDES)


def _bottle() -> TriangleMesh:
    profile = [(0.03, 0), (0.033, 0.005), (0.033, 0.12), (0.03, 0.13), (0.02, 0.145), (0.012, 0.16), (0.012, 0.19)]
    return turned_surface(np.array(profile), None, SIDES)


def _tray() -> TriangleMesh:
    return tray_surface((0.3, 0.2, 0.05), 0.005, 0.005)


def _caddy() -> TriangleMesh:
    """A box with two compartments and a bar to carry it by."""
    solid = _package()
    body = solid.cube((0.2, 0.12, 0.08), True).translate((0, 0, 0.04))
    room = solid.cube((0.09, 0.108, 0.08), True)
    body = body - room.translate((0.0485, 0, 0.046)) - room.translate((-0.0485, 0, 0.046))
    bar = solid.cylinder(0.19, 0.006, circular_segments=24, center=True).rotate((0, 90, 0)).translate((0, 0, 0.15))
    posts = [solid.cube((0.008, 0.02, 0.09), True).translate((x, 0, 0.115)) for x in (-0.096, 0.096)]
    return from_manifold(body + bar + posts[0] + posts[1])


def _hook() -> TriangleMesh:
    """Three quarters of a ring on a rod."""
    solid = _package()
    ring = solid.revolve(_circle(0.006).translate((0.03, 0.0)), SIDES, 270.0)
    rod = solid.cylinder(0.1, 0.006, circular_segments=24).rotate((90, 0, 0)).translate((0.03, 0.0, 0.0))
    return from_manifold((ring + rod).translate((0, 0, 0.006)))
