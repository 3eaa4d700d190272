"""The hidden truth of a world: its record, and the exact masks and depth of what each camera sees, from MuJoCo."""

import os
from collections.abc import Sequence

os.environ.setdefault("MUJOCO_GL", "egl")

import mujoco
import numpy as np
import numpy.typing as npt

from backend.documents.observations import Mask, Masks
from backend.motion.world import World
from mjcf_export.document import Document, Record
from mjcf_export.errors import MissingError
from mjcf_export.frames import Array
from mjcf_export.scene import Camera

VISUAL_GROUP = 2


class TrueEvent(Record):
    """A relation that true contacts made or broke, and when: seconds since the demonstration's first frame."""

    relation: str
    subject: str
    object: str
    onset: float


class Truth(Document):
    """`truth.json`, beside the true scene (`scene.json`), `poses.npz` and `masks.npz`.

    `poses.npz` holds `time` `(N,)`, `body/<name>` `(N, 7)` position and wxyz of the body frame, `<robot>/qpos` of all
    joints, `<robot>/opening`, `<robot>/tcp`; `masks.npz` is read with `Masks`.
    """

    world: str
    moved: str
    target: str
    duration: float
    frames: int
    events: tuple[TrueEvent, ...] = ()


def _renderer(model: mujoco.MjModel, camera: Camera) -> mujoco.Renderer:
    model.vis.global_.offwidth = max(model.vis.global_.offwidth, camera.width)
    model.vis.global_.offheight = max(model.vis.global_.offheight, camera.height)
    model.vis.quality.offsamples = 0
    try:
        return mujoco.Renderer(model, camera.height, camera.width)
    except Exception as error:  # mujoco raises whatever its OpenGL backend raises
        raise MissingError(
            f"MuJoCo cannot render here ({error}); install libegl1 and libgl1-mesa-dri, or set MUJOCO_GL=osmesa"
        ) from error


def masks_and_depth(
    world: World, full: Array, cameras: Sequence[Camera], names: Sequence[str]
) -> tuple[Masks, dict[str, npt.NDArray[np.float32]]]:
    """Exact masks and optical depth of every camera at the model positions `full` `(T, nq)`.

    Args:
        world: the compiled true scene.
        full: positions per video frame.
        cameras: the views.
        names: bodies to mask; the robot's silhouette is added as `robot/<view>`.

    Returns:
        `mask/<view>/<body>` and `robot/<view>` `(T, H, W)`, and depth `(T, H, W)` metres by view.
    """
    option = mujoco.MjvOption()
    option.geomgroup[:] = 0
    option.geomgroup[VISUAL_GROUP] = 1
    data = mujoco.MjData(world.model)
    stacks: dict[str, Mask] = {}
    depths: dict[str, npt.NDArray[np.float32]] = {}
    robots = [world.index(name) for name in world.robots]
    for camera in cameras:
        shape = (len(full), camera.height, camera.width)
        stacks |= {f"mask/{camera.name}/{name}": np.zeros(shape, dtype=bool) for name in names}
        stacks[f"robot/{camera.name}"] = np.zeros(shape, dtype=bool)
        depths[camera.name] = np.zeros(shape, dtype=np.float32)
        renderer = _renderer(world.model, camera)
        try:
            for tick, positions in enumerate(full):
                data.qpos[:] = positions
                mujoco.mj_forward(world.model, data)
                renderer.update_scene(data, camera=camera.name, scene_option=option)
                renderer.enable_segmentation_rendering()
                geom = renderer.render()[..., 0]
                renderer.disable_segmentation_rendering()
                renderer.enable_depth_rendering()
                depths[camera.name][tick] = renderer.render()
                renderer.disable_depth_rendering()
                owner = np.where(geom >= 0, world.owner[np.maximum(geom, 0)], 0)
                for name in names:
                    stacks[f"mask/{camera.name}/{name}"][tick] = owner == world.index(name)
                stacks[f"robot/{camera.name}"][tick] = np.isin(owner, robots)
        finally:
            renderer.close()
    return Masks.of(stacks), depths
