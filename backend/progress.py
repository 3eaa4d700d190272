"""What the command line shows: a progress bar per stage, and a readable account of an envelope."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from backend.documents.envelope import Envelope
from backend.documents.verdict import Verdict

COLORS = {
    "accepted": "green",
    "rejected": "red",
    "error": "red",
    "pass": "green",
    "fail": "red",
    "not evaluated": "dim",
}
COLORS |= {"ok": "green", "missing": "red", "optional": "yellow"}


def silent(stage: str, fraction: float, message: str) -> None:
    """Progress nobody wants to see."""


class StageBars:
    """One bar per stage on stderr, as a context that yields the progress callback."""

    def __init__(self, stages: Sequence[str]) -> None:
        self._progress = Progress(
            TextColumn("{task.description:<12}"),
            BarColumn(bar_width=24),
            TimeElapsedColumn(),
            TextColumn("{task.fields[message]}"),
            console=Console(stderr=True),
        )
        self._tasks: dict[str, TaskID] = {
            stage: self._progress.add_task(stage, total=1.0, start=False, message="") for stage in stages
        }

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def __call__(self, stage: str, fraction: float, message: str) -> None:
        """Show a stage's progress."""
        task = self._tasks[stage]
        self._progress.start_task(task)
        self._progress.update(task, completed=fraction, message=escape(message[:100]))
        if fraction >= 1.0:
            self._progress.stop_task(task)


def print_account(envelope: Envelope) -> None:
    """A table of checks, findings or figures, then the outcome in one line."""
    console = Console()
    if envelope.verdict is not None:
        console.print(checks_table(envelope.verdict))
        for item in envelope.substitutions:
            console.print(f"substituted ({item.provenance}): {escape(item.what)}: {escape(item.why)}")
        if envelope.verdict.adapted:
            console.print(f"adapted: {escape(envelope.verdict.adapted)}")
    outputs = dict(envelope.outputs)
    if "findings" in outputs:
        console.print(findings_table(outputs.pop("findings")))
    if "figures" in outputs:
        console.print(figures_table(outputs))
    else:
        for name, value in outputs.items():
            for line in value if isinstance(value, list) else [value]:
                console.print(f"{name}: {escape(str(line))}", soft_wrap=True)
    color = COLORS[envelope.status]
    message = f": {escape(envelope.message)}" if envelope.message else ""
    console.print(f"[bold {color}]{envelope.command} {envelope.status}[/]{message}", soft_wrap=True)


def checks_table(verdict: Verdict) -> Table:
    """Every check with value, threshold and status."""
    table = Table("stage", "check", "value", "threshold", "status")
    for check in verdict.checks:
        value = "" if check.value is None else f"{check.value:.4g} {check.unit}"
        threshold = "" if check.threshold is None else f"{check.comparison} {check.threshold:.4g} {check.unit}"
        status = f"[{COLORS[check.status]}]{check.status}[/]"
        table.add_row(check.stage, escape(check.name), value, threshold, status)
    return table


def findings_table(findings: list[dict[str, Any]]) -> Table:
    """What doctor found."""
    table = Table("what", "state", "detail", "how to get it")
    for item in findings:
        state = f"[{COLORS[item['state']]}]{item['state']}[/]"
        table.add_row(escape(item["name"]), state, escape(item["detail"]), escape(item["remedy"]))
    return table


def figures_table(result: dict[str, Any]) -> Table:
    """A bench's figures beside their goals, and its details' rows."""
    table = Table("figure", "value", "goal", title=str(result.get("bench", "")))
    for name, value in result["figures"].items():
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(name, shown, str(result.get("goals", {}).get(name, "")))
    for row in result.get("details", []):
        table.add_row("", escape(str(row)), "")
    return table
