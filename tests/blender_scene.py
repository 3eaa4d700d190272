"""A hand-made scene with one of everything, for the Blender tests."""

from pathlib import Path

import numpy as np
import trimesh
from PIL import Image

from mjcf_export.frames import look_at, rotation_about, transform
from mjcf_export.scene import (
    SCENE_FILE,
    Body,
    Box,
    Camera,
    Cylinder,
    Extrusion,
    Joint,
    Lathe,
    Light,
    Material,
    Mesh,
    Pose,
    Predicate,
    Robot,
    Scene,
    Task,
    Tray,
)  # fmt: skip

ROBOT = "fr3_robotiq_2f85"
QPOS = (0.1, -0.3, 0.1, -2.2, 0.05, 2.0, 0.8)


def turned(position: tuple[float, float, float], axis: tuple[float, float, float], angle: float) -> Pose:
    matrix = transform(position)
    matrix[:3, :3] = rotation_about(axis, angle)
    return Pose.from_matrix(matrix)


def cameras() -> tuple[Camera, ...]:
    """One with an off-centre principal point and pixels 5 % taller than wide, one plain, one on the wrist."""
    side = look_at([1.0, -0.9, 0.8], [0.45, 0, 0.1])
    back = look_at([0.6, 1.1, 0.6], [0.4, 0, 0.1])
    return (
        Camera(
            name="ext1", width=320, height=240, intrinsics=((260.0, 0, 171.3), (0, 273.0, 104.6), (0, 0, 1)),
            distortion=(0.11, -0.05, 0.001, 0.002, 0.0), pose=Pose.from_matrix(side), provenance={"pose": "measured"},
        ),
        Camera(
            name="ext2", width=240, height=320, intrinsics=((250.0, 0, 119.5), (0, 250.0, 159.5), (0, 0, 1)),
            pose=Pose.from_matrix(back), focus_distance=1.234567, fstop=5.6,
        ),
        Camera(
            name="wrist", width=160, height=120, intrinsics=((120.0, 0, 79.5), (0, 120.0, 59.5), (0, 0, 1)),
            mount=("right", "fr3_link7"), pose=turned((0.05, 0.02, 0.1), (0, 0, 1), 0.7),
        ),
    )  # fmt: skip


def bodies() -> tuple[Body, ...]:
    return (
        Body(name="table", roles=("support",), shape=Box(size=(1.0, 1.2, 0.05)),
             pose=Pose(position=(0.45, 0, -0.05)), material="wood"),
        Body(name="block", shape=Box(size=(0.051234567, 0.04, 0.06)), pose=turned((0.42, -0.2, 0), (0, 0, 1), 0.6),
             material="check", mass=0.123456789012, description='[quoted] "block"', provenance={"pose": "estimated"},
             residuals={"iou": 0.931}),
        Body(name="cup", roles=("container",), pose=turned((0.5, 0.15, 0), (1, 2, 3), 0.4), material="blue",
             shape=Lathe(outer=((0.03, 0), (0.042, 0.09)), inner=((0.026, 0.005), (0.038, 0.09)))),
        Body(name="tray", roles=("container",), shape=Tray(size=(0.2, 0.14, 0.04), wall=0.006, floor=0.005),
             pose=Pose(position=(0.62, -0.1, 0)), material="blue"),
        Body(name="ball", shape=Mesh(file="meshes/ball.obj", pieces=("meshes/ball_0.obj",)),
             pose=Pose(position=(0.35, 0.1, 0))),
        Body(name="can", shape=Cylinder(radius=0.03, height=0.1), pose=Pose(position=(0.6, 0.3, 0))),
        Body(name="wedge", shape=Extrusion(polygon=((0, 0), (0.06, 0), (0.02, 0.05)), height=0.04),
             pose=Pose(position=(0.3, -0.3, 0))),
        Body(name="chest", roles=("fixed",), shape=Tray(size=(0.2, 0.2, 0.1), wall=0.01, floor=0.01),
             pose=turned((0.1, 0.5, 0), (0, 0, 1), 1.1)),
        Body(name="drawer", roles=("articulated",), shape=Tray(size=(0.17, 0.17, 0.06), wall=0.005, floor=0.005),
             parent="chest", pose=Pose(position=(0.0, 0.0, 0.02))),
    )  # fmt: skip


def write_scene(folder: Path) -> Scene:
    """Write the scene with its files into `folder`."""
    for name in ("textures", "meshes"):
        (folder / name).mkdir(parents=True)
    squares = np.kron(np.indices((8, 8)).sum(0) % 2, np.ones((8, 8)))[..., None] * np.array([200, 30, 30]) + 30
    Image.fromarray(squares.astype(np.uint8)).save(folder / "textures/check.png")
    waves = 140 + 60 * np.sin(np.arange(128) / 5)[None, :, None] * np.ones((64, 1, 3)) * np.array([1, 0.7, 0.4])
    Image.fromarray(waves.astype(np.uint8)).save(folder / "textures/wood.png")
    ball = trimesh.creation.icosphere(subdivisions=2, radius=0.03)
    ball.apply_translation([0, 0, 0.03])
    ball.export(folder / "meshes/ball.obj")
    ball.convex_hull.export(folder / "meshes/ball_0.obj")
    lamp = look_at([1, -1, 1.8], [0.45, 0, 0]) @ np.diag([1.0, -1.0, -1.0, 1.0])
    scene = Scene(
        name="trial",
        bodies=bodies(),
        joints=(Joint(name="slide", body="drawer", kind="prismatic", axis=(1, 0, 0), range=(0, 0.15), position=0.06),),
        robots=(
            Robot(name="right", model=ROBOT, base=turned((0.01, -0.02, 0.03), (0, 0, 1), 0.2), qpos=QPOS, opening=0.05),
        ),
        cameras=cameras(),
        lights=(
            Light(name="key", kind="area", energy=40.5, size=0.8, color=(1, 0.9, 0.8), pose=Pose.from_matrix(lamp)),
            Light(name="sun", kind="sun", energy=1.0, size=0.1, pose=Pose(position=(0, 0, 3))),
        ),
        materials=(
            Material(name="wood", texture="textures/wood.png", roughness=0.55),
            Material(name="check", texture="textures/check.png", specular=0.0),
            Material(name="blue", color=(0.1, 0.2, 0.8), roughness=0.3),
            Material(name="unused", color=(0.9, 0.2, 0.1), metallic=1.0),
        ),
        environment=(0.7, 0.72, 0.75),
        backdrop=(0.3, 0.31, 0.29),
        exposure=0.25,
        task=Task(text="put it in", predicates=(Predicate(name="inside", args=("block", "cup")),)),
    )  # fmt: skip
    scene.save(folder / SCENE_FILE)
    return scene
