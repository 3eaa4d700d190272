"""The demonstration folder: read from real files, and every bad input refused with its reason."""

import json
import re
from pathlib import Path

import av
import cv2
import numpy as np
import pytest
from film import FRAMES, HEIGHT, HOME, WIDTH, bar, picture, write_video

from backend.cli import main
from backend.demos import (
    check_demonstration,
    load_demonstration,
    load_poses,
    load_states,
    load_view,
    save_demonstration,
)
from backend.documents.run import RunRecord
from mjcf_export.errors import InputError
from mjcf_export.frames import look_at, project


def write_demo(root: Path) -> dict:
    """A good demonstration folder; returns what its demo.json says."""
    write_video(root / "ext1.mp4")
    (root / "ext2").mkdir()
    (root / "ext2_depth").mkdir()
    for index in range(FRAMES):
        cv2.imwrite(str(root / "ext2" / f"{index}.png"), picture(index)[..., ::-1])
        depth = np.full((HEIGHT, WIDTH), 800 + index, np.uint16)
        cv2.imwrite(str(root / "ext2_depth" / f"{index:04d}.png"), depth)
    np.savez(
        root / "robot.npz",
        time=np.arange(30) / 25,
        qpos=HOME + 0.01 * np.arange(30)[:, None],
        gripper_opening=np.linspace(0.08, 0.03, 30),
    )
    camera = look_at((1.2, 0.4, 0.6), (0.5, 0, 0.1)).tolist()
    intrinsics = [[150.0, 0, 80], [0, 150.0, 60], [0, 0, 1]]
    raw = {
        "version": 1,
        "task": "move the block",
        "views": [
            {"name": "ext1", "video": "ext1.mp4", "intrinsics": intrinsics, "extrinsics": camera},
            {"name": "ext2", "video": "ext2", "fps": 10, "depth": "ext2_depth"},
        ],
        "robots": [{"name": "right", "model": "fr3_robotiq_2f85", "states": "robot.npz"}],
        "world": "right",
        "objects": [
            {"name": "block", "roles": ["moved"], "prompts": [{"view": "ext1", "frame": 3, "box": [36, 46, 74, 80]}]},
            {"name": "table", "roles": ["support"]},
        ],
        "correspondences": [{"view": "ext1", "frame": 0, "pixel": [80, 100], "on": "table"}],
        "predicates": [["on", "block", "table"], ["lifted", "block", 0.05]],
    }
    (root / "demo.json").write_text(json.dumps(raw))
    return raw


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("good")
    write_demo(root)
    return root


def test_folder_is_read_decoded_and_placed_in_the_world(good: Path) -> None:
    assert check_demonstration(good) == []
    demo = load_demonstration(good)
    assert demo.loader == "folder" and str(demo.predicates[0]) == "on(block, table)"
    first, second = load_view(demo, "ext1"), load_view(demo, "ext2")
    assert [bar(image) for image in first.images] == list(range(FRAMES)) == [bar(image) for image in second.images]
    np.testing.assert_allclose(first.times, np.arange(FRAMES) / 10, atol=1e-6)
    np.testing.assert_allclose(second.depth[:, 5, 5], (800 + np.arange(FRAMES)) / 1000, atol=1e-6)
    assert np.abs(first.images[0, 60, 55].astype(int) - (210, 180, 30)).max() < 16, "channels must stay RGB"
    states = load_states(demo, "right")
    assert states.tcp.shape == (30, 4, 4)
    np.testing.assert_allclose(states.tcp[0, :3, 2], (0, 0, -1), atol=0.05, err_msg="at home the gripper points down")
    pixels, depth = project(states.tcp[:1, :3, 3], demo.views[0].intrinsics, load_poses(demo, "ext1"))
    assert depth[0] > 0.3 and 0 < pixels[0, 0] < WIDTH


def test_memory_budget_leaves_frames_out_and_says_so(good: Path) -> None:
    view = load_view(load_demonstration(good), "ext1", budget=5 * WIDTH * HEIGHT * 3)
    assert list(view.indices) == [0, 3, 6, 9] == [bar(image) for image in view.images]
    np.testing.assert_allclose(view.times, [0, 0.3, 0.6, 0.9], atol=1e-6)
    assert "every 3. frame" in view.notes[0] and view.at(7) == 2


@pytest.mark.parametrize("codec", ["libx264", "libx265", "libvpx-vp9", "libsvtav1"])
def test_every_codec_with_variable_rate_and_a_bare_video(codec: str, tmp_path: Path) -> None:
    stamps = [0, 40, 100, 230, 260, 500, 520, 600, 777, 800, 950, 1200]
    demo = load_demonstration(write_video(tmp_path / "clip.mp4", codec, stamps))
    view = load_view(demo, "video")
    assert [bar(image) for image in view.images] == list(range(FRAMES))
    np.testing.assert_allclose(view.times, np.array(stamps) / 1000, atol=2e-3)
    assert any("prompts" in note for note in demo.notes) and any("intrinsics" in note for note in demo.notes)


def test_part_of_a_video_and_time_scale(tmp_path: Path) -> None:
    raw = write_demo(tmp_path)
    raw["views"][0]["frames"], raw["time_scale"] = [4, 9], 5.0
    (tmp_path / "demo.json").write_text(json.dumps(raw))
    view = load_view(load_demonstration(tmp_path), "ext1")
    assert [bar(image) for image in view.images] == [4, 5, 6, 7, 8]
    np.testing.assert_allclose(view.times, np.arange(5) * 0.5, atol=1e-6)


def test_run_copy_survives_and_only_runs_may_name_absolute_paths(good: Path, tmp_path: Path) -> None:
    saved = save_demonstration(load_demonstration(good), tmp_path / "run" / "demo")
    with pytest.raises(InputError, match="source"):
        load_demonstration(saved)
    RunRecord().save(tmp_path / "run" / "run.json")
    copy = load_demonstration(saved)
    assert copy.source == str(good) and Path(copy.robots[0].states).parent == saved.parent
    assert load_view(copy, "ext2").depth is not None
    np.testing.assert_allclose(load_states(copy, "right").qpos[0], HOME)


def set_in(raw: dict, keys: str, value: object) -> None:
    *path, last = [int(key) if key.isdigit() else key for key in keys.split(".")]
    for key in path:
        raw = raw[key]
    raw[last] = value


def states_with(**changes: object) -> object:
    def spoil(root: Path, raw: dict) -> None:
        arrays = dict(np.load(root / "robot.npz"))
        for name, change in changes.items():
            arrays[name] = change(arrays[name]) if callable(change) else change
        np.savez(root / "robot.npz", **arrays)

    return spoil


def put(keys: str, value: object) -> object:
    return lambda root, raw: set_in(raw, keys, value)


def with_times(times: np.ndarray) -> object:
    def spoil(root: Path, raw: dict) -> None:
        np.save(root / "time.npy", times)
        raw["views"][0]["timestamps"] = "time.npy"

    return spoil


def truncate(root: Path, raw: dict) -> None:
    data = (root / "ext1.mp4").read_bytes()
    (root / "ext1.mp4").write_bytes(data[: len(data) // 2])


def spoil_middle(root: Path, raw: dict) -> None:
    data = bytearray((root / "ext1.mp4").read_bytes())
    start, stop = data.index(b"mdat"), data.index(b"moov")
    middle = (start + stop) // 2
    data[middle : stop - 4] = bytes(stop - 4 - middle)
    (root / "ext1.mp4").write_bytes(data)


def no_frames(root: Path, raw: dict) -> None:
    with av.open(str(root / "ext1.mp4"), "w", options={"movflags": "empty_moov+frag_keyframe"}) as container:
        stream = container.add_stream("libx264", rate=10)
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        container.start_encoding()


def nan_at(sample: int) -> object:
    def change(qpos: np.ndarray) -> np.ndarray:
        qpos[sample, 2] = np.nan
        return qpos

    return change


def depth_as_8_bit(root: Path, raw: dict) -> None:
    cv2.imwrite(str(root / "ext2_depth" / "0004.png"), np.full((HEIGHT, WIDTH), 80, np.uint8))


def linked_out(root: Path, raw: dict) -> None:
    (root / "link.mp4").symlink_to("/etc/hostname")
    raw["views"][0]["video"] = "link.mp4"


MIRROR = (look_at((1.2, 0.4, 0.6), (0.5, 0, 0.1)) @ np.diag([-1.0, 1, 1, 1])).tolist()
SCALED = (look_at((1.2, 0.4, 0.6), (0.5, 0, 0.1)) @ np.diag([2.0, 2, 2, 1])).tolist()
BAD_INPUTS = {
    "missing video": (put("views.0.video", "none.mp4"), "none.mp4: no such file"),
    "truncated video": (truncate, "ext1.mp4: not a readable video"),
    "damaged video": (spoil_middle, "corrupt video"),
    "text for a video": (lambda root, raw: (root / "ext1.mp4").write_text("hello"), "not a readable video"),
    "zero frames": (no_frames, "ext1.mp4: the video holds no frames"),
    "frames beyond": (put("views.0.frames", [5, 40]), r"frames \[5, 40\) are not in the video, which holds 12"),
    "empty image folder": (lambda root, raw: [p.unlink() for p in (root / "ext2").iterdir()], "no JPEG or PNG"),
    "images without times": (put("views.1.fps", None), "give `timestamps` or `fps`"),
    "times stand still": (with_times(np.minimum(np.arange(12) / 10, 0.7)), "frame 8 is at 0.700000 s"),
    "times disagree": (with_times(np.arange(11) / 10), "11 timestamps for 12 frames"),
    "NaN time": (with_times(np.where(np.arange(12) == 5, np.nan, np.arange(12))), "timestamp 5 is not a finite"),
    "other resolution": (put("views.0.intrinsics", [[300.0, 0, 160], [0, 300, 120], [0, 0, 1]]), "another resolution"),
    "left-handed": (put("views.0.extrinsics", MIRROR), "determinant -1.0000: left-handed"),
    "scaled": (put("views.0.extrinsics", SCALED), "determinant 8.0000: not orthonormal"),
    "transposed": (put("views.0.extrinsics", np.array(look_at((1, 0, 1), (0, 0, 0))).T.tolist()), "is it transposed"),
    "joint count": (states_with(qpos=lambda q: q[:, :6]), "`qpos` has 6 joints, fr3_robotiq_2f85 has 7"),
    "degrees": (states_with(qpos=np.rad2deg), "looks like degrees"),
    "beyond limits": (states_with(qpos=lambda q: q + [0, 0, 0, 2.8, 0, 0, 0]), "beyond its limits"),
    "NaN state": (states_with(qpos=nan_at(7)), "`qpos` is not a finite number at sample 7"),
    "state lengths": (states_with(gripper_opening=np.zeros(29)), r"`gripper_opening` has shape \(29,\)"),
    "state times": (states_with(time=lambda t: t[::-1]), "`time` does not increase at sample 1"),
    "stroke": (states_with(gripper_opening=np.linspace(0, 1, 30)), "reaches 1.0000 m, beyond the gripper's stroke"),
    "negative opening": (states_with(gripper_opening=np.linspace(0.05, -0.02, 30)), "falls to -0.0200 m"),
    "unknown robot": (put("robots.0.model", "r2d2"), "unknown.*known robots are"),
    "box outside": (put("objects.0.prompts.0.box", [120, 20, 260, 80]), "reaches outside view ext1, which is 160x120"),
    "box without area": (put("objects.0.prompts.0.box", [50, 60, 50, 90]), "has no area"),
    "box on nothing": (put("objects.0.prompts.0.box", [90, 80, 150, 115]), "is on nothing"),
    "prompt frame": (put("objects.0.prompts.0.frame", 12), "frame 12 is beyond the end of view ext1.*0 to 11"),
    "prompt view": (put("objects.0.prompts.0.view", "ext9"), "prompt in unknown view ext9"),
    "click outside": (put("correspondences.0.pixel", [80, 400]), r"pixel \(80, 400\) is outside"),
    "click on unknown": (put("correspondences.0.on", "desk"), "unknown object desk"),
    "8-bit depth": (depth_as_8_bit, "0004.png: depth is 16-bit"),
    "depth count": (lambda root, raw: (root / "ext2_depth" / "0000.png").unlink(), "11 depth pictures for 12 frames"),
    "leaves the folder": (put("views.0.video", "../other.mp4"), "the path leaves its folder"),
    "link leaves the folder": (linked_out, "the path leaves its folder"),
    "absolute path": (put("robots.0.states", "/tmp/robot.npz"), "the path leaves its folder"),
    "predicate": (put("predicates.0", ["inside", "block", "cup"]), r"unknown objects \['cup'\]"),
    "typing error": (put("taks", "x"), "taks: Extra inputs"),
    "later version": (put("version", 7), "version 7, this release reads version 1"),
    "size in mm": (put("objects.0.size", [50, None, None]), "50 m is no tabletop object"),
}


@pytest.mark.parametrize("case", BAD_INPUTS)
def test_bad_input_is_one_clear_error_and_leaves_nothing(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spoil, reason = BAD_INPUTS[case]
    folder, run = tmp_path / "demo", tmp_path / "run"
    folder.mkdir()
    raw = write_demo(folder)
    spoil(folder, raw)
    (folder / "demo.json").write_text(json.dumps(raw))
    assert main(["run", str(folder), "--out", str(run), "--json"]) == InputError.exit_code
    envelope = json.loads(capsys.readouterr().out)
    assert re.search(reason, envelope["message"]), envelope["message"]
    assert envelope["status"] == "error" and not run.exists()
    errors = [problem for problem in check_demonstration(folder) if problem.severity == "error"]
    assert len(errors) == 1, [str(problem) for problem in errors]


def test_json_faults_name_their_line(tmp_path: Path) -> None:
    path = tmp_path / "demo.json"
    path.write_text('{\n "version": 1,\n "task": "x", // a comment\n "views": []}')
    with pytest.raises(InputError, match=r"demo\.json:3:.*JSON has no comments"):
        load_demonstration(tmp_path)
    path.write_text('{"views": [{"name": "a", "video": "b", "fps": NaN}]}')
    with pytest.raises(InputError, match="NaN is not a number"):
        load_demonstration(path)
    with pytest.raises(InputError, match="no such demonstration"):
        load_demonstration(tmp_path / "nowhere")


def test_several_errors_are_listed_together(tmp_path: Path) -> None:
    raw = write_demo(tmp_path)
    raw["views"][0]["extrinsics"], raw["predicates"] = MIRROR, [["on", "a", "b"], ["on", "c", "d"]]
    (tmp_path / "demo.json").write_text(json.dumps(raw))
    with pytest.raises(InputError, match=r"left-handed.*predicates\.0.*predicates\.1"):
        load_demonstration(tmp_path)
