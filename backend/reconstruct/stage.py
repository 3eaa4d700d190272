"""The reconstructed scene drawn by MuJoCo as a lens sees it: colours, which body covers each pixel, depth."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import cv2
import mujoco
import numpy as np
import numpy.typing as npt

from backend.reconstruct.lens import Lens
from mjcf_export.errors import MissingError
from mjcf_export.export import build_spec
from mjcf_export.frames import Array
from mjcf_export.robots import RobotModel, load_robot
from mjcf_export.scene import Scene

_OPTICAL_TO_MUJOCO = np.diag([1.0, -1.0, -1.0, 1.0])
BACKGROUND = -1
PROBE = "reconstruct-probe"


@dataclass(frozen=True)
class Shot:
    """One drawn picture: `owner` holds an index into the stage's `names`, -1 for nothing."""

    image: npt.NDArray[np.uint8] | None
    owner: npt.NDArray[np.int32]
    depth: npt.NDArray[np.float32] | None


class Stage:
    """A compiled scene whose robots and bodies can be put where they were at any time of the motion."""

    def __init__(self, scene: Scene, folder: Path, *, visual: bool = True) -> None:
        spec = build_spec(scene, folder)
        spec.worldbody.add_camera(name=PROBE)
        self.scene = scene
        self.model = spec.compile()
        self.data = mujoco.MjData(self.model)
        self.robots: dict[str, RobotModel] = {robot.name: load_robot(robot.model, folder) for robot in scene.robots}
        self.names = [*(body.name for body in scene.bodies), *self.robots]
        self._owner = np.array([self._owner_of(geom) for geom in range(self.model.ngeom)], dtype=np.int32)
        self._probe = self.model.camera(PROBE).id
        self._renderers: dict[tuple[int, int], mujoco.Renderer] = {}
        self.visual = visual

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Free the renderers."""
        for renderer in self._renderers.values():
            renderer.close()
        self._renderers.clear()

    def index(self, name: str) -> int:
        """The number that marks a body or robot in `Shot.owner`."""
        return self.names.index(name)

    def pose(self, arrays: Mapping[str, Array], time: float, *, bodies: bool = True) -> None:
        """Put robots and bodies where the motion has them at `time` seconds."""
        clock = arrays["time"]
        for robot in self.scene.robots:
            track = arrays.get(f"{robot.name}/qpos")
            opening = arrays.get(f"{robot.name}/opening")
            qpos = np.array(robot.qpos) if robot.qpos is not None else None
            if track is not None:
                qpos = np.array([np.interp(time, clock, column) for column in track.T])
            gap = robot.opening if opening is None else float(np.interp(time, clock, opening))
            self.robots[robot.name].place(self.model, self.data, robot.name, qpos, gap)
        if bodies:
            nearest = int(np.argmin(np.abs(clock - time)))
            for body in self.scene.bodies:
                row = arrays.get(f"object/{body.name}")
                if row is not None and np.isfinite(row[nearest]).all():
                    self.put(body.name, row[nearest])
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def put(self, name: str, row: Array) -> None:
        """Set a free body's position and wxyz `(7,)`; call `settle` or `pose` afterwards."""
        body = self.model.body(name)
        if int(body.jntnum[0]) == 1 and int(self.model.jnt_type[body.jntadr[0]]) == int(mujoco.mjtJoint.mjJNT_FREE):
            start = int(self.model.jnt_qposadr[body.jntadr[0]])
            self.data.qpos[start : start + 7] = row

    def settle(self) -> None:
        """Recompute positions after `put`."""
        mujoco.mj_kinematics(self.model, self.data)
        mujoco.mj_comPos(self.model, self.data)
        mujoco.mj_camlight(self.model, self.data)

    def draw(self, lens: Lens, *, colour: bool = False, depth: bool = False) -> Shot:
        """What the lens sees of the stage as posed."""
        wide, high, aspect = _centred(lens)
        renderer = self._renderer(high, wide)
        self.model.cam_fovy[self._probe] = np.degrees(2 * np.arctan2(high / 2, lens.intrinsics[1, 1]))
        camera = lens.pose @ _OPTICAL_TO_MUJOCO
        self.data.cam_xpos[self._probe] = camera[:3, 3]
        self.data.cam_xmat[self._probe] = camera[:3, :3].reshape(-1)
        columns, rows = _grid(lens, aspect, (high, wide))
        renderer.enable_segmentation_rendering()
        renderer.update_scene(self.data, camera=self._probe)
        seen = renderer.render()
        renderer.disable_segmentation_rendering()
        geoms = np.where(seen[..., 1] == int(mujoco.mjtObj.mjOBJ_GEOM), seen[..., 0], -1)
        owner = np.where(geoms >= 0, self._owner[geoms], BACKGROUND).astype(np.float32)
        cut = cv2.remap(owner, columns, rows, cv2.INTER_NEAREST, borderValue=float(BACKGROUND)).astype(np.int32)
        image = distance = None
        if depth:
            renderer.enable_depth_rendering()
            renderer.update_scene(self.data, camera=self._probe)
            distance = cv2.remap(renderer.render(), columns, rows, cv2.INTER_NEAREST)
            renderer.disable_depth_rendering()
        if colour:
            renderer.update_scene(self.data, camera=self._probe)
            image = cv2.remap(renderer.render(), columns, rows, cv2.INTER_LINEAR)
        return Shot(image, cut, distance)

    def _renderer(self, high: int, wide: int) -> mujoco.Renderer:
        key = (high, wide)
        if key not in self._renderers:
            vis = self.model.vis.global_
            vis.offwidth, vis.offheight = max(wide, vis.offwidth), max(high, vis.offheight)
            try:
                renderer = mujoco.Renderer(self.model, high, wide)
            except Exception as error:
                raise MissingError(
                    f"MuJoCo cannot render here ({error}); install libegl1 and libgl1-mesa-dri, or set MUJOCO_GL=osmesa"
                ) from error
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
            renderer.scene.flags[mujoco.mjtRndFlag.mjRND_REFLECTION] = 0
            self._renderers[key] = renderer
        return self._renderers[key]

    def _owner_of(self, geom: int) -> int:
        body = int(self.model.geom_bodyid[geom])
        while body > 0:
            name = self.model.body(body).name
            if name in self.names:
                return self.names.index(name)
            head = name.split("/", 1)[0]
            if head in self.robots:
                return self.names.index(head)
            body = int(self.model.body_parentid[body])
        return BACKGROUND


def _centred(lens: Lens) -> tuple[int, int, float]:
    """Width and height of a picture with square pixels and centred principal point that holds the lens's own."""
    width, height = lens.size
    aspect = float(lens.intrinsics[1, 1] / lens.intrinsics[0, 0])
    cx, cy = lens.intrinsics[0, 2] + 0.5, lens.intrinsics[1, 2] + 0.5
    return 2 * int(np.ceil(max(cx, width - cx) * aspect)) + 8, 2 * int(np.ceil(max(cy, height - cy))) + 8, aspect


def _grid(lens: Lens, aspect: float, shape: tuple[int, int]) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """Where each pixel of the lens lies in the centred picture."""
    width, height = lens.size
    columns, rows = np.meshgrid(np.arange(width, dtype=np.float64), np.arange(height, dtype=np.float64))
    if any(lens.distortion):
        points = np.stack([columns, rows], axis=-1).reshape(-1, 1, 2)
        ideal = cv2.undistortPoints(points, lens.intrinsics, np.array(lens.distortion), P=lens.intrinsics)
        columns, rows = np.moveaxis(ideal.reshape(height, width, 2), -1, 0)
    x = (columns - lens.intrinsics[0, 2]) * aspect + (shape[1] - 1) / 2
    y = rows - lens.intrinsics[1, 2] + (shape[0] - 1) / 2
    return x.astype(np.float32), y.astype(np.float32)
