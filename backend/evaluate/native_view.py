"""MuJoCo's own pictures of an exported scene, through the scene's cameras."""

from pathlib import Path
from types import TracebackType
from typing import Any, Self

import mujoco
import numpy as np
import numpy.typing as npt

from mjcf_export.errors import InputError, MissingError

NO_RENDERER = "MuJoCo cannot render here ({error}); install libegl1 and libgl1-mesa-dri, or set MUJOCO_GL=osmesa"


class NativeView:
    """A model loaded from disk and a renderer of one camera's size; shadows off. Use as a context manager."""

    def __init__(self, model: Path | mujoco.MjModel, width: int, height: int) -> None:
        if isinstance(model, Path):
            try:
                model = mujoco.MjModel.from_xml_path(str(model))
            except ValueError as error:
                raise InputError(f"{model}: MuJoCo cannot read the model ({error})") from error
        self.model: Any = model
        self.data: Any = mujoco.MjData(model)
        self.size = (width, height)
        glob = model.vis.global_
        glob.offwidth, glob.offheight = max(glob.offwidth, width), max(glob.offheight, height)
        try:
            self._renderer: Any = mujoco.Renderer(model, height=height, width=width)
        except (mujoco.FatalError, RuntimeError, ImportError, AttributeError) as error:
            raise MissingError(NO_RENDERER.format(error=error)) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._renderer.close()

    def rgb(self, camera: str, qpos: npt.ArrayLike) -> npt.NDArray[np.uint8]:
        """The picture `(H, W, 3)` of a camera with the model at `qpos` `(nq,)`."""
        self._show(camera, qpos)
        return np.array(self._renderer.render(), dtype=np.uint8)

    def bodies(self, camera: str, qpos: npt.ArrayLike) -> npt.NDArray[np.int32]:
        """The body id `(H, W)` seen in each pixel; -1 where there is none."""
        self._renderer.enable_segmentation_rendering()
        try:
            self._show(camera, qpos)
            ids = np.array(self._renderer.render())
        finally:
            self._renderer.disable_segmentation_rendering()
        geom = (ids[..., 1] == int(mujoco.mjtObj.mjOBJ_GEOM)) & (ids[..., 0] >= 0)
        bodies = np.full(ids.shape[:2], -1, dtype=np.int32)
        bodies[geom] = self.model.geom_bodyid[ids[..., 0][geom]]
        return bodies

    def _show(self, camera: str, qpos: npt.ArrayLike) -> None:
        number = mujoco.mj_name2id(self.model, mujoco.mjtObj.mjOBJ_CAMERA, camera)
        if number < 0:
            names = [self.model.camera(index).name for index in range(self.model.ncam)]
            raise InputError(f"camera {camera}: not in the MuJoCo model, which has {names}")
        self.data.qpos[:] = np.asarray(qpos)
        mujoco.mj_forward(self.model, self.data)
        self._renderer.update_scene(self.data, camera=number)
        self._renderer.scene.flags[int(mujoco.mjtRndFlag.mjRND_SHADOW)] = 0
        self._renderer.scene.flags[int(mujoco.mjtRndFlag.mjRND_REFLECTION)] = 0
