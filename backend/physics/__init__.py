"""Native execution and judgement: staged checks, predicates, bounded contact correction, verdicts."""

from backend.physics.validate import validate

__all__ = ["validate"]
