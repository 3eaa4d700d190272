"""What the checks of a demonstration find."""

from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong. `where` names the field or file; `message` says what was expected and what to do."""

    severity: Severity
    where: str
    message: str

    def __str__(self) -> str:
        return f"{self.severity}: {self.where}: {self.message}"


def error(where: str, message: str) -> Problem:
    """A problem that makes the demonstration unusable."""
    return Problem("error", where, message)


def warning(where: str, message: str) -> Problem:
    """A problem that the user should know of."""
    return Problem("warning", where, message)
