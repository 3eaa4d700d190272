"""Kinematics, paths, grasps, holds and retargeting on the real robot models."""

from pathlib import Path

import numpy as np
import pytest

from backend.documents.motion import Event, Motion
from backend.motion.adapt import adapt_motion
from backend.motion.grasps import grasp_candidates
from backend.motion.holds import motion_holds
from backend.motion.kinematics import ACCELERATION_LIMIT, VELOCITY_LIMIT, Kinematics, path_errors, rotation_vector
from backend.motion.planner import Pick, plan_pick_place
from backend.motion.retarget import carry_over, pad_aligned
from backend.motion.shift import shift_tcp
from backend.motion.trajectories import UnreachableError, Waypoint, cartesian_path, time_scale
from mjcf_export.errors import InputError
from mjcf_export.frames import rotation_about, transform
from mjcf_export.scene import Body, Box, Cylinder, Lathe, Pose, Robot, Scene

CUP = Lathe(outer=((0.036, 0.0), (0.055, 0.09)), inner=((0.032, 0.006), (0.051, 0.09)))


@pytest.fixture(scope="module")
def arm() -> Kinematics:
    return Kinematics("fr3_robotiq_2f85", base=transform((0.1, -0.2, 0.05), (0.9689124, 0, 0, 0.247404)))


def down(x: float, y: float, z: float) -> np.ndarray:
    pose = np.diag([1.0, -1.0, -1.0, 1.0])
    pose[:3, 3] = x, y, z
    return pose


def test_jacobian_is_the_derivative_of_the_tcp_pose(arm):
    q = np.random.default_rng(3).uniform(arm.lower, arm.upper)
    numeric = np.zeros((6, arm.size))
    for joint in range(arm.size):
        step = np.eye(arm.size)[joint] * 1e-6
        before, after = arm.tcp(q - step), arm.tcp(q + step)
        numeric[:3, joint] = (after[:3, 3] - before[:3, 3]) / 2e-6
        numeric[3:, joint] = rotation_vector(after[:3, :3] @ before[:3, :3].T) / 2e-6
    assert np.abs(arm.jacobian(q) - numeric).max() < 1e-7


@pytest.mark.parametrize("model", ["fr3_robotiq_2f85", "ur5e_robotiq_2f85", "panda_hand"])
def test_ik_finds_reachable_poses_within_limits(model):
    robot = Kinematics(model)
    generator = np.random.default_rng(1)
    targets = robot.tcp(generator.uniform(robot.lower, robot.upper, (40, robot.size)))
    results = [robot.solve(target, restarts=30) for target in targets]
    solved = [(result, target) for result, target in zip(results, targets, strict=True) if result.converged]
    assert len(solved) >= 38
    errors = path_errors(robot, np.array([r.qpos for r, _ in solved]), [t for _, t in solved])
    assert errors[0] < 1.1e-4 and errors[1] < 1.1e-3
    assert all(robot.within_limits(result.qpos) for result in results)


def test_cartesian_path_is_straight_and_keeps_the_joint_limits(arm):
    start = arm.solve(down(0.5, 0.0, 0.4), arm.home).qpos
    goal = arm.tcp(start) @ transform((0.1, 0.2, 0.15))
    path = cartesian_path(arm, start, [Waypoint(goal, 0.0, "go", speed=1.5, hold=0.3)], opening=0.08)
    speed = np.diff(path.qpos, axis=0) / 0.01
    assert np.abs(speed).max() < 1.02 * VELOCITY_LIMIT
    assert np.abs(np.diff(speed, axis=0)).max() / 0.01 < 1.05 * ACCELERATION_LIMIT
    line = (goal - arm.tcp(start))[:3, 3]
    offset = path.tcp[:, :3, 3] - path.tcp[0, :3, 3]
    assert np.linalg.norm(np.cross(offset, line / np.linalg.norm(line)), axis=1).max() < 5e-4
    assert np.allclose(path.tcp[-1], goal, atol=1e-3)
    assert path.opening[0] == 0.08 and path.opening[-1] == 0.0
    with pytest.raises(UnreachableError, match="phase far: tcp error"):
        cartesian_path(arm, start, [Waypoint(down(2.0, 0.0, 0.4), 0.0, "far")], opening=0.08)


def test_time_scale_slows_only_what_is_too_fast():
    time = np.arange(41) * 0.1
    joints = np.where(time < 2.0, 0.1 * time, 0.2 + 4.0 * (time - 2.0))[:, None]
    slowed, stretch = time_scale(time, joints, velocity=2.0, acceleration=1e3)
    assert stretch == pytest.approx(2.0, rel=0.01)
    assert slowed[19] == pytest.approx(time[19])
    assert np.abs(np.diff(joints[:, 0]) / np.diff(slowed)).max() < 2.01


def test_grasps_fit_the_stroke_and_the_shape():
    folder = Path()
    stroke = 0.085
    assert not grasp_candidates(Box(size=(0.1, 0.1, 0.1)), folder, stroke)
    narrow = grasp_candidates(Box(size=(0.1, 0.04, 0.1)), folder, stroke)
    assert {grasp.width for grasp in narrow} == {0.04}
    assert all(abs(abs(grasp.frame[1, 1]) - 1) < 1e-9 for grasp in narrow), "fingers close along the narrow side"
    assert {grasp.width for grasp in grasp_candidates(Cylinder(radius=0.03, height=0.1), folder, stroke)} == {0.06}
    rim = [grasp for grasp in grasp_candidates(CUP, folder, 0.06) if grasp.kind == "rim"]
    assert rim and all(grasp.width == pytest.approx(0.004, abs=1e-3) for grasp in rim)


def test_planner_says_why_it_cannot(tmp_path):
    table = Body(name="table", roles=("support",), shape=Box(size=(1, 1, 0.04)), pose=Pose(position=(0.5, 0, -0.04)))

    def plan(body: Body) -> None:
        scene = Scene(bodies=(table, body), robots=(Robot(name="right", model="fr3_robotiq_2f85"),))
        plan_pick_place(scene, tmp_path, "right", [Pick(body.name, transform((0.5, 0.2, 0.0)))])

    with pytest.raises(InputError, match="crate: no grasp narrower than the gripper's stroke of 85 mm"):
        plan(Body(name="crate", shape=Box(size=(0.12, 0.12, 0.12)), pose=Pose(position=(0.5, 0, 0))))
    with pytest.raises(InputError, match="far.*out of reach"):
        plan(Body(name="far", shape=Box(size=(0.04, 0.04, 0.04)), pose=Pose(position=(0.9, 0.4, 0))))


def test_shift_is_complete_at_the_event_and_gone_elsewhere(arm):
    start = arm.solve(down(0.5, 0.0, 0.3), arm.home).qpos
    path = cartesian_path(
        arm, start, [Waypoint(down(0.5, 0.1, 0.2), 0.08), Waypoint(down(0.4, 0.1, 0.3), 0.08)], opening=0.08
    )
    middle = path.time[-1] / 2
    shift = np.array([0.004, -0.01, 0.006])
    moved, left = shift_tcp(arm, path.time, path.qpos, shift, (middle - 0.4, middle - 0.1, middle + 0.1, middle + 0.4))
    change = arm.tcp(moved)[:, :3, 3] - path.tcp[:, :3, 3]
    assert left < 2e-4
    assert np.allclose(change[np.abs(path.time - middle) < 0.08], shift, atol=3e-4)
    assert np.allclose(change[np.abs(path.time - middle) > 0.41], 0.0, atol=1e-9)


def test_hold_ends_when_the_gripper_really_opens():
    time = np.arange(101) * 0.1
    opening = np.interp(time, [0, 2.0, 2.6, 7.35, 7.8, 10], [0.08, 0.08, 0.04, 0.04, 0.08, 0.08])
    motion = Motion(
        robots=("right",),
        duration=10.0,
        events=(
            Event(id="g", relation="grasp", subject="block", object="right", before=2.0, onset=2.6, after=2.9,
                  confidence=1),
            Event(id="r", relation="release", subject="block", object="right", made=False, before=6.5, onset=7.5,
                  after=7.8, confidence=1),
        ),
    )  # fmt: skip
    (hold,) = motion_holds(motion, {"time": time, "right/opening": opening}, {"block", "table"})
    assert (hold.robot, hold.body) == ("right", "block")
    assert hold.width == pytest.approx(0.04, abs=1e-4)
    assert hold.release == pytest.approx(7.3, abs=0.11) and hold.open_end == 7.8


def test_carried_over_motion_keeps_the_pads_path():
    source, target = Kinematics("fr3_hand"), Kinematics("ur5e_robotiq_2f85")
    start = source.solve(down(0.45, 0.1, 0.3), source.home).qpos
    turned = down(0.4, -0.15, 0.25)
    turned[:3, :3] = rotation_about((0, 0, 1), 0.4) @ turned[:3, :3]
    path = cartesian_path(source, start, [Waypoint(turned, 0.02)], opening=0.07)
    wanted = pad_aligned(path.tcp, path.opening, source.robot, target.robot)
    carried = carry_over(target, path.time, wanted, path.opening, [0.04])
    for row in (0, len(path.time) // 2, -1):
        pads = [
            tcp[:3, 3] + robot.gripper.pad_offset(float(width)) * tcp[:3, 2]
            for tcp, robot, width in (
                (path.tcp[row], source.robot, path.opening[row]),
                (target.tcp(carried.qpos[row]), target.robot, carried.opening[row]),
            )
        ]
        assert np.linalg.norm(pads[0] - pads[1]) < 5e-4
    with pytest.raises(InputError, match="opens 80 mm, but the demonstration holds something 84 mm wide"):
        carry_over(source, path.time, path.tcp, path.opening, [0.084])


def test_what_the_target_gripper_cannot_hold_is_one_clear_error(tmp_path):
    table = Body(name="table", roles=("support",), shape=Box(size=(1, 1, 0.04)), pose=Pose(position=(0.5, 0, -0.04)))
    crate = Body(name="crate", shape=Box(size=(0.082, 0.082, 0.082)), pose=Pose(position=(0.45, 0.1, 0)))
    scene = Scene(bodies=(table, crate), robots=(Robot(name="right", model="fr3_robotiq_2f85"),))
    arm = Kinematics("fr3_robotiq_2f85")
    time = np.arange(0, 4.0, 0.05)
    start = arm.solve(down(0.45, 0.1, 0.06), arm.home).qpos
    arrays = {
        "time": time,
        "right/qpos": np.tile(start, (len(time), 1)),
        "right/opening": np.interp(time, [0, 1, 1.3, 3, 3.3], [0.085, 0.085, 0.0815, 0.0815, 0.085]),
        "object/crate": np.tile([0.45, 0.1, 0, 1, 0, 0, 0], (len(time), 1)),
    }
    grasp = Event(id="g", relation="grasp", subject="crate", object="right", before=1, onset=1.3, after=1.6)
    support = Event(id="s", relation="support", subject="crate", object="table", before=2.8, onset=3, after=3.4)
    release = Event(
        id="r", relation="release", subject="crate", object="right", made=False, before=2.9, onset=3, after=3.3
    )
    motion = Motion(robots=("right",), duration=3.95, events=(grasp, support, release))
    with pytest.raises(InputError, match="panda.*opens 80 mm, but the demonstration holds something 8[12] mm wide"):
        adapt_motion(scene, tmp_path, motion, arrays, "panda_hand", lambda done, text: None)
