"""From a world's numbers to its true scene: bodies, robot, cameras, lights, and the files beside them."""

import math
from pathlib import Path

import numpy as np

from backend.evaluate.worlds.looks import write_material
from backend.evaluate.worlds.meshes import write_mesh
from backend.evaluate.worlds.specs import Item, Look, WorldSpec
from mjcf_export.frames import look_at, rotation_about, transform
from mjcf_export.scene import (
    SCENE_FILE,
    Body,
    Box,
    Camera,
    Light,
    Material,
    Mesh,
    Pose,
    Robot,
    Role,
    Scene,
    Task,
)

ROBOT = "right"
MODEL = "fr3_robotiq_2f85"
WIDTH, HEIGHT = 480, 360
TABLE_SIZE = (0.95, 1.40, 0.04)
TABLE_NEAR = 0.20
OPEN = 0.085


def body_pose(item: Item, height: float) -> Pose:
    """Where an item stands: its bottom centre at `height`, turned by its yaw."""
    return Pose.from_matrix(transform((*item.xy, height), (math.cos(item.yaw / 2), 0, 0, math.sin(item.yaw / 2))))


def items(spec: WorldSpec) -> tuple[Item, ...]:
    """Every thing standing on the table, the moved one first."""
    return (spec.moved, spec.target, *spec.others)


def _surroundings(spec: WorldSpec) -> list[tuple[str, str, tuple[Role, ...], Box, Pose, Look]]:
    """Table, pedestal, floor and walls: static boxes."""
    top, ground = spec.table_height, -0.72
    x = TABLE_NEAR + TABLE_SIZE[0] / 2
    grey = Look((0.30, 0.31, 0.33), "plain", roughness=0.6)
    wall = Look((0.74, 0.72, 0.68), "plain", (0.66, 0.64, 0.60), 0.9)
    floor = Look((0.45, 0.42, 0.38), "checks", (0.40, 0.37, 0.34), 0.7)
    return [
        ("table", "table", ("support",), Box(size=TABLE_SIZE), Pose(position=(x, 0, top - TABLE_SIZE[2])), spec.table),
        ("pedestal", "robot pedestal", ("fixed",), Box(size=(0.26, 0.26, -ground - 0.001)),
         Pose(position=(-0.05, 0, ground)), grey),
        ("floor", "floor", ("fixed",), Box(size=(7, 7, 0.05)), Pose(position=(0.5, 0, ground - 0.05)), floor),
        ("wall_left", "wall", ("fixed",), Box(size=(7, 0.1, 3.0)), Pose(position=(0.5, 2.4, ground)), wall),
        ("wall_right", "wall", ("fixed",), Box(size=(7, 0.1, 3.0)), Pose(position=(0.5, -2.4, ground)), wall),
        ("wall_back", "wall", ("fixed",), Box(size=(0.1, 4.8, 3.0)), Pose(position=(-1.6, 0, ground)), wall),
    ]  # fmt: skip


def cameras(spec: WorldSpec, rng: np.random.Generator) -> tuple[Camera, Camera]:
    """Two calibrated external views from the left and the right of the workspace, jittered per world."""
    views = []
    for name, side in (("ext1", 1.0), ("ext2", -1.0)):
        eye = np.array([0.93, side * 0.46, spec.table_height + 0.47]) + rng.uniform(-0.05, 0.05, 3)
        target = np.array([0.47, side * 0.01, spec.table_height + 0.10]) + rng.uniform(-0.02, 0.02, 3)
        pose = look_at(eye, target)
        pose[:3, :3] = pose[:3, :3] @ rotation_about((0, 0, 1), rng.uniform(-0.03, 0.03))
        focal = float(rng.uniform(440, 500))
        centre = np.array([WIDTH / 2, HEIGHT / 2]) - 0.5 + rng.uniform(-4, 4, 2)
        intrinsics = ((focal, 0.0, float(centre[0])), (0.0, focal, float(centre[1])), (0.0, 0.0, 1.0))
        views.append(Camera(name=name, width=WIDTH, height=HEIGHT, intrinsics=intrinsics, pose=Pose.from_matrix(pose)))
    return views[0], views[1]


def lights(rng: np.random.Generator) -> tuple[Light, ...]:
    """A large key light, a weaker fill from the other side, both soft; they shine along their own -Z."""
    side = rng.choice([-1.0, 1.0])
    made = []
    for name, eye, energy, size, colour in (
        ("key", (0.6, side * 1.3, 1.7), 40, 0.55, (1.0, 0.95, 0.87)),
        ("fill", (1.3, -side * 1.4, 1.5), 17, 1.4, (0.88, 0.94, 1.0)),
    ):
        where = np.array(eye) + rng.uniform(-0.2, 0.2, 3)
        pose = look_at(where, (0.5, 0.0, 0.0))
        pose[:3, :3] = pose[:3, :3] @ np.diag([1.0, -1.0, -1.0])
        strength = energy * float(rng.uniform(0.85, 1.2))
        made.append(
            Light(name=name, kind="area", pose=Pose.from_matrix(pose), energy=strength, size=size, color=colour)
        )
    return tuple(made)


def build_scene(spec: WorldSpec, scene_folder: Path, home: tuple[float, ...]) -> Scene:
    """Write the textures and meshes of the true scene, and `scene.json`; return the scene.

    Args:
        spec: the world.
        scene_folder: where `scene.json`, `meshes/` and `textures/` go.
        home: the arm's joints at the start.
    """
    rng = np.random.default_rng(spec.seed)
    bodies: list[Body] = []
    materials: list[Material] = []
    for offset, (name, text, roles, box, pose, look) in enumerate(_surroundings(spec)):
        materials.append(write_material(name, look, spec.seed * 100 + offset, scene_folder))
        bodies.append(Body(name=name, description=text, roles=roles, shape=box, pose=pose, friction=0.8, material=name))
    for offset, item in enumerate(items(spec), start=20):
        materials.append(write_material(item.name, item.look, spec.seed * 100 + offset, scene_folder))
        shape = Mesh(file=write_mesh(item.shape, scene_folder)) if isinstance(item.shape, str) else item.shape
        bodies.append(Body(
            name=item.name, description=item.description, roles=item.roles, shape=shape, mass=item.mass,
            pose=body_pose(item, spec.table_height), friction=item.friction, material=item.name,
        ))  # fmt: skip
    scene = Scene(
        name=spec.name,
        bodies=tuple(bodies),
        robots=(Robot(name=ROBOT, model=MODEL, qpos=home, opening=OPEN),),
        cameras=cameras(spec, rng),
        lights=lights(rng),
        materials=tuple(materials),
        environment=(0.32, 0.33, 0.35),
        task=Task(text=spec.task, predicates=tuple({"name": p[0], "args": p[1:]} for p in spec.predicates)),
    )
    scene.save(scene_folder / SCENE_FILE)
    return scene
