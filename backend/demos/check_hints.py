"""Checks of what the user says: prompts, clicks, sizes, hands, predicates."""

from collections.abc import Mapping
from pathlib import Path

import cv2
import numpy as np

from backend.demos.pictures import Image, PictureInfo
from backend.demos.problem import Problem, error, warning
from backend.demos.states import not_rising
from backend.documents.demonstration import Correspondence, Demonstration, DemoObject, Prompt
from mjcf_export.document import load_arrays, resolve_inside
from mjcf_export.errors import InputError
from mjcf_export.scene import Predicate

FLAT = 1.5
"""Grey levels of spread under which a smoothed picture region shows nothing."""
_OBJECT_ARGUMENTS = {
    "inside": 2, "on": 2, "upright": 1, "lifted": 1, "carried": 1, "at": 1, "inserted": 2, "poured": 2,
    "separated": 2, "released": 1, "stable": 1, "open": 0, "closed": 0, "retracted": 0,
}  # fmt: skip
Infos = Mapping[str, PictureInfo]


def prompt_frames(demo: Demonstration, view: str) -> frozenset[int]:
    """Frames of a view that prompts point at."""
    return frozenset(prompt.frame for item in demo.objects for prompt in item.prompts if prompt.view == view)


def check_hints(demo: Demonstration, infos: Infos) -> list[Problem]:
    """Every problem of the hints; views that cannot be decoded are left out."""
    found = []
    for item in demo.objects:
        for number, prompt in enumerate(item.prompts):
            if prompt.view in infos:
                found += _check_prompt(prompt, infos[prompt.view], f"objects.{item.name}.prompts.{number}")
        found += _check_size(item)
    for number, click in enumerate(demo.correspondences):
        found += _check_click(demo, click, infos, f"correspondences.{number}")
    for number, predicate in enumerate(demo.predicates):
        found += _check_predicate(demo, predicate, f"predicates.{number}")
    return found + _check_hands(demo)


def _check_frame(frame: int, view: str, info: PictureInfo, where: str) -> list[Problem]:
    if frame < info.count:
        return []
    return [error(where, f"frame {frame} is beyond the end of view {view}, which has frames 0 to {info.count - 1}")]


def _check_prompt(prompt: Prompt, info: PictureInfo, where: str) -> list[Problem]:
    found = _check_frame(prompt.frame, prompt.view, info, where)
    if found:
        return found
    for u, v in prompt.points:
        found += _check_pixel(u, v, prompt.view, info, where)
    if prompt.box is not None:
        found += _check_box(prompt.box, prompt.view, info, info.kept.get(prompt.frame), where)
    return found


def _check_pixel(u: float, v: float, view: str, info: PictureInfo, where: str) -> list[Problem]:
    if 0 <= u < info.width and 0 <= v < info.height:
        return []
    return [error(where, f"pixel ({u:g}, {v:g}) is outside view {view}, which is {info.width}x{info.height}")]


def _check_box(
    box: tuple[float, float, float, float], view: str, info: PictureInfo, image: Image | None, where: str
) -> list[Problem]:
    x0, y0, x1, y1 = box
    if x1 - x0 < 2 or y1 - y0 < 2:
        return [error(where, f"the box {list(box)} has no area; expected [x0, y0, x1, y1] with x0 < x1 and y0 < y1")]
    if x0 < -1 or y0 < -1 or x1 > info.width + 1 or y1 > info.height + 1:
        return [error(where, f"the box {list(box)} reaches outside view {view}, which is {info.width}x{info.height}")]
    if image is not None:
        region = image[max(0, int(y0)) : int(np.ceil(y1)), max(0, int(x0)) : int(np.ceil(x1))]
        spread = float(cv2.GaussianBlur(region, (0, 0), 1.5).reshape(-1, 3).std(axis=0).max())
        if spread < FLAT:
            return [error(where, f"the box {list(box)} is on nothing: the picture is flat there "
                                 f"(spread {spread:.1f} grey levels); draw it around the object")]  # fmt: skip
    return []


def _check_size(item: DemoObject) -> list[Problem]:
    known = [value for value in item.size or () if value is not None]
    if any(value <= 0 for value in known):
        return [error(f"objects.{item.name}.size", f"sizes are positive metres, given {known}")]
    if any(value > 5 for value in known):
        return [
            error(
                f"objects.{item.name}.size", f"{max(known):g} m is no tabletop object; sizes are metres, not mm or cm"
            )
        ]
    return []


def _check_click(demo: Demonstration, click: Correspondence, infos: Infos, where: str) -> list[Problem]:
    found = []
    if click.view in infos:
        info = infos[click.view]
        found += _check_frame(click.frame, click.view, info, where)
        found += _check_pixel(click.pixel[0], click.pixel[1], click.view, info, where)
    objects = [item.name for item in demo.objects]
    if click.on is not None and click.on not in objects:
        found.append(error(where, f"`on` names an unknown object {click.on}; there are {objects}"))
    robots = [robot.name for robot in demo.robots]
    if click.frame_of != "world" and click.frame_of.split("/")[0] not in robots:
        found.append(
            error(where, f'`frame_of` is "world" or "<robot>/<link>", not {click.frame_of}; robots are {robots}')
        )
    return found


def _check_predicate(demo: Demonstration, predicate: Predicate, where: str) -> list[Problem]:
    needed = _OBJECT_ARGUMENTS[predicate.name]
    named = [arg for arg in predicate.args[:needed] if isinstance(arg, str)]
    if len(named) < needed:
        return [error(where, f"{predicate} needs the names of {needed} objects first")]
    objects = [item.name for item in demo.objects]
    unknown = [name for name in named if name not in objects]
    if unknown:
        return [error(where, f"{predicate} names unknown objects {unknown}; there are {objects}")]
    return []


def _check_hands(demo: Demonstration) -> list[Problem]:
    if demo.hands is None:
        return []
    try:
        return _hand_problems(resolve_inside(demo.root, demo.hands))
    except InputError as problem:
        return [error("hands", str(problem))]


def _hand_problems(path: Path) -> list[Problem]:
    arrays = load_arrays(path)
    time = arrays.get("time")
    if time is None or time.ndim != 1 or not np.isfinite(time).all() or not_rising(time) is not None:
        raise InputError(f"{path}: needs `time` (T,), finite and increasing")
    sides = [side for side in ("left", "right") if side in arrays]
    if not sides:
        raise InputError(f"{path}: needs `left` or `right` (T, 21, 3); it holds {sorted(arrays)}")
    for side in sides:
        if arrays[side].shape != (len(time), 21, 3):
            raise InputError(f"{path}: `{side}` has shape {arrays[side].shape}, expected ({len(time)}, 21, 3)")
        if np.isinf(arrays[side]).any():
            raise InputError(f"{path}: `{side}` holds infinite numbers; NaN marks a hand that is not seen")
    unseen = [side for side in sides if np.isnan(arrays[side]).all()]
    return [warning("hands", f"{path}: `{side}` is never seen (all NaN)") for side in unseen]
