"""SAM 2's real code behind the tracker's protocol, with a small network of random weights: loading, not quality."""

from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from small_demo import write_small_demo

from backend.demos import load_demonstration
from backend.doctor import examine_sam2
from backend.perception import sam2_tracker
from backend.perception.segmentation import Region
from backend.perception.tracking import Target
from mjcf_export.errors import InputError, MissingError

ABSENT = [package for package in ("torch", "sam2") if find_spec(package) is None]
needs_sam2 = pytest.mark.skipif(bool(ABSENT), reason=f"{' and '.join(ABSENT)} not installed; `make models` installs it")
SMALL = (
    "++model.image_size=128",
    "++model.image_encoder.trunk.embed_dim=16",
    "++model.image_encoder.trunk.stages=[1,1,2,1]",
    "++model.image_encoder.trunk.global_att_blocks=[3]",
    "++model.memory_attention.num_layers=1",
    "++model.image_encoder.neck.backbone_channel_list=[128,64,32,16]",
)


def test_without_a_configured_checkpoint_it_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(sam2_tracker.CHECKPOINT, raising=False)
    assert sam2_tracker.settings() is None
    with pytest.raises(
        MissingError, match="make models" if ABSENT else "github.com/facebookresearch/sam2.*set REAL2GYM"
    ):
        sam2_tracker.load_tracker()
    finding = examine_sam2()
    assert finding.state == "optional" and ("make models" in finding.remedy) == bool(ABSENT)
    monkeypatch.setenv(sam2_tracker.CHECKPOINT, str(tmp_path / "none.pt"))
    if not ABSENT:
        assert "no such file" in examine_sam2().detail


@needs_sam2
def test_a_checkpoint_is_loaded_and_followed_through_a_video(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    import torch
    from sam2.build_sam import build_sam2_video_predictor

    torch.manual_seed(3)
    threads = torch.get_num_threads()
    request.addfinalizer(lambda: torch.set_num_threads(threads))
    torch.set_num_threads(1)  # threads that wait for each other crawl on a busy machine
    model = build_sam2_video_predictor(
        sam2_tracker.DEFAULT_CONFIG, ckpt_path=None, device="cpu", hydra_overrides_extra=list(SMALL)
    )
    checkpoint = tmp_path / "small.pt"
    torch.save({"model": model.state_dict()}, checkpoint)
    monkeypatch.setenv(sam2_tracker.CHECKPOINT, str(checkpoint))
    tracker = sam2_tracker.load_tracker(SMALL)
    assert len(tracker.sha256) == 64 and sam2_tracker.settings() == {
        "checkpoint": str(checkpoint),
        "config": sam2_tracker.DEFAULT_CONFIG,
    }
    images = np.random.default_rng(0).integers(0, 255, (3, 60, 80, 3), dtype=np.uint8)
    hidden = np.zeros((3, 60, 80), dtype=bool)
    hidden[:, :, 40:] = True
    targets = [
        Target("block", 1, Region(box=(10, 10, 30, 30))),
        Target("cup", 1, Region(points=((20.0, 40.0), (60.0, 10.0)), labels=(1, 0))),
    ]
    seen: list[float] = []
    results = tracker.track(images, targets, hidden, lambda fraction, message: seen.append(fraction))
    assert set(results) == {"block", "cup"} and seen == sorted(seen) and seen[-1] == 1.0
    free = tracker.track(images, targets, None, lambda fraction, message: None)
    for name, result in results.items():
        assert result.masks.shape == (3, 60, 80) and not result.masks[hidden].any()
        np.testing.assert_array_equal(result.masks, free[name].masks & ~hidden)
        found = result.masks.any(axis=(1, 2))
        assert ((result.confidence > 0) == found).all() and (result.confidence <= 1).all()
    assert free["block"].masks.any(), "random weights still paint something"

    module = import_module("backend.perception.observe")
    monkeypatch.setattr(module, "load_tracker", lambda: sam2_tracker.load_tracker(SMALL))
    demo = load_demonstration(write_small_demo(tmp_path / "demo"))
    observations, masks = module.observe(demo, lambda fraction, message: None)
    assert observations.provider == "sam2" and observations.checkpoint_sha256 == tracker.sha256
    assert masks["mask/ext1/block"].shape == (8, 120, 160)


@needs_sam2
def test_a_file_that_is_no_checkpoint_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    path = tmp_path / "bad.pt"
    monkeypatch.setenv(sam2_tracker.CHECKPOINT, str(path))
    with pytest.raises(InputError, match="bad.pt: no such file"):
        sam2_tracker.load_tracker(SMALL)
    path.write_bytes(b"no weights")
    with pytest.raises(InputError, match="cannot be loaded as a SAM 2 checkpoint"):
        sam2_tracker.load_tracker(SMALL)
    torch.save({"model": {"another.weight": torch.zeros(3)}}, path)
    with pytest.raises(InputError, match="set REAL2GYM_SAM2_CONFIG to the configuration it was trained with"):
        sam2_tracker.load_tracker(SMALL)
