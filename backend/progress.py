"""What the command line shows: a progress bar per stage, and a readable account of an envelope."""

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
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


LINE_EVERY = 5.0
"""Seconds between two lines of one stage where there is no terminal to draw a bar on."""


@contextmanager
def quiet_stdout(active: bool) -> Iterator[None]:
    """Send what libraries write to stdout, also from C, to stderr, so that the JSON object stays alone there."""
    if not active:
        yield
        return
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)


@contextmanager
def stage_display(stages: Sequence[str], *, hidden: bool) -> Iterator[Callable[[str, float, str], None]]:
    """The progress callback: bars on a terminal, plain lines elsewhere, nothing when `hidden`."""
    if hidden:
        yield silent
    elif sys.stderr.isatty():
        with StageBars(stages) as bars:
            yield bars
    else:
        yield StageLines()


def silent(stage: str, fraction: float, message: str) -> None:
    """Progress nobody wants to see."""


class StageLines:
    """Plain lines on stderr: a stage's begin and end, and every few seconds how far it is."""

    def __init__(self) -> None:
        self._stage = ""
        self._last = 0.0

    def __call__(self, stage: str, fraction: float, message: str) -> None:
        """Report a stage's progress."""
        now = time.monotonic()
        if stage == self._stage and fraction < 1.0 and now - self._last < LINE_EVERY:
            return
        self._stage, self._last = stage, now
        sys.stderr.write(f"{stage:<12}{fraction:>5.0%}  {message}".rstrip() + "\n")
        sys.stderr.flush()


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
    console = Console(stderr=envelope.status == "error" and not envelope.outputs)
    if envelope.verdict is not None:
        console.print(checks_table(envelope.verdict))
    for item in envelope.substitutions:
        console.print(f"substituted ({item.provenance}): {escape(item.what)}: {escape(item.why)}", soft_wrap=True)
    outputs = dict(envelope.outputs)
    for finding in outputs.pop("findings", []):
        for line in finding_lines(finding):
            console.print(line, soft_wrap=True)
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
    """Every stage with how many of its checks passed, and each check that did not, with value and threshold."""
    table = Table("stage", "check", "value", "threshold", "status")
    for stage, group in groupby(verdict.checks, key=lambda check: check.stage):
        checks = list(group)
        passed = sum(check.status == "pass" for check in checks)
        if passed:
            table.add_row(stage, f"{passed} checks" if passed > 1 else "1 check", "", "", f"[{COLORS['pass']}]pass[/]")
        for check in (item for item in checks if item.status != "pass"):
            value = "" if check.value is None else f"{check.value:.4g} {check.unit}"
            threshold = "" if check.threshold is None else f"{check.comparison} {check.threshold:.4g} {check.unit}"
            status = f"[{COLORS[check.status]}]{check.status}[/]"
            table.add_row(check.stage, escape(check.name), value, threshold, status)
    return table


def finding_lines(finding: dict[str, Any]) -> list[str]:
    """What doctor found about one thing, and how to get it."""
    state = f"[{COLORS[finding['state']]}]{finding['state']:<9}[/]"
    lines = [f"{state} {escape(finding['name'])}: {escape(finding['detail'])}".rstrip(": ")]
    if finding["remedy"]:
        lines.append(f"{'':<10}-> {escape(finding['remedy'])}")
    return lines


def figures_table(result: dict[str, Any]) -> Table:
    """A bench's figures beside their goals, and its details' rows."""
    table = Table("figure", "value", "goal", title=str(result.get("bench", "")))
    for name, value in result["figures"].items():
        shown = f"{value:.4g}" if isinstance(value, float) else str(value)
        table.add_row(name, shown, str(result.get("goals", {}).get(name, "")))
    for row in result.get("details", []):
        table.add_row("", escape(str(row)), "")
    return table
