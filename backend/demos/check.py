"""Every check of a demonstration."""

import numpy as np

from backend.demos.check_cameras import check_transform, check_view
from backend.demos.check_hints import check_hints, prompt_frames
from backend.demos.check_states import check_states
from backend.demos.pictures import PictureInfo
from backend.demos.problem import Problem, error
from backend.demos.states import arm_limits
from backend.documents.demonstration import Demonstration, DemoRobot
from mjcf_export.document import resolve_inside
from mjcf_export.errors import InputError


def find_problems(demo: Demonstration) -> list[Problem]:
    """All problems of a demonstration that was read, worst first. Every video is decoded once."""
    found: list[Problem] = []
    infos: dict[str, PictureInfo] = {}
    for view in demo.views:
        checked = check_view(demo, view, prompt_frames(demo, view.name))
        found += checked.problems
        if checked.info is not None:
            infos[view.name] = checked.info
    for robot in demo.robots:
        found += _check_robot(demo, robot)
    found += check_hints(demo, infos)
    return sorted(found, key=lambda problem: problem.severity != "error")


def _check_robot(demo: Demonstration, robot: DemoRobot) -> list[Problem]:
    where = f"robots.{robot.name}"
    found = [] if robot.base is None else check_transform(np.array(robot.base), f"{where}.base")
    strict = demo.loader == "folder"
    if robot.states is None:
        try:
            arm_limits(robot.model, demo.root)
        except InputError as problem:
            found.append(Problem("error" if strict else "warning", f"{where}.model", str(problem)))
        return found
    try:
        path = resolve_inside(demo.root, robot.states)
    except InputError as problem:
        return [*found, error(f"{where}.states", str(problem))]
    return found + check_states(robot, path, demo.root, f"{where}.states", strict=strict)
