"""Local data sets of Minari: a group per episode, whose observations are one more than its steps."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from argosy.data.batch import Batch
from argosy.data.datasets.source import Source, as_flags, as_rewards, check_lengths, lazy_columns, read_rows
from argosy.data.hdf5 import HDF5Tree
from argosy.errors import DataError

FILE = "main_data.hdf5"
_EPISODE = re.compile(r"episode_(\d+)")
_METADATA_BYTES = 1 << 20


class _Episode(NamedTuple):
    name: str
    steps: int
    cut: bool
    """Its last row says neither that the episode terminated nor that it was truncated."""


def is_minari(names: list[str]) -> bool:
    """Say whether a file with these names is one of these."""
    return any(_EPISODE.fullmatch(name) for name in names)


def find_minari(folder: Path) -> Path:
    """Return the file of a data set's folder."""
    for path in (folder / FILE, folder / "data" / FILE):
        if path.is_file():
            return path
    raise DataError(
        f"{folder} is a folder without TFRecords and without {FILE}, which a data set of Minari has (one stored as "
        "Arrow is not read); of files of another kind, name one"
    )


def open_minari(root: HDF5Tree) -> Source:
    """Return what a file of Minari holds, episode by episode."""
    numbers = sorted(int(match[1]) for name in root.names() if (match := _EPISODE.fullmatch(name)))
    episodes = [_open_episode(root, f"episode_{number}") for number in numbers]
    cut = sum(episode.cut for episode in episodes)

    def read(size: int) -> Iterator[Batch]:
        waiting: list[Batch] = []
        held = 0
        for episode in episodes:
            for start in range(0, episode.steps, size):
                part = _read_episode(root.group(episode.name), episode, start, min(start + size, episode.steps))
                waiting.append(part)
                held += len(part.rew)
                if held >= size:
                    yield Batch.cat(waiting)
                    waiting, held = [], 0
        if waiting:
            yield Batch.cat(waiting)

    return Source(
        path=root.path,
        close=root.close,
        format="Minari",
        rows=sum(episode.steps for episode in episodes),
        read=read,
        attributes={"action_scale": "env", **_task(root)},
        notes=(f"{cut:,} episodes stop without an end: their last rows count as truncated",) if cut else (),
    )


def _open_episode(root: HDF5Tree, name: str) -> _Episode:
    group = root.group(name)
    ends = [as_flags(group.array(field), f"{name}/{field}") for field in ("terminations", "truncations")]
    steps = len(ends[0])
    if steps == 0:
        raise DataError(f"{name} has no steps")
    check_lengths(lazy_columns(group, "observations"), steps + 1, f"{name}/observations")
    check_lengths(lazy_columns(group, "actions"), steps, f"{name}/actions")
    for field in ("rewards", "truncations"):
        check_lengths(group.lazy(field), steps, f"{name}/{field}")
    return _Episode(name, steps, not (ends[0][-1] or ends[1][-1]))


def _read_episode(group: HDF5Tree, episode: _Episode, start: int, stop: int) -> Batch:
    seen = Batch(obs=read_rows(lazy_columns(group, "observations"), start, stop + 1))
    truncated = as_flags(group.lazy("truncations").read(start, stop), "truncations")
    cut = np.zeros_like(truncated)
    cut[-1] = episode.cut and stop == episode.steps
    return Batch(
        obs=seen[:-1].obs,
        act=read_rows(lazy_columns(group, "actions"), start, stop),
        rew=as_rewards(group.lazy("rewards").read(start, stop), "rewards"),
        terminated=as_flags(group.lazy("terminations").read(start, stop), "terminations"),
        truncated=truncated | cut,
        cut=cut,
        obs_next=seen[1:].obs,
    )


def _task(root: HDF5Tree) -> dict[str, str]:
    """Return the id of the env, if the data set says so; nothing depends on it."""
    path = Path(root.path).with_name("metadata.json")
    try:
        found = json.loads(path.read_bytes()[:_METADATA_BYTES]) if path.is_file() else dict(root.attrs)
        spec = found["env_spec"]
        name = (json.loads(spec) if isinstance(spec, str) else spec)["id"]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {"task": name} if isinstance(name, str) else {}
