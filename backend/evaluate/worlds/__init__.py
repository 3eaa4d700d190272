"""The world maker: pick-and-place demonstrations with hidden truth, made from nothing but code.

A world is a true scene, a privileged expert that carries the task out natively in MuJoCo, and a demonstration
rendered from what was executed. The truth is stored apart from the demonstration folder.
"""

from backend.evaluate.worlds.make import bench, make_worlds
from backend.evaluate.worlds.specs import WORLDS, WorldSpec

__all__ = ["WORLDS", "WorldSpec", "bench", "make_worlds"]
