"""What the user asked to load: a path and, for data sets, an episode."""

import re
from dataclasses import dataclass
from pathlib import Path

from mjcf_export.errors import InputError


@dataclass(frozen=True)
class Request:
    """A path and the episode inside it (None: the format's first)."""

    path: Path
    episode: int | None = None


def parse_request(path: Path | str, episode: int | None = None) -> Request:
    """Split `folder#episode=3` into its parts; `episode` wins over the suffix.

    Raises:
        InputError: the path does not exist or the suffix is not understood.
    """
    text = str(path)
    if "#" in text and not Path(text).exists():
        text, suffix = text.split("#", 1)
        match = re.fullmatch(r"episode=(\d+)", suffix)
        if match is None:
            raise InputError(f"{path}: after # only episode=NUMBER is understood, not {suffix!r}")
        episode = int(match.group(1)) if episode is None else episode
    if not Path(text).exists():
        raise InputError(
            f"{text}: no such demonstration; expected a folder with demo.json, a DROID episode, a LeRobot dataset, "
            "an EgoDex recording or a video file"
        )
    return Request(Path(text), episode)
