"""Dependencies point one way; bpy lives only in the add-on; heavy extras load lazily."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LOWER = ("backend.documents", "backend.protocol", "backend.client")


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def offenders(folder: str, forbidden: tuple[str, ...], allowed: tuple[str, ...] = ()) -> list[str]:
    return [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for name in sorted(imports(path))
        if name.startswith(forbidden)
        and any(name == prefix or name.startswith(prefix + ".") for prefix in forbidden)
        and not any(name == prefix or name.startswith(prefix + ".") for prefix in allowed)
    ]


def test_bpy_lives_only_in_the_addon() -> None:
    assert offenders("backend", ("bpy", "bmesh", "mathutils")) == []
    assert offenders("mjcf_export", ("bpy", "bmesh", "mathutils")) == []


def test_layers_point_one_way() -> None:
    assert offenders("mjcf_export", ("backend", "blender_addon")) == []
    assert offenders("backend", ("blender_addon",)) == []
    assert offenders("backend/documents", ("backend",), allowed=("backend.documents",)) == []
    assert offenders("blender_addon", ("backend",), allowed=("backend", *LOWER)[1:]) == []
    assert offenders("blender_addon", ("torch", "openai")) == []


@pytest.mark.parametrize(
    ("package", "heavy"),
    [("mjcf_export.export", "scipy networkx trimesh coacd torch"), ("backend.cli", "torch bpy sam2 coacd matplotlib")],
)
def test_heavy_packages_load_lazily(package: str, heavy: str) -> None:
    code = f"import sys, {package}; print(*[n for n in '{heavy}'.split() if n in sys.modules])"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert loaded.stdout.split() == []
