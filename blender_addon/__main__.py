"""`python -m blender_addon`: the Blender commands with bpy as a module."""

import sys

from .cli import run

sys.exit(run(sys.argv[1:]))
