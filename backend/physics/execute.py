"""Native execution: actuators, friction and gravity only. After the initial state nothing writes a position."""

from dataclasses import dataclass
from functools import cached_property

import mujoco
import numpy as np

from backend.motion.world import SIDES, World
from backend.physics.contacts import ContactRecorder, Contacts
from backend.physics.controls import Controls
from mjcf_export.frames import Array, quaternion_matrix
from mjcf_export.quiet import no_log_file


@dataclass(frozen=True)
class Recording:
    """What happened at every control step, N of them; everything in a row is of the same instant.

    Attributes:
        time: `(N,)` seconds since the start of settling.
        qpos: `(N, nq)`.
        qvel: `(N, nv)`.
        bodies: by name `(N, 7)` world position and wxyz of the body frame; static bodies too.
        tcp: by robot `(N, 4, 4)`.
        pads: `(N, 2 robots, 7)` poses of the bodies that hold the pads, left before right.
        contacts: every contact.
        warnings: MuJoCo's counters that are above zero.
        states: `mjSTATE_INTEGRATION` vectors by label.
    """

    time: Array
    qpos: Array
    qvel: Array
    bodies: dict[str, Array]
    tcp: dict[str, Array]
    pads: Array
    contacts: Contacts
    warnings: dict[str, int]
    states: dict[str, Array]

    @property
    def steps(self) -> int:
        """Control steps recorded."""
        return len(self.time)

    def finite(self) -> bool:
        """Whether every state is finite."""
        return bool(np.isfinite(self.qpos).all() and np.isfinite(self.qvel).all())

    @cached_property
    def opening(self) -> dict[str, Array]:
        """By robot `(N,)` metres between the pads: the narrowest gap between their faces."""
        result, column = {}, 0
        for name, parts in self.contacts.world.robots.items():
            faces = {} if parts.robot.gripper is None else parts.robot.gripper.faces
            gap = np.zeros(self.steps)
            for side in SIDES if faces else ():
                pad, rows, frame = faces[side], self.pads[:, column], self.tcp[name]
                turned = np.einsum("nij,ej->nei", quaternion_matrix(rows[:, 3:]), np.array(pad.edges))
                from_tcp = rows[:, None, :3] + turned - frame[:, None, :3, 3]
                gap += (pad.side * np.einsum("nei,ni->ne", from_tcp, frame[:, :3, 1])).min(axis=1)
                column += 1
            if faces:
                result[name] = gap
        return result

    def matrix(self, body: str, tick: int) -> Array:
        """World pose `(4, 4)` of a body at a step."""
        pose = np.eye(4)
        row = self.bodies[body][tick]
        pose[:3, :3], pose[:3, 3] = quaternion_matrix(row[3:]), row[:3]
        return pose


class Executor:
    """Steps a world under precomputed controls, as far as asked, and remembers everything.

    Args:
        world: the compiled scene.
        controls: initial state and controls.
        marks: labels of control steps whose full state is kept, for restarts.
    """

    def __init__(self, world: World, controls: Controls, marks: dict[str, int] | None = None) -> None:
        self.world = world
        self.controls = controls
        self.tick = 0
        self.substeps = max(1, round(controls.dt / float(world.model.opt.timestep)))
        self._model = world.model
        self._model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_AUTORESET)
        self._data = world.initial_data()
        self._data.qpos[:] = controls.qpos
        self._data.qvel[:] = 0.0
        self._recorder = ContactRecorder(world)
        self._marks: dict[int, list[str]] = {}
        for label, tick in (marks or {}).items():
            self._marks.setdefault(tick, []).append(label)
        self._states: dict[str, Array] = {}
        faces = [parts.faces[side] for parts in world.robots.values() for side in SIDES if side in parts.faces]
        self._bodies = np.array([*world.bodies.values(), *faces], dtype=np.int64)
        self._sites = np.array([parts.tcp for parts in world.robots.values()], dtype=np.int64)
        self._rows: tuple[list[bytes], ...] = ([], [], [], [], [], [])

    def run(self, until: int) -> None:
        """Advance to control step `until` (exclusive)."""
        model, data, rest = self._model, self._data, self.substeps - 1
        ctrl, controls, marks = data.ctrl, self.controls.ctrl, self._marks
        qpos, qvel, xpos, xquat, site_xpos, site_xmat = (rows.append for rows in self._rows)
        step, record = mujoco.mj_step, self._recorder.record
        take_qpos, take_qvel, take_xpos, take_xquat, take_site_xpos, take_site_xmat = (
            view.tobytes for view in self._views()
        )
        with no_log_file():
            for tick in range(self.tick, min(until, self.controls.steps)):
                ctrl[:] = controls[tick]
                for label in marks.get(tick, ()):
                    self._states[label] = self._full_state()
                qpos(take_qpos())
                qvel(take_qvel())
                step(model, data)
                xpos(take_xpos())
                xquat(take_xquat())
                site_xpos(take_site_xpos())
                site_xmat(take_site_xmat())
                record(tick, data)
                if rest:
                    step(model, data, rest)
                self.tick = tick + 1

    def recording(self) -> Recording:
        """Everything so far."""
        steps = self.tick
        qpos, qvel, xpos, xquat, site_xpos, site_xmat = (
            np.frombuffer(b"".join(rows)).reshape(steps, *view.shape)
            for rows, view in zip(self._rows, self._views(), strict=True)
        )
        poses = np.concatenate([xpos[:, self._bodies], xquat[:, self._bodies]], axis=2)
        tcp = {}
        for index, name in enumerate(self.world.robots):
            frame = np.tile(np.eye(4), (steps, 1, 1))
            frame[:, :3, :3] = site_xmat[:, self._sites[index]].reshape(-1, 3, 3)
            frame[:, :3, 3] = site_xpos[:, self._sites[index]]
            tcp[name] = frame
        return Recording(
            time=np.arange(steps) * self.controls.dt,
            qpos=qpos,
            qvel=qvel,
            bodies={name: poses[:, index] for index, name in enumerate(self.world.bodies)},
            tcp=tcp,
            pads=poses[:, len(self.world.bodies) :],
            contacts=self._recorder.finish(steps),
            warnings=self._warnings(),
            states=dict(self._states),
        )

    def _views(self) -> tuple[Array, ...]:
        """What is copied at every control step, as it lies in MuJoCo's memory."""
        data = self._data
        return data.qpos, data.qvel, data.xpos, data.xquat, data.site_xpos, data.site_xmat

    def _full_state(self) -> Array:
        kind = mujoco.mjtState.mjSTATE_INTEGRATION
        state = np.zeros(mujoco.mj_stateSize(self._model, kind))
        mujoco.mj_getState(self._model, self._data, state, kind)
        return state

    def _warnings(self) -> dict[str, int]:
        counts = self._data.warning.number.tolist()
        return {_WARNINGS[index]: count for index, count in enumerate(counts) if count}


_WARNINGS = {int(kind): name for name, kind in mujoco.mjtWarning.__members__.items()}
