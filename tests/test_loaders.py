"""Loaders of other formats, on small files in their real schemas and on a real recording."""

import json
from pathlib import Path

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from film import FRAMES, HEIGHT, HOME, SHARED, WIDTH, bar, write_video

from backend.demos import (
    load_demonstration,
    load_poses,
    load_states,
    load_view,
)
from backend.demos.droid import pose_matrix
from mjcf_export.errors import InputError
from mjcf_export.frames import project

OPEN50 = SHARED / "lerobot_open50"


def write_droid(root: Path, steps: int = FRAMES) -> np.ndarray:
    """A DROID raw episode in the real schema; returns the host times in seconds."""
    movies = root / "recordings" / "MP4"
    movies.mkdir(parents=True)
    host = 1_690_000_000_000 + np.array([66, 67, 71, 60, 66, 68, 70, 64, 66, 66, 67, 66])[:steps].cumsum()
    vector = [0.3, -0.5, 0.6, -2.1, 0.1, 0.4]
    with h5py.File(root / "trajectory.h5", "w") as file:
        file.attrs["current_task"], file.attrs["success"] = "put the marker in the cup", True
        state = file.create_group("observation/robot_state")
        state["joint_positions"] = HOME + 0.002 * np.arange(steps)[:, None]
        state["joint_velocities"] = np.zeros((steps, 7))
        state["gripper_position"] = np.linspace(0, 1, steps)
        state["cartesian_position"] = np.zeros((steps, 6))
        stamps = file.create_group("observation/timestamp")
        stamps["robot_state/read_start"], stamps["robot_state/read_end"] = host + 4, host + 8
        for serial, kind in (("111", 1), ("222", 1), ("333", 0)):
            write_video(movies / f"{serial}.mp4", "mpeg4")
            stamps[f"cameras/{serial}_frame_received"] = host + 42
            stamps[f"cameras/{serial}_estimated_capture"] = host + (10 if serial == "222" else 0)
            file[f"observation/camera_type/{serial}"] = np.full(steps, kind)
            file[f"observation/camera_extrinsics/{serial}_left"] = np.tile(vector, (steps, 1))
        file["observation/camera_extrinsics/333_left_gripper_offset"] = np.tile(
            [0.07, 0, 0.01, 0, 0, -1.57], (steps, 1)
        )
        file["action/joint_position"] = np.zeros((steps, 7))
    metadata = {
        "uuid": "LAB+0+x",
        "current_task": "Put marker in cup",
        "robot_serial": "fr3-1",
        "trajectory_length": steps,
    }
    for name, serial in (("ext1", "111"), ("ext2", "222"), ("wrist", "333")):
        metadata |= {f"{name}_cam_serial": serial, f"{name}_cam_extrinsics": vector}
    (root / "metadata_LAB+0+x.json").write_text(json.dumps(metadata))
    return host / 1000


def test_droid_raw_episode(tmp_path: Path) -> None:
    host = write_droid(tmp_path)
    demo = load_demonstration(tmp_path)
    assert demo.loader == "droid" and demo.task == "Put marker in cup" and demo.robots[0].model == "fr3_robotiq_2f85"
    assert [view.name for view in demo.views] == ["ext1", "ext2", "wrist"]
    np.testing.assert_allclose(load_view(demo, "ext1").times, host - host[0], atol=1e-4)
    np.testing.assert_allclose(load_view(demo, "ext2").times, host - host[0] + 0.010, atol=1e-4)
    states = load_states(demo, "robot")
    np.testing.assert_allclose(states.time, host - host[0] + 0.006, atol=1e-4)
    np.testing.assert_allclose(states.opening[[0, -1]], [0.085, 0], atol=1e-9)
    assert any("estimated" in note for note in demo.notes) and demo.views[0].trust.extrinsics == "estimated"
    pose = load_poses(demo, "ext1")
    np.testing.assert_allclose(pose[:3, 3], [0.3, -0.5, 0.6])
    cr, sr, cp, sp, cy, sy = (f(a) for a in (-2.1, 0.1, 0.4) for f in (np.cos, np.sin))
    np.testing.assert_allclose(pose[0, :3], [cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr], atol=1e-12)
    assert demo.views[2].mount.link == "fr3_link7" and demo.views[2].extrinsics is None
    np.testing.assert_allclose(np.array(demo.views[2].mount.pose)[:3, 3], [0.07, 0, 0.117])
    np.testing.assert_allclose(pose_matrix(np.array([0, 0, 0, 0, 0, np.pi / 2]))[:2, 0], [0, 1], atol=1e-12)


def test_droid_without_its_parts(tmp_path: Path) -> None:
    write_droid(tmp_path)
    write_video(tmp_path / "recordings" / "MP4" / "222.mp4", "mpeg4", count=4)
    with pytest.raises(InputError, match=r"222\.mp4: 4 frames, but the trajectory has 12 times"):
        load_demonstration(tmp_path)
    with h5py.File(tmp_path / "trajectory.h5", "a") as file:
        del file["observation/robot_state/joint_positions"]
    (tmp_path / "recordings" / "MP4" / "222.mp4").unlink()
    with pytest.raises(InputError, match="no dataset observation/robot_state/joint_positions"):
        load_demonstration(tmp_path)
    (tmp_path / "trajectory.h5").write_bytes(b"\x89HDF nonsense")
    with pytest.raises(InputError, match="not a readable HDF5"):
        load_demonstration(tmp_path)


def write_lerobot(root: Path, version: str) -> None:
    """Two episodes of 5 and 7 frames in the real layout of LeRobot v2.1 or v3.0."""
    v3 = version == "v3.0"
    names = [f"panda_joint{index}.pos" for index in range(1, 8)] + ["gripper.pos"]
    features = {
        "observation.state": {"dtype": "float32", "shape": [8], "names": {"motors": names} if not v3 else names},
        "observation.images.front": {"dtype": "video", "shape": [HEIGHT, WIDTH, 3], "info": {"video.fps": 10}},
        **{
            key: {"dtype": "int64", "shape": [1], "names": None}
            for key in ("episode_index", "frame_index", "task_index")
        },
    }
    data, video_template = (
        (f"{part}/chunk-{{chunk_index:03d}}/file-{{file_index:03d}}" for part in ("data", "videos/{video_key}"))
        if v3
        else (
            f"{part}/episode_{{episode_index:06d}}"
            for part in (f"{c}/chunk-{{episode_chunk:03d}}" for c in ("data", "videos"))
        )
    )
    if not v3:
        video_template = video_template.replace("/episode_", "/{video_key}/episode_")
    paths = (f"{data}.parquet", f"{video_template}.mp4")
    info = {
        "codebase_version": version, "robot_type": "fr3", "fps": 10, "chunks_size": 1000, "features": features,
        "data_path": paths[0], "video_path": paths[1], "total_episodes": 2,
    }  # fmt: skip
    (root / "meta").mkdir(parents=True)
    (root / "meta" / "info.json").write_text(json.dumps(info))
    tables, rows, offset = [], [], 0
    for episode, length in enumerate((5, 7)):
        state = np.hstack([HOME + 0.1 * episode + 0.001 * np.arange(length)[:, None], np.ones((length, 1))])
        table = pa.table({
            "observation.state": pa.array(list(state.astype(np.float32)), pa.list_(pa.float32())),
            "timestamp": pa.array((np.arange(length) / 10).astype(np.float32)),
            "frame_index": np.arange(length),
            "episode_index": np.full(length, episode),
            "task_index": np.zeros(length, int),
        })  # fmt: skip
        tables.append(table)
        row = {"episode_index": episode, "tasks": ["stack the bowls"], "length": length}
        key = "videos/observation.images.front"
        place = {"data/chunk_index": 0, "data/file_index": 0, f"{key}/chunk_index": 0, f"{key}/file_index": 0}
        place |= {f"{key}/from_timestamp": offset / 10, f"{key}/to_timestamp": (offset + length) / 10}
        rows.append(row | (place if v3 else {}))
        offset += length
    if v3:
        written = [(pa.concat_tables(tables), paths[0].format(chunk_index=0, file_index=0))]
        video = root / paths[1].format(video_key="observation.images.front", chunk_index=0, file_index=0)
        video.parent.mkdir(parents=True)
        write_video(video)
        (root / "meta/episodes/chunk-000").mkdir(parents=True)
        pq.write_table(pa.Table.from_pylist(rows), root / "meta/episodes/chunk-000/file-000.parquet")
    else:
        written = [(table, paths[0].format(episode_chunk=0, episode_index=i)) for i, table in enumerate(tables)]
        for episode, length in enumerate((5, 7)):
            video = root / paths[1].format(episode_chunk=0, episode_index=episode, video_key="observation.images.front")
            video.parent.mkdir(parents=True, exist_ok=True)
            write_video(video, count=length)
        (root / "meta/episodes.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (root / "meta/tasks.jsonl").write_text('{"task_index": 0, "task": "stack the bowls"}\n')
    for table, name in written:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, root / name)


@pytest.mark.parametrize("version", ["v2.1", "v3.0"])
def test_lerobot_episode(version: str, tmp_path: Path) -> None:
    write_lerobot(tmp_path, version)
    demo = load_demonstration(f"{tmp_path}#episode=1")
    assert demo.loader == "lerobot" and demo.task == "stack the bowls" and demo.views[0].name == "front"
    view = load_view(demo, "front")
    first = 5 if version == "v3.0" else 0
    assert [bar(image) for image in view.images] == list(range(first, first + 7))
    np.testing.assert_allclose(view.times, np.arange(7) / 10, atol=1e-6)
    states = load_states(demo, "robot")
    np.testing.assert_allclose(states.qpos[3], HOME + 0.103, atol=1e-6)
    assert states.opening is None and states.tcp.shape == (7, 4, 4)
    assert any("assumed from robot_type fr3" in note for note in demo.notes)
    assert load_view(load_demonstration(tmp_path), "front").images.shape[0] == 5
    with pytest.raises(InputError, match=r"no data of episode 9; there are \[0, 1\]"):
        load_demonstration(tmp_path, episode=9)
    with pytest.raises(InputError, match="only episode=NUMBER"):
        load_demonstration(f"{tmp_path}#ep3")


@pytest.mark.skipif(not OPEN50.is_dir(), reason="the shared LeRobot recordings are not on this machine")
def test_real_lerobot_recording_of_an_unknown_robot(tmp_path: Path) -> None:
    demo = load_demonstration(OPEN50, episode=42)
    assert [robot.name for robot in demo.robots] == ["left", "right"] and len(demo.views) == 1
    view = load_view(demo, "image", budget=300_000_000)
    assert view.images.shape[1:] == (480, 640, 3) and abs(view.times[-1] - 413 / 30) < 0.3
    arrays = np.load(demo.robots[0].states)
    assert arrays["qpos"].shape == (414, 7) and arrays["end_effector"].shape == (414, 10)
    assert np.abs(arrays["qpos"]).max() < np.pi, "degrees were converted"
    with pytest.raises(InputError, match="lingzu_highcam_pi05.*unknown"):
        load_states(demo, "left")


def test_egodex_recording(tmp_path: Path) -> None:
    from backend.demos.egodex import landmark_names

    write_video(tmp_path / "0.mp4")
    with h5py.File(tmp_path / "0.hdf5", "w") as file:
        file.attrs["llm_description"] = "pick up the cup"
        file["camera/intrinsic"] = np.array([[150.0, 0, 80], [0, 150, 60], [0, 0, 1]])
        camera = np.tile(np.eye(4), (FRAMES, 1, 1))
        camera[:, :3, :3] = np.diag([1.0, -1, -1])
        camera[:, 1, 3] = 1.5
        file["transforms/camera"] = camera
        for side in ("left", "right"):
            file[f"confidences/{side}Hand"] = np.ones(FRAMES)
            for number, name in enumerate(landmark_names(side)):
                pose = np.tile(np.eye(4), (FRAMES, 1, 1))
                pose[:, :3, 3] = (0.01 * number, 0.9, -0.4)
                file[f"transforms/{name}"] = pose
    demo = load_demonstration(tmp_path / "0.hdf5")
    assert demo.actor == "human" and demo.task == "pick up the cup"
    hands = np.load(demo.hands)
    np.testing.assert_allclose(hands["right"][0, 8], [0.08, 0.4, 0.9], atol=1e-9)
    poses = load_poses(demo, "head")
    np.testing.assert_allclose(poses[0, :3, 3], [0, 0, 1.5], atol=1e-9)
    pixel, depth = project(hands["right"][0, :1], demo.views[0].intrinsics, poses[0])
    np.testing.assert_allclose([*pixel[0], depth[0]], [80, 60 + 150 * 0.6 / 0.4, 0.4])
