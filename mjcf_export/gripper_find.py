"""Find the two-finger gripper of a robot that does not say where it is: actuator, pads, pinch point."""

from dataclasses import dataclass

import mujoco
import numpy as np

from mjcf_export.frames import Array, matrix_quaternion
from mjcf_export.gripper import TCP, Fingers, free_model, geom_points, settle

TIP_BAND = 0.025
PAD_DEPTH = 0.02
SNAP = np.cos(np.deg2rad(5))


@dataclass(frozen=True)
class FoundGripper:
    """A gripper's parts and its tcp in the palm's frame."""

    fingers: Fingers
    tcp_position: Array
    tcp_quaternion: Array


def find_gripper(spec: mujoco.MjSpec) -> FoundGripper | None:
    """The outermost pair of fingers that one actuator moves, or None.

    A gripper is what an actuator moves through a tendon or coupled joints, below one palm, with no other driven
    joint beyond it, and with two bodies whose tips move towards each other.
    """
    model = spec.compile()
    for actuator in reversed(range(model.nu)):
        joints = _driven_joints(model, actuator)
        palm = _palm(model, joints) if len(joints) > 1 else 0
        if palm and not _others_below(model, palm, actuator, joints):
            found = _measure(spec, model, actuator, palm)
            if found is not None:
                return found
    return None


def _driven_joints(model: mujoco.MjModel, actuator: int) -> set[int]:
    target = int(model.actuator_trnid[actuator, 0])
    kind = int(model.actuator_trntype[actuator])
    joints: set[int] = set()
    if kind == int(mujoco.mjtTrn.mjTRN_JOINT):
        joints = {target}
    elif kind == int(mujoco.mjtTrn.mjTRN_TENDON):
        start, count = int(model.tendon_adr[target]), int(model.tendon_num[target])
        wraps = range(start, start + count)
        joints = {
            int(model.wrap_objid[wrap])
            for wrap in wraps
            if int(model.wrap_type[wrap]) == int(mujoco.mjtWrap.mjWRAP_JOINT)
        }
    size = -1
    while len(joints) != size:
        size = len(joints)
        for index in range(model.neq):
            pair = {int(model.eq_obj1id[index]), int(model.eq_obj2id[index])}
            if int(model.eq_type[index]) == int(mujoco.mjtEq.mjEQ_JOINT) and pair & joints and min(pair) >= 0:
                joints |= pair
    return joints


def _ancestors(model: mujoco.MjModel, body: int) -> list[int]:
    chain = [body]
    while body:
        body = int(model.body_parentid[body])
        chain.append(body)
    return chain


def _palm(model: mujoco.MjModel, joints: set[int]) -> int:
    """The deepest body that carries every one of the joints' bodies."""
    chains = [_ancestors(model, int(model.body_parentid[model.jnt_bodyid[joint]])) for joint in joints]
    shared = set(chains[0]).intersection(*chains[1:])
    return next(body for body in chains[0] if body in shared)


def _others_below(model: mujoco.MjModel, palm: int, actuator: int, joints: set[int]) -> bool:
    for other in range(model.nu):
        if other != actuator and int(model.actuator_trntype[other]) == int(mujoco.mjtTrn.mjTRN_JOINT):
            joint = int(model.actuator_trnid[other, 0])
            if joint not in joints and palm in _ancestors(model, int(model.jnt_bodyid[joint]))[1:]:
                return True
    return False


def _measure(spec: mujoco.MjSpec, full: mujoco.MjModel, actuator: int, palm: int) -> FoundGripper | None:
    """Close and open the fingers in free space and read off tips, closing axis and pinch point."""
    palm_name, actuator_name = full.body(palm).name, full.actuator(actuator).name
    named = _name_geoms(spec)
    model = free_model(named, tuple(joint.name for joint in named.body(palm_name).find_all("joint")))
    data = mujoco.MjData(model)
    driven, base = model.actuator(actuator_name).id, model.body(palm_name).id
    geoms = _finger_geoms(model, base)
    if not geoms:
        return None
    postures = []
    for control in model.actuator_ctrlrange[driven]:
        settle(model, data, driven, float(control))
        frame, origin = data.xmat[base].reshape(3, 3), data.xpos[base]
        postures.append({geom: (geom_points(model, data, geom) - origin) @ frame for geom in geoms})
    spans = [_tip_span(points) for points in postures]
    wide, narrow = (postures[int(np.argmax(spans))], postures[int(np.argmin(spans))])
    if max(spans) - min(spans) < 1e-3:
        return None
    return _describe(model, palm_name, actuator_name, wide, narrow)


def _finger_geoms(model: mujoco.MjModel, palm: int) -> list[int]:
    """Geoms of the bodies that move against the palm."""
    fixed = int(model.body_weldid[palm])
    bodies = [
        body
        for body in range(model.nbody)
        if palm in _ancestors(model, body)[1:] and int(model.body_weldid[body]) != fixed
    ]
    return [geom for geom in range(model.ngeom) if int(model.geom_bodyid[geom]) in bodies]


def _name_geoms(spec: mujoco.MjSpec) -> mujoco.MjSpec:
    """Give every collision geom a name, in place: pads are known by theirs."""
    for body in spec.bodies[1:]:
        for index, geom in enumerate(body.geoms):
            geom.name = geom.name or f"{body.name}/geom{index}"
    return spec


def _approach(points: dict[int, Array]) -> Array:
    """The palm axis along which the fingers stick out."""
    centre = np.mean([item.mean(axis=0) for item in points.values()], axis=0)
    axis = np.zeros(3)
    strongest = int(np.argmax(np.abs(centre)))
    axis[strongest] = np.sign(centre[strongest])
    return axis


def _tips(points: dict[int, Array], axis: Array) -> dict[int, Array]:
    """Points within the tip band of either finger, by geom."""
    start = max(float((item @ axis).max()) for item in points.values()) - TIP_BAND
    tips = {geom: item[item @ axis > start] for geom, item in points.items()}
    return {geom: item for geom, item in tips.items() if len(item)}


def _tip_span(points: dict[int, Array]) -> float:
    """How far apart the tips are, whatever the direction."""
    axis = _approach(points)
    centres = np.array([item.mean(axis=0) for item in _tips(points, axis).values()])
    across = centres - np.outer(centres @ axis, axis)
    return float(np.linalg.norm(np.ptp(across, axis=0)))


def _describe(
    model: mujoco.MjModel, palm: str, actuator: str, wide: dict[int, Array], narrow: dict[int, Array]
) -> FoundGripper | None:
    z = _approach(wide)
    y, sides = _closing(_tips(wide, z), z)
    if not all(sides.values()):
        return None
    x = np.cross(y, z)
    pads = {side: _pad_geoms(wide, geoms, z) for side, geoms in sides.items()}
    closed = np.concatenate([narrow[geom] for geoms in pads.values() for geom in geoms])
    low, far = float((closed @ z).min()), float((closed @ z).max())
    band = closed[closed @ z > far - PAD_DEPTH]
    left = min(float((narrow[geom] @ y).min()) for geom in pads["left"])
    right = max(float((narrow[geom] @ y).max()) for geom in pads["right"])
    position = x * _middle(band @ x) + y * (left + right) / 2 + z * (far + max(low, far - PAD_DEPTH)) / 2
    names = {side: tuple(model.geom(geom).name for geom in geoms) for side, geoms in pads.items()}
    rotation = matrix_quaternion(np.column_stack([x, y, z]))
    return FoundGripper(Fingers(palm, actuator, names, PAD_DEPTH), position, rotation)


def _closing(tips: dict[int, Array], z: Array) -> tuple[Array, dict[str, list[int]]]:
    """The direction across the tips, and the tip geoms on its positive (left) and negative side."""
    centres = {geom: points.mean(axis=0) for geom, points in tips.items()}
    values = np.array(list(centres.values()))
    across = values - np.outer(values @ z, z)
    _, _, axes = np.linalg.svd(across - across.mean(axis=0), full_matrices=False)
    y = _snap(axes[0] - (axes[0] @ z) * z)
    middle = _middle(values @ y)
    left = [geom for geom, centre in centres.items() if centre @ y > middle]
    right = [geom for geom, centre in centres.items() if centre @ y < middle]
    return y, {"left": left, "right": right}


def _middle(values: Array) -> float:
    return float(values.max() + values.min()) / 2


def _pad_geoms(points: dict[int, Array], geoms: list[int], axis: Array) -> list[int]:
    """The geoms that make the fingertip: those centred in the tip band, else the one that reaches farthest."""
    far = max(float((points[geom] @ axis).max()) for geom in geoms)
    centred = [geom for geom in geoms if float((points[geom] @ axis).mean()) > far - TIP_BAND]
    return centred or [max(geoms, key=lambda geom: float((points[geom] @ axis).max()))]


def _snap(axis: Array) -> Array:
    """The direction, made one of the palm's axes when it is within a few degrees of it, and pointing positive."""
    unit: Array = axis / np.linalg.norm(axis)
    strongest = int(np.argmax(np.abs(unit)))
    if abs(unit[strongest]) > SNAP:
        unit = np.eye(3)[strongest]
    return unit if unit[strongest] > 0 else -unit


def add_tcp(spec: mujoco.MjSpec, found: FoundGripper) -> None:
    """Add the `tcp` site of a gripper that was found."""
    spec.body(found.fingers.body).add_site(name=TCP, pos=found.tcp_position, quat=found.tcp_quaternion)
