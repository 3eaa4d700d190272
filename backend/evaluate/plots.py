"""Plots of a run as SVG: tcp path, gripper opening, contact forces, object heights; demonstrated against executed."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from mjcf_export.frames import Array

Arrays = Mapping[str, npt.NDArray[Any]]

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
"""Okabe and Ito's palette: told apart by colour-blind readers and in grey print."""
_REFERENCE: dict[str, Any] = {"linestyle": "--", "linewidth": 1.2, "color": "0.45"}
_GRID: dict[str, Any] = {"color": "0.88", "linewidth": 0.6}


@dataclass(frozen=True)
class Record:
    """What is plotted. Both clocks are the motion's, in seconds.

    Attributes:
        reference: the arrays of the Motion document, or empty.
        native: the arrays of the Rollout document, `time` moved to the motion's clock, or empty.
        events: when each happened; marked as vertical lines by their number.
        robots: names.
    """

    reference: Arrays
    native: Arrays
    events: Sequence[float]
    robots: Sequence[str]


def tcp_path(record: Record) -> bytes | None:
    """The tcp seen from above and its height over time, as SVG; None when nothing was recorded."""
    keys = [f"{robot}/tcp" for robot in record.robots]
    if not any(key in arrays for key in keys for arrays in (record.reference, record.native)):
        return None
    figure, (above, height) = _figure(2)
    for number, key in enumerate(keys):
        for arrays, style in _sources(record, number):
            if key in arrays:
                points = np.asarray(arrays[key], dtype=np.float64)[:, :3, 3]
                above.plot(points[:, 0], points[:, 1], **style)
                height.plot(arrays["time"], points[:, 2], **style)
    above.set_xlabel("x (m)")
    above.set_ylabel("y (m)")
    above.set_aspect("equal", adjustable="datalim")
    above.set_title("tcp from above", loc="left", fontsize=9)
    _finish(height, record, "tcp height (m)")
    return _svg(figure, "tcp")


def gripper_opening(record: Record) -> bytes | None:
    """Opening between the pads over time, in millimetres."""
    series = {f"{robot}/opening": 1e3 for robot in record.robots}
    return _over_time(record, series, "opening between the pads (mm)", "opening")


def pad_forces(record: Record) -> bytes | None:
    """Normal force of each pad on each body it touched, in newtons."""
    lines = []
    for key in _loaded(record, "pad/"):
        robot, side, body = key.split("/", 3)[1:]
        label = f"{side} pad on {body}" + (f" ({robot})" if len(record.robots) > 1 else "")
        lines.append((key, label, "-" if side == "left" else ":"))
    return _forces(record, lines, "force of each pad (N)", "pads")


def support_forces(record: Record) -> bytes | None:
    """Force between each pair of bodies that touched, robots apart, in newtons."""
    lines: list[tuple[str, str, str]] = []
    pairs: set[frozenset[str]] = set()
    for key in _loaded(record, "force/"):
        body, other = key.split("/", 2)[1:]
        if other not in record.robots and {body, other} not in pairs:
            pairs.add(frozenset((body, other)))
            lines.append((key, f"{body} – {other}", "-"))
    return _forces(record, lines, "force between bodies (N)", "supports")


def _loaded(record: Record, prefix: str) -> list[str]:
    keys = [key for key in record.native if key.startswith(prefix)]
    return sorted(key for key in keys if np.abs(record.native[key]).max(initial=0) > 1e-6)


def _forces(record: Record, lines: Sequence[tuple[str, str, str]], title: str, salt: str) -> bytes | None:
    if not lines:
        return None
    figure, (axes,) = _figure(1)
    for number, (key, label, style) in enumerate(lines):
        colour = COLOURS[number % 7]
        axes.plot(record.native["time"], record.native[key], style, color=colour, linewidth=1.1, label=label)
    _finish(axes, record, title)
    return _svg(figure, salt)


def object_heights(record: Record) -> bytes | None:
    """Height of each body that moved, in metres."""
    names = [key.removeprefix("body/") for key in record.native if key.startswith("body/")]
    moved = [name for name in names if _travel(record.native[f"body/{name}"]) > 0.005]
    names = moved or [key.removeprefix("object/") for key in record.reference if key.startswith("object/")]
    if not names:
        return None
    figure, (axes,) = _figure(1)
    for number, name in enumerate(names):
        colour = COLOURS[number % 7]
        if f"object/{name}" in record.reference:
            track = np.asarray(record.reference[f"object/{name}"], dtype=np.float64)
            axes.plot(
                record.reference["time"], track[:, 2], "--", color=colour, linewidth=1.0, label=f"{name}, reference"
            )
        if f"body/{name}" in record.native:
            axes.plot(
                record.native["time"], record.native[f"body/{name}"][:, 2], color=colour, linewidth=1.4, label=name
            )
    _finish(axes, record, "height of the body frame (m)")
    return _svg(figure, "heights")


def _over_time(record: Record, series: Mapping[str, float], label: str, salt: str) -> bytes | None:
    present = [key for key in series if key in record.reference or key in record.native]
    if not present:
        return None
    figure, (axes,) = _figure(1)
    for number, key in enumerate(present):
        for arrays, style in _sources(record, number):
            if key in arrays:
                axes.plot(arrays["time"], np.asarray(arrays[key]) * series[key], **style)
    _finish(axes, record, label)
    return _svg(figure, salt)


def _sources(record: Record, number: int) -> list[tuple[Arrays, dict[str, Any]]]:
    several = f" {record.robots[number]}" if len(record.robots) > 1 else ""
    native = {"color": COLOURS[number % 7], "linewidth": 1.5, "label": f"executed{several}"}
    return [(record.reference, {**_REFERENCE, "label": f"reference{several}"}), (record.native, native)]


def _travel(poses: Array) -> float:
    position = np.asarray(poses, dtype=np.float64)[:, :3]
    return float(np.linalg.norm(position - position[0], axis=1).max())


def _figure(columns: int) -> tuple[Any, list[Any]]:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(4.6 * columns, 2.9), layout="constrained", facecolor="white")
    axes = [figure.add_subplot(1, columns, number + 1) for number in range(columns)]
    for item in axes:
        item.grid(**_GRID)
        item.spines[["top", "right"]].set_visible(False)
        item.tick_params(labelsize=8)
        item.xaxis.label.set_fontsize(9)
        item.yaxis.label.set_fontsize(9)
        item.title.set_fontsize(9)
    return figure, axes


def _finish(axes: Any, record: Record, label: str) -> None:
    axes.set_xlabel("time since the demonstration's start (s)", fontsize=9)
    axes.set_title(label, loc="left", fontsize=9)
    near = 0.04 * float(np.ptp(axes.get_xlim()))
    drop, last = 0, -np.inf
    for number, onset in enumerate(record.events):
        drop, last = (drop + 9 if onset - last < near else 0), onset
        axes.axvline(onset, color="0.6", linewidth=0.7, zorder=0)
        axes.annotate(
            str(number + 1), (onset, 1.0), xycoords=("data", "axes fraction"), xytext=(1.5, -8 - drop),
            textcoords="offset points", fontsize=7, color="0.35",
        )  # fmt: skip
    if axes.get_legend_handles_labels()[0]:
        axes.legend(fontsize=7.5, frameon=False, loc="best")


def _svg(figure: Any, salt: str) -> bytes:
    import matplotlib

    stream = io.BytesIO()
    with matplotlib.rc_context({"svg.hashsalt": salt, "svg.fonttype": "path"}):
        figure.savefig(stream, format="svg", metadata={"Date": None})
    return stream.getvalue()
