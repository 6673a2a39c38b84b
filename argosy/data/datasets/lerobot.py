"""Data sets of LeRobot, versions 2 and 3: a folder of Parquet files with a row per frame, and JSON that describes them.

Pictures are left out: the files hold them as PNGs, or not at all where they are videos.
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from argosy.data.datasets.flat import open_columns
from argosy.data.datasets.source import Source
from argosy.data.hdf5 import machine_memory
from argosy.data.lazy import LazyArray
from argosy.data.tree import NUMERIC
from argosy.errors import DataError, require

INFO = Path("meta", "info.json")
OBS = "observation."
ACT, REW, DONE, SUCCESS, EPISODE = "action", "next.reward", "next.done", "next.success", "episode_index"
_USED = (ACT, REW, DONE, SUCCESS, EPISODE)
_INFO_BYTES = 1 << 24
_KEPT_GROUPS = 2
"""Groups of rows that stay in memory: neighbouring parts lie in the same one, or in the next."""


class _Group(NamedTuple):
    file: str
    number: int
    start: int
    """Its first row, in all files."""
    rows: int


def open_lerobot(folder: Path) -> Source:
    """Return what the files below a folder hold.

    Of several observations each has its name behind the first dot, with underscores for further ones. An episode's last
    frame terminates it where `next.success` says so or, without such, `next.done`; but LeRobot's converters set that in
    every last frame, those of a time limit too: then it says nothing.
    """
    info = json.loads((folder / INFO).read_bytes()[:_INFO_BYTES])
    features = info.get("features")
    if not isinstance(features, dict):
        raise DataError(f"{INFO} names no 'features'; data sets of versions 2 and 3 are read")
    used = {name: spec for name, spec in features.items() if name.startswith(OBS) or name in _USED}
    numeric = {name: spec for name, spec in used.items() if spec["dtype"] not in ("image", "video", "string")}
    seen = [name for name in numeric if name.startswith(OBS)]
    if not seen or ACT not in numeric or EPISODE not in numeric:
        raise DataError(f"it needs numbers {OBS!r}..., {ACT!r} and {EPISODE!r}; it describes {sorted(features)}")
    frames = _Frames(folder, numeric)
    if frames.rows != info["total_frames"]:
        raise DataError(f"its files hold {frames.rows:,} rows, where {INFO} announces {info['total_frames']:,}")

    notes = []
    ends = np.append(np.diff(frames.column(EPISODE).read(0, frames.rows).ravel()) != 0, True)
    terminated = np.zeros_like(ends)
    for name in (SUCCESS, DONE):
        if name in numeric:
            terminated = ends & frames.column(name).read(0, frames.rows).ravel().astype(np.bool_)
            break
    if SUCCESS not in numeric and DONE in numeric and (terminated == ends).all():
        terminated = np.zeros_like(ends)
        notes.append(f"{DONE!r} is set in every episode's last frame, so that all count as cut there")
    obs = {name.removeprefix(OBS).replace(".", "_"): frames.column(name) for name in seen}
    columns = {
        "obs": obs if len(obs) > 1 else obs.popitem()[1],
        "act": frames.column(ACT),
        "rew": frames.column(REW) if REW in numeric else LazyArray.of(np.zeros(frames.rows, np.float32)),
        "terminated": LazyArray.of(terminated),
        "truncated": LazyArray.of(ends & ~terminated),
    }
    if pictures := used.keys() - numeric.keys():
        notes.append(f"pictures are not read: {', '.join(sorted(pictures))}")
    if REW not in numeric:
        notes.append(f"it has no {REW!r}: rewards are 0, from which only imitation learns")
    source = open_columns(str(folder), "LeRobot", columns, list(features))
    return replace(source, notes=(*notes, *source.notes))


class _Frames:
    """The rows of all files of a folder, in the order of the files' numbers; `numeric` describes their columns."""

    def __init__(self, folder: Path, numeric: Mapping[str, Any]) -> None:
        self._parquet = require("pyarrow.parquet", "lerobot")
        self._numeric = numeric
        self._groups: list[_Group] = []
        self.rows = 0
        for file in sorted((folder / "data").rglob("*.parquet"), key=lambda path: _numbers(path.relative_to(folder))):
            head = self._parquet.read_metadata(file)
            for number in range(head.num_row_groups):
                self._groups.append(_Group(str(file), number, self.rows, head.row_group(number).num_rows))
                self.rows += self._groups[-1].rows
        self._read = lru_cache(_KEPT_GROUPS)(self._read_group)

    def column(self, name: str) -> LazyArray:
        """Return a column of numbers [rows, ...]."""
        shape, dtype = (self.rows, *map(int, self._numeric[name]["shape"])), np.dtype(self._numeric[name]["dtype"])

        def read(start: int, stop: int) -> np.ndarray:
            found = [np.empty((0, *shape[1:]), dtype)]
            number = max(0, bisect_right(self._groups, start, key=lambda group: group.start) - 1)
            while start < stop:
                group = self._groups[number]
                rows = self._read(group)[name].reshape(group.rows, *shape[1:])
                found.append(rows[start - group.start : stop - group.start].astype(dtype, copy=False))
                number, start = number + 1, group.start + group.rows
            return np.concatenate(found)

        if dtype.kind not in NUMERIC:
            raise DataError(f"{name!r} is of type {dtype}; only numbers are read")
        return LazyArray(shape, dtype, read)

    def _read_group(self, group: _Group) -> dict[str, np.ndarray]:
        """Return the columns of a group of rows, flat and without gaps."""
        needed = 8 * group.rows * sum(math.prod(spec["shape"]) for spec in self._numeric.values())
        if needed > machine_memory():  # a few bytes can stand for many equal rows
            raise DataError(
                f"{group.rows:,} rows of {group.file} would take {needed:,} bytes, more than this machine has"
            )
        table = self._parquet.ParquetFile(group.file).read_row_group(group.number, columns=list(self._numeric))
        found = {}
        for name, spec in self._numeric.items():
            if name not in table.column_names:
                raise DataError(f"{group.file} has no column {name!r}, which {INFO} describes")
            values = table.column(name).combine_chunks()
            while hasattr(values.type, "value_type"):  # a list, or a list of lists
                values = values.flatten()
            size = group.rows * math.prod(spec["shape"])
            if values.null_count or len(values) != size:
                raise DataError(
                    f"{name!r} in {group.file} has {len(values) - values.null_count:,} values, not {size:,}"
                )
            found[name] = values.to_numpy(zero_copy_only=False)
        return found


def _numbers(path: Path) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", str(path))]
