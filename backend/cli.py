"""The `real2gym` command line: one envelope per command, one exit code per kind of outcome."""

import argparse
import errno
import json
import os
import sys
import traceback
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn

from backend.documents.diagnosis import GATING, Diagnosis
from backend.documents.envelope import Envelope
from backend.documents.run import Progress, RunFolder, RunRecord, unseen
from backend.documents.verdict import Verdict
from backend.progress import print_account, quiet_stdout, stage_display
from backend.sources import PACKAGE_ROOT, PACKAGES
from mjcf_export.document import FULL, full_disk
from mjcf_export.errors import InputError, MissingError, Real2GymError

EXAMPLE = PACKAGE_ROOT / "examples" / "block_into_cup"
DEBUG = "REAL2GYM_DEBUG"
INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Parse `argv`, run the command, print its envelope, return the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in words
    with quiet_stdout(as_json):
        try:
            envelope = answer(words)
        except KeyboardInterrupt:
            sys.stderr.write("interrupted; finished stages are kept, the same command goes on from there\n")
            return INTERRUPTED
    try:
        print_envelope(envelope, as_json=as_json)
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return envelope.exit_code


def answer(words: Sequence[str]) -> Envelope:
    """The envelope of a command line, whatever happens."""
    name = next((word for word in words if not word.startswith("-")), "real2gym")
    try:
        arguments = build_parser().parse_args(words)
        command: Callable[[argparse.Namespace], Envelope] = arguments.handler
        envelope = command(arguments)
    except Real2GymError as error:
        return failure(name, error.exit_code, str(error))
    except Exception as error:
        if os.environ.get(DEBUG):
            raise
        machine = machine_fault(error)
        if machine is not None:
            return failure(name, machine.exit_code, str(machine))
        return failure(name, 4, f"internal error, please report it: {described(error)}")
    return strict(envelope) if arguments.strict else envelope


def machine_fault(error: Exception) -> MissingError | None:
    """The error of a full disk, a forbidden file or used-up memory; None for everything else, which is our fault."""
    if isinstance(error, MemoryError):
        return MissingError("this machine's memory is used up; close other programs, or use a shorter demonstration")
    if not isinstance(error, OSError):
        return None
    name = error.filename if isinstance(error.filename, str) else str(Path.cwd())
    if error.errno in FULL:
        return full_disk(Path(name))
    if error.errno in {errno.EACCES, errno.EPERM, errno.EROFS}:
        return MissingError(f"{name}: {error.strerror}; choose another folder, or change its permissions")
    if error.errno in {errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.EAGAIN}:
        return MissingError(f"this machine has too little left: {error.strerror}")
    return None


def described(error: Exception) -> str:
    """Kind, text and the place in the product's own code."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if set(PACKAGES) & set(Path(frame.filename).parts)]
    place = (own or frames)[-1]
    where = f"{Path(place.filename).name}:{place.lineno}"
    return f"{type(error).__name__}: {error} ({where}; {DEBUG}=1 shows the whole traceback)"


class Parser(argparse.ArgumentParser):
    """A parser whose usage errors are errors like all others."""

    def error(self, message: str) -> NoReturn:
        """Refuse the command line."""
        raise InputError(f"{message}; {' '.join(self.format_usage().split())} (see `{self.prog} --help`)")


def build_parser() -> argparse.ArgumentParser:
    """The whole command line; Blender's `--command real2gym` parses the same arguments."""
    common = Parser(add_help=False)
    common.add_argument("--json", action="store_true", help="print one JSON object on stdout")
    common.add_argument("--strict", action="store_true", help="any substitution makes the exit code non-zero")
    parser = Parser(prog="real2gym", description="From one demonstration to a gym in which it can really be done.")
    parser.add_argument("--version", action="version", version=f"real2gym {version('real2gym')}")
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
        sub.add_argument("demonstration", help="demonstration folder, dataset (FOLDER#episode=3), recording or video")
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
    check.add_argument("demonstration", help="as for `run`")
    add("doctor", run_doctor, "say what is installed, what is missing and how to get it")
    bench = add("bench", run_bench, "measure the product; prints a table and exits 1 when a goal is missed")
    bench.add_argument("name", help="make-worlds, reconstruction, diagnosis, physics or export")
    bench.add_argument("--worlds", type=Path, default=Path("runs/worlds"), help="folder of the hidden worlds")
    bench.add_argument("--count", type=int, help="how many worlds or cases to use (default: all)")
    bench.add_argument("--robot", help="target robot for `reconstruction`")
    schema = add("schema", print_schema, "print the JSON schema of a document")
    schema.add_argument("document", help="document name; `list` names them all")
    return parser


def run_demo(arguments: argparse.Namespace) -> Envelope:
    """`real2gym demo`: the bundled example through every stage."""
    if not EXAMPLE.is_dir():
        raise MissingError(f"{EXAMPLE}: the bundled example is not here; run `real2gym demo` from a checkout")
    arguments.demonstration, arguments.robot, arguments.until = str(EXAMPLE), None, "report"
    return run_stages(arguments)


def run_stages(arguments: argparse.Namespace) -> Envelope:
    """`run`, `reconstruct`: stages up to `until` on a demonstration."""
    from backend.demos.request import parse_request

    request = parse_request(arguments.demonstration)
    episode = "" if request.episode is None else f"#episode={request.episode}"
    options = {"demonstration": f"{request.path.resolve()}{episode}", "robot": robot_option(arguments.robot)}
    return drive(arguments, RunFolder(arguments.out), options, arguments.until, only=None)


def robot_option(robot: str | None) -> str | None:
    """The target robot: a known name as it is, a file as its absolute path.

    Raises:
        InputError: neither; before anything is run.
        MissingError: the package that ships the model is not installed.
    """
    if robot is None:
        return None
    from mjcf_export.robots import load_robot

    load_robot(robot)
    return str(Path(robot).resolve()) if Path(robot).is_file() else robot


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
    from backend.substitutions import substitutions_of

    until_now = STAGE_NAMES[: STAGE_NAMES.index(until) + 1]
    with stage_display(until_now, hidden=arguments.json) as progress:
        ran = Pipeline(run, options).execute(until, progress, only=only)
    verdict = verdict_of(run) if "validate" in until_now else None
    outputs: dict[str, Any] = {"ran": ", ".join(ran) or "nothing: every stage is up to date", "run": str(run.root)}
    if "export" in until_now:
        outputs["model"] = str(run.mjcf)
    if until == "report":
        outputs["report"] = str(run.report)
    accepted, message = outcome_of(run, until, verdict)
    return Envelope(
        command=arguments.command,
        status="accepted" if accepted else "rejected",
        exit_code=0 if accepted else 1,
        verdict=verdict,
        substitutions=substitutions_of(run, verdict),
        outputs=outputs,
        message=message,
    )


def outcome_of(run: RunFolder, until: str, verdict: Verdict | None) -> tuple[bool, str]:
    """Whether the run passes the checks made so far, and why: those of physics, else those of the diagnosis."""
    if verdict is not None:
        return verdict.accepted, verdict.message
    message = RunRecord.load(run.record).stages[until].message
    if until != "diagnose":
        return True, message
    diagnosis = Diagnosis.load(run.diagnosis)
    failures = [(frame, answer) for frame, answer in diagnosis.failures() if answer.question in GATING]
    if not failures:
        return True, message
    frame, answer = failures[0]
    first = f"{answer.question} at {frame.event} in {frame.view} ({answer.detail or answer.subject or 'no detail'})"
    return False, f"physics would not start: the diagnosis fails at {len(failures)} points, first {first}"


def check_demonstration(arguments: argparse.Namespace) -> Envelope:
    """`check`: every problem of a demonstration, or none."""
    from backend.demos import check_demonstration as find_problems
    from backend.demos.request import parse_request

    parse_request(arguments.demonstration)
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


def silent_unless(arguments: argparse.Namespace) -> Progress:
    """Progress lines on stderr unless JSON was asked for."""
    if arguments.json:
        return unseen
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
    """Print one JSON object on stdout, or a short readable account.

    A bench's object is its own (`{"bench", "figures", "goals", "met", "details"}`); a schema without `--json` is the
    schema alone, fit to be written to a file.
    """
    if as_json:
        bench = envelope.outputs if envelope.command == "bench" and envelope.status != "error" else None
        print(json.dumps(bench) if bench is not None else envelope.model_dump_json(exclude_none=True))
    elif envelope.command == "schema" and "properties" in envelope.outputs:
        print(json.dumps(envelope.outputs, indent=1))
    else:
        print_account(envelope)
