"""What contact needs of a robot: stiff, frictional gripper geoms; no geoms that collide at rest."""

from itertools import combinations

import mujoco

from mjcf_export.gripper import Fingers

SOLREF = (0.004, 1.0)
SOLIMP = (0.95, 0.99, 0.001, 0.5, 2.0)
GRIPPER_FRICTION = (0.7, 0.02, 0.0001)
VISUAL_GROUP = 2
COLLISION_GROUP = 3


def is_collision(geom: mujoco.MjsGeom) -> bool:
    """Whether the geom can touch anything."""
    return bool(geom.contype or geom.conaffinity)


def stiffen(spec: mujoco.MjSpec) -> None:
    """Contact of every collision geom stiff enough for thin shells (see PHYSICS 2.3); geom groups put in order."""
    for geom in spec.geoms:
        if is_collision(geom):
            geom.solref = SOLREF
            geom.solimp = SOLIMP
            geom.group = COLLISION_GROUP
        else:
            geom.group = VISUAL_GROUP


def grip(body: mujoco.MjsBody) -> None:
    """Friction with torsion, and priority over the object's, on every collision geom from `body` outwards."""
    for geom in body.find_all("geom"):
        if is_collision(geom):
            geom.condim = 4
            geom.friction = GRIPPER_FRICTION
            geom.priority = 1


def exclude_resting_pairs(spec: mujoco.MjSpec, joints: dict[str, float], margin: float = 0.0) -> list[tuple[str, str]]:
    """Exclude the body pairs that already touch with the joints at these positions.

    Returns:
        The pairs of body names that were added.
    """
    bare = spec.copy()
    for geom in [geom for geom in bare.geoms if not is_collision(geom)]:
        bare.delete(geom)
    model = bare.compile()
    data = mujoco.MjData(model)
    for name, value in joints.items():
        data.qpos[model.joint(name).qposadr[0]] = value
    mujoco.mj_forward(model, data)
    pairs = set()
    for contact in data.contact[: data.ncon]:
        if contact.dist <= margin:
            first, second = sorted(int(model.geom_bodyid[geom]) for geom in contact.geom)
            pairs.add((model.body(first).name, model.body(second).name))
    _exclude(spec, sorted(pairs))
    return sorted(pairs)


def float_links(spec: mujoco.MjSpec) -> None:
    """Gravity compensation on every body, as the robot's own controller does."""
    for body in spec.bodies[1:]:
        body.gravcomp = 1.0


def exclude_base_neighbours(spec: mujoco.MjSpec) -> None:
    """Exclude the fixed base against the first moving links, which MuJoCo filters only for moving parents."""
    model = spec.compile()
    fixed = [body for body in range(1, model.nbody) if model.body_weldid[body] == 0 and model.body_geomnum[body]]
    first = [
        body
        for body in range(1, model.nbody)
        if model.body_weldid[body] != 0
        and model.body_weldid[model.body_parentid[model.body_weldid[body]]] == 0
        and model.body_geomnum[body]
    ]
    _exclude(spec, [(model.body(a).name, model.body(b).name) for a in fixed for b in first])


def exclude_within(spec: mujoco.MjSpec, fingers: Fingers) -> None:
    """Exclude everything inside a gripper against itself, but for pad against pad."""
    owners = {name: side for side, names in fingers.pads.items() for name in names}
    palm = spec.body(fingers.body)
    bodies = [body for body in (palm, *palm.find_all("body")) if any(is_collision(geom) for geom in body.geoms)]
    side = {body.name: owners[geom.name] for body in bodies for geom in body.geoms if geom.name in owners}
    pairs = [
        (a.name, b.name)
        for a, b in combinations(bodies, 2)
        if not (a.name in side and b.name in side and side[a.name] != side[b.name])
    ]
    _exclude(spec, pairs)


def _exclude(spec: mujoco.MjSpec, pairs: list[tuple[str, str]]) -> None:
    known = {frozenset((item.bodyname1, item.bodyname2)) for item in spec.excludes}
    for first, second in pairs:
        if frozenset((first, second)) not in known:
            known.add(frozenset((first, second)))
            spec.add_exclude(bodyname1=first, bodyname2=second)
