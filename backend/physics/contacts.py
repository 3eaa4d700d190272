"""Contacts of a run as flat arrays, and the sums the checks need: per pair, per side, never mixed."""

from dataclasses import dataclass

import mujoco
import numpy as np

from backend.motion.world import Ids, World
from mjcf_export.frames import Array


@dataclass(frozen=True)
class Contacts:
    """Every contact of every control step, M rows.

    Attributes:
        tick: `(M,)` control step.
        geom: `(M, 2)`.
        owner: `(M, 2)` entity of each geom.
        distance: `(M,)` metres, negative when they overlap.
        force: `(M, 3)` newtons in contact axes: normal first, then the two tangents.
        frame: `(M, 3, 3)` contact axes as rows, the normal pointing from the first geom to the second.
    """

    world: World
    steps: int
    tick: Ids
    geom: Ids
    owner: Ids
    distance: Array
    force: Array
    frame: Array

    def pad_force(self, robot: str, side: str, body: str) -> Array:
        """Normal force `(N,)` of one pad on one body, summed over that pair only."""
        pads = np.isin(self.geom, self.world.robots[robot].pads[side])
        target = self.owner == self.world.index(body)
        rows = (pads[:, 0] & target[:, 1]) | (pads[:, 1] & target[:, 0])
        return self._per_tick(rows, self.force[:, 0])

    def entity_force(self, first: str, second: str) -> Array:
        """Summed normal force `(N,)` between two entities."""
        return self._per_tick(self._between(first, second), self.force[:, 0])

    def lift_force(self, body: str, other: str) -> Array:
        """Upward world force `(N,)` that `other` exerts on `body`, friction included."""
        rows = self._between(body, other)
        upward = np.einsum("mi,mi->m", self.force, self.frame[:, :, 2])
        sign = np.where(self.owner[:, 1] == self.world.index(body), 1.0, -1.0)
        return self._per_tick(rows, upward * sign)

    def partners(self, body: str, begin: int, end: int) -> list[str]:
        """Entities that touch `body` with any force in the steps `[begin, end)`."""
        index = self.world.index(body)
        rows = self._window(begin, end) & (self.force[:, 0] > 0)
        touched = np.zeros(len(self.world.entities), dtype=bool)
        touched[self.owner[rows & (self.owner[:, 0] == index), 1]] = True
        touched[self.owner[rows & (self.owner[:, 1] == index), 0]] = True
        touched[index] = False
        return [self.world.entities[item] for item in np.flatnonzero(touched)]

    def penetration(self, begin: int, end: int) -> dict[tuple[str, str], float]:
        """Deepest overlap in metres per pair of entities in the steps `[begin, end)`; a robot's own parts excepted."""
        rows = self._window(begin, end) & (self.distance < 0) & (self.owner[:, 0] != self.owner[:, 1])
        deepest = np.zeros((len(self.world.entities),) * 2)
        low, high = self.owner[rows].min(axis=1), self.owner[rows].max(axis=1)
        np.maximum.at(deepest, (low, high), -self.distance[rows])
        names = self.world.entities
        return {(names[a], names[b]): float(deepest[a, b]) for a, b in zip(*np.nonzero(deepest), strict=True)}

    def pad_normals(self, robot: str, side: str, body: str, begin: int, end: int) -> tuple[Array, Array, Ids]:
        """World normals `(K, 3)` from pad to body, their forces `(K,)` and steps `(K,)`."""
        pads = np.isin(self.geom, self.world.robots[robot].pads[side])
        target = self.owner == self.world.index(body)
        forward = pads[:, 0] & target[:, 1]
        rows = self._window(begin, end) & (forward | (pads[:, 1] & target[:, 0])) & (self.force[:, 0] > 0)
        normals = np.where(forward[rows, None], self.frame[rows, 0], -self.frame[rows, 0])
        return normals, self.force[rows, 0], self.tick[rows]

    def _between(self, first: str, second: str) -> Ids:
        a, b = self.owner == self.world.index(first), self.owner == self.world.index(second)
        return np.asarray((a[:, 0] & b[:, 1]) | (a[:, 1] & b[:, 0]))

    def _window(self, begin: int, end: int) -> Ids:
        return np.asarray((self.tick >= begin) & (self.tick < end))

    def _per_tick(self, rows: Ids, values: Array) -> Array:
        return np.bincount(self.tick[rows], values[rows], minlength=self.steps).astype(np.float64)


_NOTHING = (
    np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64), np.zeros(0), np.zeros((0, 3)), np.zeros((0, 3, 3)),
)  # fmt: skip


class ContactRecorder:
    """Copies contacts step by step with few calls; `finish` decodes and joins them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._model = world.model
        self._elliptic = int(world.model.opt.cone) == int(mujoco.mjtCone.mjCONE_ELLIPTIC)
        self._rows: list[tuple[Array, ...]] = []
        self._ticks: list[int] = []
        self._parts: list[tuple[Array, ...]] = []

    def record(self, tick: int, data: mujoco.MjData) -> None:
        """Take the contacts of the step just made."""
        if not data.ncon:
            return
        contact = data.contact
        force = data.efc_force.copy() if self._elliptic else self._decoded(data)
        self._ticks.append(tick)
        self._rows.append((
            contact.geom.copy(), contact.dist.copy(), contact.frame.copy(), contact.efc_address.copy(),
            contact.dim.copy(), force,
        ))  # fmt: skip

    def finish(self, steps: int) -> Contacts:
        """All contacts so far of a run of `steps` control steps; rows decoded before are not decoded again."""
        if self._rows:
            self._parts.append(self._decode())
            self._rows, self._ticks = [], []
        if len(self._parts) > 1:
            self._parts = [tuple(np.concatenate(column) for column in zip(*self._parts, strict=True))]
        tick, geom, distance, force, frame = self._parts[0] if self._parts else _NOTHING
        return Contacts(self._world, steps, tick, geom, self._world.owner[geom], distance, force, frame)

    def _decode(self) -> tuple[Array, ...]:
        columns = [np.concatenate(column) for column in zip(*self._rows, strict=True)]
        geom, distance, frame, address, dim, force = columns
        counts = np.array([len(row[0]) for row in self._rows])
        if self._elliptic:
            lengths = np.array([len(row[5]) for row in self._rows])
            offset = np.repeat(np.concatenate([[0], np.cumsum(lengths)[:-1]]), counts)
            padded = np.append(force, (0.0, 0.0, 0.0))
            rows = np.where(address >= 0, address + offset, len(force))[:, None] + np.arange(3)
            force = padded[rows]
            force[(dim < 3) | (address < 0), 1:] = 0.0
            force[address < 0] = 0.0
        return np.repeat(self._ticks, counts), geom.astype(np.int64), distance, force, frame.reshape(-1, 3, 3)

    def _decoded(self, data: mujoco.MjData) -> Array:
        force = np.zeros((data.ncon, 6))
        for index in range(data.ncon):
            mujoco.mj_contactForce(self._model, data, index, force[index])
        return force[:, :3]
