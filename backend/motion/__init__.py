"""Inverse kinematics, trajectories and retargeting."""
