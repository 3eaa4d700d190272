"""The one answer every command gives (`--json`)."""

from typing import Any, Literal

from backend.documents.verdict import Substitution, Verdict
from mjcf_export.document import Record


class Envelope(Record):
    """What a command did. Exit codes: 0 accepted, 1 rejected, 2 bad input, 3 machine lacks something, 4 our fault."""

    command: str
    status: Literal["accepted", "rejected", "error"]
    exit_code: Literal[0, 1, 2, 3, 4]
    verdict: Verdict | None = None
    substitutions: tuple[Substitution, ...] = ()
    outputs: dict[str, Any] = {}
    message: str = ""
