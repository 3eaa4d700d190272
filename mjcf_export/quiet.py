"""MuJoCo without the log file that it leaves where the user stands."""

from collections.abc import Iterator
from contextlib import contextmanager

import mujoco


@contextmanager
def no_log_file() -> Iterator[None]:
    """Keep MuJoCo from writing MUJOCO_LOG.TXT into the working folder; its counters still count."""
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        yield
    finally:
        mujoco.set_mju_user_warning(None)
