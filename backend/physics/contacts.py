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
        index, rows = self.world.index(body), self._window(begin, end)
        owner = self.owner[rows][self.force[rows, 0] > 0]
        touched = np.zeros(len(self.world.entities), dtype=bool)
        touched[owner[owner[:, 0] == index, 1]] = True
        touched[owner[owner[:, 1] == index, 0]] = True
        touched[index] = False
        return [self.world.entities[item] for item in np.flatnonzero(touched)]

    def penetration(self, begin: int, end: int) -> dict[tuple[str, str], float]:
        """Deepest overlap in metres per pair of entities in the steps `[begin, end)`; a robot's own parts excepted."""
        rows = self._window(begin, end)
        first, second, depth = self.owner[rows, 0], self.owner[rows, 1], -self.distance[rows]
        order = np.argsort(depth)
        deepest = np.zeros((len(self.world.entities),) * 2)
        deepest[first[order], second[order]] = depth[order]  # the last one written, the deepest, stays
        deepest = np.triu(np.maximum(deepest, deepest.T), 1)
        names = self.world.entities
        return {(names[a], names[b]): float(deepest[a, b]) for a, b in zip(*np.nonzero(deepest > 0), strict=True)}

    def pad_normals(self, robot: str, side: str, body: str, begin: int, end: int) -> tuple[Array, Array, Ids]:
        """World normals `(K, 3)` from pad to body, their forces `(K,)` and steps `(K,)`."""
        window = self._window(begin, end)
        pads = np.isin(self.geom[window], self.world.robots[robot].pads[side])
        target = self.owner[window] == self.world.index(body)
        forward = pads[:, 0] & target[:, 1]
        force = self.force[window, 0]
        rows = (forward | (pads[:, 1] & target[:, 0])) & (force > 0)
        frame = self.frame[window, 0][rows]
        return np.where(forward[rows, None], frame, -frame), force[rows], self.tick[window][rows]

    def _between(self, first: str, second: str) -> Ids:
        a, b = self.owner == self.world.index(first), self.owner == self.world.index(second)
        return np.asarray((a[:, 0] & b[:, 1]) | (a[:, 1] & b[:, 0]))

    def _window(self, begin: int, end: int) -> slice:
        """Rows of the steps `[begin, end)`; ticks only ever rise."""
        first, last = np.searchsorted(self.tick, (begin, end))
        return slice(int(first), int(last))

    def _per_tick(self, rows: Ids, values: Array) -> Array:
        return np.bincount(self.tick[rows], values[rows], minlength=self.steps).astype(np.float64)


class ContactRecorder:
    """Copies contacts step by step, as bytes since that is quickest; `finish` decodes and joins them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._model = world.model
        self._elliptic = int(world.model.opt.cone) == int(mujoco.mjtCone.mjCONE_ELLIPTIC)
        self._slippery = bool((world.model.geom_condim < 3).any())
        self._ticks: list[int] = []
        self._columns: tuple[list[bytes], ...] = ([], [], [], [], [])
        self._tangents: list[Array] = []
        self._done = (
            np.zeros(0, dtype=np.int64), np.zeros((0, 2), dtype=np.int64), np.zeros(0), np.zeros((0, 3)),
            np.zeros((0, 9)),
        )  # fmt: skip

    def record(self, tick: int, data: mujoco.MjData) -> None:
        """Take the contacts of the step just made."""
        if not data.ncon:
            return
        contact = data.contact
        geom, distance, frame, address, force = self._columns
        self._ticks.append(tick)
        geom.append(contact.geom.tobytes())
        distance.append(contact.dist.tobytes())
        frame.append(contact.frame.tobytes())
        address.append(contact.efc_address.tobytes())
        force.append(data.efc_force.tobytes() if self._elliptic else self._decoded(data).tobytes())
        if self._slippery:
            self._tangents.append(contact.dim >= 3)

    def finish(self, steps: int) -> Contacts:
        """All contacts so far of a run of `steps` control steps; rows decoded before are not decoded again."""
        if self._ticks:
            self._done = _joined(self._done, self._decode())
        tick, geom, distance, force, frame = self._done
        return Contacts(
            self._world, steps, tick, geom, self._world.owner[geom], distance, force, frame.reshape(-1, 3, 3)
        )

    def _decode(self) -> tuple[Ids, Ids, Array, Array, Array]:
        """Ticks, geoms, distances, forces and frames recorded since the last time."""
        geom = np.frombuffer(b"".join(self._columns[0]), dtype=np.int32).reshape(-1, 2).astype(np.int64)
        distance = np.frombuffer(b"".join(self._columns[1]))
        frame = np.frombuffer(b"".join(self._columns[2])).reshape(-1, 9)
        address = np.frombuffer(b"".join(self._columns[3]), dtype=np.int32)
        force = np.frombuffer(b"".join(self._columns[4]))
        counts = np.array([len(row) for row in self._columns[1]]) // distance.itemsize
        if self._elliptic:
            lengths = np.array([len(row) for row in self._columns[4]]) // force.itemsize
            offset = np.repeat(np.cumsum(lengths) - lengths, counts)
            padded = np.append(force, (0.0, 0.0, 0.0))
            force = padded[np.where(address >= 0, address + offset, len(force))[:, None] + np.arange(3)]
            force[address < 0] = 0.0
            if self._slippery:
                force[~np.concatenate(self._tangents), 1:] = 0.0
        ticks = np.repeat(self._ticks, counts)
        self._ticks, self._tangents, self._columns = [], [], ([], [], [], [], [])
        return ticks, geom, distance, force.reshape(-1, 3), frame

    def _decoded(self, data: mujoco.MjData) -> Array:
        force = np.zeros((data.ncon, 6))
        for index in range(data.ncon):
            mujoco.mj_contactForce(self._model, data, index, force[index])
        return force[:, :3]


def _joined(
    done: tuple[Ids, Ids, Array, Array, Array], more: tuple[Ids, Ids, Array, Array, Array]
) -> tuple[Ids, Ids, Array, Array, Array]:
    if not len(done[0]):
        return more
    tick, geom, distance, force, frame = (np.concatenate(pair) for pair in zip(done, more, strict=True))
    return tick, geom, distance, force, frame
