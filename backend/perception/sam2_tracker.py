"""SAM 2 as a tracker, where `sam2`, torch and a checkpoint that the user configured are present."""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image as Picture

from backend.documents.observations import Mask
from backend.documents.run import Progress
from backend.perception.appearance import Image
from backend.perception.tracking import Target, TrackResult
from mjcf_export.errors import InputError, MissingError

CHECKPOINT = "REAL2GYM_SAM2_CHECKPOINT"
"""Environment variable: path of a SAM 2 checkpoint (.pt)."""
CONFIG = "REAL2GYM_SAM2_CONFIG"
"""Environment variable: the checkpoint's configuration inside the `sam2` package."""
DEFAULT_CONFIG = "configs/sam2.1/sam2.1_hiera_t.yaml"


def configured() -> bool:
    """Whether a checkpoint path is set."""
    return bool(os.environ.get(CHECKPOINT))


def settings() -> dict[str, str] | None:
    """The configured checkpoint and its configuration, which decide what is seen; None when there is none."""
    if not configured():
        return None
    return {"checkpoint": os.environ[CHECKPOINT], "config": os.environ.get(CONFIG, DEFAULT_CONFIG)}


def load_tracker(overrides: Sequence[str] = ()) -> "Sam2Tracker":
    """The tracker of the configured checkpoint; `overrides` are hydra overrides of its configuration.

    Raises:
        MissingError: torch or sam2 is not installed, or no checkpoint is configured; the message says how to get it.
        InputError: the checkpoint does not exist or does not fit the configuration.
    """
    absent = missing_packages()
    if absent:
        raise MissingError(f"SAM2: {' and '.join(absent)} not installed; run `make models`")
    return Sam2Tracker(checkpoint_file(), os.environ.get(CONFIG, DEFAULT_CONFIG), overrides)


def missing_packages() -> list[str]:
    """Packages that SAM 2 needs and that are not installed."""
    return [package for package in ("torch", "sam2") if find_spec(package) is None]


def checkpoint_file() -> Path:
    """The configured checkpoint.

    Raises:
        MissingError: none is configured; the message says how to get one.
        InputError: it does not exist.
    """
    path = os.environ.get(CHECKPOINT)
    if not path:
        raise MissingError(
            f"SAM2: no checkpoint configured; download one from https://github.com/facebookresearch/sam2 and set "
            f"{CHECKPOINT} to its path (and {CONFIG} to its configuration, {DEFAULT_CONFIG} otherwise)"
        )
    if not Path(path).is_file():
        raise InputError(f"{CHECKPOINT}: {path}: no such file; expected a SAM 2 checkpoint (.pt)")
    return Path(path)


class Sam2Tracker:
    """`Tracker` by the SAM 2 video predictor, on the GPU when torch finds one."""

    def __init__(self, checkpoint: Path, config: str, overrides: Sequence[str] = ()) -> None:
        import torch
        from sam2.build_sam import build_sam2_video_predictor

        self.sha256 = _sha256(checkpoint)
        self._device = "cuda" if torch.cuda.is_available() else "cpu"
        try:
            model = build_sam2_video_predictor(
                config, ckpt_path=None, device=self._device, hydra_overrides_extra=list(overrides)
            )
            state = torch.load(checkpoint, map_location="cpu", weights_only=True)
            model.load_state_dict(state.get("model", state))
        except Exception as error:  # hydra, pickle and torch each raise their own families
            raise InputError(
                f"{checkpoint}: cannot be loaded as a SAM 2 checkpoint with {config} "
                f"({type(error).__name__}: {str(error)[:300]}); set {CONFIG} to the configuration it was trained with"
            ) from error
        self._predictor: Any = model

    def track(
        self, images: Image, targets: Sequence[Target], hidden: Mask | None, progress: Progress
    ) -> dict[str, TrackResult]:
        """See `Tracker`; the robot is taken out of the masks."""
        import torch

        count, height, width = images.shape[:3]
        results = {
            target.name: TrackResult(np.zeros((count, height, width), dtype=bool), np.zeros(count, np.float32))
            for target in targets
        }
        if not targets:
            return results
        with tempfile.TemporaryDirectory() as folder, torch.inference_mode():
            for index, image in enumerate(images):
                Picture.fromarray(image).save(Path(folder) / f"{index:05d}.jpg", quality=95)
            state = self._predictor.init_state(folder, offload_video_to_cpu=True)
            for number, target in enumerate(targets):
                self._prompt(state, number, target)
            start = min(target.frame for target in targets)
            done = 0
            for reverse in (False, True):
                if reverse and start == 0:
                    continue
                for frame, ids, logits in self._predictor.propagate_in_video(
                    state, start_frame_idx=start, reverse=reverse
                ):
                    for number, logit in zip(ids, logits, strict=True):
                        self._keep(results[targets[number].name], frame, logit[0], hidden)
                    done += 1
                    progress(min(1.0, done / count), f"SAM2: frame {frame}")
        for result in results.values():
            found = result.confidence > 0
            changes = np.flatnonzero(np.diff(found.astype(np.int8)))
            result.lost = [int(t) + 1 for t in changes if found[t]]
            result.recovered = [int(t) + 1 for t in changes if not found[t]]
        return results

    def _prompt(self, state: Any, number: int, target: Target) -> None:
        region = target.region
        points = np.array(region.points, dtype=np.float32) if region.points else None
        labels = None if points is None else np.array(region.labels or (1,) * len(points), dtype=np.int32)
        box = None if region.box is None else np.array(region.box, dtype=np.float32)
        self._predictor.add_new_points_or_box(
            state, frame_idx=target.frame, obj_id=number, points=points, labels=labels, box=box
        )

    def _keep(self, result: TrackResult, frame: int, logit: Any, hidden: Mask | None) -> None:
        """Take one frame's logits `(H, W)`; confidence is the mean probability inside the mask."""
        values = logit.float().cpu().numpy()
        mask = values > 0
        if hidden is not None:
            mask &= ~hidden[frame]
        if mask.sum() < 6:
            return
        result.masks[frame] = mask
        result.confidence[frame] = float((1 / (1 + np.exp(-values[mask]))).mean())


def _sha256(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
