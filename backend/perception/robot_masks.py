"""The robot's silhouette in each frame, rendered from its recorded joints through the calibrated camera."""

from collections.abc import Sequence
from dataclasses import dataclass

import cv2
import mujoco
import numpy as np
import numpy.typing as npt

from backend.demos import RobotStates, load_poses, load_states
from backend.demos.states import base_of
from backend.documents.demonstration import Demonstration, View
from backend.documents.observations import Mask
from backend.perception.cameras import CameraPath
from mjcf_export.errors import MissingError
from mjcf_export.frames import Array
from mjcf_export.robots import RobotModel, attach_robot, load_robot
from mjcf_export.scene import Pose

_OPTICAL_TO_MUJOCO = np.diag([1.0, -1.0, -1.0, 1.0])


@dataclass(frozen=True)
class RecordedRobot:
    """A robot with its states and its base `(4, 4)` in the world."""

    name: str
    model: RobotModel
    states: RobotStates
    base: Array


def recorded_robots(demo: Demonstration) -> tuple[list[RecordedRobot], list[str]]:
    """The robots whose joints and base are known, and notes on those that are not."""
    robots, notes = [], []
    for robot in demo.robots:
        if robot.states is None:
            continue
        base = base_of(demo, robot)
        if base is None:
            notes.append(f"{robot.name}: base unknown, so its silhouette and tcp are not placed in the world")
            continue
        model = load_robot(robot.model, demo.root)
        robots.append(RecordedRobot(robot.name, model, load_states(demo, robot.name), base))
    return robots, notes


def camera_path(
    demo: Demonstration, view: View, robots: Sequence[RecordedRobot], times: Array, indices: npt.NDArray[np.int64]
) -> CameraPath | None:
    """The camera of a view at its frames; None when it is not calibrated.

    A wrist camera's poses are those of its mount on the robot at the frames' `times`.
    """
    if view.intrinsics is None:
        return None
    intrinsics = np.array(view.intrinsics)
    poses = load_poses(demo, view.name)
    if poses is None and view.mount is not None:
        poses = _mounted(view, robots, times)
    if poses is None:
        return None
    if poses.ndim == 3 and len(poses) > len(indices):
        poses = poses[indices]
    return CameraPath(intrinsics, view.distortion, poses)


def robot_silhouettes(robots: Sequence[RecordedRobot], camera: CameraPath, size: tuple[int, int], times: Array) -> Mask:
    """Where the robots are `(T, H, W)`; `size` is `(H, W)`.

    Raises:
        MissingError: MuJoCo cannot render here (no EGL or OSMesa).
    """
    model, data = _compile(robots)
    height, width = size
    wide, high, scale = _centred(camera.intrinsics, size)
    model.vis.global_.offwidth = max(wide, model.vis.global_.offwidth)
    model.vis.global_.offheight = max(high, model.vis.global_.offheight)
    model.cam_fovy[0] = np.degrees(2 * np.arctan2(high / 2, camera.intrinsics[1, 1]))
    lens = _lens(camera, size)
    masks = np.zeros((len(times), height, width), dtype=bool)
    options = mujoco.MjvOption()
    options.sitegroup[:] = 0
    try:
        renderer = mujoco.Renderer(model, high, wide)
    except Exception as error:
        raise MissingError(
            f"MuJoCo cannot render here ({error}); install libegl1 and libgl1-mesa-dri, or set MUJOCO_GL=osmesa"
        ) from error
    with renderer:
        renderer.enable_segmentation_rendering()
        for frame, time in enumerate(times):
            _pose(model, data, robots, float(time))
            _look(model, data, camera.pose(frame))
            renderer.update_scene(data, camera=0, scene_option=options)
            ids = renderer.render()[..., 0] >= 0
            masks[frame] = _cut(ids, camera.intrinsics, size, scale, lens)
    return masks


def sample_states(states: RobotStates, time: float) -> tuple[Array, float | None]:
    """Joints `(n,)` and opening at a time, linearly interpolated and clamped to the record."""
    qpos = np.array([np.interp(time, states.time, column) for column in states.qpos.T])
    opening = None if states.opening is None else float(np.interp(time, states.time, states.opening))
    return qpos, opening


def _compile(robots: Sequence[RecordedRobot]) -> tuple[mujoco.MjModel, mujoco.MjData]:
    spec = mujoco.MjSpec()
    for robot in robots:
        attach_robot(spec, robot.model, robot.name, Pose.from_matrix(robot.base))
    spec.worldbody.add_camera(name="view")
    model = spec.compile()
    return model, mujoco.MjData(model)


def _pose(model: mujoco.MjModel, data: mujoco.MjData, robots: Sequence[RecordedRobot], time: float) -> None:
    for robot in robots:
        qpos, opening = sample_states(robot.states, time)
        robot.model.place(model, data, robot.name, qpos, opening)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_camlight(model, data)


def _look(model: mujoco.MjModel, data: mujoco.MjData, pose: Array) -> None:
    camera = pose @ _OPTICAL_TO_MUJOCO
    data.cam_xpos[0] = camera[:3, 3]
    data.cam_xmat[0] = camera[:3, :3].reshape(-1)


def _mounted(view: View, robots: Sequence[RecordedRobot], times: Array) -> Array | None:
    """Poses `(T, 4, 4)` of a camera fixed in a robot link; None when no recorded robot has that link."""
    assert view.mount is not None
    if not robots:
        return None
    model, data = _compile(robots)
    names = [f"{robot.name}/{view.mount.link}" for robot in robots] + [view.mount.link]
    body = next((i for i in range(model.nbody) if model.body(i).name in names), None)
    if body is None:
        return None
    poses = np.zeros((len(times), 4, 4))
    for frame, time in enumerate(times):
        _pose(model, data, robots, float(time))
        link = np.eye(4)
        link[:3, :3] = data.xmat[body].reshape(3, 3)
        link[:3, 3] = data.xpos[body]
        poses[frame] = link @ np.array(view.mount.pose)
    return poses


def _centred(intrinsics: Array, size: tuple[int, int]) -> tuple[int, int, float]:
    """Size of a picture with square pixels and centred principal point that holds the wanted one."""
    height, width = size
    aspect = intrinsics[1, 1] / intrinsics[0, 0]
    cx, cy = intrinsics[0, 2] + 0.5, intrinsics[1, 2] + 0.5
    wide = 2 * int(np.ceil(max(cx, width - cx) * aspect)) + 8
    high = 2 * int(np.ceil(max(cy, height - cy))) + 8
    return wide, high, float(aspect)


def _cut(ids: Mask, intrinsics: Array, size: tuple[int, int], aspect: float, lens: Array | None) -> Mask:
    """The wanted picture out of the centred one, through the lens when it distorts."""
    height, width = size
    if lens is None:
        columns, rows = np.meshgrid(np.arange(width, dtype=np.float32), np.arange(height, dtype=np.float32))
    else:
        columns, rows = lens[..., 0], lens[..., 1]
    x = (columns - intrinsics[0, 2]) * aspect + (ids.shape[1] - 1) / 2
    y = rows - intrinsics[1, 2] + (ids.shape[0] - 1) / 2
    picture = cv2.remap(ids.astype(np.float32), x.astype(np.float32), y.astype(np.float32), cv2.INTER_LINEAR)
    return np.asarray(picture > 0.5)


def _lens(camera: CameraPath, size: tuple[int, int]) -> Array | None:
    """Undistorted pixel `(H, W, 2)` seen by each pixel; None for a lens without distortion."""
    if not any(camera.distortion):
        return None
    grid = np.stack(np.meshgrid(np.arange(size[1]), np.arange(size[0])), axis=-1).reshape(-1, 1, 2).astype(np.float64)
    ideal = cv2.undistortPoints(grid, camera.intrinsics, np.array(camera.distortion), P=camera.intrinsics)
    return np.asarray(ideal.reshape(size[0], size[1], 2), dtype=np.float64)
