"""Segmentation, tracking and the robot's own measurements."""

from backend.perception.observe import observe

__all__ = ["observe"]
