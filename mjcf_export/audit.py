"""What would go wrong with a scene or an MJCF file, found before it runs; every check has a name."""

from pathlib import Path
from xml.etree import ElementTree

import mujoco

from mjcf_export import audit_files, audit_geometry, audit_shapes, audit_state
from mjcf_export.errors import InputError, Real2GymError
from mjcf_export.export import build_spec, compile_spec
from mjcf_export.findings import Finding, error
from mjcf_export.quiet import no_log_file
from mjcf_export.scene import Scene

__all__ = ["Finding", "audit_model", "audit_scene", "errors_only"]


def audit_scene(scene: Scene, folder: Path, cache: Path | None = None) -> list[Finding]:
    """Everything suspicious about `scene`, shapes first, then its initial state in MuJoCo.

    Args:
        scene: the scene.
        folder: where its files lie.
        cache: where convex decompositions are kept.
    """
    findings = audit_shapes.check(scene, folder, cache)
    if any(finding.check == "shape-unusable" for finding in findings):
        return findings
    try:
        spec = build_spec(scene, folder, cache)
        model = compile_spec(spec, scene.name)
    except Real2GymError as problem:
        return [*findings, error("load", scene.name, str(problem))]
    return findings + audit_geometry.joint_ranges(model) + audit_state.check(model)


def audit_model(xml: Path) -> list[Finding]:
    """Everything suspicious about an MJCF file: what MuJoCo refuses, and what it loads silently and wrongly."""
    if not xml.is_file():
        raise InputError(f"{xml}: no such file; expected an MJCF model")
    try:
        ElementTree.parse(xml)
    except ElementTree.ParseError as problem:
        return [error("load", xml.name, f"not well-formed XML: {problem}")]
    try:
        with no_log_file():
            spec, written = (mujoco.MjSpec.from_file(str(xml)) for _ in range(2))
            model = spec.compile()
    except ValueError as problem:
        return [audit_files.load_failure(xml, str(problem))]
    findings = audit_files.check(xml, written, model)
    if any(finding.check == "nan" for finding in findings):
        return findings
    findings += audit_geometry.check(spec, model)
    return findings + audit_state.check(model)


def errors_only(findings: list[Finding]) -> list[Finding]:
    """The findings that must be mended before the scene is used."""
    return [finding for finding in findings if finding.severity == "error"]
