"""Demonstrations of every input format: loading, checking, and their frames and states as arrays."""

from backend.demos.load import check_demonstration, load_demonstration, save_demonstration
from backend.demos.problem import Problem
from backend.demos.states import RobotStates, load_states
from backend.demos.video import ViewFrames, load_poses, load_view

__all__ = [
    "Problem",
    "RobotStates",
    "ViewFrames",
    "check_demonstration",
    "load_demonstration",
    "load_poses",
    "load_states",
    "load_view",
    "save_demonstration",
]
