"""The demonstration's cameras as lenses: which are known, how far they are trusted, which cannot be used."""

import numpy as np

from backend.demos.video import load_poses
from backend.documents.demonstration import Demonstration
from backend.documents.observations import Observations
from backend.reconstruct.lens import Lens

STILL = 0.002
"""A recorded camera path within this much (metres, and entries of the rotation) stands still."""


def calibrated_lenses(demo: Demonstration, observations: Observations) -> tuple[list[Lens], list[str]]:
    """Static views with intrinsics and extrinsics, and why others were left out."""
    lenses, notes = [], []
    for view in demo.views:
        if view.mount is not None:
            notes.append(f"view {view.name}: moves with {view.mount.link}; not used to fit the scene")
            continue
        if view.intrinsics is None or view.extrinsics is None:
            notes.append(f"view {view.name}: no {'intrinsics' if view.intrinsics is None else 'extrinsics'} given")
            continue
        if view.name not in observations.sizes:
            notes.append(f"view {view.name}: perception did not see it")
            continue
        poses = load_poses(demo, view.name)
        if poses is None:
            continue
        pose = np.asarray(poses, dtype=np.float64)
        if pose.ndim == 3:
            if float(np.abs(pose - pose[0]).max()) > STILL:
                notes.append(f"view {view.name}: its camera moves; not used to fit the scene")
                continue
            pose = pose[0]
        lenses.append(
            Lens(
                name=view.name,
                size=observations.sizes[view.name],
                intrinsics=np.array(view.intrinsics, dtype=np.float64),
                pose=pose,
                distortion=view.distortion,
                trust=view.trust.extrinsics,
                intrinsics_trust=view.trust.intrinsics,
            )
        )
    return lenses, notes
