"""Local data sets of Minari: episodes, whose observations are one more than their steps, in HDF5, Arrow or Parquet."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from argosy.data import tree
from argosy.data.batch import Batch
from argosy.data.datasets.source import Columns, Source, as_flags, as_rewards, check_lengths, read_rows
from argosy.data.hdf5 import HDF5Tree, machine_memory
from argosy.data.lazy import LazyArray
from argosy.data.tree import NUMERIC
from argosy.errors import DataError, require

FILE, METADATA = "main_data.hdf5", "metadata.json"
_FIELDS = ("observations", "actions", "rewards", "terminations", "truncations")
_FLAGS = _FIELDS[3:]
_EPISODE = re.compile(r"episode_(\d+)")
_METADATA_BYTES = 1 << 26  # the bounds of each pixel are listed

Told: TypeAlias = Mapping[str, Any]
"""What JSON says: of a data set, or of a space."""


class _Episode(NamedTuple):
    open: Callable[[], Mapping[str, Columns]]
    """Returns its arrays, of which rows are read."""
    steps: int
    cut: bool
    """Its last row says neither that the episode terminated nor that it was truncated."""

    @classmethod
    def of(cls, name: str, opened: Callable[[], Mapping[str, Columns]], flags: Mapping[str, Columns]) -> Self:
        """Look at the ends of an episode."""
        terminations, truncations = (as_flags(np.asarray(flags[field]), f"{name}/{field}") for field in _FLAGS)
        if len(terminations) == 0:
            raise DataError(f"{name} has no steps")
        return cls(opened, len(terminations), not (terminations[-1] or truncations[-1:].any()))


def is_minari(names: list[str]) -> bool:
    """Say whether an HDF5 file with these names is one of these."""
    return any(_EPISODE.fullmatch(name) for name in names)


def find_minari(folder: Path) -> Path:
    """Return the HDF5 file of a data set's folder, or the folder of its episodes."""
    for place in (folder, folder / "data"):
        if (place / FILE).is_file():
            return place / FILE
        if _told(place).get("data_format") in ("arrow", "parquet"):
            return place
    raise DataError(
        f"{folder} is a folder without TFRecords, without {FILE} or {METADATA}, which a data set of Minari has, and "
        "without LeRobot's meta/info.json; "
        "of files of another kind, name one"
    )


def open_minari(root: HDF5Tree) -> Source:
    """Return what a file of Minari holds, episode by episode."""
    told = _told(Path(root.path).parent) or dict(root.attrs)
    spaces = _spaces(told)
    numbers = sorted(int(match[1]) for name in root.names() if (match := _EPISODE.fullmatch(name)))

    def columns(number: int) -> dict[str, Columns]:
        group = root.group(f"episode_{number}")
        return {field: _hdf5_columns(group, field, spaces.get(field, {})) for field in _FIELDS}

    episodes = []
    for number in numbers:
        found, name = columns(number), f"episode_{number}"
        episodes.append(_Episode.of(name, partial(columns, number), found))
        for field in _FIELDS:
            rows = episodes[-1].steps + (field == "observations")
            check_lengths(found[field], rows, f"{name}/{field}")
    return _source(root.path, told, episodes, root.close)


def open_minari_folder(folder: Path) -> Source:
    """Return what a data set of Minari in Arrow or Parquet holds: a folder per episode, with a file in it.

    Raises:
        MissingExtraError: pyarrow is not installed.
    """
    told = _told(folder)
    spaces = _spaces(told)
    numbers = sorted(int(place.name) for place in folder.iterdir() if place.name.isdigit() and place.is_dir())

    def columns(number: int, fields: Sequence[str] = _FIELDS) -> dict[str, Columns]:
        table = _read_table(folder / str(number), told["data_format"], fields)
        found = {name: _arrow_columns(table[name].combine_chunks(), spaces.get(name, {}), name) for name in fields}
        steps = max(table.num_rows - 1, 0)  # the last row holds an observation, and padding
        return {
            name: column if name == "observations" else tree.map_leaves(partial(_first_rows, steps), column)
            for name, column in found.items()
        }

    episodes = [
        _Episode.of(f"episode {number}", partial(columns, number), columns(number, _FLAGS)) for number in numbers
    ]
    return _source(str(folder), told, episodes)


def _source(path: str, told: Told, episodes: Sequence[_Episode], close: Callable[[], None] = lambda: None) -> Source:
    cut, rows = sum(episode.cut for episode in episodes), sum(episode.steps for episode in episodes)
    if isinstance(told.get("total_steps"), int) and told["total_steps"] != rows:
        raise DataError(
            f"it holds {rows:,} steps in {len(episodes):,} episodes, where {METADATA} announces {told['total_steps']:,}"
        )

    def read(size: int) -> Iterator[Batch]:
        waiting: list[Batch] = []
        held = 0
        for episode in episodes:
            columns = episode.open()
            for start in range(0, episode.steps, size):
                waiting.append(_read_episode(columns, episode, start, min(start + size, episode.steps)))
                held += len(waiting[-1].rew)
                if held >= size:
                    yield Batch.cat(waiting)
                    waiting, held = [], 0
        if waiting:
            yield Batch.cat(waiting)

    return Source(
        path=path,
        close=close,
        format="Minari",
        rows=rows,
        read=read,
        attributes={"action_scale": "env", **_task(told)},
        notes=(f"{cut:,} episodes stop without an end: their last rows count as truncated",) if cut else (),
    )


def _read_episode(columns: Mapping[str, Columns], episode: _Episode, start: int, stop: int) -> Batch:
    seen = Batch(obs=read_rows(columns["observations"], start, stop + 1))
    truncated = as_flags(columns["truncations"].read(start, stop), "truncations")
    cut = np.zeros_like(truncated)
    cut[-1] = episode.cut and stop == episode.steps
    return Batch(
        obs=seen[:-1].obs,
        act=read_rows(columns["actions"], start, stop),
        rew=as_rewards(columns["rewards"].read(start, stop), "rewards"),
        terminated=as_flags(columns["terminations"].read(start, stop), "terminations"),
        truncated=truncated | cut,
        cut=cut,
        obs_next=seen[1:].obs,
    )


def _hdf5_columns(group: HDF5Tree, name: str, space: Told) -> Columns:
    """Return an array, or the arrays of a group as a tree; the parts of a Tuple are "0", "1", ..."""
    if group.is_group(name):
        inner = group.group(name)
        parts = {child: child.removeprefix("_index_") for child in inner.names()}
        return {part: _hdf5_columns(inner, child, _part(space, part)) for child, part in parts.items()}
    found = group.lazy(name, ragged=True)
    shape = _shape(space)
    is_packed = found.dtype == np.uint8 and shape is not None and len(found.shape) <= len(shape)  # all of one length
    if found.dtype.kind != "O" and not is_packed:
        return found
    if shape is None:
        raise DataError(f"{name} holds rows of different lengths: JPEGs, if {METADATA} beside it describes them")
    return _pictures(found, shape)


def _read_table(folder: Path, kind: str, fields: Sequence[str]) -> Any:
    """Return the table of an episode, in memory unless it lies in the file as in memory."""
    arrow, files = require("pyarrow", "minari"), list(folder.glob(f"*.{kind}"))
    if len(files) != 1:
        raise DataError(f"{folder} must hold one file *.{kind}; it holds {len(files)}")
    if kind == "arrow":
        with arrow.memory_map(str(files[0])) as file:
            table = arrow.ipc.open_file(file).read_all()
    else:
        parquet = require("pyarrow.parquet", "minari").ParquetFile(files[0])
        groups = [parquet.metadata.row_group(number) for number in range(parquet.metadata.num_row_groups)]
        needed = 8 * sum(group.column(number).num_values for group in groups for number in range(group.num_columns))
        if needed > machine_memory():  # a few bytes can stand for many equal rows
            raise DataError(f"{files[0]} would take {needed:,} bytes, more than this machine has")
        table = parquet.read(list(fields))
    table.validate(full=True)
    return table


def _arrow_columns(array: Any, space: Told, name: str) -> Columns:
    """Return an array, or the arrays of a structure as a tree."""
    types = require("pyarrow", "minari").types
    if types.is_struct(array.type):
        parts = zip(array.type, array.flatten(), strict=True)
        return {
            field.name: _arrow_columns(part, _part(space, field.name), f"{name}.{field.name}") for field, part in parts
        }
    shape = _shape(space)
    if types.is_binary(array.type) and shape is not None:
        packed = np.empty(len(array), object)
        packed[:] = array.to_pylist()
        return _pictures(LazyArray.of(packed), shape)
    values = array.flatten() if types.is_fixed_size_list(array.type) else array
    if array.null_count or values.null_count:
        raise DataError(f"{name} lacks some of its {len(array)} rows, or of their numbers")
    numbers = values.to_numpy(zero_copy_only=False)
    if numbers.dtype.kind not in NUMERIC:
        raise DataError(f"{name} holds {array.type}; only numbers and JPEGs are read")
    if values is not array or shape is not None:
        numbers = numbers.reshape(len(array), *((-1,) if shape is None else shape))
    return LazyArray.of(numbers)


def _first_rows(count: int, column: LazyArray) -> LazyArray:
    return replace(column, shape=(count, *column.shape[1:]))


def _pictures(packed: LazyArray, shape: tuple[int, ...]) -> LazyArray:
    """Return the pictures of JPEGs; one is unpacked at a time, whatever a file says that it holds."""

    def read(start: int, stop: int) -> np.ndarray:
        rows = [_unpacked(bytes(packed.read(row, row + 1)[0]), shape) for row in range(start, stop)]
        return np.array(rows, np.uint8).reshape(stop - start, *shape)

    return LazyArray((len(packed), *shape), np.dtype(np.uint8), read)


def _unpacked(jpeg: bytes, shape: tuple[int, ...]) -> np.ndarray:
    image = require("PIL.Image", "minari")
    try:
        with image.open(io.BytesIO(jpeg), formats=("JPEG",)) as found:
            if (found.height, found.width, *(3,) * (found.mode == "RGB")) != shape:
                raise DataError(
                    f"a picture has {found.height} x {found.width} pixels ({found.mode}), where {METADATA} says {shape}"
                )
            return np.asarray(found)
    except image.DecompressionBombError as error:
        raise DataError(f"a picture is no honest one: {error}") from error


def _told(folder: Path) -> Told:
    """Return the metadata in a folder; {} where there are none."""
    path = folder / METADATA
    try:
        found = json.loads(path.read_bytes()) if path.is_file() and path.stat().st_size <= _METADATA_BYTES else {}
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _spaces(told: Told) -> Told:
    """Return what the metadata say of the spaces."""
    given = {"observations": told.get("observation_space"), "actions": told.get("action_space")}
    return {field: json.loads(space) for field, space in given.items() if isinstance(space, str)}


def _part(space: Told, name: str) -> Told:
    """Return what is said of a part of a space."""
    parts = space.get("subspaces", {})
    found = parts[int(name)] if isinstance(parts, list) else parts.get(name, {})
    return found if isinstance(found, dict) else {}


def _shape(space: Told) -> tuple[int, ...] | None:
    """Return the shape that a space's elements have; None: it is not told."""
    shape = space.get("shape")
    if shape is None and space.get("type") == "MultiDiscrete":
        shape = np.shape(space["nvec"])
    elif shape is None and space.get("type") == "MultiBinary":
        shape = np.atleast_1d(space["n"])
    return None if shape is None else tuple(int(size) for size in shape)


def _task(told: Told) -> dict[str, str]:
    """Return the id of the env, if the data set says so; nothing depends on it."""
    try:
        spec = told["env_spec"]
        name = (json.loads(spec) if isinstance(spec, str) else spec)["id"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}
    return {"task": name} if isinstance(name, str) else {}
