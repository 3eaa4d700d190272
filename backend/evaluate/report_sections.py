"""The sections of the report, each from the run's documents, each with what to say when its stage has not run."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from backend.documents.diagnosis import QUESTIONS, Answer
from backend.documents.motion import Event
from backend.documents.run import StageRecord
from backend.documents.verdict import Check
from backend.evaluate.markup import Child, Markup, element, figure, film, image, join, number, photograph, status, table
from backend.evaluate.plots import Record, gripper_opening, object_heights, pad_forces, support_forces, tcp_path
from backend.evaluate.run_documents import RunDocuments
from mjcf_export.scene import Scene

OVERVIEW = "The demonstration (top), Blender and MuJoCo at the same source frames; both renderings show "
EXECUTED = "the natively executed motion."
NOT_EXECUTED = "the reference motion, since nothing was executed."
FIGURES = (
    "Means over the compared frames: structural similarity of luminance and mean absolute difference (of 255) to the "
    "video, similarity of the two renderings, and overlap of observed and MuJoCo masks."
)
LINES = "Dashed: the reference motion. Solid: the native rollout. Numbered lines: the events above."
FAILED_SHOWN = 5
LARGEST_FILM = 8 * 1024**2
"""Bytes of the film up to which it is put into the page."""


def section(title: str, *children: Child) -> Markup:
    """A titled section."""
    return element("section", element("h2", title), *children)


def missing(what: str) -> Markup:
    """Says that a stage has not run."""
    return element("p", f"{what}: not run", class_="missing")


def header(run: RunDocuments) -> Markup:
    """Title, task and what the run was made from."""
    demo, record = run.demonstration, run.record
    task = (demo.task if demo else "") or (run.scene.task.text if run.scene else "")
    facts: list[tuple[str, Child]] = []
    if demo is not None:
        views = ", ".join(view.name for view in demo.views)
        facts += [("demonstration", demo.source or str(demo.root)), ("format", demo.loader), ("views", views)]
    if run.scene is not None and run.scene.robots:
        facts.append(("robot", ", ".join(f"{robot.name}: {robot.model}" for robot in run.scene.robots)))
    predicates = run.criteria.predicates if run.criteria else (run.scene.task.predicates if run.scene else ())
    if predicates:
        facts.append(("goal", "; ".join(str(item) for item in predicates)))
    if record is not None and record.tools:
        facts.append(("made with", ", ".join(f"{name} {version}" for name, version in sorted(record.tools.items()))))
    rows = [part for name, value in facts for part in (element("dt", name), element("dd", value))]
    return join([
        element("p", "Real2Gym reconstruction report", class_="soft"),
        element("h1", task or "Untitled demonstration"),
        element("dl", *rows),
    ])  # fmt: skip


def banner(run: RunDocuments) -> Markup:
    """The verdict in one look."""
    verdict = run.verdict
    if verdict is None:
        failed = [f"{name}: {item.message}" for name, item in _stages(run) if item.state == "failed"]
        reason = "; ".join(failed) or "the motion has not been executed yet"
        return element("div", element("strong", "No verdict"), element("p", reason), class_="banner")
    word = "Accepted" if verdict.accepted else "Rejected"
    passed = sum(check.status == "pass" for check in verdict.checks)
    lines: list[Child] = [element("strong", word)]
    if verdict.failed_stage:
        lines.append(element("p", f"failed stage: {verdict.failed_stage}"))
    if verdict.message:
        lines.append(element("p", verdict.message))
    failed_checks = [check for check in verdict.checks if check.status == "fail"]
    if failed_checks:
        lines.append(_list(f"{_measured(check)}: {check.name}" for check in failed_checks[:FAILED_SHOWN]))
    open_ = sum(check.status == "not evaluated" for check in verdict.checks)
    lines.append(element("p", f"{passed} of {len(verdict.checks)} checks passed, {open_} not evaluated", class_="soft"))
    if verdict.adapted:
        lines.append(element("p", f"The motion is adapted, not reproduced: {verdict.adapted}"))
    return element("div", *lines, class_=f"banner {word.lower()}")


def pictures(run: RunDocuments) -> Markup:
    """The overview sheet, the film, the similarity figures."""
    comparison = run.comparison
    if comparison is None:
        stopped = [f"{name}: {item.message}" for name, item in _stages(run) if item.state == "failed"]
        return section(
            "Real, Blender and MuJoCo", missing("comparison"), *(element("p", text, class_="soft") for text in stopped)
        )
    children: list[Child] = []
    if "overview" in comparison.sheets:
        executed = any(frame.executed for frame in comparison.frames)
        children.append(_sheet(run, "overview", OVERVIEW + (EXECUTED if executed else NOT_EXECUTED)))
    path = run.folder.compare / (comparison.film or "")
    if comparison.film and path.is_file() and path.stat().st_size <= LARGEST_FILM:
        children.append(element("div", figure(film(path), "The same, as a film in real time."), class_="film"))
    elif comparison.film:
        children.append(element("p", f"Film: {path}", class_="soft"))
    rows: list[list[Child]] = []
    for view in sorted({frame.view for frame in comparison.frames}):
        frames = comparison.model_copy(update={"frames": tuple(f for f in comparison.frames if f.view == view)})
        names = ("blender/ssim", "mujoco/ssim", "renderers/ssim", "blender/difference", "mujoco/difference")
        objects = sorted({key for frame in frames.frames for key in frame.figures if key.startswith("iou/")})
        overlaps = ", ".join(f"{key[4:]} {number(frames.mean(key))}" for key in objects)
        rows.append([view, len(frames.frames), *(number(frames.mean(name)) for name in names), overlaps or "–"])
    head = ["view", "frames", "SSIM Blender", "SSIM MuJoCo", "SSIM between", "|Δ| Blender", "|Δ| MuJoCo", "mask IoU"]
    return section("Real, Blender and MuJoCo", *children, table(head, rows, FIGURES))


def events(run: RunDocuments) -> Markup:
    """The interaction events of the demonstration and the contact sheet of each."""
    found = run.events()
    if found is None:
        return section("Events", missing("reconstruction"))
    end = run.executed_until()
    rows = [
        [index + 1, event.relation, _between(event), "made" if event.made else "broken",
         *(number(t) for t in (event.before, event.onset, event.after)), number(executed if executed <= end else None),
         number(event.confidence),
         event.provenance]
        for index, (event, executed) in enumerate(found)
    ]  # fmt: skip
    times = ("before (s)", "onset (s)", "after (s)", "executed (s)")
    head = ["#", "relation", "between", "", *times, "confidence", "source"]
    children: list[Child] = [table(head, rows) if rows else element("p", "No events were found.", class_="missing")]
    if run.comparison is not None:
        for index, (event, _) in enumerate(found):
            if event.id in run.comparison.sheets:
                caption = f"Event {index + 1}: {event.relation}, {_between(event)}."
                children.append(_sheet(run, event.id, caption))
    return section("Events", *children)


def _between(event: Event) -> str:
    return f"{event.subject} – {event.object}" if event.object else event.subject


def checks(run: RunDocuments) -> Markup:
    """Every check with its value and threshold, by stage."""
    if run.verdict is None:
        return section("Checks", missing("validation"))
    rows: list[list[Child]] = []
    for stage, group in groupby(run.verdict.checks, key=lambda check: check.stage):
        for position, check in enumerate(group):
            shown: Child = element("strong", stage) if position == 0 else ""
            value = number(check.value, check.unit)
            rows.append([shown, check.name, value, _threshold(check), status(check.status), check.detail])
    return section("Checks", table(["stage", "check", "value", "threshold", "status", "detail"], rows))


def plots(run: RunDocuments) -> Markup:
    """Tcp path, opening, forces and heights, demonstrated against executed."""
    if not run.reference and not run.native:
        return section("Motion", missing("reconstruction and validation"))
    robots = run.motion.robots if run.motion else (run.rollout.robots if run.rollout else ())
    marks = [executed for _, executed in run.events() or ()]
    record = Record(run.reference, run.native, marks, robots)
    drawn = (
        ("TCP path", tcp_path(record), "Path of the tcp from above, and its height."),
        ("gripper opening", gripper_opening(record), "Opening between the finger pads."),
        ("contact forces", pad_forces(record), "Normal force of each finger pad on what it touches; never summed."),
        ("object heights", object_heights(record), "Height of each body that moves."),
        ("support forces", support_forces(record), "Force between the bodies that touch each other."),
    )
    children: list[Child] = [element("p", LINES, class_="soft")]
    if not run.native:
        children.append(missing("validation"))
    shown = [figure(image(svg, "image/svg+xml", name), caption) for name, svg, caption in drawn if svg is not None]
    return section("Motion", *children, *shown[:1], element("div", *shown[1:], class_="pair"))


def diagnosis(run: RunDocuments) -> Markup:
    """The five questions at every keyframe."""
    if run.diagnosis is None:
        return section("Diagnosis", missing("diagnosis"))
    rows = []
    for frame in run.diagnosis.keyframes:
        answers = {answer.question: answer for answer in frame.answers}
        where = f"{frame.event}, {frame.view}, frame {frame.frame}"
        rows.append([where, *(_answer(answers.get(question)) for question in QUESTIONS)])
    head = ["keyframe", "largest difference", "camera", "placement", "contact", "appearance"]
    caption = "The five questions at each event's keyframe and view; physics starts only when 2 to 4 pass."
    return section("Diagnosis", table(head, rows, caption))


def ledger(run: RunDocuments) -> Markup:
    """Every correction that was tried, kept or not."""
    if run.ledger is None:
        return section("Corrections", missing("correction"))
    rows = [
        [
            row.round, row.event, row.question, f"{row.hypothesis} of {row.target}", row.change,
            number(row.before, row.unit), number(row.after, row.unit), "kept" if row.kept else "undone", row.reason,
        ]
        for row in run.ledger
    ]  # fmt: skip
    head = ["round", "event", "question", "hypothesis", "change", "before", "after", "", "reason"]
    made = list(run.verdict.corrections) if run.verdict else []
    children: list[Child] = [table(head, rows) if rows else element("p", "No correction was tried on the scene.")]
    if made:
        children += [element("h3", "During validation"), _list(made)]
    return section("Corrections", *children)


def provenance(run: RunDocuments) -> Markup:
    """What stands in for what was asked, and where the numbers came from."""
    children: list[Child] = []
    if run.substitutions:
        rows = [[item.what, item.why, item.provenance] for item in run.substitutions]
        children.append(table(["substitution", "why", "source"], rows))
    elif run.verdict is not None:
        children.append(element("p", "No substitutions."))
    notes = list(_notes(run))
    if notes:
        children += [element("h3", "Notes of the stages"), _list(notes)]
    if run.scene is not None:
        children += _sources(run.scene)
    return section("Substitutions and provenance", *(children or [missing("reconstruction")]))


def timings(run: RunDocuments) -> Markup:
    """How long each stage took, and the hashes that bind the verdict."""
    stages = _stages(run)
    children: list[Child] = []
    if stages:
        rows = [[name, status(item.state), f"{item.seconds:.1f}", item.message] for name, item in stages]
        total = sum(item.seconds for _, item in stages)
        rows.append([element("strong", "all"), "", f"{total:.1f}", ""])
        children.append(table(["stage", "state", "seconds", "result"], rows))
    else:
        children.append(missing("pipeline"))
    if run.verdict is not None and run.verdict.hashes:
        hashes = [[name, element("code", value)] for name, value in sorted(run.verdict.hashes.items())]
        children.append(table(["bound to the verdict", "SHA-256, or version"], hashes))
    if run.broken:
        children += [element("h3", "Documents that could not be read"), _list(run.broken)]
    return section("Stages", *children)


def _stages(run: RunDocuments) -> list[tuple[str, StageRecord]]:
    return list(run.record.stages.items()) if run.record else []


def _measured(check: Check) -> str:
    limit = "" if check.threshold is None else f", must be {_threshold(check)}"
    return f"{number(check.value, check.unit)}{limit}"


def _threshold(check: Check) -> str:
    if check.threshold is None:
        return "–"
    sign = {"<=": "≤", ">=": "≥", "==": "="}[check.comparison]
    return f"{sign} {number(check.threshold, check.unit)}"


def _answer(answer: Answer | None) -> Child:
    if answer is None:
        return status("not evaluated")
    limit = "" if answer.threshold is None else f" (limit {number(answer.threshold)})"
    figures = "" if answer.value is None else f"{number(answer.value, answer.unit)}{limit}"
    blamed = f" {answer.subject}" if answer.subject else ""
    parts: list[Child] = [status(answer.status), Markup("<br>") if figures else "", figures, blamed]
    if answer.status != "pass" and answer.detail:
        parts += [Markup("<br>"), answer.detail]
    return join(parts)


def _notes(run: RunDocuments) -> Iterable[str]:
    for stage, document in (
        ("demonstration", run.demonstration), ("perception", run.observations),
        ("motion", run.motion), ("comparison", run.comparison),
    ):  # fmt: skip
        for note in document.notes if document is not None else ():
            yield f"{stage}: {note}"
    if run.observations is not None:
        yield f"perception provider: {run.observations.provider}"


def _sources(scene: Scene) -> list[Markup]:
    bodies: list[list[Child]] = []
    for body in scene.bodies:
        residuals = ", ".join(f"{name} {number(value)}" for name, value in sorted(body.residuals.items()))
        place = ", ".join(f"{round(value, 3) + 0.0:.3f}" for value in body.pose.position)
        roles = "/".join(body.roles)
        bodies.append([body.name, roles, body.shape.kind, place, _pairs(body.provenance), residuals or "–"])
    cameras = [[item.name, f"{item.width}×{item.height}", _pairs(item.provenance)] for item in scene.cameras]
    head = ["body", "roles", "shape", "position (m)", "sources", "residuals"]
    return [
        element("h3", "Bodies"),
        table(head, bodies),
        element("h3", "Cameras"),
        table(["camera", "pixels", "sources"], cameras),
    ]


def _pairs(values: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {value}" for name, value in sorted(values.items())) or "–"


def _list(items: Iterable[str]) -> Markup:
    return element("ul", *(element("li", item) for item in items))


def _sheet(run: RunDocuments, name: str, caption: str) -> Markup:
    assert run.comparison is not None
    path = run.folder.compare / run.comparison.sheets[name]
    if not path.is_file():
        return element("p", f"{path}: missing", class_="missing")
    return figure(photograph(path, caption), caption)
