"""Checks on an MJCF file as written: what MuJoCo pads, skips or refuses."""

from pathlib import Path

import mujoco
import numpy as np

from mjcf_export.findings import Finding, error, warning

_ADVICE = (
    ("number of faces", "STL and other meshes may have at most 200000 faces: decimate it"),
    ("coplanar", "a flat mesh has no hull: give it thickness or use a thin box"),
    ("at least 4 vertices", "a mesh needs four vertices that span a volume"),
    ("volume is too small", "the mesh is flat or inside out: give it thickness and outward faces"),
    ("jpe?g", "textures must be PNG: convert it"),
    ("content type", "textures must be PNG: convert it"),
    ("texture", "textures must be PNG files that exist"),
    ("repeated name", "names must be unique per kind of element: rename one"),
    ("mass and inertia", "a moving body needs mass and inertia above the minimum: give it an inertial or a density"),
    ("inertia must satisfy", "principal moments must satisfy A + B >= C: use balanceinertia or correct them"),
    ("opening file", "a file it names is missing: paths are relative to the XML's meshdir and texturedir"),
)


def load_failure(xml: Path, message: str) -> Finding:
    """The finding for a file that MuJoCo refuses, with what to do about it."""
    lowered = message.lower()
    advice = next((text for key, text in _ADVICE if key in lowered or ("jp" in lowered and key == "jpe?g")), None)
    line = " ".join(message.split())
    return error("load", xml.name, f"MuJoCo refuses it: {line}" + (f" ({advice})" if advice else ""))


def check(xml: Path, spec: mujoco.MjSpec, model: mujoco.MjModel) -> list[Finding]:
    """Keyframes, numbers that are not finite, files that do not travel, doubled assets."""
    return _keyframes(spec, model) + _not_finite(spec, model) + _portable(xml, spec) + _double_geoms(model)


def _keyframes(spec: mujoco.MjSpec, model: mujoco.MjModel) -> list[Finding]:
    findings = []
    expected = {"qpos": model.nq, "qvel": model.nv, "ctrl": model.nu, "act": model.na}
    for index, key in enumerate(spec.keys):
        for field, size in expected.items():
            given = len(getattr(key, field))
            if given not in {0, size}:
                message = f"keyframe holds {given} {field} values, the model has {size}; MuJoCo fills up in silence"
                findings.append(error("short-keyframe", key.name or f"key {index}", message, given))
    return findings


def _not_finite(spec: mujoco.MjSpec, model: mujoco.MjModel) -> list[Finding]:
    findings = []
    for kind in ("bodies", "geoms", "joints", "sites", "cameras", "keys"):
        for element in getattr(spec, kind):
            fields = [name for name in ("pos", "quat", "qpos", "range", "size") if hasattr(element, name)]
            bad = [name for name in fields if _has_nan(getattr(element, name), name == "pos" or kind == "keys")]
            if bad:
                name = element.name or f"unnamed {kind[:-1]}"
                findings.append(error("nan", name, f"{', '.join(bad)} not finite; MuJoCo only warns"))
    for name in ("qpos0", "body_pos", "body_quat", "body_mass", "body_inertia", "geom_pos", "key_qpos"):
        if not findings and not np.isfinite(getattr(model, name)).all():
            findings.append(error("nan", name, "the compiled model holds values that are not finite"))
    return findings


def _has_nan(values: object, required: bool) -> bool:
    array = np.asarray(values, dtype=np.float64)
    return bool(required and array.size and not np.isfinite(array).all())


def _portable(xml: Path, spec: mujoco.MjSpec) -> list[Finding]:
    findings = []
    root = xml.parent.resolve()
    for element in (*spec.meshes, *spec.textures, *spec.hfields):
        if element.file and not (root / element.file).resolve().is_relative_to(root):
            message = f"{element.file} lies outside the model's folder; the folder will not open elsewhere"
            findings.append(warning("not-portable", element.name or element.file, message))
    return findings


def _double_geoms(model: mujoco.MjModel) -> list[Finding]:
    findings = []
    seen: dict[tuple[object, ...], int] = {}
    for geom in range(model.ngeom):
        if not (model.geom_contype[geom] or model.geom_conaffinity[geom]):
            continue
        key = (
            int(model.geom_bodyid[geom]),
            int(model.geom_type[geom]),
            int(model.geom_dataid[geom]),
            *model.geom_size[geom].round(6).tolist(),
            *model.geom_pos[geom].round(6).tolist(),
            *model.geom_quat[geom].round(6).tolist(),
        )
        if key in seen:
            body = model.body(int(model.geom_bodyid[geom])).name
            message = f"collision geoms {seen[key]} and {geom} are the same; every contact counts twice"
            findings.append(warning("duplicate", body, message))
        seen.setdefault(key, geom)
    return findings
