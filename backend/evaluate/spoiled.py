"""Demonstrations and reconstructions with one thing wrong in each, for measuring what diagnosis is worth."""

from collections.abc import Callable, Sequence

import numpy as np

from backend.demos import load_view
from backend.documents.demonstration import Demonstration, DemoObject, Prompt, ViewTrust
from backend.reconstruct.resize import scaled
from mjcf_export.frames import Array, rotation_about
from mjcf_export.scene import Body, Pose, Scene

TURN = np.radians(2.0)
SHIFT = 0.02
GROWTH = 0.08
LOOSE = 0.35
"""How much wider than the object a loose box is, of its size, on each side."""
ASIDE = 0.12

DemoSpoil = Callable[[Demonstration, np.random.Generator], tuple[Demonstration, str]]
SceneSpoil = Callable[[Scene, np.random.Generator], tuple[Scene, str]]


def _direction(rng: np.random.Generator, size: int = 3) -> Array:
    vector = rng.normal(size=size)
    return np.asarray(vector / np.linalg.norm(vector))


def camera_off(demo: Demonstration, rng: np.random.Generator) -> tuple[Demonstration, str]:
    """One camera turned by 2 degrees, moved by 2 cm and marked `estimated`; and which."""
    chosen = demo.views[int(rng.integers(len(demo.views)))]
    pose = np.array(chosen.extrinsics)
    pose[:3, :3] = pose[:3, :3] @ rotation_about(_direction(rng), TURN)
    pose[:3, 3] += SHIFT * _direction(rng)
    trust = chosen.trust.model_copy(update={"extrinsics": "estimated"})
    rows = tuple(tuple(float(v) for v in row) for row in pose)
    moved = chosen.model_copy(update={"extrinsics": rows, "trust": ViewTrust(**trust.model_dump())})
    views = tuple(moved if view.name == chosen.name else view for view in demo.views)
    return demo.model_copy(update={"views": views}), chosen.name


def prompts_loose(demo: Demonstration, rng: np.random.Generator) -> tuple[Demonstration, str]:
    """Every box far too wide and drawn aside."""
    sizes = {view.name: load_view(demo, view.name).images.shape[2:0:-1] for view in demo.views}

    def loosened(prompt: Prompt) -> Prompt:
        if prompt.box is None:
            return prompt
        last = np.array(sizes[prompt.view]) - 1.0
        first, second = np.array(prompt.box).reshape(2, 2)
        aside = ASIDE * (second - first) * rng.choice((-1.0, 1.0), size=2)
        low = np.maximum(first - LOOSE * (second - first) + aside, 0)
        high = np.minimum(second + LOOSE * (second - first) + aside, last)
        return prompt.model_copy(update={"box": (*low.tolist(), *high.tolist())})

    return _with_prompts(demo, lambda item: tuple(loosened(prompt) for prompt in item.prompts)), ""


def prompts_missing(demo: Demonstration, rng: np.random.Generator) -> tuple[Demonstration, str]:
    """No prompt at all: the robot's record must say what was handled."""
    return _with_prompts(demo, lambda item: ()), ""


def view_dropped(demo: Demonstration, rng: np.random.Generator) -> tuple[Demonstration, str]:
    """One view fewer."""
    left = demo.views[int(rng.integers(len(demo.views)))].name
    views = tuple(view for view in demo.views if view.name != left)
    kept = demo.model_copy(update={"views": views})
    return _with_prompts(kept, lambda item: tuple(p for p in item.prompts if p.view != left)), ""


def _with_prompts(demo: Demonstration, change: Callable[[DemoObject], tuple[Prompt, ...]]) -> Demonstration:
    objects = tuple(item.model_copy(update={"prompts": change(item)}) for item in demo.objects)
    return demo.model_copy(update={"objects": objects})


def _chosen(bodies: Sequence[Body], rng: np.random.Generator) -> Body:
    objects = [body for body in bodies if set(body.roles) - {"support"}]
    return objects[int(rng.integers(len(objects)))]


def object_resized(scene: Scene, rng: np.random.Generator) -> tuple[Scene, str]:
    """One object 8 % larger or smaller; and which."""
    body = _chosen([body for body in scene.bodies if body.shape.kind != "mesh"], rng)
    factor = 1 + GROWTH * float(rng.choice((-1.0, 1.0)))
    shape = scaled(body.shape, (factor, factor, factor))
    return scene.replace_body(body.model_copy(update={"shape": shape})), body.name


def object_moved(scene: Scene, rng: np.random.Generator) -> tuple[Scene, str]:
    """One object 2 cm aside on its support; and which."""
    body = _chosen(scene.bodies, rng)
    pose = body.pose.matrix.copy()
    pose[:2, 3] += SHIFT * _direction(rng, 2)
    return scene.replace_body(body.model_copy(update={"pose": Pose.from_matrix(pose)})), body.name


IN_DEMONSTRATION: dict[str, DemoSpoil] = {
    "camera off": camera_off,
    "loose prompts": prompts_loose,
    "no prompts": prompts_missing,
    "one view fewer": view_dropped,
}
IN_SCENE: dict[str, SceneSpoil] = {"size off": object_resized, "position off": object_moved}
