"""Mass, centre of mass and inertia of a watertight mesh, integrated exactly."""

from dataclasses import dataclass

import numpy as np

from mjcf_export.frames import Array, matrix_quaternion
from mjcf_export.triangles import TriangleMesh


@dataclass(frozen=True, eq=False)
class MassProperties:
    """Mass properties in the body frame.

    Attributes:
        mass: kilograms.
        volume: m³.
        centre: centre of mass `(3,)` in metres.
        inertia: `(3, 3)` kg m² about the centre of mass, body axes.
    """

    mass: float
    volume: float
    centre: Array
    inertia: Array

    def principal(self) -> tuple[Array, Array]:
        """Principal moments `(3,)` that satisfy the triangle inequality, and the quaternion of their axes."""
        moments, axes = np.linalg.eigh(self.inertia)
        if np.linalg.det(axes) < 0:
            axes[:, 0] *= -1
        moments = np.maximum(moments, max(1e-5 * float(moments.max()), 1e-12))
        moments[2] = min(moments[2], (moments[0] + moments[1]) * (1 - 1e-5))
        return moments, matrix_quaternion(axes)


def mass_properties(mesh: TriangleMesh, *, mass: float | None = None, density: float = 500.0) -> MassProperties:
    """Mass properties of a watertight mesh of uniform density.

    Args:
        mesh: watertight, wound outwards.
        mass: kilograms; `density` times the volume when None.
        density: kg/m³.
    """
    origin = mesh.vertices.mean(axis=0)
    a, b, c = np.moveaxis(mesh.triangles - origin, 1, 0)
    volumes = np.einsum("ij,ij->i", a, np.cross(b, c)) / 6
    volume = float(volumes.sum())
    total = a + b + c
    centre = (volumes[:, None] * total).sum(axis=0) / (4 * volume)
    outer = sum(np.einsum("f,fi,fj->ij", volumes, p, p) for p in (a, b, c))
    second = (outer + np.einsum("f,fi,fj->ij", volumes, total, total)) / 20
    second -= volume * np.outer(centre, centre)
    scale = (mass if mass is not None else density * volume) / volume
    inertia = scale * (np.trace(second) * np.eye(3) - second)
    return MassProperties(scale * volume, volume, origin + centre, (inertia + inertia.T) / 2)
