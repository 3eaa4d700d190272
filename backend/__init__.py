"""The headless engine of Real2Gym: reconstruction, physics, gyms, agents and skills. Never imports bpy."""

import os
import sys

if sys.platform.startswith("linux"):
    os.environ.setdefault("MUJOCO_GL", "egl")  # read by mujoco when it is first imported
