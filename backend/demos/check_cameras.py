"""Checks of a view: its video, times, depth, intrinsics and extrinsics."""

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from backend.demos.depth import check_depth
from backend.demos.pictures import PictureInfo, probe
from backend.demos.problem import Problem, error, warning
from backend.demos.states import not_rising
from backend.demos.video import load_poses, own_times
from backend.documents.demonstration import Demonstration, View
from mjcf_export.document import resolve_inside
from mjcf_export.errors import InputError
from mjcf_export.frames import is_rigid

CENTRE_ERROR = 0.15
"""Share of the picture that the principal point may lie from its middle before the intrinsics are refused."""
CENTRE_WARNING = 0.08
FAR = 50.0
"""Metres beyond which a camera or robot is taken to be given in millimetres."""


@dataclass
class CheckedView:
    """A view's problems, and what decoding it found (None when it cannot be decoded)."""

    problems: list[Problem] = field(default_factory=list)
    info: PictureInfo | None = None


def check_view(demo: Demonstration, view: View, keep: frozenset[int]) -> CheckedView:
    """Every problem of one view. `keep` are the frames whose pictures later checks look at."""
    result = CheckedView()
    where = f"views.{view.name}"
    try:
        info = probe(resolve_inside(demo.root, view.video), keep, view.frames)
    except InputError as problem:
        result.problems.append(error(f"{where}.video", str(problem)))
        return result
    result.info = info
    result.problems += _check_times(demo, view, info, where) + _check_depth(demo, view, info, where)
    result.problems += check_intrinsics(view, info.width, info.height, where)
    result.problems += _check_extrinsics(demo, view, info.count, where)
    return result


def _check_times(demo: Demonstration, view: View, info: PictureInfo, where: str) -> list[Problem]:
    field_name = f"{where}.timestamps" if view.timestamps else f"{where}.video"
    try:
        times = own_times(demo, view, info.count, info.times)
    except InputError as problem:
        return [error(field_name, str(problem))]
    if len(times) != info.count:
        return [error(field_name, f"{view.timestamps}: {len(times)} timestamps for {info.count} frames in "
                                  f"{view.video}; there must be one for each frame")]  # fmt: skip
    wrong = not_rising(times)
    if wrong is not None:
        return [error(field_name, f"times do not increase: frame {wrong} is at {times[wrong]:.6f} s, "
                                  f"frame {wrong - 1} at {times[wrong - 1]:.6f} s")]  # fmt: skip
    if info.count < 2:
        return [warning(f"{where}.video", "a single frame: no motion can be seen")]
    return []


def _check_depth(demo: Demonstration, view: View, info: PictureInfo, where: str) -> list[Problem]:
    if view.depth is None:
        return []
    try:
        check_depth(resolve_inside(demo.root, view.depth), info.count, info.width, info.height)
    except InputError as problem:
        return [error(f"{where}.depth", str(problem))]
    return []


def check_intrinsics(view: View, width: int, height: int, where: str) -> list[Problem]:
    """Whether the intrinsics belong to pictures of this size."""
    if view.intrinsics is None:
        return []
    where = f"{where}.intrinsics"
    matrix = np.array(view.intrinsics)
    fx, fy = matrix[0, 0], matrix[1, 1]
    if fx <= 0 or fy <= 0 or not np.allclose(matrix[2], (0, 0, 1)) or matrix[1, 0] != 0:
        return [
            error(where, f"expected [[fx, 0, cx], [0, fy, cy], [0, 0, 1]] with fx, fy > 0, given {matrix.tolist()}")
        ]
    centre = np.array([matrix[0, 2] / width, matrix[1, 2] / height])
    off = float(np.abs(centre - 0.5).max())
    text = (
        f"the principal point ({matrix[0, 2]:.1f}, {matrix[1, 2]:.1f}) is far from the middle of the {width}x{height} "
        "picture; the intrinsics look made for another resolution: scale them to the stored one"
    )
    if off > CENTRE_ERROR:
        return [error(where, text)]
    view_angle = float(np.degrees(2 * np.arctan(width / (2 * fx))))
    if not 5 <= view_angle <= 150:
        return [error(where, f"fx = {fx:.1f} for {width} pixels is a horizontal view of {view_angle:.1f} degrees; "
                             "focal lengths are in pixels of the stored resolution")]  # fmt: skip
    found = [warning(where, text)] if off > CENTRE_WARNING else []
    if abs(fx / fy - 1) > 0.2:
        found.append(warning(where, f"fx / fy = {fx / fy:.2f}: pixels are not square; was the picture squeezed?"))
    return found


def _check_extrinsics(demo: Demonstration, view: View, count: int, where: str) -> list[Problem]:
    where = f"{where}.extrinsics"
    found = []
    if view.mount is not None:
        found += check_transform(np.array(view.mount.pose), where.replace("extrinsics", "mount.pose"))
    try:
        poses = load_poses(demo, view.name)
    except InputError as problem:
        return [*found, error(where, str(problem))]
    if poses is None:
        return found
    if poses.ndim == 2:
        return found + check_transform(poses, where)
    if len(poses) != count:
        return [
            *found,
            error(where, f"{view.extrinsics}: {len(poses)} poses for {count} frames; there must be one a frame"),
        ]
    for index, pose in enumerate(poses):
        problems = check_transform(pose, where)
        if problems:
            return [*found, error(where, f"{view.extrinsics}, frame {index}: {problems[0].message}")]
    return found


def check_transform(matrix: npt.NDArray[np.float64], where: str) -> list[Problem]:
    """Whether a 4x4 is a rigid right-handed transform in metres; the message shows its determinant."""
    if not np.isfinite(matrix).all():
        return [error(where, "the transform holds NaN or infinite numbers")]
    rotation = matrix[:3, :3]
    determinant = float(np.linalg.det(rotation))
    if not is_rigid(matrix):
        if determinant < 0:
            text = "left-handed: one axis is flipped"
        elif not np.allclose(matrix[3], (0, 0, 0, 1), atol=1e-3):
            text = f"its last row is {matrix[3].tolist()}, not [0, 0, 0, 1]; is it transposed?"
        else:
            off = float(np.abs(rotation @ rotation.T - np.eye(3)).max())
            text = f"not orthonormal (off by {off:.3g}): remove scale and shear"
        return [error(where, f"not a rigid right-handed transform, determinant {determinant:.4f}: {text}")]
    distance = float(np.linalg.norm(matrix[:3, 3]))
    if distance > FAR:
        return [error(where, f"the origin is {distance:.0f} m away; lengths are metres, not millimetres")]
    return []
