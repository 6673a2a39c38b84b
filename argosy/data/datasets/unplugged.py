"""RL Unplugged's Atari data sets (Gulcehre et al., 2020): transitions of DQN's own replay, as TFRecords."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from argosy.data.batch import Batch
from argosy.data.datasets.source import Source
from argosy.data.datasets.tfrecord import Value, parse_example, read_records
from argosy.errors import DataError, require

STACK = 4
"""Frames of an observation."""
MAX_SIDE = 1024
"""Pixels of a frame's side, at most."""
MEAN_SEGMENT = 20
"""Where rows follow each other for this many steps in the mean, frames are stored once."""
_PNG = b"\x89PNG\r\n\x1a\n"
_KEPT_FRAMES = 64
_REPEATS = "; frames are stored once, so that the first stacks of a piece repeat its first frame"


def open_unplugged(path: str, files: Sequence[Path]) -> Source:
    """Return the transitions of some files, in their order.

    All are read once to count them. Where each row's successor is the next row, as in the files themselves, a buffer
    stores each frame once and stacks them when it is read; where rows were shuffled it stores whole stacks.
    """
    rows = segments = 0
    for _, starts in _linked(files):
        rows, segments = rows + 1, segments + starts
    single = segments * MEAN_SEGMENT <= rows

    def read(size: int) -> Iterator[Batch]:
        waiting: list[dict[str, Any]] = []
        for record, starts in _linked(files):
            if starts and waiting and not waiting[-1]["terminated"]:
                waiting[-1]["truncated"] = waiting[-1]["cut"] = True
            if len(waiting) > size:  # whether a row is cut is known when the next one is there
                yield _part(waiting[:-1])
                waiting = waiting[-1:]
            # behind a gap nobody knows an episode's beginning, nor anywhere in rows that were shuffled
            begins = single and (not waiting or waiting[-1]["terminated"])
            waiting.append(_row(record, single) | {"first": begins})
        if waiting:
            yield _part(waiting)

    options: dict[str, Any] = {"stack_num": STACK, "ignore_obs_next": True} if single else {}
    return Source(
        path=path,
        format="RL Unplugged Atari",
        rows=rows,
        read=read,
        options=options,
        attributes={"action_scale": "env"},
        notes=(f"its rows are {segments:,} pieces of episodes" + (_REPEATS if single else ""),),
    )


class _Record(NamedTuple):
    obs: list[bytes]
    """PNGs of the frames, oldest first."""
    act: int
    rew: float
    terminated: bool
    obs_next: list[bytes]


def _linked(files: Sequence[Path]) -> Iterator[tuple[_Record, bool]]:
    """Yield every record, and whether it does not continue the one before."""
    expected: list[bytes] | None = None
    for file in files:
        for number, data in enumerate(read_records(file)):
            record = _record(parse_example(data), f"record {number} of {file}")
            yield record, record.obs != expected
            expected = None if record.terminated else record.obs_next


def _record(features: dict[str, Value], where: str) -> _Record:
    def frames(name: str) -> list[bytes]:
        found = features.get(name)
        if not isinstance(found, list) or len(found) != STACK:
            raise DataError(f"{where} has no {STACK} images {name!r}; it is of another kind")
        return found

    def number(name: str) -> Any:
        found = features.get(name)
        if not isinstance(found, np.ndarray) or len(found) != 1:
            raise DataError(f"{where} has no number {name!r}; it is of another kind")
        return found[0]

    ended = float(number("d_t")) == 0.0
    return _Record(frames("o_t"), int(number("a_t")), float(number("r_t")), ended, frames("o_tp1"))


def _row(record: _Record, single: bool) -> dict[str, Any]:
    obs, obs_next = (list(map(_decoded, pngs)) for pngs in (record.obs, record.obs_next))
    return {
        "obs": obs[-1] if single else np.stack(obs),
        "act": record.act,
        "rew": np.float32(record.rew),
        "terminated": record.terminated,
        "truncated": False,
        "cut": False,
        "obs_next": obs_next[-1] if single else np.stack(obs_next),
    }


def _part(rows: list[dict[str, Any]]) -> Batch:
    return Batch({name: np.stack([row[name] for row in rows]) for name in rows[0]})


@lru_cache(_KEPT_FRAMES)
def _decoded(png: bytes) -> np.ndarray:
    """Return a grey image [height, width] uint8; each comes in up to eight observations: the newest are kept."""
    if png[:8] != _PNG or len(png) < 24 or max(struct.unpack(">II", png[16:24])) > MAX_SIDE:
        raise DataError(f"an image is no PNG of at most {MAX_SIDE} x {MAX_SIDE} pixels; it begins with {png[:8]!r}")
    cv2 = require("cv2", "atari")
    found = cv2.imdecode(np.frombuffer(png, np.uint8), cv2.IMREAD_GRAYSCALE)
    if found is None:
        raise DataError("an image is a damaged PNG")
    return np.asarray(found)
