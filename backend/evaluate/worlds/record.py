"""Writing what the product may see: videos, depth, the robot's record, prompts and `demo.json`."""

import json
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path

import av
import cv2
import numpy as np
import numpy.typing as npt

from backend.documents.demonstration import Demonstration, DemoObject, DemoRobot, Prompt, View
from backend.documents.observations import Mask, Masks
from backend.evaluate.worlds.expert import Performance
from backend.evaluate.worlds.layout import MODEL, ROBOT, items
from backend.evaluate.worlds.specs import WorldSpec
from mjcf_export.document import atomic_path, save_arrays, write_atomically
from mjcf_export.frames import inverse
from mjcf_export.scene import Camera, Scene

RECORD_RATE = 50.0
"""Samples per second of the robot's own record."""
MIN_PROMPT_AREA = 40


@dataclass(frozen=True)
class Pictures:
    """What one camera saw: frames `(T, H, W, 3)`, their times `(T,)`, and depth in mm `(T, H, W)` where recorded."""

    frames: npt.NDArray[np.uint8]
    times: npt.NDArray[np.float64]
    depth: npt.NDArray[np.uint16] | None = None


def write_video(path: Path, frames: npt.NDArray[np.uint8], fps: float, crf: int = 20) -> None:
    """Encode `(T, H, W, 3)` RGB as H.264 MP4, atomically."""
    with atomic_path(path) as temporary, av.open(str(temporary), "w", format="mp4") as container:
        stream = container.add_stream("libx264", rate=Fraction(fps).limit_denominator(1000))
        stream.height, stream.width = frames.shape[1:3]
        stream.pix_fmt = "yuv420p"
        stream.options = {"crf": str(crf), "preset": "medium"}
        for image in frames:
            for packet in stream.encode(av.VideoFrame.from_ndarray(image, format="rgb24")):
                container.mux(packet)
        for packet in stream.encode(None):
            container.mux(packet)


def loose_box(mask: Mask, rng: np.random.Generator) -> tuple[float, float, float, float]:
    """A box `(x0, y0, x1, y1)` as a person drags it around a mask `(H, W)`: a few pixels off on each side."""
    rows, columns = np.flatnonzero(mask.any(axis=1)), np.flatnonzero(mask.any(axis=0))
    x0, x1, y0, y1 = float(columns[0]), float(columns[-1] + 1), float(rows[0]), float(rows[-1] + 1)
    slack = rng.uniform(-0.01, 0.06, 4) * np.array([x1 - x0, y1 - y0] * 2) + rng.uniform(0, 3, 4)
    height, width = mask.shape
    return (
        round(max(0.0, x0 - slack[0]), 1), round(max(0.0, y0 - slack[1]), 1),
        round(min(float(width), x1 + slack[2]), 1), round(min(float(height), y1 + slack[3]), 1),
    )  # fmt: skip


def _objects(spec: WorldSpec, views: tuple[Camera, ...], masks: Masks, rng: np.random.Generator) -> list[DemoObject]:
    """What the user would list: names, roles, descriptions and a box in the first frame of each view."""
    listed = []
    for item in items(spec):
        prompts = []
        for view in views:
            mask = masks.frame(f"mask/{view.name}/{item.name}", 0)
            if mask.sum() >= MIN_PROMPT_AREA:
                prompts.append(Prompt(view=view.name, frame=0, box=loose_box(mask, rng)))
        listed.append(
            DemoObject(name=item.name, roles=item.roles, description=item.description, prompts=tuple(prompts))
        )
    listed.append(DemoObject(name="table", roles=("support",), description="table"))
    return listed


def _robot_record(
    performance: Performance, scene: Scene, rng: np.random.Generator
) -> dict[str, npt.NDArray[np.float64]]:
    """The robot's own clock, joints, opening with encoder noise, and tcp in its base frame."""
    step = max(1, round(1 / RECORD_RATE / float(np.diff(performance.time).mean())))
    pick = slice(None, None, step)
    base = inverse(scene.robots[0].base.matrix)
    opening = performance.opening[pick] + rng.normal(0, 0.00015, len(performance.time[pick]))
    return {
        "time": performance.time[pick],
        "qpos": performance.qpos[pick] + rng.normal(0, 1e-5, performance.qpos[pick].shape),
        "gripper_opening": np.maximum(opening, 0.0),
        "tcp_pose": base @ performance.tcp[pick],
    }


def _rows(matrix: npt.NDArray[np.float64]) -> tuple[tuple[float, ...], ...]:
    return tuple(tuple(float(value) for value in row) for row in matrix)


def write_demonstration(
    spec: WorldSpec, scene: Scene, performance: Performance, pictures: dict[str, Pictures], masks: Masks, folder: Path
) -> Demonstration:
    """Write the demonstration folder of a performance; nothing of the truth goes into it.

    Args:
        spec: the world.
        scene: its true scene, for the calibrated cameras.
        performance: what was executed.
        pictures: by camera name.
        masks: true masks, from which the prompts' boxes are drawn.
        folder: where `demo.json` goes.
    """
    rng = np.random.default_rng(spec.seed + 5000)
    views = []
    for camera in scene.cameras:
        seen = pictures[camera.name]
        fps = 1 / float(np.diff(seen.times).mean())
        write_video(folder / f"{camera.name}.mp4", seen.frames, fps)
        write_atomically(folder / f"{camera.name}_time.npy", lambda stream, t=seen.times: np.save(stream, t))  # type: ignore[misc]
        if seen.depth is not None:
            for index, image in enumerate(seen.depth):
                with atomic_path(folder / f"{camera.name}_depth" / f"{index:05d}.png") as temporary:
                    cv2.imwrite(str(temporary), image)
        views.append(View(
            name=camera.name, video=f"{camera.name}.mp4", timestamps=f"{camera.name}_time.npy",
            intrinsics=camera.intrinsics, extrinsics=_rows(camera.pose.matrix),
            depth=None if seen.depth is None else f"{camera.name}_depth",
        ))  # fmt: skip
    save_arrays(folder / "robot.npz", _robot_record(performance, scene, rng))
    demonstration = Demonstration(
        task=spec.task,
        views=tuple(views),
        robots=(DemoRobot(name=ROBOT, model=MODEL, base=_rows(scene.robots[0].base.matrix), states="robot.npz"),),
        world=ROBOT,
        objects=tuple(_objects(spec, scene.cameras, masks, rng)),
    )
    given = demonstration.model_dump(mode="json", exclude_defaults=True)
    text = json.dumps({"version": demonstration.version, "actor": demonstration.actor, **given}, indent=1)
    write_atomically(folder / "demo.json", lambda stream: stream.write(text.encode()))
    return demonstration
