"""The Blender commands: `python -m blender_addon ...` and `blender -b --command real2gym ...`.

Lines for the calling process start with `real2gym:`, then `progress FRACTION MESSAGE`, `note TEXT` or `error TEXT`.
Exit codes are those of `mjcf_export.errors`: 0 done, 2 bad input, 3 this machine lacks something, 4 our fault.
"""

import argparse
import sys
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from mjcf_export.errors import InputError, Real2GymError

if TYPE_CHECKING:
    from .render import Quality


def run(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    try:
        options = _parser().parse_args(list(arguments))
    except SystemExit as stop:
        return int(stop.code or 0)
    try:
        options.command(options)
    except Real2GymError as error:
        _say(f"error {error}")
        return error.exit_code
    except Exception:
        traceback.print_exc()
        _say(f"error {traceback.format_exc(limit=-1).strip().splitlines()[-1]}")
        return 4
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="real2gym", description="Real2Gym scenes in Blender, without a window.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    build = commands.add_parser("build", help="a scene folder to an editable .blend")
    build.add_argument("scene", type=Path)
    build.add_argument("out", type=Path)
    moved = build.add_mutually_exclusive_group()
    moved.add_argument("--rollout", type=Path, help="rollout folder whose trajectory is keyed, as `animate` does")
    moved.add_argument("--poses", type=Path, help=".npz to key: time (F,) and arrays as for render-sequence")
    build.set_defaults(command=_build)
    read = commands.add_parser("read", help="a .blend to a scene folder")
    read.add_argument("blend", type=Path)
    read.add_argument("out", type=Path)
    read.set_defaults(command=_read)
    animate = commands.add_parser("animate", help="key a rollout onto a built .blend")
    animate.add_argument("blend", type=Path)
    animate.add_argument("rollout", type=Path, help="folder of rollout.json and rollout.npz, inside its run folder")
    animate.add_argument("out", type=Path)
    animate.add_argument("--fps", type=float, help="frames per second; as the .blend has it by default")
    animate.set_defaults(command=_animate)
    render = commands.add_parser("render", help="pictures of a .blend from one camera")
    render.add_argument("blend", type=Path)
    render.add_argument("out", type=Path)
    render.add_argument("--camera", required=True)
    render.add_argument(
        "--frames", type=_integers, help="numbers that name the files, and Blender frames unless --times"
    )
    render.add_argument("--times", type=_floats, help="seconds on the demonstration's clock, one for each frame")
    _quality_options(render)
    render.set_defaults(command=_render)
    shots = commands.add_parser("render-shots", help="pictures of a .blend from several cameras, in one process")
    shots.add_argument("blend", type=Path)
    shots.add_argument("shots", type=Path, help="JSON: the Pictures document")
    shots.add_argument("out", type=Path)
    shots.set_defaults(command=_render_shots)
    sequence = commands.add_parser("render-sequence", help="a whole demonstration from a scene folder and poses")
    sequence.add_argument("scene", type=Path)
    sequence.add_argument(
        "poses", type=Path, help=".npz: body/<name> (F, 7), <robot>/qpos (F, n), <robot>/opening (F,)"
    )
    sequence.add_argument("out", type=Path)
    sequence.add_argument("--cameras", required=True, type=_names)
    sequence.add_argument("--frames", type=_integers, help="rows to render; all by default")
    _quality_options(sequence)
    sequence.set_defaults(command=_render_sequence)
    return parser


def _quality_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--engine", default="cycles", choices=("cycles", "workbench"))
    parser.add_argument("--samples", type=int, default=4)
    parser.add_argument("--bounces", type=int, default=2)
    parser.add_argument("--denoise", action=argparse.BooleanOptionalAction, default=None)
    parser.add_argument("--width", type=int)
    parser.add_argument("--height", type=int)
    parser.add_argument("--exposure", type=float, help="stops; as the scene has it by default")
    parser.add_argument("--pass", dest="passes", type=_names, default=["rgb"], help="among rgb,ids,depth")


def _build(options: argparse.Namespace) -> None:
    from .scene_build import build_scene, empty_file, load_scene, save_blend

    scene = load_scene(options.scene)
    empty_file()
    build_scene(scene, options.scene)
    if options.rollout is not None:
        from .animation import animate_rollout

        animate_rollout(options.rollout)
    elif options.poses is not None:
        from .animation import animate_poses

        animate_poses(scene, options.scene, options.poses)
    save_blend(options.out)


def _read(options: argparse.Namespace) -> None:
    from .scene_read import open_blend, read_scene

    open_blend(options.blend)
    _, notes = read_scene(options.out)
    for note in notes:
        _say(f"note {note}")


def _animate(options: argparse.Namespace) -> None:
    from .animation import animate_rollout
    from .scene_build import save_blend
    from .scene_read import open_blend

    open_blend(options.blend)
    animate_rollout(options.rollout, options.fps)
    save_blend(options.out)


def _render(options: argparse.Namespace) -> None:
    import bpy

    from .render import Shot, render_shots
    from .scene_read import open_blend

    open_blend(options.blend)
    render = bpy.context.scene.render
    rate = render.fps / render.fps_base
    times = options.times
    frames = options.frames or list(range(len(times or [0])))
    if times is not None and len(times) != len(frames):
        raise InputError(f"--times has {len(times)} values for {len(frames)} frames; give one for each")
    shots = [Shot(frame, frame if times is None else times[row] * rate) for row, frame in enumerate(frames)]
    render_shots(options.camera, shots, options.out, _quality(options), options.passes, _progress)


def _render_shots(options: argparse.Namespace) -> None:
    from backend.documents.pictures import Pictures

    from .render import render_pictures
    from .scene_read import open_blend

    wanted = Pictures.load(options.shots).pictures
    open_blend(options.blend)
    render_pictures(wanted, options.out, _progress)


def _render_sequence(options: argparse.Namespace) -> None:
    from .render_sequence import render_sequence

    render_sequence(
        options.scene,
        options.poses,
        options.out,
        options.cameras,
        _quality(options),
        options.passes,
        options.frames,
        _progress,
    )


def _quality(options: argparse.Namespace) -> "Quality":
    from .render import Quality

    return Quality(
        engine=options.engine,
        samples=options.samples,
        bounces=options.bounces,
        denoise=options.denoise,
        width=options.width,
        height=options.height,
        exposure=options.exposure,
    )


def _progress(done: float, message: str) -> None:
    _say(f"progress {done:.4f} {message}")


def _say(text: str) -> None:
    print("real2gym:" + " ".join(text.splitlines()), flush=True, file=sys.stdout)


def _names(text: str) -> list[str]:
    return [item for item in text.split(",") if item]


def _integers(text: str) -> list[int]:
    return [int(item) for item in _names(text)]


def _floats(text: str) -> list[float]:
    return [float(item) for item in _names(text)]
