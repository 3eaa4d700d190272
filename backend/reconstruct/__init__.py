"""From observations to the scene and its motion: calibration, shapes, placement, events, diagnosis, correction."""

from backend.reconstruct.assembly import reconstruct
from backend.reconstruct.correction import correct
from backend.reconstruct.diagnosis import diagnose

__all__ = ["correct", "diagnose", "reconstruct"]
