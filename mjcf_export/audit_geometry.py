"""Checks on a compiled model: inertia, cavities, offsets, angles, face counts."""

import mujoco
import numpy as np

from mjcf_export.cavities import open_fraction
from mjcf_export.findings import Finding, error, warning
from mjcf_export.frames import Array, quaternion_matrix
from mjcf_export.surfaces import box_surface, turned_surface
from mjcf_export.triangles import TriangleMesh, is_convex, open_edges

MIN_OPEN = 0.8
MANY_FACES = 200_000
MASS = (1e-4, 200.0)
_HINGE, _FREE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_FREE)
_BOX, _CYLINDER = int(mujoco.mjtGeom.mjGEOM_BOX), int(mujoco.mjtGeom.mjGEOM_CYLINDER)
_SPHERE, _MESH = int(mujoco.mjtGeom.mjGEOM_SPHERE), int(mujoco.mjtGeom.mjGEOM_MESH)


def check(spec: mujoco.MjSpec, model: mujoco.MjModel) -> list[Finding]:
    """Every finding about the geometry and masses of `model`, compiled from `spec`."""
    findings = joint_ranges(model) + _inertia(spec, model) + _faces(model) + _masses(model)
    actuated = _actuated_bodies(model)
    for body in range(1, model.nbody):
        findings += _offset(model, body)
        if body not in actuated:
            findings += _cavity(model, body)
    return findings


def joint_ranges(model: mujoco.MjModel) -> list[Finding]:
    """Hinge ranges that are degrees read as radians, or radians read as degrees."""
    hinges = [j for j in range(model.njnt) if int(model.jnt_type[j]) == _HINGE and model.jnt_limited[j]]
    findings = []
    for joint in hinges:
        largest = float(np.abs(model.jnt_range[joint]).max())
        if largest > 4 * np.pi:
            name = model.joint(joint).name or f"joint {joint}"
            message = f"range reaches {largest:.1f} rad: degrees read as radians? set <compiler angle>"
            findings.append(error("degrees", name, message, largest))
    widest = max((float(np.abs(model.jnt_range[j]).max()) for j in hinges), default=np.inf)
    if widest < np.deg2rad(2 * np.pi) and len(hinges) > 1:
        message = f"no hinge turns further than {widest:.3f} rad: radians read as degrees? set <compiler angle>"
        findings.append(error("degrees", f"{len(hinges)} hinges", message, widest))
    return findings


def collides(model: mujoco.MjModel, geom: int) -> bool:
    """Whether a geom takes part in contacts."""
    return bool(model.geom_contype[geom] or model.geom_conaffinity[geom])


def geoms_of(model: mujoco.MjModel, body: int) -> range:
    """Geom ids of a body."""
    start = int(model.body_geomadr[body])
    return range(start, start + int(model.body_geomnum[body])) if start >= 0 else range(0)


def mesh_arrays(model: mujoco.MjModel, mesh: int, hull: bool = False) -> TriangleMesh:
    """A mesh of the compiled model in its own (recentred) frame, or the convex hull it collides as."""
    first, count = int(model.mesh_vertadr[mesh]), int(model.mesh_vertnum[mesh])
    vertices = model.mesh_vert[first : first + count].astype(np.float64)
    graph = int(model.mesh_graphadr[mesh])
    if hull and graph >= 0:
        points, triangles = (int(v) for v in model.mesh_graph[graph : graph + 2])
        start = graph + 2 + 3 * points + 3 * triangles
        faces = model.mesh_graph[start : start + 3 * triangles].reshape(-1, 3)
    else:
        start = int(model.mesh_faceadr[mesh])
        faces = model.mesh_face[start : start + int(model.mesh_facenum[mesh])]
    return TriangleMesh(vertices, faces.astype(np.int64))


def geom_surface(model: mujoco.MjModel, geom: int, hull: bool) -> TriangleMesh | None:
    """The surface of a geom in its body's frame; None for kinds without one here (plane, height field)."""
    kind, size = int(model.geom_type[geom]), model.geom_size[geom]
    if kind == _MESH:
        local = mesh_arrays(model, int(model.geom_dataid[geom]), hull)
    elif kind == _BOX:
        local = _lowered(box_surface([float(2 * s) for s in size]), float(size[2]))
    elif kind == _CYLINDER:
        profile = np.array([[size[0], 0.0], [size[0], 2 * size[1]]])
        local = _lowered(turned_surface(profile, None, 32), float(size[1]))
    elif kind == _SPHERE:
        angles = np.linspace(0, np.pi, 13)
        profile = float(size[0]) * np.column_stack([np.sin(angles), 1 - np.cos(angles)])
        profile[[0, -1], 0] = 0.0
        local = _lowered(turned_surface(profile, None, 24), float(size[0]))
    else:
        return None
    matrix = np.eye(4)
    matrix[:3, :3] = quaternion_matrix(model.geom_quat[geom])
    matrix[:3, 3] = model.geom_pos[geom]
    return local.moved(matrix)


def _lowered(mesh: TriangleMesh, half: float) -> TriangleMesh:
    return TriangleMesh(mesh.vertices - [0.0, 0.0, half], mesh.faces)


def _inertia(spec: mujoco.MjSpec, model: mujoco.MjModel) -> list[Finding]:
    """Bodies whose inertia MuJoCo takes from meshes that are open, or concave under the legacy rule."""
    findings: dict[tuple[str, str], Finding] = {}
    legacy = mujoco.mjtMeshInertia.mjMESH_INERTIA_LEGACY
    rules = {mesh.name: int(mesh.inertia) for mesh in spec.meshes}
    actuated = _actuated_bodies(model)
    for body in spec.bodies:
        if body.explicitinertial or not model.body_weldid[body.id] or not model.body_mass[body.id]:
            continue
        for geom in body.geoms:
            if int(geom.type) != _MESH or geom.mass == 0 or not geom.meshname:
                continue
            index = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_MESH, geom.meshname)
            massless = geom.classname is not None and geom.density == 0
            if index < 0 or massless:
                continue
            follows_legacy = rules.get(geom.meshname, int(legacy)) == int(legacy)
            for finding in _mesh_inertia(model, index, body.name, follows_legacy):
                severity = "warning" if body.id in actuated else "error"
                findings.setdefault((body.name, finding.check), finding.model_copy(update={"severity": severity}))
    return list(findings.values())


def _mesh_inertia(model: mujoco.MjModel, mesh: int, body: str, legacy: bool) -> list[Finding]:
    surface = _welded(mesh_arrays(model, mesh))
    name = model.mesh(mesh).name
    gaps = open_edges(surface.faces)
    if gaps:
        message = f"its inertia comes from mesh {name}, which is open ({gaps} free edges): close it or give an inertial"
        return [error("open-mesh-inertia", body, message, gaps)]
    if legacy and not is_convex(surface, 5e-3):
        message = (
            f'its inertia comes from concave mesh {name} under the legacy rule: set inertia="exact" or an inertial'
        )
        return [error("legacy-inertia", body, message)]
    return []


def _welded(mesh: TriangleMesh) -> TriangleMesh:
    _, first, index = np.unique(mesh.vertices.round(7), axis=0, return_index=True, return_inverse=True)
    faces = index.reshape(-1)[mesh.faces]
    keep = (faces != np.roll(faces, 1, axis=1)).all(axis=1)
    return TriangleMesh(mesh.vertices[first], faces[keep])


def _faces(model: mujoco.MjModel) -> list[Finding]:
    return [
        warning(
            "too-many-faces",
            model.mesh(mesh).name,
            f"{int(model.mesh_facenum[mesh])} faces are slow to draw and to compile; decimate it",
            float(model.mesh_facenum[mesh]),
        )
        for mesh in range(model.nmesh)
        if model.mesh_facenum[mesh] > MANY_FACES // 2
    ]


def _masses(model: mujoco.MjModel) -> list[Finding]:
    findings = []
    for body in range(1, model.nbody):
        mass = float(model.body_subtreemass[body])
        if _is_free(model, body) and not MASS[0] <= mass <= MASS[1]:
            message = f"weighs {mass:.4g} kg; expected {MASS[0]} to {MASS[1]} kg for a thing that moves freely"
            findings.append(warning("mass", model.body(body).name, message, mass))
    return findings


def _is_free(model: mujoco.MjModel, body: int) -> bool:
    address = int(model.body_jntadr[body])
    return address >= 0 and int(model.jnt_type[address]) == _FREE


def _actuated_bodies(model: mujoco.MjModel) -> set[int]:
    """Bodies of every kinematic tree in which an actuator moves a joint: robots, from their base to their fingers."""
    driven = {
        int(model.body_rootid[model.jnt_bodyid[model.actuator_trnid[a, 0]]])
        for a in range(model.nu)
        if int(model.actuator_trntype[a]) == int(mujoco.mjtTrn.mjTRN_JOINT)
    }
    return {body for body in range(1, model.nbody) if int(model.body_rootid[body]) in driven}


def _offset(model: mujoco.MjModel, body: int) -> list[Finding]:
    geoms = geoms_of(model, body)
    visual = _bounds(model, [g for g in geoms if not collides(model, g) and int(model.geom_type[g]) == _MESH])
    solid = _bounds(model, [g for g in geoms if collides(model, g)])
    if visual is None or solid is None:
        return []
    size = float((visual[1] - visual[0]).max())
    centre = float(np.linalg.norm(visual.mean(axis=0) - solid.mean(axis=0)))
    if centre <= max(0.003, 0.15 * size):
        return []
    message = f"collision lies {centre * 1000:.1f} mm from what is drawn; check mesh origins and geom poses"
    return [error("collision-offset", model.body(body).name, message, centre)]


def _bounds(model: mujoco.MjModel, geoms: list[int]) -> Array | None:
    surfaces = [surface for g in geoms if (surface := geom_surface(model, g, hull=False)) is not None]
    if not surfaces:
        return None
    points = np.concatenate([surface.vertices for surface in surfaces])
    bounds: Array = np.stack([points.min(axis=0), points.max(axis=0)])
    return bounds


def _cavity(model: mujoco.MjModel, body: int) -> list[Finding]:
    geoms = geoms_of(model, body)
    solid = [s for g in geoms if collides(model, g) and (s := geom_surface(model, g, hull=True)) is not None]
    drawn = [g for g in geoms if not collides(model, g) and int(model.geom_type[g]) == _MESH]
    drawn = drawn or [g for g in geoms if int(model.geom_type[g]) == _MESH]
    if not drawn or not solid:
        return []
    surfaces = [s for g in drawn if (s := geom_surface(model, g, hull=False)) is not None]
    opened = open_fraction(_joined(surfaces), solid)
    if opened is None or opened >= MIN_OPEN:
        return []
    message = (
        f"its collision fills {100 * (1 - opened):.0f} % of the visible cavity: a mesh collides as its convex hull; "
        "decompose it into convex pieces"
    )
    return [error("cavity-closed", model.body(body).name, message, opened)]


def _joined(meshes: list[TriangleMesh]) -> TriangleMesh:
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes[:-1])])
    faces = [mesh.faces + start for mesh, start in zip(meshes, starts, strict=True)]
    return TriangleMesh(np.concatenate([mesh.vertices for mesh in meshes]), np.concatenate(faces))
