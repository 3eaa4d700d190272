"""The world maker: the expert works by contact, the demonstration says nothing of the truth, and is well formed."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from backend.demos import check_demonstration, load_demonstration
from backend.demos.video import load_view
from backend.documents.motion import Event
from backend.documents.observations import Masks
from backend.evaluate import reconstruction_scores as scores
from backend.evaluate.worlds import WORLDS, make_worlds
from backend.evaluate.worlds.expert import kinematics_of, plan, true_events
from backend.evaluate.worlds.make import rehearse
from backend.evaluate.worlds.record import Pictures, write_demonstration
from backend.evaluate.worlds.render import Picture, frame_ticks
from backend.evaluate.worlds.sensor import depth_sensor, photograph
from backend.evaluate.worlds.specs import world_specs
from backend.evaluate.worlds.truth import TrueEvent, masks_and_depth
from mjcf_export.errors import InputError, Real2GymError
from mjcf_export.frames import project
from mjcf_export.scene import Body, Box, Lathe, Pose, Tray


@pytest.fixture(scope="module")
def arm():
    return kinematics_of()


@pytest.fixture(scope="module")
def block(arm, tmp_path_factory):
    spec = world_specs(("block_into_cup",))[0]
    folder = tmp_path_factory.mktemp("block")
    return spec, folder, *rehearse(spec, folder, arm)


def test_suite_is_varied_and_within_the_gripper():
    assert len({spec.name for spec in WORLDS}) == len(WORLDS) == 12
    assert len({spec.seed for spec in WORLDS}) == 12
    assert sum(spec.depth for spec in WORLDS) == 2
    kinds = {getattr(item.shape, "kind", "mesh") for spec in WORLDS for item in (spec.moved, spec.target)}
    assert kinds == {"box", "cylinder", "lathe", "tray", "extrusion", "mesh"}
    assert all(spec.grip.width + 0.008 < 0.085 for spec in WORLDS)


def test_expert_puts_the_block_into_the_cup_by_contact(block):
    spec, _, scene, _, done = block
    assert 5.5 < done.time[-1] <= 7.9
    block_end, cup_end = done.bodies["block"][-1], done.bodies["cup"][-1]
    assert np.linalg.norm(block_end[:2] - cup_end[:2]) < 0.02
    assert 0.003 < block_end[2] < 0.012
    assert np.linalg.norm(cup_end[:3] - done.bodies["cup"][0, :3]) < 0.01
    held = (done.loads["left"] > 0.5) & (done.loads["right"] > 0.5)
    times = {event.relation: event.onset for event in true_events(spec, done)}
    assert times["grasp"] < times["lift"] < times["release"] < times["containment"]
    assert held[(done.time > times["lift"]) & (done.time < times["release"] - 0.1)].all()
    assert abs(done.opening[held].mean() - scene.body("block").shape.size[0]) < 0.002
    assert all(check.status == "pass" for check in done.checks)


def test_expert_stands_the_mug_mesh_on_its_coaster(arm, tmp_path):
    spec = world_specs(("mug_onto_coaster",))[0]
    _, _, done = rehearse(spec, tmp_path, arm)
    assert abs(done.bodies["mug"][-1, 2] - 0.007) < 0.001
    assert {"on(mug, coaster)", "upright(mug, 0.35)", "stable(mug)"} <= {check.name for check in done.checks}


def test_expert_that_grips_beside_the_block_is_refused(arm, tmp_path):
    spec = world_specs(("block_into_cup",))[0]
    beside = replace(spec, grip=replace(spec.grip, point=(0.0, 0.0, 0.10)))
    with pytest.raises(Real2GymError, match=r"inside\(block, cup\).*lifted\(block\)"):
        rehearse(beside, tmp_path, arm)


def test_expert_names_what_it_cannot_reach(arm):
    spec = world_specs(("block_into_cup",))[0]
    far = replace(spec, moved=replace(spec.moved, xy=(1.2, 0.3)))
    with pytest.raises(InputError, match="cannot reach"):
        plan(far, arm, arm.home)


def test_masks_lie_where_the_cameras_project_the_bodies(block):
    spec, folder, scene, world, done = block
    masks, depth = masks_and_depth(world, done.full[:1], scene.cameras, ["block", "cup"])
    for camera in scene.cameras:
        for name in ("block", "cup"):
            body = scores.placed(scene.body(name), folder)
            pixels, z = project(body.vertices, camera.matrix, camera.pose.matrix)
            rows, columns = np.nonzero(masks.frame(f"mask/{camera.name}/{name}", 0))
            assert abs(columns.min() - pixels[:, 0].min()) < 1.5 and abs(columns.max() - pixels[:, 0].max()) < 1.5
            assert abs(rows.min() - pixels[:, 1].min()) < 1.5 and abs(rows.max() - pixels[:, 1].max()) < 1.5
            assert z.min() - 0.002 < depth[camera.name][0][rows, columns].min() < z.max()


def test_demonstration_is_valid_and_says_nothing_of_the_truth(block, tmp_path):
    spec, _, scene, world, done = block
    ticks = frame_ticks(done, Picture(fps=1.0))
    names = ["block", "cup"]
    masks, depth = masks_and_depth(world, done.full[ticks], scene.cameras, names)
    rng = np.random.default_rng(0)
    pictures = {}
    for camera in scene.cameras:
        clean = np.full((len(ticks), camera.height, camera.width, 3), 120, np.uint8)
        for channel, name in enumerate(names):
            clean[..., channel] = np.where(masks[f"mask/{camera.name}/{name}"], 230, 120)
        recorded = depth_sensor(depth[camera.name], rng)
        pictures[camera.name] = Pictures(photograph(clean, rng), done.time[ticks], recorded)
    write_demonstration(spec, scene, done, pictures, masks, tmp_path)
    assert not [problem for problem in check_demonstration(tmp_path) if problem.severity == "error"]
    raw = json.loads((tmp_path / "demo.json").read_text())
    assert raw["version"] == 1 and raw["actor"] == "robot" and raw["world"] == "right"
    assert "predicates" not in raw and not any("size" in item for item in raw["objects"])
    assert {item["name"] for item in raw["objects"]} == {"block", "cup", "table"}
    assert not [path for path in tmp_path.rglob("*") if path.name in {"scene.json", "truth.json", "poses.npz"}]
    demo = load_demonstration(tmp_path)
    view = load_view(demo, "ext1")
    assert view.images.shape == (len(ticks), 360, 480, 3) and np.allclose(view.times, done.time[ticks])
    true_depth = depth["ext1"][0]
    recorded = view.depth[0]
    assert (recorded == 0).mean() < 0.2
    assert np.median(np.abs(recorded - true_depth)[recorded > 0]) < 0.004
    box = next(item for item in demo.objects if item.name == "block").prompts[0].box
    rows, columns = np.nonzero(masks.frame("mask/ext1/block", 0))
    assert np.abs(np.array(box) - (columns.min(), rows.min(), columns.max() + 1, rows.max() + 1)).max() < 8
    with np.load(tmp_path / "robot.npz") as record:
        assert np.allclose(np.diff(record["time"]), 0.02)
        assert np.abs(record["gripper_opening"] - done.opening[::2]).max() < 0.001
        assert np.allclose(record["tcp_pose"], done.tcp[::2])


def test_sensor_noise_has_the_strength_of_a_camera():
    frames = np.full((6, 90, 120, 3), 128, np.uint8)
    seen = photograph(frames, np.random.default_rng(3)).astype(float)
    assert 1.0 < seen[:, 40:50, 55:65].std(axis=(1, 2)).mean() < 5.0
    assert abs(seen.mean() - 128) < 12
    assert seen[:, :5, :5].mean() < seen[:, 42:47, 57:62].mean()


def test_scores_are_blind_to_frames_and_see_errors(tmp_path):
    truth = scores.placed(Body(name="a", shape=Box(size=(0.05, 0.03, 0.04))), tmp_path)
    turned = Pose(quaternion=(math.cos(math.pi / 4), 0, 0, math.sin(math.pi / 4)))
    same = scores.placed(Body(name="a", shape=Box(size=(0.03, 0.05, 0.04)), pose=turned), tmp_path)
    assert scores.rotation_error(truth, same) < 0.01 and scores.size_error(truth, same) < 1e-3
    assert scores.position_error(truth, same) < 1e-6
    yaw = 0.2
    moved = Pose(position=(0.01, 0, 0), quaternion=(math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)))
    off = scores.placed(Body(name="a", shape=Box(size=(0.055, 0.03, 0.04)), pose=moved), tmp_path)
    assert abs(scores.position_error(truth, off) - 0.01) < 1e-4
    assert abs(scores.rotation_error(truth, off) - yaw) < 0.05
    assert abs(scores.size_error(truth, off) - 0.1 / 3) < 2e-3
    cup = Lathe(outer=((0.04, 0), (0.04, 0.09)), inner=((0.036, 0.005), (0.036, 0.09)))
    tray = Tray(size=(0.08, 0.08, 0.09), wall=0.006, floor=0.005)
    hollow = scores.placed(Body(name="c", shape=cup), tmp_path)
    assert scores.opening_error(hollow, scores.placed(Body(name="c", shape=tray), tmp_path)) == pytest.approx(0.002)
    assert scores.opening_error(hollow, truth) == pytest.approx(0.036)
    spun = scores.placed(Body(name="c", shape=cup, pose=moved), tmp_path)
    assert scores.rotation_error(hollow, spun) < 1e-6


def test_scores_of_masks_and_events():
    wanted = np.zeros((3, 20, 20), bool)
    wanted[:2, 5:15, 5:15] = True
    given = wanted.copy()
    given[0, 5:15, 5:10] = False
    truth, found = Masks.of({"mask/v/a": wanted}), Masks.of({"mask/v/a": given})
    assert scores.mask_iou(truth, found, "mask/v/a") == pytest.approx(0.75)
    assert scores.mask_iou(truth, Masks.of({}), "mask/v/a") == 0.0
    events = [
        Event(id="1", relation="grasp", subject="right", object="block", before=1, onset=1.1, after=2),
        Event(id="2", relation="grasp", subject="right", object="block", made=False, before=4, onset=4.5, after=5),
        Event(id="3", relation="support", subject="block", object="cup", before=4, onset=5.0, after=5.1),
    ]
    true = [
        TrueEvent(relation="grasp", subject="right", object="block", onset=1.0),
        TrueEvent(relation="release", subject="right", object="block", onset=4.4),
        TrueEvent(relation="containment", subject="block", object="cup", onset=4.9),
        TrueEvent(relation="lift", subject="block", object="table", onset=1.5),
    ]
    errors = scores.event_errors(true, events)
    assert errors["lift"] is None
    assert [round(errors[key], 3) for key in ("grasp", "release", "containment")] == [0.1, 0.1, 0.1]


@pytest.mark.slow
def test_a_tiny_world_end_to_end_is_kept_when_unchanged(tmp_path):
    picture = Picture(fps=0.5, samples=1)
    (folder,) = make_worlds(tmp_path, names=("block_into_cup",), picture=picture)
    demo, truth = folder / "demo", folder / "truth"
    assert not [problem for problem in check_demonstration(demo) if problem.severity == "error"]
    assert {"scene.json", "truth.json", "poses.npz", "masks.npz"} <= {path.name for path in truth.iterdir()}
    view = load_view(load_demonstration(demo), "ext2")
    masks = Masks.load(truth / "masks.npz")
    inside = masks.frame("mask/ext2/block", 0)
    red, green, blue = view.images[0][inside].mean(axis=0)
    assert red > 1.5 * blue and green > 1.2 * blue
    before = (demo / "ext1.mp4").stat().st_mtime_ns
    make_worlds(tmp_path, names=("block_into_cup",), picture=picture)
    assert (demo / "ext1.mp4").stat().st_mtime_ns == before
