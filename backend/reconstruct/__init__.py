"""Observations to a metric scene: shapes, placement, events, diagnosis, correction."""
