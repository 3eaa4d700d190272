import os
from dataclasses import dataclass
from pathlib import Path

import cv2
import mujoco
import numpy as np
import pytest

from backend.documents.demonstration import Demonstration
from backend.motion.kinematics import Kinematics
from mjcf_export.frames import look_at, transform
from mjcf_export.robots import attach_robot, load_robot
from mjcf_export.scene import Pose

SIZE = (360, 480)
FOCAL = 420.0
BLOCK, CUP, TOY = (0.48, 0.12), (0.55, -0.10), (0.42, -0.05)


def quiet(fraction: float, message: str) -> None:
    pass


@dataclass
class World:
    """A synthetic recording of a robot that carries a block into a cup: the demonstration and its true masks."""

    root: Path
    truth: dict[str, np.ndarray]
    static: np.ndarray
    carried: np.ndarray


def _scene(robot) -> mujoco.MjSpec:
    spec = mujoco.MjSpec()
    spec.visual.global_.offwidth, spec.visual.global_.offheight = SIZE[1], SIZE[0]
    spec.visual.headlight.ambient = [0.45, 0.45, 0.45]
    spec.worldbody.add_light(pos=[0.2, 0.6, 1.8], dir=[0.1, -0.3, -1], diffuse=[0.6, 0.6, 0.6])
    texture = spec.add_texture(
        name="wood", type=mujoco.mjtTexture.mjTEXTURE_2D, builtin=mujoco.mjtBuiltin.mjBUILTIN_CHECKER, width=256,
        height=256, rgb1=[0.62, 0.5, 0.36], rgb2=[0.58, 0.46, 0.33],
    )  # fmt: skip
    material = spec.add_material(name="wood", texrepeat=[9, 9])
    material.textures[mujoco.mjtTextureRole.mjTEXROLE_RGB] = texture.name
    box = mujoco.mjtGeom.mjGEOM_BOX
    spec.worldbody.add_geom(name="table", type=box, size=[0.6, 0.7, 0.02], pos=[0.45, 0, -0.02], material="wood")
    spec.worldbody.add_geom(name="floor", type=box, size=[4, 4, 0.02], pos=[0, 0, -0.7], rgba=[0.35, 0.37, 0.4, 1])
    block = spec.worldbody.add_body(name="block", mocap=True)
    block.add_geom(type=box, size=[0.022, 0.022, 0.022], pos=[0, 0, 0.022], rgba=[0.9, 0.75, 0.1, 1])
    cup = spec.worldbody.add_body(name="cup", pos=[*CUP, 0])
    cup.add_geom(type=mujoco.mjtGeom.mjGEOM_CYLINDER, size=[0.038, 0.003], pos=[0, 0, 0.003], rgba=[0.1, 0.3, 0.8, 1])
    for angle in np.arange(24) * 2 * np.pi / 24:
        cup.add_geom(
            type=box, size=[0.002, 0.0054, 0.042], pos=[0.039 * np.cos(angle), 0.039 * np.sin(angle), 0.042],
            quat=[np.cos(angle / 2), 0, 0, np.sin(angle / 2)], rgba=[0.1, 0.3, 0.8, 1],
        )  # fmt: skip
    toy = spec.worldbody.add_body(name="toy", pos=[*TOY, 0])
    toy.add_geom(type=box, size=[0.02, 0.03, 0.015], pos=[0, 0, 0.015], rgba=[0.1, 0.6, 0.25, 1])
    attach_robot(spec, robot, "right", Pose())
    return spec


def _path(frames: int) -> tuple[np.ndarray, np.ndarray]:
    """Tcp positions and gripper openings of the task, one per frame."""
    keys = [0, 0.18, 0.27, 0.36, 0.42, 0.52, 0.66, 0.74, 0.80, 0.88, 1.0]
    above, low = 0.22, 0.022
    spots = np.array([
        (0.38, 0.02, 0.38), (*BLOCK, above), (*BLOCK, low), (*BLOCK, low), (*BLOCK, low), (*BLOCK, above),
        (*CUP, above), (*CUP, 0.12), (*CUP, 0.12), (*CUP, above), (0.38, 0.02, 0.38),
    ])  # fmt: skip
    openings = [0.08, 0.08, 0.08, 0.044, 0.044, 0.044, 0.044, 0.044, 0.08, 0.08, 0.08]
    moments = np.linspace(0, 1, frames)
    path = np.stack([np.interp(moments, keys, column) for column in spots.T], axis=1)
    return path, np.interp(moments, keys, openings)


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    frames = int(os.environ.get("PERCEPTION_FRAMES", "30"))
    root = tmp_path_factory.mktemp("recording")
    robot = load_robot("fr3_robotiq_2f85")
    arm = Kinematics("fr3_robotiq_2f85")
    down = transform((0, 0, 0), (0, 1, 0, 0))
    points, opening = _path(frames)
    time = np.arange(frames) / 8.0
    qpos, seed = [], None
    for point in points:
        target = down.copy()
        target[:3, 3] = point
        seed = arm.solve(target, seed).qpos
        qpos.append(seed)
    cameras = {
        "ext1": look_at((1.15, 0.5, 0.55), (0.48, 0.0, 0.05)),
        "ext2": look_at((1.0, -0.62, 0.5), (0.48, 0, 0.05)),
    }
    model = _scene(robot).compile()
    data = mujoco.MjData(model)
    truth = {
        f"{view}/{name}": np.zeros((frames, *SIZE), bool)
        for view in cameras
        for name in ("block", "cup", "toy", "robot")
    }
    rng = np.random.default_rng(3)
    grasp = int(np.argmax(opening < 0.0445))
    release = int(np.flatnonzero(opening < 0.0445)[-1])
    with mujoco.Renderer(model, *SIZE) as renderer:
        camera, options = mujoco.MjvCamera(), mujoco.MjvOption()
        options.sitegroup[:] = 0
        for frame in range(frames):
            robot.place(model, data, "right", qpos[frame], float(opening[frame]))
            data.mocap_pos[0] = _block_at(points, grasp, release, frame)
            mujoco.mj_forward(model, data)
            for view, pose in cameras.items():
                _aim(camera, pose)
                renderer.disable_segmentation_rendering()
                renderer.update_scene(data, camera, options)
                _lens(renderer)
                image = cv2.GaussianBlur(renderer.render(), (0, 0), 0.6).astype(float) + rng.normal(0, 2.0, (*SIZE, 3))
                path = root / view / f"{frame:04d}.png"
                path.parent.mkdir(exist_ok=True)
                cv2.imwrite(str(path), cv2.cvtColor(image.clip(0, 255).astype(np.uint8), cv2.COLOR_RGB2BGR))
                renderer.enable_segmentation_rendering()
                renderer.update_scene(data, camera, options)
                _lens(renderer)
                geoms = renderer.render()[..., 0]
                bodies = np.where(geoms >= 0, model.geom_bodyid[geoms], 0)
                for name in ("block", "cup", "toy"):
                    truth[f"{view}/{name}"][frame] = bodies == model.body(name).id
                truth[f"{view}/robot"][frame] = bodies > model.body("toy").id
    np.savez(root / "robot.npz", time=time, qpos=np.array(qpos), gripper_opening=opening)
    carried = np.arange(frames)
    return World(root, truth, (carried < grasp - 3), (carried > grasp) & (carried < release))


def _block_at(points: np.ndarray, grasp: int, release: int, frame: int) -> np.ndarray:
    if frame <= grasp:
        return np.array([*BLOCK, 0.0])
    if frame <= release:
        return points[frame] - [0, 0, 0.022]
    return np.array([*CUP, 0.006])


def _aim(camera: mujoco.MjvCamera, pose: np.ndarray) -> None:
    """Point MuJoCo's free camera along an optical pose that has no roll."""
    forward = pose[:3, 2]
    camera.type = mujoco.mjtCamera.mjCAMERA_FREE
    camera.distance = 1.0
    camera.lookat[:] = pose[:3, 3] + forward
    camera.azimuth = np.degrees(np.arctan2(forward[1], forward[0]))
    camera.elevation = np.degrees(np.arcsin(forward[2]))


def _lens(renderer: mujoco.Renderer) -> None:
    for camera in renderer.scene.camera:
        half = camera.frustum_near * SIZE[0] / 2 / FOCAL
        camera.frustum_bottom, camera.frustum_top = -half, half


def describe(world: World, objects: list[dict], *, known: bool = True) -> Demonstration:
    """The demonstration; without `known` neither cameras nor states."""
    matrix = [[FOCAL, 0, (SIZE[1] - 1) / 2], [0, FOCAL, (SIZE[0] - 1) / 2], [0, 0, 1]]
    poses = {"ext1": look_at((1.15, 0.5, 0.55), (0.48, 0.0, 0.05)), "ext2": look_at((1.0, -0.62, 0.5), (0.48, 0, 0.05))}
    views = [
        {"name": name, "video": name, "fps": 8} | ({"intrinsics": matrix, "extrinsics": pose.tolist()} if known else {})
        for name, pose in poses.items()
    ]
    robots = [{"name": "right", "model": "fr3_robotiq_2f85", "states": "robot.npz"}] if known else []
    demo = Demonstration.model_validate(
        {"views": views, "robots": robots, "objects": objects, "world": "right" if known else None}
    )
    demo.root = world.root
    return demo


def boxes(world: World, name: str, views: tuple[str, ...] = ("ext1", "ext2")) -> list[dict]:
    prompts = []
    for view in views:
        rows, columns = np.nonzero(world.truth[f"{view}/{name}"][0])
        box = [columns.min() - 4, rows.min() - 4, columns.max() + 5, rows.max() + 5]
        prompts.append({"view": view, "frame": 0, "box": [float(value) for value in box]})
    return prompts
