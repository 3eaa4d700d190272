"""Segmentation, tracking and the robot's own measurements."""
