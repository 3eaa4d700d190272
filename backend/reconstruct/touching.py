"""Distances between bodies of a stage as it is posed: gaps and penetrations of their collision geometry."""

import mujoco
import numpy as np

from backend.reconstruct.stage import Stage

FAR = 0.2


def geoms_of(stage: Stage, body: str) -> list[int]:
    """Collision geoms of a body."""
    model = stage.model
    prefix = f"{body}/c"
    return [g for g in range(model.ngeom) if model.geom(g).name.startswith(prefix) and model.geom_contype[g] > 0]


def pad_geoms(stage: Stage, robot: str, side: str) -> list[int]:
    """Geoms of one finger's pad."""
    gripper = stage.robots[robot].gripper
    if gripper is None:
        return []
    return [stage.model.geom(f"{robot}/{name}").id for name in gripper.pads[side]]


def distance(stage: Stage, first: list[int], second: list[int]) -> float:
    """Least signed distance in metres between two sets of geoms; `FAR` when further, infinite when one is empty."""
    pair = np.zeros(6)
    values = [mujoco.mj_geomDistance(stage.model, stage.data, a, b, FAR, pair) for a in first for b in second]
    return float(min(values)) if values else float("inf")


def pad_gaps(stage: Stage, robot: str, body: str) -> dict[str, float]:
    """Signed distance from each pad to a body, metres."""
    target = geoms_of(stage, body)
    gripper = stage.robots[robot].gripper
    if gripper is None:
        return {}
    return {side: distance(stage, pad_geoms(stage, robot, side), target) for side in gripper.pads}


def deepest(stage: Stage, body: str) -> tuple[float, str]:
    """The least signed distance from a body to any other body, and to which."""
    own = geoms_of(stage, body)
    best, other = float("inf"), ""
    for item in stage.scene.bodies:
        if item.name != body:
            gap = distance(stage, own, geoms_of(stage, item.name))
            if gap < best:
                best, other = gap, item.name
    return best, other
