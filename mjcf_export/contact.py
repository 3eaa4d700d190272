"""Solver options and contact settings that hold thin shells and friction grasps (measured values)."""

import mujoco

from mjcf_export.scene import Body, Scene

SOLREF = (0.004, 1.0)
SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)
TORSIONAL, ROLLING = 0.005, 0.0001
CONVEX_TOLERANCE = 1e-8
"""Metres; at MuJoCo's 1e-6 a cylinder held by a flat pad now and then gets a contact 8 mm deep for one step."""


def set_options(spec: mujoco.MjSpec, scene: Scene) -> None:
    """Set the root's options, off-screen buffer and default classes `visual` and `collision`."""
    option = spec.option
    option.timestep = 0.002
    option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    option.solver = mujoco.mjtSolver.mjSOL_NEWTON
    option.cone = mujoco.mjtCone.mjCONE_ELLIPTIC
    option.impratio = 10
    option.ccd_tolerance = CONVEX_TOLERANCE
    spec.compiler.degree = False
    spec.compiler.autolimits = True
    spec.meshdir = spec.texturedir = "assets"
    view = spec.visual.global_
    view.offwidth = max([640, *(camera.width for camera in scene.cameras)])
    view.offheight = max([480, *(camera.height for camera in scene.cameras)])
    spec.stat.extent = 1.0
    spec.visual.map.znear = 0.01
    spec.visual.map.zfar = 50.0
    if spec.find_default("visual") is None:
        _add_classes(spec)


def _add_classes(spec: mujoco.MjSpec) -> None:
    visual = spec.add_default("visual", spec.default)
    visual.geom.contype = visual.geom.conaffinity = 0
    visual.geom.group = 2
    visual.geom.density = 0
    collision = spec.add_default("collision", spec.default)
    collision.geom.group = 3
    collision.geom.solref[:] = SOLREF
    collision.geom.solimp[:] = SOLIMP
    collision.geom.rgba = (0.4, 0.5, 0.7, 0.4)


def set_friction(geom: mujoco.MjsGeom, body: Body) -> None:
    """Friction of `body`; torsional friction acts where the body moves.

    A moving body's priority is above a gripper's, so that what it is made of decides whether it can be held.
    """
    geom.condim = 3 if body.static else 4
    geom.priority = 0 if body.static else 2
    geom.friction = (body.friction, TORSIONAL, ROLLING)
