"""Forward and inverse kinematics of a robot arm: damped least squares with null space and restarts."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import mujoco
import numpy as np
import numpy.typing as npt

from mjcf_export.errors import InputError
from mjcf_export.frames import Array, inverse, is_rigid, rotation_angle
from mjcf_export.robots import RobotModel, load_robot

VELOCITY_LIMIT = 2.0
"""Joint speed in rad/s that every arm known to the exporter can hold."""
ACCELERATION_LIMIT = 7.5
"""Joint acceleration in rad/s² that every arm known to the exporter can hold."""

_DAMPING = 1e-3
_MAX_STEP = 0.3
_NULL_GAIN = 0.1
_LIMIT_MARGIN = 0.01


@dataclass(frozen=True)
class IkResult:
    """One solution. Errors are those of the tcp at `qpos`: metres and radians."""

    qpos: Array
    position_error: float
    rotation_error: float
    converged: bool


def rotation_vector(rotation: Array) -> Array:
    """Axis times angle `(3,)` of a rotation matrix `(3, 3)`."""
    skew = np.array([
        rotation[2, 1] - rotation[1, 2], rotation[0, 2] - rotation[2, 0], rotation[1, 0] - rotation[0, 1],
    ])  # fmt: skip
    sine = float(np.linalg.norm(skew)) / 2
    cosine = (float(rotation[0, 0] + rotation[1, 1] + rotation[2, 2]) - 1) / 2
    angle = float(np.arctan2(sine, cosine))
    if sine > 1e-6:
        scaled: Array = skew * (angle / (2 * sine))
        return scaled
    if cosine > 0:
        half: Array = skew / 2
        return half
    symmetric = (rotation + np.eye(3)) / 2
    column = int(np.argmax(np.diag(symmetric)))
    axis: Array = symmetric[:, column] / np.linalg.norm(symmetric[:, column])
    return axis * angle


class Kinematics:
    """The arm of a robot model: tcp from joints and joints from tcp, in the world.

    Args:
        model: a known robot name, or a URDF/MJCF path relative to `root`.
        root: the folder of a relative model path.
        base: `(4, 4)` base-to-world.
    """

    def __init__(self, model: str | RobotModel, root: Path | None = None, base: npt.ArrayLike | None = None) -> None:
        robot = load_robot(model, root) if isinstance(model, str) else model
        self.robot = robot
        self.base = np.eye(4) if base is None else np.array(base, dtype=np.float64)
        if not is_rigid(self.base):
            raise InputError(f"robot {robot.name}: the base must be a rigid, right-handed 4x4 transform")
        self._model = _skeleton(robot)
        self._data = mujoco.MjData(self._model)
        self._joints = np.array([self._model.joint(name).id for name in robot.arm_joints])
        self._address = self._model.jnt_qposadr[self._joints]
        self._hinge = self._model.jnt_type[self._joints] == int(mujoco.mjtJoint.mjJNT_HINGE)
        self._site = self._model.site("tcp").id
        self.lower, self.upper = _limits(self._model, self._joints)
        self.home = np.clip(np.asarray(robot.home, dtype=np.float64)[: self.size], self.lower, self.upper)

    @property
    def size(self) -> int:
        """Number of arm joints."""
        return len(self._joints)

    def at(self, base: npt.ArrayLike) -> Self:
        """The same arm on another base, sharing nothing that changes."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.base = np.array(base, dtype=np.float64)
        other._data = mujoco.MjData(self._model)
        return other

    def tcp(self, qpos: npt.ArrayLike) -> Array:
        """World pose `(4, 4)` of the tcp at joints `(n,)`, or `(N, 4, 4)` of `(N, n)`."""
        joints = self._checked(qpos)
        if joints.ndim == 2:
            return np.stack([self.tcp(row) for row in joints]) if len(joints) else np.zeros((0, 4, 4))
        return self.base @ self._forward(joints)

    def jacobian(self, qpos: npt.ArrayLike) -> Array:
        """World Jacobian `(6, n)` of the tcp: linear rows above angular ones."""
        self._forward(self._checked(qpos))
        jacobian = self._jacobian()
        jacobian[:3] = self.base[:3, :3] @ jacobian[:3]
        jacobian[3:] = self.base[:3, :3] @ jacobian[3:]
        return jacobian

    def within_limits(self, qpos: npt.ArrayLike, tolerance: float = 1e-3) -> bool:
        """Whether every joint of `(n,)` or `(N, n)` lies in its range."""
        q = self._checked(qpos)
        return bool(((q >= self.lower - tolerance) & (q <= self.upper + tolerance)).all())

    def solve(
        self,
        target: npt.ArrayLike,
        seed: npt.ArrayLike | None = None,
        *,
        rest: npt.ArrayLike | None = None,
        position_tolerance: float = 1e-4,
        rotation_tolerance: float = 1e-3,
        iterations: int = 100,
        restarts: int = 8,
        random_seed: int = 0,
    ) -> IkResult:
        """Joints that bring the tcp to `target` `(4, 4)` in the world.

        The damped step is `J^T (J J^T + d I)^-1 e`; its null space pulls towards `rest`. After a failure it starts
        again from `rest` and from random joints.

        Args:
            target: the wanted pose.
            seed: where to start `(n,)`; the home joints when absent.
            rest: posture preferred by the null space `(n,)`; the seed when absent.
            position_tolerance: metres.
            rotation_tolerance: radians.
            iterations: per start.
            restarts: further starts after the first fails.
            random_seed: seed of the restarts.

        Returns:
            The first solution within tolerance, else the best found with `converged=False`.
        """
        local = inverse(self.base) @ np.asarray(target, dtype=np.float64)
        start = self.home if seed is None else self._checked(seed)
        preferred = start if rest is None else self._checked(rest)
        generator = np.random.default_rng(random_seed)
        best: IkResult | None = None
        for attempt in range(restarts + 1):
            if attempt == 1:
                start = self.home
            elif attempt > 1:
                start = generator.uniform(self.lower, self.upper)
            result = self._descend(local, start, preferred, (position_tolerance, rotation_tolerance), iterations)
            if result.converged:
                return result
            if best is None or _cost(result) < _cost(best):
                best = result
        assert best is not None
        return best

    def track(self, targets: npt.ArrayLike, seed: npt.ArrayLike, rest: npt.ArrayLike | None = None) -> "Tracked":
        """Joints along a dense tcp path `(N, 4, 4)`, each solved from the one before, never restarted.

        Args:
            targets: world poses close to one another.
            seed: joints at or near the first pose `(n,)`.
            rest: posture preferred by the null space `(n,)`; the previous solution when absent.
        """
        poses = np.asarray(targets, dtype=np.float64)
        qpos = np.zeros((len(poses), self.size))
        errors = np.zeros((len(poses), 2))
        current = self._checked(seed)
        for index, pose in enumerate(poses):
            result = self.solve(pose, current, rest=rest, iterations=30, restarts=0)
            current = result.qpos
            qpos[index] = current
            errors[index] = result.position_error, result.rotation_error
        return Tracked(qpos, errors[:, 0], errors[:, 1])

    def _checked(self, qpos: npt.ArrayLike) -> Array:
        joints = np.asarray(qpos, dtype=np.float64)
        if joints.shape[-1:] != (self.size,) or joints.ndim > 2:
            raise InputError(
                f"robot {self.robot.name} has {self.size} arm joints ({', '.join(self.robot.arm_joints)}), "
                f"got values of shape {joints.shape}"
            )
        return joints

    def _forward(self, joints: Array) -> Array:
        self._data.qpos[self._address] = joints
        mujoco.mj_kinematics(self._model, self._data)
        pose = np.eye(4)
        pose[:3, :3] = self._data.site_xmat[self._site].reshape(3, 3)
        pose[:3, 3] = self._data.site_xpos[self._site]
        return pose

    def _jacobian(self) -> Array:
        axes = self._data.xaxis[self._joints]
        arms = self._data.site_xpos[self._site] - self._data.xanchor[self._joints]
        jacobian = np.zeros((6, self.size))
        jacobian[:3] = np.where(self._hinge[:, None], np.cross(axes, arms), axes).T
        jacobian[3:] = np.where(self._hinge[:, None], axes, 0.0).T
        return jacobian

    def _descend(
        self, target: Array, start: Array, rest: Array, tolerance: tuple[float, float], limit: int
    ) -> IkResult:
        q = np.clip(start, self.lower, self.upper)
        for iteration in range(limit + 1):
            pose = self._forward(q)
            linear = target[:3, 3] - pose[:3, 3]
            angular = rotation_vector(target[:3, :3] @ pose[:3, :3].T)
            distance, angle = float(np.linalg.norm(linear)), float(np.linalg.norm(angular))
            converged = distance < tolerance[0] and angle < tolerance[1]
            if converged or iteration == limit:
                break
            jacobian = self._jacobian()
            error = np.concatenate([linear * min(1.0, 0.2 / max(distance, 1e-9)), angular])
            damping = _DAMPING * min(1.0, float(error @ error) + 1e-3)
            gram = jacobian @ jacobian.T + damping * np.eye(6)
            step = jacobian.T @ np.linalg.solve(gram, error)
            pull = _NULL_GAIN * (rest - q)
            step += pull - jacobian.T @ np.linalg.solve(gram, jacobian @ pull)
            largest = float(np.abs(step).max())
            q = np.clip(q + step * min(1.0, _MAX_STEP / max(largest, 1e-9)), self.lower, self.upper)
        return IkResult(q, distance, angle, converged)


@dataclass(frozen=True)
class Tracked:
    """Joints `(N, n)` along a path, with the tcp errors left at each sample: metres and radians `(N,)`."""

    qpos: Array
    position_error: Array
    rotation_error: Array

    def worst(self) -> tuple[float, float]:
        """Largest position (m) and rotation (rad) error along the path."""
        if not len(self.qpos):
            return 0.0, 0.0
        return float(self.position_error.max()), float(self.rotation_error.max())


def _cost(result: IkResult) -> float:
    return result.position_error + 0.1 * result.rotation_error


def _limits(model: mujoco.MjModel, joints: npt.NDArray[np.int64]) -> tuple[Array, Array]:
    ranges = np.array(model.jnt_range[joints], dtype=np.float64)
    limited = np.array(model.jnt_limited[joints], dtype=bool)
    ranges[~limited] = (-2 * np.pi, 2 * np.pi)
    ranges[:, 0] += _LIMIT_MARGIN
    ranges[:, 1] -= _LIMIT_MARGIN
    return ranges[:, 0], ranges[:, 1]


def _skeleton(robot: RobotModel) -> mujoco.MjModel:
    """The robot without any geometry: compiles in milliseconds and has the same kinematics."""
    spec = robot.spec.copy()
    for element in [*spec.geoms, *spec.meshes, *spec.sensors, *spec.keys]:
        spec.delete(element)
    spec.compiler.boundmass = 1e-3
    spec.compiler.boundinertia = 1e-6
    return spec.compile()


def pose_error(measured: npt.ArrayLike, wanted: npt.ArrayLike) -> tuple[float, float]:
    """Distance in metres and angle in radians between two poses `(4, 4)`."""
    a, b = np.asarray(measured, dtype=np.float64), np.asarray(wanted, dtype=np.float64)
    return float(np.linalg.norm(a[:3, 3] - b[:3, 3])), rotation_angle(a[:3, :3].T @ b[:3, :3])


def path_errors(kinematics: Kinematics, qpos: Array, wanted: Sequence[Array] | Array) -> tuple[float, float]:
    """Largest position (m) and rotation (rad) error of joints `(N, n)` against tcp poses `(N, 4, 4)`."""
    errors = np.array([pose_error(kinematics.tcp(q), pose) for q, pose in zip(qpos, wanted, strict=True)])
    return (float(errors[:, 0].max()), float(errors[:, 1].max())) if len(errors) else (0.0, 0.0)
