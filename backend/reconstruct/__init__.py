"""From observations to the scene and its motion: calibration, shapes, placement, events, diagnosis, correction."""

from backend.reconstruct.assembly import reconstruct

__all__ = ["reconstruct"]
