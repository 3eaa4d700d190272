"""The `real2gym` command line: one envelope per command, one exit code per kind of outcome."""

import argparse
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from backend.documents.envelope import Envelope
from backend.documents.run import RunFolder
from backend.documents.verdict import Verdict
from backend.progress import StageBars, silent
from mjcf_export.errors import InputError, Real2GymError

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "block_into_cup"


def main(argv: Sequence[str] | None = None) -> int:
    """Parse `argv`, run the command, print its envelope, return the exit code."""
    arguments = build_parser().parse_args(argv)
    command: Callable[[argparse.Namespace], Envelope] = arguments.handler
    try:
        envelope = command(arguments)
    except Real2GymError as error:
        envelope = failure(arguments.command, error.exit_code, str(error))
    except KeyboardInterrupt:
        return 130
    except OSError as error:
        envelope = failure(arguments.command, 3, f"{error.filename or 'system'}: {error.strerror or error}")
    except Exception as error:
        if os.environ.get("REAL2GYM_DEBUG"):
            raise
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        text = f"internal error, please report it: {type(error).__name__}: {error} ({place})"
        envelope = failure(arguments.command, 4, text)
    if arguments.strict:
        envelope = strict(envelope)
    print_envelope(envelope, as_json=arguments.json)
    return envelope.exit_code


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; Blender's `--command real2gym` parses the same arguments."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    common.add_argument("--strict", action="store_true", help="any substitution makes the exit code non-zero")
    parser = argparse.ArgumentParser(
        prog="real2gym", description="From one demonstration to a gym in which it can really be done."
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def add(name: str, handler: Callable[[argparse.Namespace], Envelope], text: str) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, parents=[common], help=text, description=text)
        sub.set_defaults(handler=handler)
        return sub

    demo = add("demo", run_demo, "run every stage on the bundled example")
    demo.add_argument("--out", type=Path, default=Path("runs/demo"), help="run folder (default: runs/demo)")
    for name, until, text in (
        ("run", "report", "run every stage on a demonstration"),
        ("reconstruct", "diagnose", "reconstruct the scene and find the events"),
    ):
        sub = add(name, run_stages, text)
        sub.add_argument("demonstration", type=Path, help="demonstration folder, dataset or video")
        sub.add_argument("--out", type=Path, required=True, help="run folder")
        sub.add_argument("--robot", help="target robot: a known name, or a URDF/MJCF file")
        sub.set_defaults(until=until)
    for name, text in (
        ("export", "write the MuJoCo model of a run"),
        ("validate", "execute the motion natively and judge it"),
        ("diagnose", "answer the five questions and correct the scene"),
        ("compare", "compare Real, Blender and MuJoCo pictures and write the report"),
    ):
        sub = add(name, run_single_stage, text)
        sub.add_argument("run", type=Path, help="run folder")
    check = add("check", check_demonstration, "check a demonstration without running it")
    check.add_argument("demonstration", type=Path)
    add("doctor", run_doctor, "say what is installed, what is missing and how to get it")
    bench = add("bench", run_bench, "measure the product; prints a table and exits 1 when a goal is missed")
    bench.add_argument("name", help="bench name; `list` names them all")
    bench.add_argument("--worlds", type=Path, default=Path("runs/worlds"), help="folder of the hidden worlds")
    bench.add_argument("--count", type=int, help="how many worlds or cases to use (default: all)")
    bench.add_argument("--robot", help="target robot for `reconstruction`")
    schema = add("schema", print_schema, "print the JSON schema of a document")
    schema.add_argument("document", help="document name; `list` names them all")
    return parser


def run_demo(arguments: argparse.Namespace) -> Envelope:
    """`real2gym demo`: the bundled example through every stage."""
    arguments.demonstration, arguments.robot, arguments.until = EXAMPLE, None, "report"
    return run_stages(arguments)


def run_stages(arguments: argparse.Namespace) -> Envelope:
    """`run`, `reconstruct`: stages up to `until` on a demonstration."""
    options: dict[str, Any] = {"demonstration": str(arguments.demonstration.resolve())}
    robot = arguments.robot
    if robot is not None:
        options["robot"] = str(Path(robot).resolve()) if Path(robot).suffix in {".urdf", ".xml", ".mjcf"} else robot
    if not arguments.demonstration.exists():
        raise InputError(
            f"{arguments.demonstration}: no such demonstration; expected a folder with demo.json or a video"
        )
    return drive(arguments, RunFolder(arguments.out), options, arguments.until, only=None)


def run_single_stage(arguments: argparse.Namespace) -> Envelope:
    """`export`, `validate`, `diagnose`, `compare`: one stage of a run, and what it needs."""
    until = "report" if arguments.command == "compare" else arguments.command
    run = RunFolder(arguments.run)
    if not run.record.exists():
        raise InputError(
            f"{arguments.run}: not a run folder (no run.json); start it with `real2gym run DEMO --out DIR`"
        )
    return drive(arguments, run, {}, until, only=arguments.command)


def drive(
    arguments: argparse.Namespace, run: RunFolder, options: dict[str, Any], until: str, only: str | None
) -> Envelope:
    """Run the stages with progress bars and answer with the verdict, if there is one."""
    from backend.pipeline import STAGE_NAMES, Pipeline
    from backend.stages import verdict_of

    bars = nullcontext(silent) if arguments.json else StageBars(STAGE_NAMES[: STAGE_NAMES.index(until) + 1])
    with bars as progress:
        Pipeline(run, options).execute(until, progress, only=only)
    judged = STAGE_NAMES.index(until) >= STAGE_NAMES.index("validate")
    verdict = verdict_of(run) if judged else None
    outputs = {"run": str(run.root)}
    if run.report.exists() and until == "report":
        outputs["report"] = str(run.report)
    return envelope_of(arguments.command, verdict, outputs)


def envelope_of(command: str, verdict: Verdict | None, outputs: dict[str, Any]) -> Envelope:
    """The envelope of a finished run."""
    if verdict is None:
        return Envelope(command=command, status="accepted", exit_code=0, outputs=outputs)
    return Envelope(
        command=command,
        status="accepted" if verdict.accepted else "rejected",
        exit_code=0 if verdict.accepted else 1,
        verdict=verdict,
        substitutions=verdict.substitutions,
        outputs=outputs,
        message=verdict.message,
    )


def check_demonstration(arguments: argparse.Namespace) -> Envelope:
    """`check`: every problem of a demonstration, or none."""
    from backend.demos import check_demonstration as find_problems

    problems = find_problems(arguments.demonstration)
    errors = [problem for problem in problems if problem.severity == "error"]
    return Envelope(
        command="check",
        status="error" if errors else "accepted",
        exit_code=2 if errors else 0,
        outputs={"problems": [str(problem) for problem in problems]},
        message=f"{len(errors)} errors, {len(problems) - len(errors)} warnings",
    )


def run_doctor(arguments: argparse.Namespace) -> Envelope:
    """`doctor`: what works here."""
    from backend.doctor import examine

    findings = examine()
    missing = [finding for finding in findings if finding.state == "missing" and finding.needed]
    return Envelope(
        command="doctor",
        status="error" if missing else "accepted",
        exit_code=3 if missing else 0,
        outputs={"findings": [finding.model_dump() for finding in findings]},
        message="; ".join(f"{finding.name}: {finding.remedy}" for finding in missing),
    )


def run_bench(arguments: argparse.Namespace) -> Envelope:
    """`bench NAME`: measured figures against their goals."""
    from backend.evaluate.benches import run_bench as measure

    result = measure(arguments.name, arguments.worlds, arguments.count, arguments.robot, silent_unless(arguments))
    met = bool(result["met"])
    return Envelope(
        command="bench", status="accepted" if met else "rejected", exit_code=0 if met else 1, outputs=result
    )


def silent_unless(arguments: argparse.Namespace) -> Callable[[float, str], None]:
    """Progress lines on stderr unless JSON was asked for."""
    if arguments.json:
        return lambda fraction, text: None
    return lambda fraction, text: print(f"[{fraction:4.0%}] {text}", file=sys.stderr, flush=True)


def print_schema(arguments: argparse.Namespace) -> Envelope:
    """`schema NAME`: the JSON schema of one document."""
    from backend.documents.schemas import DOCUMENTS

    if arguments.document == "list":
        return Envelope(command="schema", status="accepted", exit_code=0, outputs={"documents": sorted(DOCUMENTS)})
    if arguments.document not in DOCUMENTS:
        raise InputError(f"{arguments.document}: unknown document; there are {', '.join(sorted(DOCUMENTS))}")
    schema = DOCUMENTS[arguments.document].model_json_schema()
    return Envelope(command="schema", status="accepted", exit_code=0, outputs=schema)


def failure(command: str, exit_code: int, message: str) -> Envelope:
    """The envelope of an error."""
    return Envelope.model_validate({"command": command, "status": "error", "exit_code": exit_code, "message": message})


def strict(envelope: Envelope) -> Envelope:
    """The envelope under `--strict`: an accepted result that needed substitutions is rejected."""
    if envelope.exit_code != 0 or not envelope.substitutions:
        return envelope
    whats = ", ".join(item.what for item in envelope.substitutions)
    return envelope.model_copy(
        update={"status": "rejected", "exit_code": 1, "message": f"--strict: substitutions were needed: {whats}"}
    )


def print_envelope(envelope: Envelope, *, as_json: bool) -> None:
    """Print JSON on stdout, or a short readable account."""
    if as_json:
        bench = envelope.outputs if envelope.command in {"bench", "schema"} and envelope.status != "error" else None
        print(json.dumps(bench) if bench is not None else envelope.model_dump_json(exclude_none=True))
        return
    from backend.progress import print_account

    print_account(envelope)
