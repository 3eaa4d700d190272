"""Runs: stages rerun only when they must, resume after a kill, and leave nothing half-written."""

import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from filelock import FileLock
from small_demo import write_small_demo

from backend import sources, stages
from backend.documents.diagnosis import Correction
from backend.documents.run import RunFolder, RunRecord
from backend.pipeline import LOCK, STAGES, Pipeline
from backend.progress import silent
from mjcf_export.document import PARTIAL, hash_files
from mjcf_export.errors import InputError, MissingError
from mjcf_export.export import export_scene
from mjcf_export.scene import Body, Box, Pose, Scene

EXAMPLE = Path(__file__).resolve().parent.parent / "examples" / "block_into_cup"
OBSERVE = """
import sys
from pathlib import Path
from backend.documents.run import RunFolder
from backend.pipeline import Pipeline
Pipeline(RunFolder(Path(sys.argv[2])), {"demonstration": sys.argv[1]}).execute("observe", lambda *_: None)
"""


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    return write_small_demo(tmp_path / "demo")


def observe(demo: Path, run: RunFolder) -> list[str]:
    return Pipeline(run, {"demonstration": str(demo)}).execute("observe", silent)


def documents(root: Path) -> dict[str, str]:
    """Hashes of everything a run wrote, apart from the times in its record."""
    return {
        str(path.relative_to(root)): hash_files([path])
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name not in {"run.json", LOCK}
    }


def test_stages_rerun_only_when_what_they_read_changed(demo: Path, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    assert observe(demo, run) == ["load", "observe"]
    made = documents(run.root)
    assert observe(demo, run) == []
    os.utime(demo / "ext1" / "0003.png")
    assert observe(demo, run) == ["load"], "touched, not changed: read again, nothing else done again"
    raw = json.loads((demo / "demo.json").read_text())
    raw["task"] = "push the block"
    (demo / "demo.json").write_text(json.dumps(raw))
    assert observe(demo, run) == ["load", "observe"]
    assert {name for name, value in documents(run.root).items() if made[name] != value} == {"demo/demo.json"}
    shutil.copyfile(demo / "ext1" / "0002.png", demo / "ext1" / "0003.png")
    assert observe(demo, run) == ["load", "observe"]
    run.masks.unlink()
    assert observe(demo, run) == ["observe"]
    record = RunRecord.load(run.record)
    assert {record.stages[name].state for name in ("load", "observe")} == {"done"}
    assert record.stages["observe"].outputs["observations/observations.npz"] == hash_files([run.masks])
    assert Pipeline(run).execute("observe", silent, only="observe") == ["observe"], "asked for by name: always"


def test_a_change_of_the_code_reruns_what_depends_on_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    work = {stage.name: stage for stage in STAGES}
    names = ("load", "observe", "reconstruct", "export", "validate", "blender")

    def hashes() -> list[str]:
        sources._imports_of.cache_clear()
        return [sources.source_hash(work[name].work, work[name].programs) for name in names]

    for package in sources.PACKAGES:
        shutil.copytree(sources.PACKAGE_ROOT / package, tmp_path / package)
    monkeypatch.setattr(sources, "PACKAGE_ROOT", tmp_path)
    for file, changed in (
        ("backend/perception/appearance.py", {"observe"}),
        ("backend/physics/contacts.py", {"validate"}),
        ("blender_addon/lights.py", {"blender"}),
        ("mjcf_export/document.py", set(names)),
    ):
        before = hashes()
        (tmp_path / file).write_text((tmp_path / file).read_text() + "\n# changed\n")
        after = hashes()
        assert {name for name, a, b in zip(names, before, after, strict=True) if a != b} == changed, file
    sources._imports_of.cache_clear()


def test_a_run_killed_at_random_moments_ends_as_if_it_had_not_been(demo: Path, tmp_path: Path) -> None:
    whole, killed = RunFolder(tmp_path / "whole"), RunFolder(tmp_path / "killed")
    begun = time.monotonic()
    subprocess.run([sys.executable, "-c", OBSERVE, demo, whole.root], check=True)
    length = time.monotonic() - begun
    chance = random.Random(20)
    for _ in range(5):
        process = subprocess.Popen([sys.executable, "-c", OBSERVE, demo, killed.root])
        time.sleep(chance.uniform(0.4, 0.95) * length)
        process.send_signal(signal.SIGKILL)
        process.wait()
        if killed.record.exists():
            record = RunRecord.load(killed.record)
            for name, stage in record.stages.items():
                assert stage.state in {"running", "done"}, name
                for output, digest in stage.outputs.items():
                    assert hash_files([killed.root / output]) == digest, "what is done is whole"
    (killed.root / "observations").mkdir(parents=True, exist_ok=True)
    (killed.root / "observations" / f"{PARTIAL}x.npz").write_bytes(b"half")
    observe(demo, killed)
    assert documents(killed.root) == documents(whole.root)
    assert observe(demo, killed) == []


@pytest.mark.slow
@pytest.mark.skipif(not EXAMPLE.is_dir(), reason="the bundled example is not here")
def test_the_whole_command_killed_again_and_again_ends_accepted(tmp_path: Path) -> None:
    command = [Path(sys.executable).with_name("real2gym"), "run", EXAMPLE, "--out", tmp_path / "run", "--json"]
    chance = random.Random(7)
    for _ in range(8):
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            process.wait(chance.uniform(3, 30))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    envelope = json.loads(done.stdout)
    assert done.returncode == 0 and envelope["status"] == "accepted", envelope["message"]
    assert not list((tmp_path / "run").rglob(f"{PARTIAL}*"))
    assert all(stage.state == "done" for stage in RunRecord.load(tmp_path / "run" / "run.json").stages.values())


def test_a_folder_in_use_of_another_version_or_of_something_else_is_refused(demo: Path, tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    observe(demo, run)
    with FileLock(run.root / LOCK), pytest.raises(InputError, match="another process is working in this run folder"):
        observe(demo, run)
    text = run.record.read_text().replace('"version": 1', '"version": 9', 1)
    run.record.write_text(text)
    with pytest.raises(InputError, match=r"run\.json: RunRecord version 9, this release reads version 1.*new run"):
        observe(demo, run)
    assert run.record.read_text() == text
    with pytest.raises(InputError, match="holds files but no run.json"):
        observe(demo, RunFolder(demo))
    with pytest.raises(InputError, match="is a file"):
        observe(demo, RunFolder(demo / "demo.json"))
    assert sorted(path.name for path in demo.iterdir()) == ["demo.json", "ext1"]


def test_a_failed_stage_keeps_what_was_done(demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path / "run")
    observe(demo, run)
    before = documents(run.root)
    (demo / "ext1" / "0005.png").write_bytes(b"spoilt")
    with pytest.raises(InputError, match=r"0005\.png: not a readable JPEG or PNG"):
        observe(demo, run)
    assert documents(run.root) == before
    record = RunRecord.load(run.record)
    assert record.stages["load"].state == "failed" and "0005.png" in record.stages["load"].message
    assert record.stages["observe"].state == "done"


@pytest.mark.skipif(os.geteuid() != 0, reason="mounting a small disk needs root")
def test_a_full_disk_is_one_clear_error(demo: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=12k", "tmpfs", disk], check=False).returncode != 0:
        pytest.skip("this machine does not let root mount a tmpfs")
    try:
        command = [Path(sys.executable).with_name("real2gym"), "reconstruct", demo, "--out", disk / "run", "--json"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        message = json.loads(done.stdout)["message"]
        assert done.returncode == MissingError.exit_code, message
        assert str(disk / "run") in message and "the disk is full (0 MiB left); free 200 MiB in" in message
        assert not list(disk.rglob(f"{PARTIAL}*")), "nothing half-written"
        subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
        assert observe(demo, RunFolder(disk / "run"))[-1] == "observe", "goes on when there is room"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_used_up_file_size_is_named(demo: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("real2gym"), "reconstruct", demo, "--out", tmp_path / "run", "--json"],
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)),
    )
    envelope = json.loads(done.stdout)
    assert done.returncode == MissingError.exit_code, envelope
    assert str(tmp_path / "run") in envelope["message"] and "ulimit -f" in envelope["message"]


def test_validation_starts_from_the_friction_that_was_reconstructed(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    block = Body(name="block", shape=Box(size=(0.05, 0.05, 0.05)), friction=0.6, provenance={"friction": "assumed"})
    table = Body(name="table", roles=("support",), shape=Box(size=(1, 1, 0.02)), pose=Pose(position=(0, 0, -0.02)))
    scene = Scene(bodies=(block, table))
    scene.save(run.scene)
    raised = scene.replace_body(block.model_copy(update={"friction": 1.4, "provenance": {"friction": "calibrated"}}))
    raised.save(run.executed.scene)
    export_scene(raised, run.executed.scene_folder, run.mjcf_folder)
    with_raised = hash_files([run.mjcf])
    stages._restore_friction(run)
    assert Scene.load(run.executed.scene) == scene and hash_files([run.mjcf]) != with_raised


def test_the_ledger_grows_and_a_repeated_diagnosis_is_not_entered_twice(tmp_path: Path) -> None:
    rows = [
        Correction(
            round=number, event="e0", question="placement", hypothesis="pose", target="block", change="moved",
            before=4.0, after=2.0, unit="px", kept=True, reason="",
        ).model_dump_json()
        for number in (1, 2)
    ]  # fmt: skip
    ledger = tmp_path / "ledger.jsonl"
    stages._append_ledger(ledger, rows)
    stages._append_ledger(ledger, rows)
    assert ledger.read_text().splitlines() == rows
    stages._append_ledger(ledger, rows[:1])
    assert ledger.read_text().splitlines() == [*rows, rows[0]]
