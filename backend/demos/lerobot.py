"""LeRobot data sets v2.1 and v3: one episode becomes a demonstration."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from backend.demos.lerobot_states import StateTable, robots_of
from backend.demos.request import Request
from backend.documents.demonstration import Demonstration, View
from mjcf_export.document import write_atomically
from mjcf_export.errors import InputError

VERSIONS = ("v2.0", "v2.1", "v3.0")


@dataclass(frozen=True)
class _Clip:
    """One episode's rows, the file of its times, where arrays are written, and what the user should know."""

    table: Any
    clock: Path
    scratch: Path
    notes: list[str]


def is_lerobot(path: Path) -> bool:
    """Whether `path` is the folder of a LeRobot data set."""
    return path.is_dir() and (path / "meta" / "info.json").is_file()


def read_lerobot(request: Request, scratch: Path) -> Demonstration:
    """Read one episode (the first whose files are there, unless one is named).

    Raises:
        InputError: the version is not read, a file or column is missing, or there is no such episode.
    """
    root = request.path.resolve()
    info = _info(root)
    episodes = _episodes(root, info)
    row = _choose(root, info, episodes, request.episode)
    table = _table(root, info, row)
    notes: list[str] = []
    states = StateTable(info, table, root)
    times = states.times()
    clock = scratch / "time.npy"
    write_atomically(clock, lambda stream: np.save(stream, times))
    views = _views(root, info, row, _Clip(table, clock, scratch, notes))
    robots = robots_of(states, scratch, notes)
    return Demonstration(
        task=_task(root, row, table),
        views=views,
        robots=robots,
        world=robots[0].name if len(robots) == 1 else None,
        loader="lerobot",
        notes=(f"episode {row['episode_index']} of {len(episodes)}", *notes),
        root=Path("/"),
    )


def _info(root: Path) -> dict[str, Any]:
    path = root / "meta" / "info.json"
    try:
        info = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InputError(f"{path}: not readable JSON ({problem})") from problem
    version = info.get("codebase_version") if isinstance(info, dict) else None
    if version not in VERSIONS:
        raise InputError(f"{path}: LeRobot version {version}; this release reads {', '.join(VERSIONS)}")
    for key in ("features", "data_path", "fps"):
        if key not in info:
            raise InputError(f"{path}: no `{key}`; expected a LeRobot {version} data set")
    return info


def _parquet(path: Path, **options: Any) -> Any:
    import pyarrow
    import pyarrow.parquet

    try:
        return pyarrow.parquet.read_table(path, **options)
    except (OSError, pyarrow.ArrowException, KeyError) as problem:
        raise InputError(f"{path}: not a readable parquet file ({problem})") from problem


def _lines(path: Path) -> list[dict[str, Any]]:
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, ValueError) as problem:
        raise InputError(f"{path}: not readable JSON lines ({problem})") from problem


def _episodes(root: Path, info: dict[str, Any]) -> list[dict[str, Any]]:
    if info["codebase_version"].startswith("v2"):
        rows = _lines(root / "meta" / "episodes.jsonl")
    else:
        files = sorted((root / "meta" / "episodes").glob("*/*.parquet"))
        if not files:
            raise InputError(f"{root / 'meta' / 'episodes'}: no episode tables (chunk-000/file-000.parquet)")
        rows = []
        for file in files:
            table = _parquet(file)
            rows += table.select([name for name in table.column_names if not name.startswith("stats/")]).to_pylist()
    return sorted(rows, key=lambda row: int(row["episode_index"]))


def _data_file(root: Path, info: dict[str, Any], row: dict[str, Any]) -> Path:
    return _inside(root, info["data_path"].format(**_place(info, row, "data")))


def _place(info: dict[str, Any], row: dict[str, Any], prefix: str) -> dict[str, Any]:
    """The numbers that a path template of either version asks for."""
    episode = int(row["episode_index"])
    return {
        "episode_index": episode,
        "episode_chunk": episode // int(info.get("chunks_size", 1000)),
        "chunk_index": int(row.get(f"{prefix}/chunk_index", 0)),
        "file_index": int(row.get(f"{prefix}/file_index", 0)),
    }


def _inside(root: Path, relative: str) -> Path:
    path = (root / relative).resolve()
    if not path.is_relative_to(root):
        raise InputError(f"{root / 'meta' / 'info.json'}: the path {relative} leaves the data set")
    return path


def _choose(root: Path, info: dict[str, Any], rows: list[dict[str, Any]], episode: int | None) -> dict[str, Any]:
    present = [row for row in rows if _data_file(root, info, row).is_file()]
    names = [int(row["episode_index"]) for row in present]
    if not present:
        raise InputError(f"{root}: no data file of any episode is there; expected {info['data_path']}")
    if episode is None:
        return present[0]
    if episode not in names:
        shown = f"{names[:20]}{' ...' if len(names) > 20 else ''}"
        raise InputError(f"{root}: no data of episode {episode}; there are {shown}")
    return present[names.index(episode)]


def _table(root: Path, info: dict[str, Any], row: dict[str, Any]) -> Any:
    path = _data_file(root, info, row)
    table = _parquet(path, filters=[("episode_index", "=", int(row["episode_index"]))])
    if table.num_rows == 0:
        raise InputError(f"{path}: no rows of episode {row['episode_index']}")
    length = int(row.get("length", table.num_rows))
    if length != table.num_rows:
        raise InputError(f"{path}: episode {row['episode_index']} has {table.num_rows} rows, its record says {length}")
    return table


def _task(root: Path, row: dict[str, Any], table: Any) -> str:
    tasks = row.get("tasks")
    if tasks:
        return str(tasks[0])
    legacy = root / "meta" / "tasks.jsonl"
    if legacy.is_file() and "task_index" in table.column_names:
        index = table["task_index"][0].as_py()
        return next((str(item.get("task", "")) for item in _lines(legacy) if item.get("task_index") == index), "")
    return ""


def _views(root: Path, info: dict[str, Any], row: dict[str, Any], clip: _Clip) -> tuple[View, ...]:
    views = []
    for key, feature in info["features"].items():
        if feature.get("dtype") not in ("video", "image"):
            continue
        details = {**feature.get("info", {}), **feature.get("video_info", {})}
        if details.get("video.is_depth_map"):
            clip.notes.append(f"{key}: a depth video in false colours carries no metric depth; left out")
            continue
        name = key.removeprefix("observation.images.").removeprefix("observation.")
        frames = None
        if feature["dtype"] == "image":
            video = _unpack(clip.table, key, clip.scratch / name.replace("/", "_"))
        else:
            video = _video_file(root, info, row, key)
            start = round(float(row.get(f"videos/{key}/from_timestamp", 0.0)) * float(info["fps"]))
            frames = (start, start + clip.table.num_rows) if info["codebase_version"].startswith("v3") else None
        views.append(View(name=name, video=str(video), frames=frames, timestamps=str(clip.clock)))
    if not views:
        raise InputError(f"{root}: the data set has no video or image feature; it has {sorted(info['features'])}")
    return tuple(views)


def _video_file(root: Path, info: dict[str, Any], row: dict[str, Any], key: str) -> Path:
    template = info.get("video_path")
    if not template:
        raise InputError(f"{root / 'meta' / 'info.json'}: no `video_path`, but {key} is a video")
    relative = template.format(video_key=key, **_place(info, row, f"videos/{key}"))
    choices = [relative, relative.replace("videos/", "video/", 1)]
    for choice in choices:
        path = _inside(root, choice)
        if path.is_file():
            return path
    raise InputError(f"{root}: no video of {key} for episode {row['episode_index']}; expected {choices[0]}")


def _unpack(table: Any, key: str, folder: Path) -> Path:
    """Pictures stored inside the parquet file, written out as a numbered folder."""
    from PIL import Image, UnidentifiedImageError

    folder.mkdir(parents=True, exist_ok=True)
    for index, cell in enumerate(table[key].to_pylist()):
        data: Any = cell.get("bytes") if isinstance(cell, dict) else cell
        try:
            suffix = {"JPEG": ".jpg", "PNG": ".png"}[str(Image.open(io.BytesIO(data)).format)]
        except (TypeError, KeyError, UnidentifiedImageError) as problem:
            raise InputError(f"{key}, frame {index}: the parquet file holds no JPEG or PNG picture") from problem
        (folder / f"frame-{index:06d}{suffix}").write_bytes(data)
    return folder
