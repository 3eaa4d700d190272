"""A small synthetic tabletop demonstration with known truth: a Franka moves a block into a cup, rendered by MuJoCo.

Synthetic throughout: kinematic motion, MuJoCo pictures, masks from the renderer's segmentation.
"""

import json
from dataclasses import dataclass
from pathlib import Path

import cv2
import numpy as np

from backend.demos import load_demonstration
from backend.documents.demonstration import Demonstration
from backend.documents.observations import Masks, Observations, ObservedObject, Track
from backend.motion.kinematics import Kinematics
from backend.perception.metrology import measure_holds
from backend.reconstruct.families import hollow
from mjcf_export.export import build_spec
from mjcf_export.frames import Array, inverse, look_at, rotation_about, transform
from mjcf_export.scene import Body, Box, Camera, Light, Material, Pose, Robot, Scene

SIZE = (480, 360)
K = np.array([[430.0, 0, 239.5], [0, 430.0, 179.5], [0, 0, 1]])
VIEWS = {
    "ext1": look_at((1.15, 0.55, 0.55), (0.5, 0.0, 0.08)),
    "ext2": look_at((1.0, -0.75, 0.7), (0.5, 0.0, 0.08)),
}
FPS = 4
MODEL = "fr3_robotiq_2f85"
BLOCK = (0.05, 0.04, 0.06)
CUP = hollow(np.array([[0.034, 0.0], [0.046, 0.095]]), 0.003, 0.004)


@dataclass
class Tabletop:
    """Everything about one synthetic demonstration."""

    demo: Demonstration
    observations: Observations
    masks: Masks
    truth: Scene
    tracks: dict[str, Array]
    images: dict[str, np.ndarray]
    holds_at: tuple[float, float]


def truth_scene() -> Scene:
    """The world: a table, a block, a cup and the robot at the world's origin."""
    yaw = 0.35
    block = transform((0.5, 0.14, 0.0))
    block[:3, :3] = rotation_about((0, 0, 1), yaw)
    return Scene(
        bodies=(
            Body(name="table", roles=("support",), shape=Box(size=(1.2, 1.4, 0.04)), material="wood",
                 pose=Pose(position=(0.45, 0.0, -0.04))),
            Body(name="block", roles=("moved",), shape=Box(size=BLOCK), material="yellow",
                 pose=Pose.from_matrix(block)),
            Body(name="cup", roles=("container",), shape=CUP, material="blue", pose=Pose(position=(0.52, -0.12, 0.0))),
        ),
        robots=(Robot(name="arm", model=MODEL),),
        materials=(Material(name="wood", color=(0.55, 0.4, 0.25)), Material(name="yellow", color=(0.9, 0.8, 0.1)),
                   Material(name="blue", color=(0.1, 0.35, 0.75))),
        cameras=tuple(
            Camera(name=name, width=SIZE[0], height=SIZE[1], intrinsics=tuple(tuple(r) for r in K.tolist()),
                   pose=Pose.from_matrix(pose)) for name, pose in VIEWS.items()
        ),
        lights=(Light(name="lamp", pose=Pose(position=(0.5, 0.0, 1.6)), energy=30),),
    )  # fmt: skip


def tcp_pose(xyz: tuple[float, float, float], yaw: float) -> Array:
    """A gripper pointing down whose closing direction has a heading on the ground."""
    closing = np.array([np.cos(yaw), np.sin(yaw), 0.0])
    down = np.array([0.0, 0.0, -1.0])
    pose = np.eye(4)
    pose[:3, :3] = np.column_stack([np.cross(closing, down), closing, down])
    pose[:3, 3] = xyz
    return pose


def script() -> tuple[Array, Array, Array]:
    """Time `(N,)`, tcp `(N, 4, 4)` and opening `(N,)` of the pick and place."""
    yaw = 0.35 + np.pi / 2
    grip = BLOCK[1]
    keys = [
        (0.0, (0.42, 0.0, 0.30), 0.08), (1.0, (0.5, 0.14, 0.14), 0.08), (1.8, (0.5, 0.14, 0.035), 0.08),
        (2.0, (0.5, 0.14, 0.035), 0.08), (2.3, (0.5, 0.14, 0.035), grip), (2.6, (0.5, 0.14, 0.035), grip),
        (3.4, (0.5, 0.14, 0.20), grip), (4.6, (0.52, -0.12, 0.20), grip), (5.2, (0.52, -0.12, 0.12), grip),
        (5.4, (0.52, -0.12, 0.12), grip), (5.6, (0.52, -0.12, 0.12), 0.08), (5.9, (0.52, -0.12, 0.12), 0.08),
        (6.8, (0.45, 0.05, 0.33), 0.08), (7.4, (0.45, 0.05, 0.33), 0.08),
    ]  # fmt: skip
    time = np.arange(0, 7.4, 0.05)
    at = np.array([key[0] for key in keys])
    xyz = np.column_stack([np.interp(time, at, [key[1][axis] for key in keys]) for axis in range(3)])
    opening = np.interp(time, at, [key[2] for key in keys])
    return time, np.stack([tcp_pose(tuple(p), yaw) for p in xyz]), opening


def make_tabletop(folder: Path, trust: str = "measured", spoil: dict[str, Array] | None = None) -> Tabletop:
    """Render the demonstration into `folder`; `spoil` replaces extrinsics written into demo.json."""
    scene = truth_scene()
    time, tcp, opening = script()
    arm = Kinematics(MODEL)
    qpos = np.zeros((len(time), arm.size))
    seed = arm.home
    for index, pose in enumerate(tcp):
        result = arm.solve(pose, seed)
        assert result.converged
        qpos[index] = seed = result.qpos
    tracks = _object_tracks(scene, time, tcp)
    images, masks, frame_times = _render(scene, folder, time, qpos, opening, tracks)
    np.savez(folder / "robot.npz", time=time, qpos=qpos, gripper_opening=opening)
    for name, stack in images.items():
        (folder / name).mkdir(exist_ok=True)
        for index, image in enumerate(stack):
            cv2.imwrite(str(folder / name / f"{index:04d}.png"), image[..., ::-1])
    spoil = spoil or {}
    (folder / "demo.json").write_text(
        json.dumps(
            {
                "version": 1, "task": "put the yellow block into the blue cup", "world": "arm",
                "views": [
                    {"name": name, "video": name, "fps": FPS, "intrinsics": K.tolist(),
                     "extrinsics": np.asarray(spoil.get(name, pose)).tolist(),
                     "trust": {"extrinsics": trust if name in spoil else "measured"}}
                    for name, pose in VIEWS.items()
                ],
                "robots": [{"name": "arm", "model": MODEL, "states": "robot.npz"}],
                "objects": [{"name": "block", "roles": ["moved"]}, {"name": "cup", "roles": ["container"]}],
            }
        )
    )  # fmt: skip
    demo = load_demonstration(folder)
    holds, _ = measure_holds("arm", time, opening, tcp)
    count = len(frame_times)
    track = [Track(view=view, confidence=(1.0,) * count, area=(100.0,) * count) for view in VIEWS]
    observations = Observations(
        provider="truth", frames=dict.fromkeys(VIEWS, count), times=dict.fromkeys(VIEWS, tuple(frame_times)),
        sizes=dict.fromkeys(VIEWS, SIZE),
        objects=(ObservedObject(name="block", roles=("moved",), tracks=tuple(track)),
                 ObservedObject(name="cup", roles=("container",), tracks=tuple(track))),
        holds=tuple(holds),
    )  # fmt: skip
    return Tabletop(demo, observations, Masks.of(masks), scene, {"time": time, **tracks}, images, (2.3, 5.4))


def _object_tracks(scene: Scene, time: Array, tcp: Array) -> dict[str, Array]:
    start = scene.body("block").pose.matrix
    grasp = int(np.searchsorted(time, 2.3))
    relative = inverse(tcp[grasp]) @ start
    let_go = int(np.searchsorted(time, 5.5))
    track = np.repeat(start[None], len(time), axis=0)
    track[grasp:let_go] = tcp[grasp:let_go] @ relative
    final = tcp[let_go] @ relative
    final[2, 3] = 0.004
    track[let_go:] = final
    cup = np.repeat(scene.body("cup").pose.matrix[None], len(time), axis=0)
    return {"block": track, "cup": cup}


def _render(scene, folder, time, qpos, opening, tracks):
    import mujoco

    from mjcf_export.robots import load_robot

    spec = build_spec(scene, folder)
    model = spec.compile()
    data = mujoco.MjData(model)
    robot = load_robot(MODEL)
    owner = np.array([model.body_rootid[model.geom_bodyid[g]] for g in range(model.ngeom)])
    roots = {name: model.body(name).id for name in ("block", "cup")}
    arm = {g for g in range(model.ngeom) if model.body(int(model.geom_bodyid[g])).name.startswith("arm/")}
    frame_times = np.arange(0, time[-1], 1 / FPS)
    images = {view: [] for view in VIEWS}
    masks = {f"mask/{view}/{name}": [] for view in VIEWS for name in roots} | {f"robot/{view}": [] for view in VIEWS}
    model.vis.global_.fovy = float(np.degrees(2 * np.arctan2(SIZE[1] / 2, K[1, 1])))
    with mujoco.Renderer(model, SIZE[1], SIZE[0]) as renderer:
        renderer.scene.flags[mujoco.mjtRndFlag.mjRND_SHADOW] = 0
        for moment in frame_times:
            index = int(np.argmin(np.abs(time - moment)))
            for name in roots:
                joint = model.body(name).jntadr[0]
                row = Pose.from_matrix(tracks[name][index])
                data.qpos[model.jnt_qposadr[joint] : model.jnt_qposadr[joint] + 7] = [*row.position, *row.quaternion]
            robot.place(model, data, "arm", qpos[index], float(opening[index]))
            mujoco.mj_forward(model, data)
            for view in VIEWS:
                renderer.disable_segmentation_rendering()
                renderer.update_scene(data, camera=view)
                images[view].append(renderer.render().copy())
                renderer.enable_segmentation_rendering()
                renderer.update_scene(data, camera=view)
                seg = renderer.render()
                geom = np.where(seg[..., 1] == int(mujoco.mjtObj.mjOBJ_GEOM), seg[..., 0], -1)
                for name, root in roots.items():
                    masks[f"mask/{view}/{name}"].append((geom >= 0) & (owner[geom] == root))
                masks[f"robot/{view}"].append(np.isin(geom, list(arm)))
    return (
        {view: np.stack(stack) for view, stack in images.items()},
        {key: np.stack(stack) for key, stack in masks.items()},
        frame_times,
    )
