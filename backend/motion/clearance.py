"""Whether the robot, and what it holds, is clear of everything else at a posture; for planning only."""

from dataclasses import dataclass

import mujoco
import numpy as np

from backend.motion.world import World
from mjcf_export.frames import Array, matrix_quaternion

ALLOWED_OVERLAP = 0.001
"""Metres of overlap that a plan may have: contact softness and collision-piece roughness."""


@dataclass(frozen=True)
class Overlap:
    """Two entities that overlap by `depth` metres."""

    first: str
    second: str
    depth: float

    def __str__(self) -> str:
        return f"{self.first} and {self.second} overlap by {self.depth * 1000:.1f} mm"


class Clearance:
    """Collision checks of one robot in a scene. Bodies stand where `place` last put them."""

    def __init__(self, world: World, robot: str) -> None:
        self.world = world
        self._parts = world.robots[robot]
        self._robot = robot
        self._data = world.initial_data()
        self._fingers = {
            name: int(world.model.joint(f"{robot}/{name}").qposadr[0])
            for name in (self._parts.robot.gripper.joints if self._parts.robot.gripper is not None else ())
        }

    def place(self, body: str, pose: Array) -> None:
        """Stand a free body at a world pose `(4, 4)`."""
        joint = self.world.free_joint(body)
        if joint is None:
            return
        address = int(self.world.model.jnt_qposadr[joint])
        self._data.qpos[address : address + 3] = pose[:3, 3]
        self._data.qpos[address + 3 : address + 7] = matrix_quaternion(pose)

    def worst(self, qpos: Array, opening: float, ignore: frozenset[str] = frozenset()) -> Overlap | None:
        """The deepest forbidden overlap at an arm posture, or None.

        Args:
            qpos: arm joints `(n,)`.
            opening: metres between the pads.
            ignore: entities that the robot may touch.
        """
        model, data = self.world.model, self._data
        data.qpos[self._parts.qpos] = qpos
        if self._parts.robot.gripper is not None:
            for name, value in self._parts.robot.gripper.joint_positions(opening).items():
                data.qpos[self._fingers[name]] = value
        mujoco.mj_kinematics(model, data)
        mujoco.mj_comPos(model, data)
        mujoco.mj_collision(model, data)
        mine = self.world.index(self._robot)
        spared = {self.world.index(name) for name in ignore}
        deepest: Overlap | None = None
        for owners, distance in zip(self.world.owner[data.contact.geom], data.contact.dist, strict=True):
            first, second = (int(value) for value in owners)
            moving = (first == mine) != (second == mine)
            if not moving or first in spared or second in spared or distance > -ALLOWED_OVERLAP:
                continue
            if deepest is None or -distance > deepest.depth:
                names = self.world.entities
                deepest = Overlap(names[first], names[second], -float(distance))
        return deepest

    def path(self, qpos: Array, opening: Array, ignore: frozenset[str] = frozenset(), every: int = 8) -> Overlap | None:
        """The first forbidden overlap along joints `(N, n)` with openings `(N,)`, checked every so many samples."""
        for index in [*range(0, len(qpos), every), len(qpos) - 1] if len(qpos) else []:
            found = self.worst(qpos[index], float(opening[index]), ignore)
            if found is not None:
                return found
        return None

    def carry(self, qpos: Array, opening: float, held: tuple[str, Array, Array], every: int = 8) -> Overlap | None:
        """The first forbidden overlap while carrying.

        Args:
            qpos: arm joints `(N, n)`.
            opening: metres between the pads.
            held: body, its pose in the tcp `(4, 4)`, and the tcp poses `(N, 4, 4)`.
            every: samples between checks.
        """
        body, offset, tcp = held
        for index in [*range(0, len(qpos), every), len(qpos) - 1] if len(qpos) else []:
            self.place(body, tcp[index] @ offset)
            found = self.worst(qpos[index], opening, frozenset((body,)))
            if found is None:
                found = self._held(body)
            if found is not None:
                return found
        return None

    def _held(self, body: str) -> Overlap | None:
        """The deepest overlap of a carried body with anything but the robot, at the posture just checked."""
        mine, robot = self.world.index(body), self.world.index(self._robot)
        contact = self._data.contact
        owners = self.world.owner[contact.geom]
        rows = (owners == mine).any(axis=1) & ~(owners == robot).any(axis=1) & (contact.dist < -ALLOWED_OVERLAP)
        if not rows.any():
            return None
        row = int(np.flatnonzero(rows)[np.argmin(contact.dist[rows])])
        other = int(owners[row][owners[row] != mine][0]) if (owners[row] != mine).any() else mine
        return Overlap(body, self.world.entities[other], -float(contact.dist[row]))
