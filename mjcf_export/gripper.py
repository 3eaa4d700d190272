"""A two-finger gripper: opening in metres to control and back, measured on the compiled model."""

from dataclasses import dataclass, field

import mujoco
import numpy as np

from mjcf_export.errors import InputError
from mjcf_export.frames import Array

TCP = "tcp"
SAMPLES = 33
SETTLE_STEPS = 1500
SETTLED_SPEED = 1e-5
LOCKED_ARMATURE = 1e6


@dataclass(frozen=True)
class Fingers:
    """Which actuator and pad geoms make a gripper, and the body it starts at.

    `depth` metres from the tip inwards count as the pad, where the geoms are more than the pad.
    """

    body: str
    actuator: str
    pads: dict[str, tuple[str, ...]]
    depth: float | None = None


@dataclass(frozen=True)
class Pad:
    """One finger's pad: its geoms and the near and far edge of its inner face, fixed in `body` (metres).

    `side` is +1 on the tcp's +Y side and -1 on the other.
    """

    body: str
    geoms: tuple[str, ...]
    edges: tuple[tuple[float, float, float], ...]
    side: int

    def in_tcp(self, model: mujoco.MjModel, data: mujoco.MjData, prefix: str) -> Array:
        """The edges' middles `(2, 3)` now, in the tcp frame."""
        body = model.body(prefixed(prefix, self.body)).id
        world = data.xpos[body] + np.array(self.edges) @ data.xmat[body].reshape(3, 3).T
        tcp = data.site(prefixed(prefix, TCP))
        local: Array = (world - tcp.xpos) @ tcp.xmat.reshape(3, 3)
        return local


@dataclass(frozen=True)
class Gripper:
    """Two pads that close along the tcp's Y, driven by one actuator.

    The opening is the narrowest gap between the pads' faces. The table holds, for free fingers and each sampled
    control, the opening (m, negative where the pads would pass through each other), the pads' centre along tcp +Z
    from the tcp origin (m), and the finger joints' positions.
    """

    actuator: str
    stroke: float
    pads: dict[str, tuple[str, ...]]
    faces: dict[str, Pad]
    joints: tuple[str, ...]
    control: Array = field(repr=False)
    openings: Array = field(repr=False)
    offsets: Array = field(repr=False)
    positions: Array = field(repr=False)

    @property
    def closed_control(self) -> float:
        """The control that squeezes hardest."""
        return float(self.control[np.argmin(self.openings)])

    @property
    def open_control(self) -> float:
        """The control that opens widest."""
        return float(self.control[np.argmax(self.openings)])

    @property
    def pad_length(self) -> float:
        """Metres from the pads' near edge to their tip."""
        return min(float(np.ptp(np.array(pad.edges), axis=0).max()) for pad in self.faces.values())

    def command(self, opening_m: float) -> float:
        """Control for an opening in metres; zero and less squeeze with the full force, beyond the stroke is clipped."""
        return self.closed_control if opening_m <= 0 else self._lookup(opening_m, self.control)

    def pad_offset(self, opening_m: float) -> float:
        """Metres along tcp +Z from the tcp's origin to the pads' centre at this opening."""
        return self._lookup(max(opening_m, 0.0), self.offsets)

    def joint_positions(self, opening_m: float) -> dict[str, float]:
        """Positions of the finger joints at this opening, by joint name without the robot's prefix."""
        width = max(opening_m, 0.0)
        return {name: self._lookup(width, self.positions[:, column]) for column, name in enumerate(self.joints)}

    def opening(self, model: mujoco.MjModel, data: mujoco.MjData, prefix: str = "") -> float:
        """Metres between the pads now, along the tcp's Y; `prefix` is the robot's name in `model`."""
        return sum(float((pad.side * pad.in_tcp(model, data, prefix)[:, 1]).min()) for pad in self.faces.values())

    def _lookup(self, opening_m: float, values: Array) -> float:
        order = np.argsort(self.openings)
        return float(np.interp(opening_m, self.openings[order], values[order]))


def prefixed(prefix: str, name: str) -> str:
    """`name` under a robot called `prefix` (with or without its trailing slash); unchanged when empty."""
    return f"{prefix}/{name}" if prefix and not prefix.endswith("/") else prefix + name


def measure_gripper(spec: mujoco.MjSpec, fingers: Fingers) -> Gripper:
    """Sweep the gripper's actuator on a free copy of the robot and record what the pads do.

    Args:
        spec: the robot, with a `tcp` site and named pad geoms; left untouched.
        fingers: the gripper's body, actuator and pads.

    Raises:
        InputError: the actuator has no control range or does not move the pads.
    """
    joints = tuple(joint.name for joint in spec.body(fingers.body).find_all("joint"))
    model = free_model(spec, joints)
    driven = model.actuator(fingers.actuator).id
    low, high = (float(value) for value in model.actuator_ctrlrange[driven])
    if not high > low:
        raise InputError(f"gripper actuator {fingers.actuator}: has no control range; give it ctrlrange")
    data = mujoco.MjData(model)
    controls = np.linspace(low, high, SAMPLES)
    settle(model, data, driven, low)
    faces = _pad_faces(model, data, fingers)
    addresses = [int(model.joint(name).qposadr[0]) for name in joints]
    openings, offsets, positions = np.zeros(SAMPLES), np.zeros(SAMPLES), np.zeros((SAMPLES, len(joints)))
    for row, control in enumerate(controls):
        settle(model, data, driven, control)
        edges = {side: pad.in_tcp(model, data, "") for side, pad in faces.items()}
        openings[row] = sum(float((faces[side].side * edges[side][:, 1]).min()) for side in faces)
        offsets[row] = np.mean([edges[side][:, 2] for side in faces])
        positions[row] = data.qpos[addresses]
    stroke = round(float(openings.max()), 4)
    if stroke - max(float(openings.min()), 0.0) < 1e-3:
        raise InputError(
            f"gripper actuator {fingers.actuator}: moves its pads by less than 1 mm; check the pads and joints"
        )
    return Gripper(fingers.actuator, stroke, dict(fingers.pads), faces, joints, controls, openings, offsets, positions)


def free_model(spec: mujoco.MjSpec, joints: tuple[str, ...]) -> mujoco.MjModel:
    """The robot in free space: no gravity, contact or visuals, every joint but the fingers' too heavy to move."""
    copy = spec.copy()
    for geom in [geom for geom in copy.geoms if geom.contype == 0 and geom.conaffinity == 0]:
        copy.delete(geom)
    copy.option.gravity = (0.0, 0.0, 0.0)
    copy.option.timestep = 0.002
    copy.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    copy.option.disableflags = int(mujoco.mjtDisableBit.mjDSBL_CONTACT)
    model = copy.compile()
    locked = [index for index in range(model.njnt) if model.joint(index).name not in joints]
    model.jnt_limited[locked] = 0
    model.dof_armature[[int(model.jnt_dofadr[index]) for index in locked]] += LOCKED_ARMATURE
    for index in range(model.nu):
        if int(model.actuator_trntype[index]) == int(mujoco.mjtTrn.mjTRN_JOINT):
            joint = int(model.actuator_trnid[index, 0])
            if joint in locked:
                model.actuator_gainprm[index] = 0
                model.actuator_biasprm[index] = 0
    return model


def settle(model: mujoco.MjModel, data: mujoco.MjData, driven: int, control: float) -> None:
    """Hold one actuator's control until nothing moves, or for three seconds."""
    data.ctrl[driven] = control
    for _ in range(SETTLE_STEPS // 50):
        mujoco.mj_step(model, data, 50)
        if np.abs(data.qvel).max(initial=0.0) < SETTLED_SPEED:
            break
    mujoco.mj_forward(model, data)


def _pad_faces(model: mujoco.MjModel, data: mujoco.MjData, fingers: Fingers) -> dict[str, Pad]:
    """The inner face of either side, measured at the current posture."""
    tcp = data.site(TCP)
    frame, origin = tcp.xmat.reshape(3, 3), tcp.xpos
    boxes = {}
    for side, names in fingers.pads.items():
        points = np.concatenate([geom_points(model, data, model.geom(name).id) for name in names])
        local = (points - origin) @ frame
        boxes[side] = local if fingers.depth is None else _outer_part(local, fingers.depth)
    upper = max(boxes, key=lambda side: float(boxes[side][:, 1].mean()))
    faces = {}
    for side, corners in boxes.items():
        low, high = corners.min(axis=0), corners.max(axis=0)
        inner = low[1] if side == upper else high[1]
        edges = np.array([[(low[0] + high[0]) / 2, inner, height] for height in (low[2], high[2])])
        names = fingers.pads[side]
        body = int(model.geom(names[0]).bodyid[0])
        local = (origin + edges @ frame.T - data.xpos[body]) @ data.xmat[body].reshape(3, 3)
        edge_points = tuple((float(x), float(y), float(z)) for x, y, z in local)
        faces[side] = Pad(model.body(body).name, names, edge_points, 1 if side == upper else -1)
    return faces


def _outer_part(points: Array, depth: float) -> Array:
    """The points within `depth` of the tip, and one at that depth where the finger goes on."""
    cut = float(points[:, 2].max()) - depth
    outer = points[points[:, 2] > cut]
    if points[:, 2].min() < cut:
        outer = np.vstack([outer, [*outer[:, :2].mean(axis=0), cut]])
    return outer


def geom_points(model: mujoco.MjModel, data: mujoco.MjData, geom: int) -> Array:
    """World points `(n, 3)` that span a geom: a mesh's vertices, else the corners of its bounding box."""
    mesh = int(model.geom_dataid[geom])
    if int(model.geom_type[geom]) == int(mujoco.mjtGeom.mjGEOM_MESH) and mesh >= 0:
        start = int(model.mesh_vertadr[mesh])
        local = model.mesh_vert[start : start + int(model.mesh_vertnum[mesh])]
    else:
        signs = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=np.float64)
        local = model.geom_aabb[geom, :3] + signs * model.geom_aabb[geom, 3:]
    points: Array = data.geom_xpos[geom] + local @ data.geom_xmat[geom].reshape(3, 3).T
    return points
