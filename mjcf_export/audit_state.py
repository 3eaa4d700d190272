"""Checks on the initial state: floating, sunk and interpenetrating bodies, and what the first steps do."""

import mujoco
import numpy as np

from mjcf_export.findings import Finding, error

GAP = 0.002
PENETRATION = 0.002
LAUNCH_SPEED = 0.5
STEPS = 100
_FREE = int(mujoco.mjtJoint.mjJNT_FREE)


def start_state(model: mujoco.MjModel) -> mujoco.MjData:
    """Data at the keyframe `home` (else the first, else the reference pose), positions and contacts computed."""
    data = mujoco.MjData(model)
    if model.nkey:
        home = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_KEY, "home")
        mujoco.mj_resetDataKeyframe(model, data, max(home, 0))
    mujoco.mj_forward(model, data)
    return data


def check(model: mujoco.MjModel) -> list[Finding]:
    """Findings at the start state and over the first fraction of a second."""
    data = start_state(model)
    findings, touching = _overlaps(model, data)
    floating = _floating(model, data, touching)
    return findings + floating + _first_steps(model, data, skip={finding.subject for finding in floating})


def _root(model: mujoco.MjModel, geom: int) -> int:
    return int(model.body_rootid[model.geom_bodyid[geom]]) if model.body_weldid[model.geom_bodyid[geom]] else 0


def _free_bodies(model: mujoco.MjModel) -> list[int]:
    return [int(model.jnt_bodyid[j]) for j in range(model.njnt) if int(model.jnt_type[j]) == _FREE]


def _top_body(model: mujoco.MjModel, geom: int) -> str:
    return str(model.body(int(model.geom_bodyid[geom])).name) or f"geom {geom}"


def _overlaps(model: mujoco.MjModel, data: mujoco.MjData) -> tuple[list[Finding], set[int]]:
    deepest: dict[tuple[int, int], tuple[float, int, int]] = {}
    touching: set[int] = set()
    for contact in data.contact:
        one, two = (int(g) for g in contact.geom)
        touching |= {_root(model, one), _root(model, two)}
        pair = (int(model.geom_bodyid[one]), int(model.geom_bodyid[two]))
        if contact.dist < deepest.get(pair, (0.0,))[0]:
            deepest[pair] = (float(contact.dist), one, two)
    free = set(_free_bodies(model))
    findings = []
    for distance, one, two in deepest.values():
        if distance >= -PENETRATION:
            continue
        names = _top_body(model, one), _top_body(model, two)
        roots = _root(model, one), _root(model, two)
        sunk = 0 in roots and (set(roots) - {0}) <= free
        mover, other = names if roots[1] == 0 else names[::-1]
        check_name = "sunk" if sunk else "interpenetration"
        message = (
            f"is sunk {-distance * 1000:.1f} mm into {other}; raise it to the surface"
            if sunk
            else f"overlaps {other} by {-distance * 1000:.1f} mm at the start; move them apart"
        )
        findings.append(error(check_name, mover, message, -distance))
    return findings, touching


def _floating(model: mujoco.MjModel, data: mujoco.MjData, touching: set[int]) -> list[Finding]:
    findings = []
    for body in _free_bodies(model):
        if int(model.body_rootid[body]) in touching or _held_up(model, body):
            continue
        gap = _nearest(model, data, body)
        if gap > GAP:
            extent = f"{gap * 1000:.1f} mm from the nearest thing" if gap < 1.0 else "with nothing near it"
            message = f"floats {extent}; lower it onto its support"
            findings.append(error("floating", model.body(body).name, message, gap))
    return findings


def _held_up(model: mujoco.MjModel, body: int) -> bool:
    weightless = float(model.body_gravcomp[body]) >= 1.0
    return weightless or float(np.linalg.norm(model.opt.gravity)) < 1e-9


def _nearest(model: mujoco.MjModel, data: mujoco.MjData, body: int) -> float:
    root = int(model.body_rootid[body])
    solid = [g for g in range(model.ngeom) if model.geom_contype[g] or model.geom_conaffinity[g]]
    own = [g for g in solid if int(model.body_rootid[model.geom_bodyid[g]]) == root]
    others = [g for g in solid if g not in own]
    nearest = 1.0
    for mine in own:
        for other in others:
            if int(model.geom_type[other]) != int(mujoco.mjtGeom.mjGEOM_PLANE):
                apart = np.linalg.norm(data.geom_xpos[mine] - data.geom_xpos[other])
                if apart - model.geom_rbound[mine] - model.geom_rbound[other] > nearest:
                    continue
            nearest = min(nearest, mujoco.mj_geomDistance(model, data, mine, other, nearest, None))
    return nearest if own else 1.0


def _first_steps(model: mujoco.MjModel, data: mujoco.MjData, skip: set[str]) -> list[Finding]:
    free = [body for body in _free_bodies(model) if model.body(body).name not in skip]
    fastest = dict.fromkeys(free, 0.0)
    for _ in range(STEPS):
        mujoco.mj_step(model, data)
        if any(warning.number for warning in data.warning):
            break
        for body in free:
            speed = float(np.linalg.norm(data.qvel[model.body_dofadr[body] :][:3]))
            fastest[body] = max(fastest[body], speed)
    findings = [
        error("launched", model.body(body).name, f"reaches {speed:.2f} m/s within {STEPS} steps from rest", speed)
        for body, speed in fastest.items()
        if speed > LAUNCH_SPEED
    ]
    for index, warning in enumerate(data.warning):
        if warning.number:
            name = str(mujoco.mjtWarning(index)).rsplit("_", 1)[-1].lower()
            findings.append(error("solver-warning", name, f"MuJoCo warned {warning.number} times in the first steps"))
    return findings
