"""Checks on the Scene's bodies themselves, in their own frames."""

from pathlib import Path

import numpy as np

from mjcf_export.cavities import open_fraction
from mjcf_export.collision import collision_pieces
from mjcf_export.errors import Real2GymError
from mjcf_export.findings import Finding, error, warning
from mjcf_export.inertia import mass_properties
from mjcf_export.meshes import load_mesh
from mjcf_export.scene import Body, Mesh, Scene
from mjcf_export.shapes import cavity, shape_mesh
from mjcf_export.triangles import TriangleMesh

MIN_OPEN = 0.8
OFFSET = 0.002
MANY_FACES = 50_000
MANY_PIECES = 150
DENSITY = (15.0, 12_000.0)
MASS = (0.001, 20.0)


def check(scene: Scene, folder: Path, cache: Path | None) -> list[Finding]:
    """Every finding about single bodies, their joints and their doubles."""
    findings: list[Finding] = []
    for body in scene.bodies:
        try:
            findings += _body(body, folder, cache)
        except Real2GymError as problem:
            findings.append(error("shape-unusable", body.name, str(problem)))
    return findings + _joints(scene) + _robots(scene) + _doubles(scene)


def _body(body: Body, folder: Path, cache: Path | None) -> list[Finding]:
    visual = shape_mesh(body.shape, folder)
    pieces = [piece.surface() for piece in collision_pieces(body.shape, folder, cache)]
    solid = visual
    findings: list[Finding] = []
    if isinstance(body.shape, Mesh):
        loaded = load_mesh(folder, body.shape.file)
        solid = loaded.solid
        kind = error if loaded.substituted else warning
        name = "open-mesh" if loaded.substituted else "mesh-repaired"
        findings += [kind(name, body.name, f"{body.shape.file}: {note}") for note in loaded.notes[-1:]]
        findings += [warning("mesh-repaired", body.name, f"{body.shape.file}: {note}") for note in loaded.notes[:-1]]
    findings += _origin(body, visual) + _scale(body, visual) + _offset(body, visual, pieces)
    findings += _cavity(body, visual, pieces, folder) + _mass(body, solid)
    if len(visual.faces) > MANY_FACES:
        message = f"{len(visual.faces)} faces are slow to draw; decimate below {MANY_FACES}"
        findings.append(warning("too-many-faces", body.name, message, len(visual.faces)))
    if len(pieces) > MANY_PIECES:
        message = f"{len(pieces)} collision pieces make many contacts; simplify the shape (at most {MANY_PIECES})"
        findings.append(warning("too-many-pieces", body.name, message, len(pieces)))
    return findings


def _origin(body: Body, visual: TriangleMesh) -> list[Finding]:
    low, high = visual.vertices.min(axis=0), visual.vertices.max(axis=0)
    offset = np.append((low + high)[:2] / 2, low[2])
    distance = float(np.linalg.norm(offset))
    if distance <= max(OFFSET, 0.02 * float((high - low).max())):
        return []
    return [
        warning(
            "origin-offset",
            body.name,
            f"the shape's bottom centre lies {offset.round(4).tolist()} m from the body's origin; "
            "move the geometry so that the origin is the centre of its bottom",
            distance,
        )
    ]


def _scale(body: Body, visual: TriangleMesh) -> list[Finding]:
    largest = float(visual.extents.max())
    if 0.003 <= largest <= (10.0 if body.static else 2.0):
        return []
    return [warning("scale", body.name, f"is {largest:.4g} m large; are its units metres?", largest)]


def _offset(body: Body, visual: TriangleMesh, pieces: list[TriangleMesh]) -> list[Finding]:
    low = np.min([piece.vertices.min(axis=0) for piece in pieces], axis=0)
    high = np.max([piece.vertices.max(axis=0) for piece in pieces], axis=0)
    difference = np.abs([low - visual.vertices.min(axis=0), high - visual.vertices.max(axis=0)])
    worst = float(difference.max())
    if worst <= max(OFFSET, 0.03 * float(visual.extents.max())):
        return []
    return [
        error(
            "collision-offset",
            body.name,
            f"collision and visual bounds differ by {worst * 1000:.1f} mm; make the collision pieces again",
            worst,
        )
    ]


def _cavity(body: Body, visual: TriangleMesh, pieces: list[TriangleMesh], folder: Path) -> list[Finding]:
    opened = open_fraction(visual, pieces)
    if opened is None:
        if "container" not in body.roles:
            return []
        declared = cavity(body.shape, folder)
        detail = "" if declared is None else ", although its shape declares one"
        return [
            error(
                "no-cavity",
                body.name,
                f"is a container, but nothing fits in: it has no cavity open at the top{detail}",
                0.0,
            )
        ]
    if opened >= MIN_OPEN:
        return []
    return [
        error(
            "cavity-closed",
            body.name,
            f"its collision fills {100 * (1 - opened):.0f} % of the visible cavity: things will rest on top; "
            "decompose it into pieces that keep the cavity open",
            opened,
        )
    ]


def _mass(body: Body, solid: TriangleMesh) -> list[Finding]:
    if body.static:
        return []
    properties = mass_properties(solid, mass=body.mass, density=body.density)
    density = properties.mass / properties.volume
    findings = []
    if not DENSITY[0] <= density <= DENSITY[1]:
        message = (
            f"{properties.mass:.4g} kg in {properties.volume * 1e6:.4g} cm³ is {density:.4g} kg/m³; check mass and size"
        )
        findings.append(warning("mass", body.name, message, properties.mass))
    elif not MASS[0] <= properties.mass <= MASS[1]:
        message = f"weighs {properties.mass:.4g} kg; expected {MASS[0]} to {MASS[1]} kg for a thing that is handled"
        findings.append(warning("mass", body.name, message, properties.mass))
    return findings


def _joints(scene: Scene) -> list[Finding]:
    findings = []
    for joint in scene.joints:
        low, high = joint.range
        if joint.kind == "revolute" and max(abs(low), abs(high), abs(joint.position)) > 2 * np.pi + 1e-6:
            message = f"range {joint.range} and position {joint.position:g} look like degrees; expected radians"
            findings.append(error("degrees", joint.name, message, max(abs(low), abs(high))))
        if low < high and not low - 1e-6 <= joint.position <= high + 1e-6:
            message = f"starts at {joint.position:g}, outside its range {joint.range}"
            findings.append(error("joint-range", joint.name, message, joint.position))
    return findings


def _robots(scene: Scene) -> list[Finding]:
    return [
        error("degrees", robot.name, "joint positions look like degrees; expected radians", max(map(abs, robot.qpos)))
        for robot in scene.robots
        if robot.qpos and max(map(abs, robot.qpos)) > 2 * np.pi + 1e-6
    ]


def _doubles(scene: Scene) -> list[Finding]:
    findings = []
    for i, one in enumerate(scene.bodies):
        for two in scene.bodies[i + 1 :]:
            gap = float(np.linalg.norm(np.subtract(one.pose.position, two.pose.position)))
            if one.shape == two.shape and one.parent == two.parent and gap < 0.001:
                findings.append(error("duplicate", two.name, f"is the same as {one.name}, at the same place", gap))
    return findings
