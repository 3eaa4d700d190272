"""One uncalibrated view without robot states: camera, scale, objects and an accepted plan come out of a few hints."""

import json
from pathlib import Path

import cv2
import numpy as np
import pytest

from backend.documents.observations import Masks, Observations, ObservedObject, Track
from backend.documents.run import RunFolder
from backend.evaluate.similarity import overlap
from backend.pipeline import Pipeline
from backend.reconstruct.lens import Lens
from backend.reconstruct.spans import carried_span
from backend.reconstruct.stage import Stage
from backend.reconstruct.vanishing import Usual, attitude, line_segments, looking
from mjcf_export.scene import Scene
from mjcf_export.shapes import cavity, extents
from tests.tabletop import BLOCK, K, make_tabletop

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
def test_camera_and_objects(run: RunFolder) -> None:
    """The camera's tilt, the scale and the objects are those of the world that was filmed."""
    scene = Scene.load(run.scene)
    camera = scene.camera("video")
    assert camera.provenance == {"pose": "estimated", "intrinsics": "assumed", "scale": "estimated"}
    assert camera.matrix[0, 0] == pytest.approx(K[0, 0], rel=0.15)
    down = -camera.pose.matrix[2, 2]
    assert np.degrees(np.arcsin(down)) == pytest.approx(TRUE_PITCH, abs=4)
    block, cup = scene.body("block"), scene.body("cup")
    apart = np.linalg.norm(np.array(block.pose.position) - cup.pose.position)
    assert apart == pytest.approx(np.hypot(0.02, 0.26), rel=0.15)
    assert np.sort(extents(block.shape, run.scene_folder)) == pytest.approx(np.sort(BLOCK), rel=0.2)
    assert extents(cup.shape, run.scene_folder)[2] == pytest.approx(0.095, rel=0.12)
    hollow = cavity(cup.shape, run.scene_folder)
    assert hollow is not None and hollow.floor < 0.02 and min(hollow.opening) > 0.038
