"""Real videos of a robot with a handful of hints end in an accepted gym, where the recordings are at hand."""

import shutil
from pathlib import Path

import pytest
from film import SHARED

from backend.demos import load_demonstration
from backend.documents.motion import Motion
from backend.documents.observations import Masks, Observations
from backend.documents.run import RunFolder
from backend.documents.verdict import Verdict
from backend.pipeline import Pipeline
from backend.reconstruct.case import Case
from backend.reconstruct.silhouettes import iou, silhouette
from mjcf_export.document import load_arrays
from mjcf_export.scene import Scene

HINTS = Path(__file__).parent / "hints"
CLIPS = {
    "d091": ("droid_720p/ar2s_ep_091_real.mp4", ("block", "cup")),
    "d01": ("droid/01.mp4", ("block", "cup")),
    "d06": ("droid/06.mp4", ("block", "bowl")),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CLIPS)
def test_a_real_video_ends_in_an_accepted_gym(name: str, tmp_path: Path) -> None:
    clip, (moved, container) = CLIPS[name]
    if not (SHARED / clip).is_file():
        pytest.skip(f"no recording {SHARED / clip}")
    folder = tmp_path / "demo"
    folder.mkdir()
    shutil.copy(HINTS / f"{name}.json", folder / "demo.json")
    shutil.copy(SHARED / clip, folder / "video.mp4")
    run = RunFolder(tmp_path / "run")
    Pipeline(run, {"demonstration": str(folder), "robot": None}).execute("validate", lambda stage, done, text: None)
    verdict = Verdict.load(run.verdict)
    assert verdict.accepted, verdict.message
    demo, masks = load_demonstration(folder), Masks.load(run.masks)
    scene, motion = Scene.load(run.scene), Motion.load(run.motion)
    arrays = load_arrays(run.motion_arrays)
    case = Case.of(demo, Observations.load(run.observations), masks, scene, run.scene_folder, motion, arrays)
    lens, key = case.lenses[0], f"mask/{case.lenses[0].name}"
    last = len(masks[f"{key}/{container}"]) - 1
    for body, frame in ((moved, 0), (container, 0), (container, last)):
        pose = case.pose(scene.body(body), 0.0 if frame == 0 else float(arrays["time"][-1]))
        drawn = silhouette(case.parts(scene.body(body)), pose, lens)
        assert iou(drawn, masks.frame(f"{key}/{body}", frame)) >= 0.6, f"{body} in frame {frame}"
