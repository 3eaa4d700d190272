"""One thing the audit found."""

from typing import Literal

from mjcf_export.document import Record


class Finding(Record):
    """A named check that failed.

    Attributes:
        check: the check's name, e.g. `cavity-closed`.
        severity: errors spoil the physics; warnings deserve a look.
        subject: the element concerned.
        message: what is wrong, by how much, what to do.
        value: the measured figure, when there is one.
    """

    check: str
    severity: Literal["error", "warning"]
    subject: str
    message: str
    value: float | None = None

    def __str__(self) -> str:
        return f"{self.severity}: {self.subject}: {self.message} [{self.check}]"


def error(check: str, subject: str, message: str, value: float | None = None) -> Finding:
    """A finding of severity `error`."""
    return Finding(check=check, severity="error", subject=subject, message=message, value=value)


def warning(check: str, subject: str, message: str, value: float | None = None) -> Finding:
    """A finding of severity `warning`."""
    return Finding(check=check, severity="warning", subject=subject, message=message, value=value)
