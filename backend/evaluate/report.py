"""The report of a run: one self-contained HTML page."""

from pathlib import Path

from backend.documents.run import RunFolder
from backend.evaluate import report_sections as sections
from backend.evaluate.markup import Markup, element, join
from backend.evaluate.run_documents import RunDocuments, read_run
from backend.evaluate.style import CSS
from mjcf_export.document import write_atomically


def write_report(run: RunFolder) -> Path:
    """Write `report.html` from whatever stages have run; pictures and plots are inside the file.

    Raises:
        MissingError: the folder cannot be written.
    """
    page = render_report(read_run(run))
    write_atomically(run.report, lambda stream: stream.write(page.encode()))
    return run.report


def render_report(run: RunDocuments) -> str:
    """The page as text."""
    body = join([
        sections.header(run),
        sections.banner(run),
        sections.pictures(run),
        sections.events(run),
        sections.checks(run),
        sections.plots(run),
        sections.diagnosis(run),
        sections.ledger(run),
        sections.provenance(run),
        sections.timings(run),
    ])  # fmt: skip
    title = (run.demonstration.task if run.demonstration else "") or "Real2Gym report"
    head = join([
        Markup('<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        Markup(f"<style>{CSS}</style>"),
    ])  # fmt: skip
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'
