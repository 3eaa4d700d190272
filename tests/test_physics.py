"""Native validation on real MuJoCo: a planned pick into a cup is accepted, and nothing that cheats is."""

import shutil
import sys
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pytest

from backend.documents.diagnosis import Answer, Diagnosis, Keyframe
from backend.documents.motion import Motion
from backend.documents.verdict import Criteria, Rollout, Verdict
from backend.evaluate.bench_physics import bench
from backend.motion.adapt import adapt_motion
from backend.motion.kinematics import Kinematics
from backend.motion.planner import Pick, plan_pick_place
from backend.motion.shift import shift_tcp
from backend.motion.world import World
from backend.physics import validate
from backend.physics.controls import build_controls
from backend.physics.correct import correct_motion
from backend.physics.execute import Executor
from backend.physics.final import run_fresh
from backend.physics.predicates import Judge
from backend.physics.staged import execute_stages, make_plan
from mjcf_export.document import hash_files, load_arrays
from mjcf_export.errors import InputError
from mjcf_export.export import export_scene
from mjcf_export.frames import transform
from mjcf_export.scene import SCENE_FILE, Body, Box, Lathe, Pose, Predicate, Robot, Scene, Shape, Task

CUP = Lathe(outer=((0.036, 0.0), (0.045, 0.09)), inner=((0.032, 0.006), (0.041, 0.09)))
SEALED = Lathe(outer=CUP.outer)
INSIDE = (Predicate(name="inside", args=("block", "cup")),)


def make_scene(
    cup: Shape = CUP, cup_x: float = 0.5, friction: float = 0.7, goal: tuple[Predicate, ...] = INSIDE
) -> Scene:
    return Scene(
        bodies=(
            Body(name="table", roles=("support",), shape=Box(size=(0.8, 1.2, 0.04)),
                 pose=Pose(position=(0.55, 0, -0.04))),
            Body(name="block", shape=Box(size=(0.04, 0.04, 0.04)), mass=0.08, friction=friction,
                 pose=Pose(position=(0.5, -0.12, 0), quaternion=(np.cos(0.2), 0, 0, np.sin(0.2)))),
            Body(name="cup", roles=("container",), shape=cup, pose=Pose(position=(cup_x, 0.15, 0)), mass=0.25),
        ),
        robots=(Robot(name="right", model="fr3_robotiq_2f85"),),
        task=Task(predicates=INSIDE),
    )  # fmt: skip


def write(scene: Scene, root: Path) -> Path:
    scene.save(root / "scene" / SCENE_FILE)
    export_scene(scene, root / "scene", root / "mjcf")
    return root


class Case:
    """The planned motion and its accepted run on disk."""

    def __init__(self, root: Path) -> None:
        self.root = write(make_scene(), root)
        pick = Pick("block", transform((0.5, 0.15, 0.006)), "cup", inside=True, free_yaw=True)
        self.motion, self.arrays = plan_pick_place(make_scene(), root / "scene", "right", [pick])
        self.verdict = self.validate(self.root)

    def validate(self, root: Path, arrays: dict | None = None, **options) -> Verdict:
        folders = root / "scene", root / "mjcf", root / "rollout"
        given = self.arrays if arrays is None else arrays
        return validate(folders[0], self.motion, given, folders[1], folders[2], lambda done, text: None, **options)

    def shifted(self, shift: tuple[float, float, float], window: tuple[float, float, float, float]) -> dict:
        qpos, left = shift_tcp(
            Kinematics("fr3_robotiq_2f85"), self.arrays["time"], self.arrays["right/qpos"], np.array(shift), window
        )
        assert left < 1e-3
        return {**self.arrays, "right/qpos": qpos}


@pytest.fixture(scope="module")
def case(tmp_path_factory) -> Case:
    return Case(tmp_path_factory.mktemp("pick"))


def failed(verdict: Verdict) -> list[str]:
    return [check.name for check in verdict.checks if check.status == "fail"]


def test_planned_pick_is_accepted_with_every_stage_checked(case):
    verdict = case.verdict
    assert verdict.accepted, verdict.message
    assert {check.stage for check in verdict.checks if check.status == "pass"} == {
        "settle", "approach", "orientation", "closure", "load", "transport", "release", "whole",
    }  # fmt: skip
    assert all(check.status == "pass" for check in verdict.checks)
    assert verdict.corrections == () and verdict.adapted is None
    assert verdict.hashes["model"] == hash_files([case.root / "mjcf"])
    assert verdict.hashes["criteria"] == hash_files([case.root / "rollout" / "criteria.json"])


def test_rollout_holds_what_it_documents(case):
    folder = case.root / "rollout"
    rollout, arrays = Rollout.load(folder / "rollout.json"), load_arrays(folder / "rollout.npz")
    assert rollout.warnings == {} and rollout.start == 2.0 and rollout.control_dt == 0.01
    assert len(arrays["time"]) == rollout.steps == len(arrays["ctrl"])
    start, end = rollout.stages["transport block"]
    carried = (arrays["time"] >= start) & (arrays["time"] < end)
    for side in ("left", "right"):
        force = arrays[f"pad/right/{side}/block"]
        assert force[carried].min() > 0.5 and force[-50:].max() <= 0.02
        assert force[carried].max() < 40, "the block is held, not crushed"
    assert np.abs(arrays["right/opening"][carried] - 0.04).max() < 0.002, (
        "the pads are as far apart as the block is wide"
    )
    gap = arrays["body/block"][carried, :3] - arrays["right/tcp"][carried, :3, 3]
    assert np.linalg.norm(gap, axis=1).max() < 0.04, "the block is between the fingers"
    assert arrays["body/block"][-1, 2] == pytest.approx(0.006, abs=1e-3)
    assert arrays["force/block/cup"][-1] == pytest.approx(0.08 * 9.81, rel=0.01)


def test_nothing_but_controls_moves_the_world(case):
    """Raw stepping from the stored initial state under the stored controls gives the stored trajectory, bit by bit."""
    folder = case.root / "rollout"
    controls, arrays = load_arrays(folder / "controls.npz"), load_arrays(folder / "rollout.npz")
    model = mujoco.MjModel.from_xml_path(str(case.root / "mjcf" / "scene.xml"))
    data = mujoco.MjData(model)
    mujoco.mj_resetDataKeyframe(model, data, 0)
    data.qpos[:] = controls["qpos"]
    for tick in range(len(arrays["time"])):
        assert (data.qpos == arrays["qpos"][tick]).all(), f"differs at step {tick}"
        data.ctrl[:] = controls["ctrl"][tick]
        mujoco.mj_step(model, data, 5)
    state = arrays["state/settled"]
    mujoco.mj_setState(model, data, state, mujoco.mjtState.mjSTATE_INTEGRATION)
    mujoco.mj_step(model, data, 5)
    assert (data.qpos == arrays["qpos"][201]).all(), "a restart from a saved state continues the same trajectory"


def test_final_run_is_reproduced_by_another_process(case):
    root = case.root
    again = run_fresh(root / "scene", root / "mjcf", root / "rollout")
    assert again == case.verdict


def test_contact_forces_are_mujocos(case):
    world = World.load(case.root / "scene", case.root / "mjcf")
    controls = build_controls(world, case.motion, case.arrays, Criteria())
    executor = Executor(world, controls)
    executor.run(controls.tick(3.0))
    contacts = executor.recording().contacts
    data = world.initial_data()
    data.qpos[:] = controls.qpos
    for row in controls.ctrl[: controls.tick(3.0) - 1]:
        data.ctrl[:] = row
        mujoco.mj_step(world.model, data, 5)
    data.ctrl[:] = controls.ctrl[controls.tick(3.0) - 1]
    mujoco.mj_step(world.model, data)
    expected = np.zeros((data.ncon, 6))
    for index in range(data.ncon):
        mujoco.mj_contactForce(world.model, data, index, expected[index])
    rows = contacts.tick == controls.tick(3.0) - 1
    assert rows.sum() == data.ncon > 8
    assert np.allclose(contacts.force[rows], expected[:, :3], atol=1e-12)


def test_sealed_cup_is_rejected_whatever_is_corrected(case, tmp_path):
    verdict = case.validate(write(make_scene(cup=SEALED), tmp_path))
    assert not verdict.accepted and verdict.failed_stage == "whole"
    assert failed(verdict) == ["inside(block, cup)"] and "cup has no cavity" in verdict.message


@pytest.mark.parametrize("goal", [("inside", "cup", "block"), ("on", "block", "table"), None])
def test_mislabelled_or_missing_goal_is_rejected(case, goal):
    predicates = () if goal is None else (Predicate(name=goal[0], args=goal[1:]),)
    criteria = Criteria(predicates=predicates)
    world = World.load(case.root / "scene", case.root / "mjcf")
    made = correct_motion(world, case.motion, case.arrays, criteria, lambda done, text: None)
    assert made.outcome.failed == "whole"
    expected = "predicates" if goal is None else str(predicates[0])
    assert [check.name for check in made.outcome.failures] == [expected]


def test_closing_beside_the_block_is_rejected_whatever_is_corrected(case, tmp_path):
    shutil.copytree(case.root, tmp_path / "run")
    verdict = case.validate(tmp_path / "run", case.shifted((0.06, 0.0, 0.0), (0.5, 1.3, 4.0, 5.0)))
    assert not verdict.accepted and verdict.failed_stage in {"approach", "orientation", "closure"}


def test_closing_beside_the_block_stops_the_run_there(case, tmp_path):
    arrays = case.shifted((0.06, 0.0, 0.0), (0.5, 1.3, 4.0, 5.0))
    shutil.copytree(case.root, tmp_path / "run")
    verdict = case.validate(tmp_path / "run", arrays, corrections=False)
    assert verdict.failed_stage == "orientation"
    assert failed(verdict) == ["left pad touches block", "right pad touches block"]
    later = [check for check in verdict.checks if check.stage in {"load", "transport", "release", "whole"}]
    assert later and all(check.status == "not evaluated" for check in later), "the run stops at the failed stage"
    end = Rollout.load(tmp_path / "run" / "rollout" / "rollout.json").stages["orientation block"][1]
    assert load_arrays(tmp_path / "run" / "rollout" / "rollout.npz")["time"][-1] < end


def test_slippery_block_is_rejected_whatever_is_corrected(case, tmp_path):
    verdict = case.validate(write(make_scene(friction=0.02), tmp_path))
    assert not verdict.accepted and verdict.failed_stage in {"load", "transport"}


def test_release_beside_the_cup_is_corrected_within_bounds(case, tmp_path):
    root = write(make_scene(cup_x=0.548), tmp_path)
    refused = case.validate(root, corrections=False)
    assert not refused.accepted and "inside(block, cup)" in failed(refused)
    verdict = case.validate(root)
    assert verdict.accepted, verdict.message
    assert any("at the release of block" in note for note in verdict.corrections)
    before = Kinematics("fr3_robotiq_2f85").tcp(case.arrays["right/qpos"])[:, :3, 3]
    after = Kinematics("fr3_robotiq_2f85").tcp(load_arrays(root / "rollout" / "executed.npz")["right/qpos"])[:, :3, 3]
    moved = np.linalg.norm(after - before, axis=1)
    assert 0.002 < moved.max() < 0.0155 and verdict.adapted is None


def test_grasp_above_the_block_is_corrected_deeper(case, tmp_path):
    shutil.copytree(case.root, tmp_path / "run")
    arrays = case.shifted((0.0, 0.0, 0.04), (0.5, 1.3, 4.0, 5.0))
    assert case.validate(tmp_path / "run", arrays, corrections=False).failed_stage == "orientation"
    verdict = case.validate(tmp_path / "run", arrays)
    assert verdict.accepted, verdict.message
    assert all("at the grasp of block" in note for note in verdict.corrections) and verdict.corrections


def test_physics_does_not_start_while_the_diagnosis_blocks(case, tmp_path):
    shutil.copytree(case.root, tmp_path / "run")
    answer = Answer(question="camera", status="fail", value=9.0, unit="px", threshold=3.0, detail="ext1 is off")
    diagnosis = Diagnosis(keyframes=(Keyframe(event="e1", view="ext1", frame=3, time=0.3, answers=(answer,)),))
    verdict = case.validate(tmp_path / "run", diagnosis=diagnosis)
    assert not verdict.accepted and "camera at e1 in ext1" in verdict.message
    assert not (tmp_path / "run" / "rollout" / "rollout.npz").exists()


def test_solver_warning_and_bad_states_fail(case):
    world = World.load(case.root / "scene", case.root / "mjcf")
    controls = build_controls(world, case.motion, case.arrays, Criteria())
    ctrl = controls.ctrl.copy()
    ctrl[150, 0] = np.nan
    outcome = execute_stages(
        world, make_plan(world, case.motion, case.arrays, replace(controls, ctrl=ctrl)), Criteria()
    )
    assert outcome.failed == "settle"
    assert any(check.name == "MuJoCo warnings" and check.value >= 1 for check in outcome.failures)


def test_predicates_measure_and_name_what_is_missing(case):
    world = World.load(case.root / "scene", case.root / "mjcf")
    controls = build_controls(world, case.motion, case.arrays, Criteria())
    executor = Executor(world, controls)
    executor.run(controls.steps)
    judge = Judge(world, executor.recording(), Criteria(), controls.tick(0.0))

    def value(name: str, *args: str | float | tuple[float, ...]) -> tuple[str, float]:
        check = judge.check(Predicate(name=name, args=args))
        return check.status, check.value

    for name, args in (
        ("lifted", ("block", 0.05)), ("carried", ("block", 0.2)), ("inserted", ("block", "cup", 0.08)),
        ("released", ("block",)), ("stable", ("cup",)), ("upright", ("cup",)), ("retracted", (0.2,)),
        ("separated", ("block", "table", 0.004)), ("on", ("block", "cup")), ("at", ("block", (0.5, 0.15, 0.006), 0.02)),
    ):  # fmt: skip
        assert value(name, *args)[0] == "pass", name
    assert value("lifted", "cup") == ("fail", 0.0)
    assert value("on", "cup", "table")[1] == pytest.approx((0.25 + 0.08) / 0.25, rel=0.01)
    assert value("separated", "block", "table", 0.01) == ("fail", pytest.approx(0.006, abs=1e-3))
    with pytest.raises(InputError, match="no body 'mug'; there are table, block, cup"):
        value("inside", "mug", "cup")
    with pytest.raises(InputError, match="wrong arguments"):
        value("inside", "block")


def test_video_only_motion_is_planned_for_a_robot_placed_by_reach(case, tmp_path):
    scene = make_scene().model_copy(update={"robots": ()})
    events = tuple(
        event.model_copy(update={"robot": None, "object": "hand" if event.object == "right" else event.object})
        for event in case.motion.events
        if event.subject == "block"
    )
    grasp = next(event for event in case.motion.events if event.relation == "grasp")
    events = (grasp.model_copy(update={"subject": "block", "object": "hand", "robot": None}), *events)
    tracks = {key: value for key, value in case.arrays.items() if key == "time" or key.startswith("object/")}
    video = Motion(duration=case.motion.duration, events=events)
    scene.save(tmp_path / "scene" / SCENE_FILE)
    placed, motion, arrays = adapt_motion(scene, tmp_path / "scene", video, tracks, None, lambda done, text: None)
    assert "base proposed by reach" in motion.adapted and motion.source == "planned"
    root = write(placed, tmp_path)
    verdict = validate(root / "scene", motion, arrays, root / "mjcf", root / "rollout", lambda done, text: None)
    assert verdict.accepted, verdict.message
    assert verdict.adapted and verdict.substitutions


def test_bench_compares_validation_with_raw_stepping(capsys):
    result = bench(count=4)
    with capsys.disabled():
        sys.stdout.write(f"\nphysics {result['figures']}\n")
    assert result["figures"]["validation_over_raw"] > 0.8, "well under the goal even on a loaded machine"
    assert result["met"] == (result["figures"]["validation_over_raw"] >= 0.9)
