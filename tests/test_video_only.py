"""One uncalibrated view without robot states: camera, scale, objects and an accepted plan come out of a few hints."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from tabletop import BLOCK, VIEWS, K, make_tabletop, truth_scene

from backend.documents.motion import Motion
from backend.documents.observations import Masks, Observations, ObservedObject, Track
from backend.documents.run import RunFolder
from backend.documents.verdict import Verdict
from backend.evaluate.similarity import overlap
from backend.motion.grasps import grasp_candidates
from backend.pipeline import Pipeline
from backend.reconstruct.lens import Lens
from backend.reconstruct.spans import Span, carried_span
from backend.reconstruct.stage import Stage
from backend.reconstruct.vanishing import Usual, attitude, line_segments, looking
from backend.substitutions import substitutions_of
from mjcf_export.scene import Box, Cylinder, Scene
from mjcf_export.shapes import cavity, extents

VIEW = "ext1"
CUP_WIDTH = 0.092


def _clip(folder: Path) -> None:
    """The first view of the tabletop alone, as a video with boxes and the cup's width."""
    folder.mkdir()
    table = make_tabletop(folder)
    images = table.images[VIEW]
    writer = cv2.VideoWriter(str(folder / "clip.mp4"), cv2.VideoWriter.fourcc(*"mp4v"), 4, images.shape[2:0:-1])
    for image in images:
        writer.write(image[..., ::-1])
    writer.release()
    objects = []
    for name, role, size in (("block", "moved", None), ("cup", "container", [CUP_WIDTH, CUP_WIDTH, None])):
        rows, columns = np.nonzero(table.masks.frame(f"mask/{VIEW}/{name}", 0))
        box = [int(columns.min()) - 2, int(rows.min()) - 2, int(columns.max()) + 3, int(rows.max()) + 3]
        objects.append({"name": name, "roles": [role], "prompts": [{"view": "video", "box": box}]})
        if size:
            objects[-1]["size"] = size
    (folder / "demo.json").write_text(
        json.dumps(
            {"version": 1, "views": [{"name": "video", "video": "clip.mp4"}], "objects": objects,
             "predicates": [["inside", "block", "cup"]]}
        )
    )  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """The clip executed up to the verdict."""
    root = tmp_path_factory.mktemp("video")
    _clip(root / "clip")
    folder = RunFolder(root / "run")
    options = {"demonstration": str(root / "clip"), "robot": None}
    Pipeline(folder, options).execute("validate", lambda stage, fraction, text: None)
    return folder


@pytest.mark.slow
def test_camera_scale_and_objects(run: RunFolder) -> None:
    """The camera's tilt, the scale and the objects are those of the world that was filmed."""
    scene = Scene.load(run.scene)
    camera = scene.camera("video")
    assert camera.provenance == {"pose": "estimated", "intrinsics": "assumed", "scale": "estimated"}
    assert camera.matrix[0, 0] == pytest.approx(K[0, 0], rel=0.35)
    tilt = [np.degrees(np.arcsin(-pose[2, 2])) for pose in (camera.pose.matrix, VIEWS[VIEW])]
    assert tilt[0] == pytest.approx(tilt[1], abs=6)
    truth = truth_scene()
    block, cup = scene.body("block"), scene.body("cup")
    apart, wanted = (np.subtract(item.body("block").pose.position, item.body("cup").pose.position)
                     for item in (scene, truth))  # fmt: skip
    assert np.linalg.norm(apart) == pytest.approx(np.linalg.norm(wanted), rel=0.1)
    assert np.sort(extents(block.shape, run.scene_folder)) == pytest.approx(np.sort(BLOCK), rel=0.2)
    assert extents(cup.shape, run.scene_folder)[2] == pytest.approx(0.095, rel=0.08)
    hollow = cavity(cup.shape, run.scene_folder)
    assert hollow is not None and hollow.floor < 0.02 and min(hollow.opening) > 0.038


@pytest.mark.slow
def test_scene_lies_where_the_video_shows_it(run: RunFolder) -> None:
    """Drawn through the estimated camera, block and cup cover their pixels of the first frame."""
    scene, masks = Scene.load(run.scene), Masks.load(run.masks)
    with Stage(scene, run.scene_folder) as stage:
        stage.settle()
        owner = stage.draw(Lens.of(scene.camera("video"))).owner
        scores = {
            name: overlap(masks.frame(f"mask/video/{name}", 0), owner == stage.index(name)) or 0.0
            for name in ("block", "cup")
        }
    assert min(scores.values()) > 0.85, scores


@pytest.mark.slow
def test_plan_is_accepted_and_says_what_it_assumed(run: RunFolder) -> None:
    """The block ends in the cup by contact alone; the motion is called adapted and the assumptions are named."""
    verdict = Verdict.load(run.verdict)
    assert verdict.accepted, verdict.message
    assert any(check.name == "inside(block, cup)" and check.status == "pass" for check in verdict.checks)
    motion = Motion.load(run.executed.motion)
    assert "planned" in motion.adapted and "re-timed" in motion.adapted and "base proposed" in motion.adapted
    said = {item.what for item in substitutions_of(run, verdict)}
    assert "intrinsics of camera video" in said
    assert any("lift" in event.relation for event in motion.events)


def test_lines_of_a_room_give_focal_length_and_attitude() -> None:
    """A drawn room of lines along three axes: focal length to 6 %, pitch and roll to a degree."""
    focal, pitch, roll, size = 380.0, np.radians(24.0), np.radians(3.0), (640, 400)
    intrinsics = np.array([[focal, 0, 319.5], [0, focal, 199.5], [0, 0, 1]])
    lens = Lens("room", size, intrinsics, looking(pitch, roll, 1.2))
    picture = np.full((size[1], size[0], 3), 60, np.uint8)
    yaw = np.radians(33.0)
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    corners = np.array([[x, y, z] for x in (-0.6, 0.7) for y in (-0.5, 0.8) for z in (0.0, 0.6)]) @ turn.T + (0, 2.2, 0)
    pixels, _ = lens.project(corners)
    for first in range(8):
        for axis in (1, 2, 4):
            if not first & axis:
                ends = [tuple(int(v) for v in np.round(pixels[k])) for k in (first, first | axis)]
                cv2.line(picture, ends[0], ends[1], (230, 230, 230), 3, cv2.LINE_AA)
    usual = Usual(np.array([np.log(480.0), np.radians(35), 0.0]), np.array([0.35, np.radians(15), np.radians(3)]))
    told = attitude(line_segments(picture), intrinsics[:2, 2], usual)
    assert np.exp(told.mean[0]) == pytest.approx(focal, rel=0.06)
    assert np.degrees(told.mean[1:]) == pytest.approx(np.degrees([pitch, roll]), abs=1.0)
    blank = attitude(line_segments(np.full_like(picture, 60)), intrinsics[:2, 2], usual)
    assert blank is usual


def test_scraps_of_a_lost_object_are_no_rest() -> None:
    """After the object vanished, a few wrong pixels elsewhere neither move it nor put it down."""
    stack = np.zeros((12, 60, 80), dtype=bool)
    stack[:5, 20:32, 20:32] = True
    stack[5:7, 12:24, 40:52] = True
    stack[8:, 50:53, 70:74] = True
    observed = ObservedObject(
        name="block", roles=("moved",), tracks=(Track(view="v", confidence=(1.0,) * 12, area=(144.0,) * 12),)
    )
    observations = Observations(
        provider="drawn", frames={"v": 12}, times={"v": tuple(k / 10 for k in range(12))}, sizes={"v": (80, 60)},
        objects=(observed,),
    )  # fmt: skip
    span = carried_span("block", "v", observations, Masks.of({"mask/v/block": stack}))
    assert span == Span("v", 4, 5, 6, None)


def test_low_things_are_held_by_the_tips(tmp_path: Path) -> None:
    """Some grasp of a 12 mm marker and of an 18 mm block keeps the pads' tips above the table and on the thing."""
    pad = 0.018
    marker = [g for g in grasp_candidates(Cylinder(radius=0.006, height=0.13), tmp_path, 0.085, pad) if g.width < 0.02]
    across = [g.frame[:2, 3] for g in marker if abs(g.frame[2, 2]) < 0.1]
    assert max(float(np.linalg.norm(point)) for point in across) + 0.006 > pad
    block = grasp_candidates(Box(size=(0.04, 0.04, 0.018)), tmp_path, 0.085, pad)
    above = [float(g.frame[2, 3]) for g in block if g.frame[2, 2] < -0.99]
    assert max(above) > pad and max(above) - pad < 0.018 - 0.005
