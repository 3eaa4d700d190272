"""Settings that must hold before any test module is imported."""

import backend  # noqa: F401  chooses MuJoCo's off-screen renderer, which mujoco reads when it is first imported
