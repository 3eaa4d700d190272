"""The physics bench: steps per CPU second of validation beside raw `mj_step` on the same model and controls."""

import tempfile
import time
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from backend.documents.run import Progress
from backend.documents.verdict import Criteria
from backend.motion.planner import Pick, plan_pick_place
from backend.motion.world import World
from backend.physics.controls import build_controls
from backend.physics.execute import Executor
from backend.physics.staged import Plan, execute_stages, make_plan
from mjcf_export.errors import Real2GymError
from mjcf_export.export import export_scene
from mjcf_export.frames import Array, transform
from mjcf_export.scene import SCENE_FILE, Body, Box, Lathe, Pose, Predicate, Robot, Scene, Task

GOAL = 0.90
REPEATS = 15
_TURN = 60
"""Control steps that one side makes before the other has its turn."""


def bench(
    worlds: Path | None = None,
    count: int | None = None,
    robot: str | None = None,
    progress: Progress = lambda done, message: None,
) -> dict[str, Any]:
    """A planned pick-and-place is executed and stepped raw in short turns; the best time of every turn counts.

    `validation_over_raw` is the physics of a validation: stepping while recording states, poses and every contact with
    its force. `with_checks_over_raw` adds every stage's checks and the predicates. The raw run only sets the same
    precomputed controls and steps the same model on one thread.

    Args:
        worlds: not used; the bench makes its own scene.
        count: repeats, 15 when None.
        robot: model, FR3 with 2F-85 when None.
        progress: called with the fraction done and a message.

    Returns:
        As `backend.evaluate.benches.run_bench` describes.
    """
    repeats = count or REPEATS
    with tempfile.TemporaryDirectory() as folder:
        progress(0.0, "planning the pick-and-place")
        world, plan, criteria = prepare(Path(folder), robot or "fr3_robotiq_2f85")
        pairs, checked = [], []
        for repeat in range(repeats):
            pairs.append(_side_by_side(world, plan))
            checked.append(_validation(world, plan, criteria))
            progress((repeat + 1) / repeats, f"repeat {repeat + 1} of {repeats}")
    steps = plan.controls.steps * round(plan.controls.dt / float(world.model.opt.timestep))
    raw, execution = (float(value) for value in np.array(pairs).min(axis=0).sum(axis=0))
    figures = {
        "validation_over_raw": round(raw / execution, 3),
        "with_checks_over_raw": round(raw / min(checked), 3),
        "raw_steps_per_cpu_second": round(steps / raw),
        "validation_steps_per_cpu_second": round(steps / execution),
    }
    return {
        "bench": "physics",
        "figures": figures,
        "goals": {"validation_over_raw": f"at least {GOAL:.2f}"},
        "met": figures["validation_over_raw"] >= GOAL,
        "details": [
            {
                "steps": steps,
                "raw_cpu_seconds": round(raw, 4),
                "execution_cpu_seconds": round(execution, 4),
                "validation_cpu_seconds": round(min(checked), 4),
            }
        ],
    }


def prepare(root: Path, model: str) -> tuple[World, Plan, Criteria]:
    """A block to put into a hollow cup, planned and exported under `root`."""
    cup = Lathe(outer=((0.036, 0.0), (0.045, 0.09)), inner=((0.032, 0.006), (0.041, 0.09)))
    scene = Scene(
        name="bench",
        bodies=(
            Body(
                name="table", roles=("support",), shape=Box(size=(0.8, 1.2, 0.04)), pose=Pose(position=(0.55, 0, -0.04))
            ),
            Body(name="block", shape=Box(size=(0.04, 0.04, 0.04)), pose=Pose(position=(0.5, -0.12, 0)), mass=0.08),
            Body(name="cup", roles=("container",), shape=cup, pose=Pose(position=(0.5, 0.15, 0)), mass=0.25),
        ),
        robots=(Robot(name="right", model=model),),
        task=Task(predicates=(Predicate(name="inside", args=("block", "cup")),)),
    )
    scene.save(root / "scene" / SCENE_FILE)
    export_scene(scene, root / "scene", root / "mjcf")
    world = World.load(root / "scene", root / "mjcf")
    pick = Pick("block", transform((0.5, 0.15, 0.006)), "cup", inside=True, free_yaw=True)
    motion, arrays = plan_pick_place(scene, root / "scene", "right", [pick], model=world.model)
    criteria = Criteria(predicates=scene.task.predicates)
    return world, make_plan(world, motion, arrays, build_controls(world, motion, arrays, criteria)), criteria


def _side_by_side(world: World, plan: Plan) -> Array:
    """CPU seconds `(turns, 2)` of raw stepping and of an execution with its recording, made in turns."""
    model, controls = world.model, plan.controls
    substeps = round(controls.dt / float(model.opt.timestep))
    clock = time.process_time
    begun = clock()
    data = world.initial_data()
    data.qpos[:] = controls.qpos
    between = clock()
    executor = Executor(world, controls, plan.marks)
    turns = [(between - begun, clock() - between)]
    for start in range(0, controls.steps, _TURN):
        begun = clock()
        for row in controls.ctrl[start : start + _TURN]:
            data.ctrl[:] = row
            mujoco.mj_step(model, data, substeps)
        between = clock()
        executor.run(start + _TURN)
        turns.append((between - begun, clock() - between))
    begun = clock()
    executor.recording()
    turns.append((0.0, clock() - begun))
    return np.array(turns)


def _validation(world: World, plan: Plan, criteria: Criteria) -> float:
    """CPU seconds of a staged execution with all its checks."""
    begun = time.process_time()
    outcome = execute_stages(world, plan, criteria)
    spent = time.process_time() - begun
    if outcome.failed is not None:
        raise Real2GymError(f"the bench's own pick-and-place was rejected: {outcome.message()}")
    return spent
