"""The final run: a fresh process executes what lies on disk and writes the rollout and the verdict bound to it.

`python -m backend.physics.final SCENE_FOLDER MJCF_FOLDER OUT` reads `criteria.json`, `executed.json`, `executed.npz`
and `controls.npz` in OUT, and writes `rollout.json`, `rollout.npz` and `verdict.json` there.
"""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import mujoco
import numpy as np

from backend.documents.motion import Motion
from backend.documents.verdict import Criteria, Rollout, Substitution, Verdict
from backend.motion.world import SIDES, World
from backend.physics.controls import Controls
from backend.physics.staged import Outcome, execute_stages, make_plan
from mjcf_export.document import hash_files, load_arrays, save_arrays
from mjcf_export.errors import Real2GymError
from mjcf_export.frames import Array

CORRECTED = "corrected: "
"""Prefix of the motion's notes that name a correction."""
_MARK_STATES = "state/"


def save_inputs(out: Path, motion: Motion, arrays: dict[str, Array], controls: Controls, criteria: Criteria) -> None:
    """Write everything but the model that the final run needs."""
    criteria.save(out / "criteria.json")
    save_arrays(out / "executed.npz", arrays)
    motion.save(out / "executed.json")
    scalars = {"start": np.array(controls.start), "dt": np.array(controls.dt)}
    save_arrays(out / "controls.npz", {"ctrl": controls.ctrl, "qpos": controls.qpos, **scalars})


def run_fresh(scene_folder: Path, mjcf_folder: Path, out: Path) -> Verdict:
    """Run `final` in a process of its own and read its verdict.

    Raises:
        Real2GymError: the process failed; its last lines are in the message.
    """
    (out / "verdict.json").unlink(missing_ok=True)
    command = [sys.executable, "-W", "ignore", "-m", "backend.physics.final"]
    folders = [str(path.resolve()) for path in (scene_folder, mjcf_folder, out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*command, *folders], capture_output=True, text=True, env=environment, check=False)
    if done.returncode not in {0, 1}:
        tail = "\n".join(done.stderr.strip().splitlines()[-6:])
        raise Real2GymError(f"the final physics run failed (exit {done.returncode}): {tail}")
    return Verdict.load(out / "verdict.json")


def run_final(scene_folder: Path, mjcf_folder: Path, out: Path) -> Verdict:
    """Execute from the files on disk; write the rollout, then the verdict."""
    world = World.load(scene_folder, mjcf_folder)
    criteria = Criteria.load(out / "criteria.json")
    motion, arrays = Motion.load(out / "executed.json"), load_arrays(out / "executed.npz")
    stored = load_arrays(out / "controls.npz")
    controls = Controls(stored["ctrl"], stored["qpos"], float(stored["start"]), float(stored["dt"]))
    outcome = execute_stages(world, make_plan(world, motion, arrays, controls), criteria)
    rollout, data = rollout_documents(world, motion, controls, outcome, mjcf_folder)
    save_arrays(out / "rollout.npz", data)
    rollout.save(out / "rollout.json")
    verdict = Verdict(
        accepted=outcome.failed is None,
        failed_stage=outcome.failed,
        checks=outcome.checks,
        adapted=motion.adapted,
        substitutions=_substitutions(motion),
        corrections=tuple(note.removeprefix(CORRECTED) for note in motion.notes if note.startswith(CORRECTED)),
        hashes={
            "model": hash_files([mjcf_folder]),
            "controls": _digest(controls.ctrl),
            "initial_state": _digest(controls.qpos),
            "criteria": hash_files([out / "criteria.json"]),
            "trajectory": _digest(outcome.recording.qpos),
            "mujoco": mujoco.__version__,
        },
        message=outcome.message() or "every check passed",
    )
    verdict.save(out / "verdict.json")
    return verdict


def rollout_documents(
    world: World, motion: Motion, controls: Controls, outcome: Outcome, mjcf_folder: Path
) -> tuple[Rollout, dict[str, Array]]:
    """The rollout document and its arrays, as `Rollout` describes them, plus `force/<body>/<other>` in newtons."""
    recording = outcome.recording
    arrays: dict[str, Array] = {
        "time": recording.time, "qpos": recording.qpos, "qvel": recording.qvel,
        "ctrl": controls.ctrl[: recording.steps],
    }  # fmt: skip
    arrays |= {f"body/{name}": poses for name, poses in recording.bodies.items()}
    arrays |= {f"{robot}/tcp": tcp for robot, tcp in recording.tcp.items()}
    arrays |= {f"{robot}/opening": opening for robot, opening in recording.opening.items()}
    arrays |= {f"{_MARK_STATES}{label}": state for label, state in recording.states.items()}
    for body in world.movable():
        for robot, parts in world.robots.items():
            for side in SIDES if parts.pads else ():
                arrays[f"pad/{robot}/{side}/{body}"] = recording.contacts.pad_force(robot, side, body)
        for other in recording.contacts.partners(body, 0, recording.steps):
            arrays[f"force/{body}/{other}"] = recording.contacts.entity_force(body, other)
    rollout = Rollout(
        model=f"{mjcf_folder.name}/scene.xml",
        mujoco_version=mujoco.__version__,
        physics_dt=float(world.model.opt.timestep),
        control_dt=controls.dt,
        steps=recording.steps,
        start=controls.start,
        stages=outcome.windows,
        bodies=tuple(world.bodies),
        robots=tuple(world.robots),
        warnings=recording.warnings,
    )
    return rollout, arrays


def _substitutions(motion: Motion) -> tuple[Substitution, ...]:
    made = []
    if motion.adapted is not None:
        made.append(Substitution(what="the demonstrated motion was adapted", why=motion.adapted, provenance="assumed"))
    made += [
        Substitution(what=note.removeprefix(CORRECTED), why="the hold slipped as estimated", provenance="calibrated")
        for note in motion.notes
        if note.startswith(f"{CORRECTED}friction")
    ]
    return tuple(made)


def _digest(values: Array) -> str:
    return hashlib.sha256(np.ascontiguousarray(values, dtype=np.float64).tobytes()).hexdigest()


def main(arguments: list[str]) -> int:
    """Exit code 0 when accepted, 1 when rejected, otherwise that of the error."""
    if len(arguments) != 3:
        sys.stderr.write("usage: python -m backend.physics.final SCENE_FOLDER MJCF_FOLDER OUT\n")
        return 2
    try:
        verdict = run_final(*(Path(argument) for argument in arguments))
    except Real2GymError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0 if verdict.accepted else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
