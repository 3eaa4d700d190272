"""The `real2gym` command as users start it: one JSON object, exit codes, progress, nothing left behind."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from film import SHARED
from small_demo import write_small_demo

from backend import cli
from backend.documents.envelope import Envelope
from backend.documents.schemas import DOCUMENTS
from backend.documents.verdict import Substitution
from mjcf_export.errors import InputError

COMMAND = Path(sys.executable).with_name("real2gym")
OPEN50 = SHARED / "lerobot_open50"


def real2gym(*words: object, **options: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([COMMAND, *map(str, words)], capture_output=True, text=True, check=False, **options)


def envelope(*words: object) -> tuple[int, dict]:
    """Exit code and the one object on stdout."""
    done = real2gym(*words, "--json")
    assert done.stdout.count("\n") == 1 and "Traceback" not in done.stderr, done.stderr
    answer = json.loads(done.stdout)
    assert answer["exit_code"] == done.returncode
    return done.returncode, answer


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_small_demo(tmp_path_factory.mktemp("cli") / "demo")


def test_reconstruct_shows_progress_and_answers_with_one_object(demo: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    plain = real2gym("reconstruct", demo, "--out", run)
    lines = plain.stderr.splitlines()
    assert [line.split()[0] for line in lines if "100%" in line][-1] == "diagnose" and "\x1b" not in plain.stderr
    assert any(line.startswith("load") and "1 views" in line for line in lines)
    code, answer = envelope("reconstruct", demo, "--out", run)
    assert code == plain.returncode in (0, 1) and answer["outputs"]["ran"].startswith("nothing")
    assert "intrinsics of camera ext1" in {item["what"] for item in answer["substitutions"]}
    assert (run / "scene" / "scene.json").is_file() and "reconstruct" in plain.stdout.splitlines()[-1]
    code, answer = envelope("reconstruct", demo, "--out", run, "--strict")
    assert code == 1 and answer["status"] == "rejected"


def test_a_terminal_gets_a_bar_for_each_stage(demo: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        [COMMAND, "run", demo, "--out", tmp_path / "run", "--robot", "r2d2"], stderr=theirs, stdout=subprocess.PIPE
    ) as refused:
        refused.wait()
    code = (
        "from backend.progress import stage_display\n"
        "with stage_display(('load', 'observe'), hidden=False) as show:\n"
        "    show('load', 0.5, 'reading [frames]'); show('load', 1.0, 'done')\n"
    )
    subprocess.run([sys.executable, "-c", code], stderr=theirs, check=True)
    os.close(theirs)
    shown = os.read(ours, 100_000).decode()
    assert "load" in shown and "observe" in shown and "━" in shown and not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["frobnicate"], 2, "invalid choice: 'frobnicate'"),
        (["run"], 2, "required: demonstration, --out; usage: real2gym run"),
        (["run", "/nowhere", "--out", "x"], 2, "/nowhere: no such demonstration; expected a folder with demo.json"),
        (["check", "/nowhere"], 2, "no such demonstration"),
        (["validate", "/nowhere"], 2, "not a run folder (no run.json); start it with `real2gym run"),
        (["bench", "speed"], 2, "speed: unknown bench; there are make-worlds, reconstruction"),
        (["schema", "Poem"], 2, "Poem: unknown document; there are"),
    ],
)
def test_wrong_words_are_one_clear_error(words: list[str], code: int, message: str) -> None:
    found, answer = envelope(*words)
    assert found == code and message in answer["message"] and answer["status"] == "error"
    assert answer["command"] == words[0]


def test_refused_input_leaves_nothing(demo: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    code, answer = envelope("run", demo, "--out", run, "--robot", "fr3_robotic")
    assert code == 2 and "did you mean" in answer["message"] and not run.exists()
    (tmp_path / "arm.urdf").write_text("<robot name='x'><link name='a'/>")
    code, answer = envelope("run", demo, "--out", run, "--robot", tmp_path / "arm.urdf")
    assert code == 2 and "arm.urdf" in answer["message"] and not run.exists()
    done = real2gym("run", tmp_path, "--out", run)
    assert done.returncode == 2 and done.stdout == "" and "not a demonstration" in done.stderr


@pytest.mark.skipif(not OPEN50.is_dir(), reason="the shared LeRobot recordings are not on this machine")
def test_a_recording_of_an_unknown_robot_asks_for_its_model(tmp_path: Path) -> None:
    code, answer = envelope("run", f"{OPEN50}#episode=42", "--out", tmp_path / "run")
    assert code == 2 and not (tmp_path / "run").exists()
    assert "no model is known of the robot that recorded this: left (lingzu" in answer["message"]
    assert "give it with --robot" in answer["message"]


def test_check_lists_every_problem(demo: Path, tmp_path: Path) -> None:
    assert envelope("check", demo)[0] == 0
    raw = json.loads((demo / "demo.json").read_text())
    raw["objects"][0]["prompts"][0]["box"] = [500, 10, 600, 90]
    raw["predicates"] = [["inside", "block", "cup"]]
    spoilt = write_small_demo(tmp_path / "spoilt")
    (spoilt / "demo.json").write_text(json.dumps(raw))
    code, answer = envelope("check", spoilt)
    assert code == 2 and len(answer["outputs"]["problems"]) == 2 and answer["message"] == "2 errors, 0 warnings"


def test_schemas_are_printed_alone_or_in_the_envelope() -> None:
    schema = json.loads(real2gym("schema", "Scene").stdout)
    assert schema["title"] == "Scene" and "bodies" in schema["properties"]
    assert envelope("schema", "Scene")[1]["outputs"] == schema
    assert envelope("schema", "list")[1]["outputs"]["documents"] == sorted(DOCUMENTS)
    with subprocess.Popen([COMMAND, "schema", "Scene"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        assert process.wait() == 0 and process.stderr.read() == b"", "a closed pipe is no error"


def test_libraries_that_print_do_not_spoil_the_object(capfd: pytest.CaptureFixture[str]) -> None:
    code = (
        "import os, sys\nfrom backend import cli\nfrom backend.documents.envelope import Envelope\n"
        "def noisy(arguments):\n    os.write(1, b'from C\\n'); print('from Python')\n"
        "    return Envelope(command='doctor', status='accepted', exit_code=0)\n"
        "cli.run_doctor = noisy\nsys.exit(cli.main(['doctor', '--json']))"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    out, err = capfd.readouterr()
    assert json.loads(out)["command"] == "doctor" and "from C" in err and "from Python" in err


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (InputError("x.urdf: broken"), 2, "x.urdf: broken"),
        (OSError(28, "No space left on device", "/tmp/a.npz"), 3, "/tmp/a.npz: the disk is full"),
        (PermissionError(13, "Permission denied", "/root/a"), 3, "/root/a: Permission denied; choose another"),
        (MemoryError(), 3, "memory is used up"),
        (FileNotFoundError(2, "No such file", "b.json"), 4, "internal error, please report it: FileNotFoundError"),
        (ZeroDivisionError("division by zero"), 4, "ZeroDivisionError: division by zero (cli.py:"),
    ],
)
def test_every_failure_has_its_exit_code(
    error: Exception, code: int, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(arguments: object) -> Envelope:
        raise error

    monkeypatch.delenv(cli.DEBUG, raising=False)
    monkeypatch.setattr(cli, "run_doctor", fail)
    assert cli.main(["doctor", "--json"]) == code
    answer = json.loads(capsys.readouterr().out)
    assert message in answer["message"] and answer["exit_code"] == code


def test_strict_rejects_what_was_accepted_with_a_substitution() -> None:
    accepted = Envelope(command="run", status="accepted", exit_code=0)
    assert cli.strict(accepted) == accepted
    item = Substitution(what="base of robot arm", why="not given")
    judged = cli.strict(accepted.model_copy(update={"substitutions": (item,)}))
    assert (judged.exit_code, judged.status) == (1, "rejected") and "base of robot arm" in judged.message
    rejected = Envelope(command="run", status="rejected", exit_code=1, substitutions=(item,), message="slipped")
    assert cli.strict(rejected) == rejected


def test_an_interrupted_run_says_that_it_can_go_on(demo: Path, tmp_path: Path) -> None:
    with subprocess.Popen(
        ["env", "--default-signal=INT", COMMAND, "reconstruct", demo, "--out", tmp_path / "run"],
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr.readline().startswith("load")
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        text = process.stderr.read()
        assert process.wait() == cli.INTERRUPTED and "the same command goes on" in text and "Traceback" not in text


def test_doctor_names_what_works_and_how_to_get_the_rest() -> None:
    code, answer = envelope("doctor")
    findings = {item["name"]: item for item in answer["outputs"]["findings"]}
    missing = [item for item in findings.values() if item["state"] == "missing"]
    assert code == (3 if missing else 0) and findings["packages"]["state"] == "ok"
    assert "7 joints, opens 85 mm" in findings["robot fr3_robotiq_2f85"]["detail"]
    assert findings["offscreen rendering"]["state"] == "ok" and findings["perception: embedded"]["state"] == "ok"
    for item in findings.values():
        assert item["state"] == "ok" or item["remedy"], item
