"""The Blender half of Real2Gym; bpy lives only here."""

from typing import Any

_handles: list[Any] = []


def register() -> None:
    """Called by Blender when the extension is enabled: adds `blender --command real2gym`."""
    import bpy

    from .cli import run

    _handles.append(bpy.utils.register_cli_command("real2gym", run))


def unregister() -> None:
    """Called by Blender when the extension is disabled."""
    import bpy

    while _handles:
        bpy.utils.unregister_cli_command(_handles.pop())
