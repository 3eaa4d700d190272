"""Comparison and report: pictures at the same moment through the same camera, and a page that hides nothing."""

import json
import re
import shutil
from functools import partial
from html.parser import HTMLParser
from importlib.util import find_spec
from pathlib import Path

import av
import mujoco
import numpy as np
import pytest

from backend.demos import load_demonstration, save_demonstration
from backend.documents.comparison import Comparison
from backend.documents.diagnosis import Answer, Correction, Diagnosis, Keyframe
from backend.documents.motion import Event, Motion
from backend.documents.observations import Masks
from backend.documents.run import RunFolder, RunRecord, StageRecord
from backend.documents.verdict import Check, Rollout, Substitution, Verdict
from backend.evaluate.clock import SourceClock
from backend.evaluate.compare import compare_run
from backend.evaluate.native_view import NativeView
from backend.evaluate.report import write_report
from backend.evaluate.similarity import overlap, ssim
from mjcf_export.document import save_arrays
from mjcf_export.export import export_scene
from mjcf_export.frames import look_at, project
from mjcf_export.scene import Body, Box, Camera, Light, Material, Pose, Scene

WIDTH, HEIGHT, FPS, FRAMES = 160, 120, 10, 12
K = ((170.0, 0.0, 70.0), (0.0, 165.0, 66.0), (0.0, 0.0, 1.0))
"""Unequal focal lengths and an off-centre principal point: a mirrored or centred projection would show."""
SETTLE = 0.5
EVIL = '<script>alert("x")</script> & co'


def scene() -> Scene:
    camera = Pose.from_matrix(look_at((0.5, 0.35, 0.4), (0.0, 0.0, 0.03)))
    table = Body(
        name="table", roles=("support",), shape=Box(size=(0.6, 0.6, 0.04)), material="wood",
        pose=Pose(position=(0, 0, -0.04)),
    )  # fmt: skip
    block = Body(
        name="block",
        shape=Box(size=(0.06, 0.05, 0.04)),
        material="red",
        pose=Pose(position=(-0.1, 0.05, 0.0)),
        description=EVIL,
        provenance={"size": "measured"},
        residuals={"iou": 0.93},
    )
    return Scene(
        bodies=(table, block),
        materials=(Material(name="wood", color=(0.5, 0.4, 0.3)), Material(name="red", color=(0.8, 0.1, 0.1))),
        cameras=(Camera(name="ext", width=WIDTH, height=HEIGHT, intrinsics=K, pose=camera),),
        lights=(Light(name="lamp", pose=Pose(position=(0.2, 0.2, 1.0)), energy=15),),
    )


def slide(model: mujoco.MjModel, seconds: float) -> dict[str, np.ndarray]:
    """A block pushed off by its initial speed after settling, sampled at 100 Hz."""
    data = mujoco.MjData(model)
    rows = []
    for step in range(int((SETTLE + seconds) * 100)):
        if step == int(SETTLE * 100):
            data.qvel[:2] = (1.4, -0.5)
        rows.append((data.time, data.qpos.copy(), data.qvel.copy()))
        mujoco.mj_step(model, data, nstep=round(0.01 / model.opt.timestep))
    time, qpos, qvel = (np.array(column) for column in zip(*rows, strict=True))
    return {"time": time, "qpos": qpos, "qvel": qvel, "body/block": qpos.copy()}


def write_run(root: Path) -> RunFolder:
    """A run up to the verdict: the video is the native motion seen by the scene's camera, with noise."""
    run, world = RunFolder(root / "run"), scene()
    for folder in (run.scene_folder, run.executed.scene_folder):
        folder.mkdir(parents=True)
        world.save(folder / "scene.json")
    export_scene(world, run.executed.scene_folder, run.mjcf_folder)
    model = mujoco.MjModel.from_xml_path(str(run.mjcf))
    native = slide(model, FRAMES / FPS + 0.3)
    save_arrays(run.rollout_arrays, native)
    Rollout(
        mujoco_version=mujoco.__version__,
        physics_dt=0.002,
        control_dt=0.01,
        steps=len(native["time"]),
        start=SETTLE,
        bodies=("block",),
    ).save(run.rollout)
    event = Event(
        id="e0_contact", relation="contact", subject="block", object="table", before=0.2, onset=0.5, after=0.7,
        frames={"ext": 5},
    )  # fmt: skip
    motion = Motion(duration=FRAMES / FPS, events=(event,), notes=("a note",))
    track = {"time": native["time"] - SETTLE, "object/block": native["qpos"]}
    for path, arrays in ((run.motion, run.motion_arrays), (run.executed.motion, run.executed.motion_arrays)):
        motion.save(path)
        save_arrays(arrays, track)
    write_demo(root / "demo", run, model, native)
    checks = (
        Check(name="penetration block / table", stage="settle", status="pass", value=0.0003, unit="m", threshold=0.002),
        Check(name=f"inside({EVIL})", stage="whole", status="fail", value=0.031, unit="m", threshold=0.002),
    )
    Verdict(
        accepted=False, failed_stage="whole", checks=checks, message=f"block lies outside {EVIL}",
        substitutions=(Substitution(what="friction", why="not measured"),), hashes={"model": "abc123"},
    ).save(run.verdict)  # fmt: skip
    answers = (
        Answer(question="camera", status="pass", value=0.4, unit="px", threshold=3),
        Answer(question="placement", status="fail", value=0.4, unit="IoU", threshold=0.7, subject="block", detail=EVIL),
    )
    keyframe = Keyframe(event="e0_contact", view="ext", frame=5, time=0.5, answers=answers)
    Diagnosis(keyframes=(keyframe,)).save(run.diagnosis)
    row = Correction(
        round=1,
        event="e0_contact",
        question="placement",
        hypothesis="pose",
        target="block",
        change="x +4 mm",
        before=0.4,
        after=0.6,
        unit="IoU",
        kept=False,
        reason="contact got worse",
    )
    run.ledger.write_text(row.model_dump_json() + "\n")
    stages = {"validate": StageRecord(state="done", inputs="x", seconds=12.5, message="rejected")}
    RunRecord(demonstration="demo", tools={"mujoco": mujoco.__version__}, stages=stages).save(run.record)
    return run


def write_demo(folder: Path, run: RunFolder, model: mujoco.MjModel, native: dict[str, np.ndarray]) -> None:
    folder.mkdir()
    noise, masks = np.random.default_rng(0), []
    with NativeView(model, WIDTH, HEIGHT) as view, av.open(str(folder / "ext.mp4"), "w") as container:
        stream = container.add_stream("libx264", rate=FPS, options={"crf": "14"})
        stream.width, stream.height, stream.pix_fmt = WIDTH, HEIGHT, "yuv420p"
        for index in range(FRAMES):
            qpos = native["qpos"][int(100 * (SETTLE + index / FPS))]
            image = view.rgb("ext", qpos) + noise.normal(0, 2, (HEIGHT, WIDTH, 3))
            masks.append(view.bodies("ext", qpos) == model.body("block").id)
            frame = av.VideoFrame.from_ndarray(np.clip(image, 0, 255).astype(np.uint8), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    raw = {"task": f"push {EVIL}", "views": [{"name": "ext", "video": "ext.mp4"}], "objects": [{"name": "block"}]}
    (folder / "demo.json").write_text(json.dumps(raw))
    save_demonstration(load_demonstration(folder), run.demo.parent)
    Masks.of({"mask/ext/block": np.stack(masks)}).save(run.masks)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    return write_run(tmp_path_factory.mktemp("report"))


def figures(run: RunFolder) -> tuple[Comparison, str]:
    message = compare_run(run, lambda fraction, text: None)
    return Comparison.load(run.compare / "comparison.json"), message


def test_native_pictures_obey_the_camera(run: RunFolder) -> None:
    world, model = scene(), mujoco.MjModel.from_xml_path(str(run.mjcf))
    camera = world.camera("ext")
    for place in ((-0.1, 0.05), (0.12, -0.1), (0.0, 0.15)):
        with NativeView(model, WIDTH, HEIGHT) as view:
            seen = view.bodies("ext", [*place, 0, 1, 0, 0, 0]) == model.body("block").id
        corners = np.array([(x, y, z) for x in (-0.03, 0.03) for y in (-0.025, 0.025) for z in (0, 0.04)]) + [*place, 0]
        pixels, _ = project(corners, camera.matrix, camera.pose.matrix)
        rows, columns = np.nonzero(seen)
        seen_box = np.array([[columns.min(), rows.min()], [columns.max(), rows.max()]])
        true_box = np.array([pixels.min(axis=0), pixels.max(axis=0)])
        np.testing.assert_allclose(seen_box, true_box, atol=1.5)
        np.testing.assert_allclose(seen_box.mean(axis=0), true_box.mean(axis=0), atol=0.5)


def test_similarity_figures() -> None:
    image = np.random.default_rng(1).integers(0, 255, (60, 80, 3), dtype=np.uint8)
    assert ssim(image, image) == pytest.approx(1.0)
    assert ssim(image, 255 - image) < 0
    half = np.zeros((10, 10), bool)
    half[:, :5] = True
    assert overlap(half, np.ones((10, 10), bool)) == pytest.approx(0.5)
    assert overlap(~half & half, half & ~half) is None


def test_same_moments_without_blender(run: RunFolder, tmp_path: Path) -> None:
    comparison, message = figures(run)
    assert [frame.frame for frame in comparison.frames] == list(range(FRAMES))
    assert all(frame.executed and frame.motion_time == pytest.approx(frame.time) for frame in comparison.frames)
    assert comparison.mean("mujoco/ssim") > 0.93 and comparison.mean("mujoco/difference") < 4
    assert min(frame.figures["iou/block"] for frame in comparison.frames) > 0.97
    assert comparison.mean("blender/ssim") is None and "Blender none" in message
    assert any("Blender stage has not been run" in note for note in comparison.notes)
    assert comparison.frames[5].events == ("e0_contact",) and set(comparison.sheets) == {"overview", "e0_contact"}
    with av.open(str(run.compare / comparison.film)) as container:
        times = [frame.time for frame in container.decode(video=0)]
    np.testing.assert_allclose(times, np.arange(FRAMES) / FPS, atol=2e-3)

    late = RunFolder(tmp_path / "late")
    shutil.copytree(run.root, late.root)
    record = Rollout.load(late.rollout)
    record.model_copy(update={"start": SETTLE - 0.2}).save(late.rollout)
    shifted, _ = figures(late)
    assert shifted.mean("iou/block") < 0.8, "a clock that is wrong by 0.2 s must show in the figures"


def test_rollout_that_stopped_early_shows_no_pictures_after_its_end(run: RunFolder, tmp_path: Path) -> None:
    short = RunFolder(tmp_path / "short")
    shutil.copytree(run.root, short.root)
    arrays = dict(np.load(short.rollout_arrays))
    save_arrays(short.rollout_arrays, {name: values[:100] for name, values in arrays.items()})
    comparison, _ = figures(short)
    executed = [frame.executed for frame in comparison.frames]
    assert executed == [True] * 6 + [False] * 6
    assert all(not frame.figures for frame in comparison.frames[6:])


@pytest.mark.skipif(find_spec("bpy") is None, reason="needs bpy")
def test_three_way_comparison_with_blender(run: RunFolder, tmp_path: Path) -> None:
    from backend.blender import run_blender

    whole = RunFolder(tmp_path / "whole")
    shutil.copytree(run.root, whole.root)
    run_blender(["build", str(whole.executed.scene_folder), str(whole.blend), "--rollout", str(whole.rollout.parent)])
    assert [path.name for path in whole.blend.parent.iterdir()] == ["scene.blend"]
    comparison, message = figures(whole)
    assert len(list((whole.renders / "ext").glob("*.png"))) == FRAMES
    assert comparison.mean("renderers/ssim") > 0.7, "both renderers show one scene through one camera"
    assert comparison.mean("blender/ssim") > 0.6 and "Blender 0." in message
    page = write_report(whole).read_text(encoding="utf-8")
    assert page.count("data:image/jpeg;base64") == 2 and "data:video/mp4;base64" in page


@pytest.mark.skipif(find_spec("bpy") is None, reason="needs bpy")
def test_run_that_executed_nothing_shows_its_reference_motion(run: RunFolder, tmp_path: Path) -> None:
    from backend.progress import silent
    from backend.stages import Job, blender

    blocked = RunFolder(tmp_path / "blocked")
    shutil.copytree(run.root, blocked.root)
    blocked.rollout.unlink()
    blocked.rollout_arrays.unlink()
    arrays = dict(np.load(blocked.executed.motion_arrays))
    arrays["object/block"][arrays["time"] > 0.11] = np.nan
    save_arrays(blocked.executed.motion_arrays, arrays)
    assert "nothing was executed" in blender(Job(blocked, {}), partial(silent, "blender"))
    comparison, _ = figures(blocked)
    assert not any(frame.executed for frame in comparison.frames)
    assert any("nothing was executed" in note for note in comparison.notes)
    assert min(frame.figures["iou/block"] for frame in comparison.frames[:2]) > 0.97
    assert comparison.frames[-1].figures["iou/block"] < 0.9, "held where it was seen last"
    assert comparison.mean("blender/ssim") > 0.6, "the .blend moves as the reference does"
    assert "since nothing was executed" in Page(write_report(blocked).read_text(encoding="utf-8")).text


def test_source_clock_meets_the_events_of_a_retimed_motion() -> None:
    def motion(*onsets: float, planned: bool = False) -> Motion:
        pair = ("arm", "cube") if planned else ("cube", "arm")
        events = tuple(
            Event(id=f"e{i}" if planned else f"e{i}_grasp", relation="grasp", subject=pair[0], object=pair[1],
                  before=t, onset=t, after=t + 0.2, robot="arm")
            for i, t in enumerate(onsets)
        )  # fmt: skip
        return Motion(duration=20, events=events, source="planned" if planned else "recorded")

    kept = SourceClock(motion(0.5, 1.5), motion(0.5, 1.5))
    assert kept.kept and kept.motion_time(2.0) == 2.0
    for slowed in (motion(2.0, 6.0), motion(2.0, 6.0, planned=True)):
        clock = SourceClock(motion(0.5, 1.5), slowed)
        assert not clock.kept
        assert [clock.motion_time(t) for t in (0.5, 1.0, 1.5, 2.0)] == pytest.approx([2.0, 4.0, 6.0, 6.5])
    unknown = motion(planned=True).model_copy(update={"duration": 40.0})
    assert SourceClock(motion(0.5), unknown).motion_time(5.0) == pytest.approx(10.0)


class Page(HTMLParser):
    """Checks nesting and gathers text, headings and everything that is loaded."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open, self.loaded, self.words, self.tags = [], [], [], []
        self.feed(page)
        assert not self.open, f"never closed: {self.open}"

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.tags.append(tag)
        self.loaded += [value for name, value in attrs if name in ("src", "href")]
        if tag not in ("meta", "img", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


def test_report_tells_everything_and_escapes_it(run: RunFolder) -> None:
    figures(run)
    page = Page(write_report(run).read_text(encoding="utf-8"))
    assert "script" not in page.tags and all(source.startswith("data:") for source in page.loaded)
    for words in (
        f"push {EVIL}", "Rejected", "failed stage: whole", f"31 mm, must be ≤ 2 mm: inside({EVIL})",
        f"block lies outside {EVIL}", "1 of 2 checks passed",
        "penetration block / table 0.3 mm ≤ 2 mm ✓ pass", f"inside({EVIL}) 31 mm ≤ 2 mm ✗ fail", "not measured",
        "0.4 px (limit 3)", "0.4 IoU (limit 0.7) block",
        "pose of block x +4 mm 0.4 IoU 0.6 IoU undone contact got worse",
        "abc123", "12.5", "size measured", "iou 0.93", "motion: a note",
    ):  # fmt: skip
        assert words in page.text, words
    assert 'alt="object heights"' in run.report.read_text(encoding="utf-8")
    assert "not run" not in page.text and page.tags.count("img") >= 3


def test_report_of_unfinished_and_broken_runs(run: RunFolder, tmp_path: Path) -> None:
    empty = RunFolder(tmp_path / "empty")
    page = Page(write_report(empty).read_text(encoding="utf-8"))
    assert "No verdict" in page.text and page.text.count("not run") >= 7

    half = RunFolder(tmp_path / "half")
    shutil.copytree(run.root, half.root, ignore=shutil.ignore_patterns("rollout", "compare"))
    half.diagnosis.write_text('{"keyframes": 3}')
    half.ledger.write_text("not json\n")
    stages = {"export": StageRecord(state="failed", inputs="x", message="mesh cup.stl is missing")}
    RunRecord(stages=stages).save(half.record)
    page = Page(write_report(half).read_text(encoding="utf-8"))
    assert "export: mesh cup.stl is missing" in page.text and "comparison: not run" in page.text
    assert re.search(r"could not be read.*diagnosis\.json.*ledger\.jsonl:1", page.text)
