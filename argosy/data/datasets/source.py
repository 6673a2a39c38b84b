"""What a file of transitions is to those who read it: parts of it, in order of time, checked as they come."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self, TypeAlias

import numpy as np

from argosy.data import tree
from argosy.data.batch import Batch
from argosy.data.buffer.columns import REQUIRED, as_array
from argosy.data.buffer.replay import ReplayBuffer
from argosy.data.finite import squares
from argosy.data.hdf5 import HDF5Tree, naming_errors
from argosy.data.lazy import PART_BYTES, LazyArray
from argosy.errors import DataError

PART_ROWS = 1 << 14
"""At most as many rows are in memory at a time, beside the bound of `PART_BYTES`: small ones are then looked at and
copied while they lie in the processor's cache."""
_FIRST_ROWS = 64

Columns: TypeAlias = Any  # a lazy array, or nested dicts of them
Progress: TypeAlias = Callable[[int], None]
"""Is told how many rows are done."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """Transitions of a file. Iterating yields parts of it in order of time, as often as one likes.

    A part has obs, act, rew, terminated, truncated and obs_next [n, ...], whose `obs_next` is the true successor
    wherever `terminated` is not set. A row that is neither terminated nor truncated is followed by its successor, in
    this part or the next, unless it is the last one of all. Where `cut` [n] is given and set, a row is truncated for
    no reason of the episode's: only the recording stopped. Where `first` [n] is given, a row that another's end comes
    before, or none at all, begins an episode only if it is set.
    """

    path: str
    format: str
    """What kind of file it is, in a word or two."""
    rows: int
    """Transitions."""
    read: Callable[[int], Iterator[Batch]]
    """Yields parts of about so many rows."""
    whole: Callable[[], ReplayBuffer] | None = None
    """Makes the buffer of a buffer's file; None: it is filled part by part."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Of the buffer that holds them, see `ReplayBuffer.options`."""
    attributes: Mapping[str, Any] = field(default_factory=dict)
    """What the file says about its data; `action_scale` is "env" where actions are in the env's scale."""
    notes: tuple[str, ...] = ()
    """What had to be mended, in sentences."""

    close: Callable[[], None] = lambda: None
    """Gives the file back; `with` does."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def parts(self, progress: Progress | None = None, *, finite: bool = True) -> Iterator[Batch]:
        """Yield the parts, checked: fields, shapes and types are those of the first row, in every row.

        NaN and infinite numbers are refused where they are to be `finite`.

        Raises:
            DataError: the file is damaged, or holds what cannot be stored; names the field and the row.
        """
        done, form, size = 0, None, 0
        with naming_errors(self.path):
            for part in self.read(_FIRST_ROWS):  # they say how large rows are
                if size := tree.size_bytes(part) // max(len(part.rew), 1):  # or else all were left out
                    break
            for part in self.read(max(1, min(PART_ROWS, PART_BYTES // max(size, 1)))):
                form = _check(part, form, done, finite)
                done += len(part.rew)
                yield part
                if progress is not None:
                    progress(done)
            if done != self.rows:
                raise DataError(f"it holds {done} transitions, where {self.rows} were announced")

    def load(self, progress: Progress | None = None) -> ReplayBuffer:
        """Return a full buffer of the transitions.

        Raises:
            DataError: see `parts`; or there are none.
        """
        if self.rows == 0:
            raise DataError("; ".join((f"{self.path} holds no transitions", *self.notes)))
        with naming_errors(self.path):
            if self.whole is not None:
                buffer = self.whole()
                _check_numbers(buffer)
                return buffer
            buffer = ReplayBuffer(self.rows, **self.options)
            for part in self.parts(progress):
                if len(part.rew):  # else all of it was left out
                    first, cut = part.pop("first", True), part.pop("cut", None)  # of its rows, no fields of the buffer
                    buffer.rings.first[buffer.add_steps(part, len(part.rew), cut)[:, 0]] &= first
        return buffer


def _check(part: Batch, form: dict[str, Any] | None, done: int, finite: bool) -> dict[str, Any]:
    """Return the form of a part: shape and dtype of every array, which all parts have in common."""
    found = {}
    for name in REQUIRED:
        for path, leaf in tree.leaves(part[name], name):
            array = as_array(leaf, path)
            found[path] = (array.shape[1:], array.dtype)
            if len(array) != len(part.rew):
                raise DataError(f"{path} has {len(array)} rows where rew has {len(part.rew)}")
            if finite:
                _check_finite(array, path, done)
    for name in ("obs", "obs_next"):
        if not any(path.split(".")[0] == name for path in found):
            raise DataError(f"{name} holds no arrays")
    for path, (shape, dtype) in found.items():
        if path.split(".")[0] != "obs":
            continue
        after = path.replace("obs", "obs_next", 1)
        if found.get(after, (None,))[0] != shape:
            said = _shapes(found, "obs"), _shapes(found, "obs_next")
            raise DataError(f"obs has rows of {said[0]}, but obs_next, which must be such, has {said[1]}")
        if not is_same_kind(found[after][1], dtype):
            raise DataError(f"{path} holds {dtype}, but {after}, which must hold the same, holds {found[after][1]}")
    if form is not None and form != found:
        wrong = next(path for path in {**form, **found} if form.get(path) != found.get(path))
        raise DataError(
            f"{wrong} has the shape and type {found.get(wrong)} in row {done}, and {form.get(wrong)} in the rows before"
        )
    return found


def is_same_kind(one: np.dtype[Any], other: np.dtype[Any]) -> bool:
    """Say whether two types differ in size at most, or integers in their sign."""
    return one.kind == other.kind or (one.kind in "iu" and other.kind in "iu")


def _shapes(found: Mapping[str, Any], name: str) -> str:
    parts = {path: shape for path, (shape, _) in found.items() if path.split(".")[0] == name}
    return ", ".join(f"{path} {shape}" for path, shape in parts.items())


def _check_finite(array: np.ndarray, name: str, first_row: int) -> None:
    if array.dtype.kind != "f":
        return
    with np.errstate(all="ignore"):
        total = squares(array)
    if not math.isfinite(total) and not np.isfinite(array).all():
        row = first_row + int(np.argwhere(~np.isfinite(array))[0][0])
        raise DataError(f"{name} holds NaN or infinite numbers, the first in row {row}")


def _check_numbers(buffer: ReplayBuffer) -> None:
    """Check that no column of a buffer holds numbers that are none; a part of it is looked at at a time."""
    for name in REQUIRED:
        for key, column in buffer.fields[name].columns.items():
            for start in range(0, len(column.data), PART_ROWS):
                _check_finite(column.data[start : start + PART_ROWS], ".".join((name, *key)), start)


def as_flags(value: np.ndarray, name: str) -> np.ndarray:
    """Return [n] bool of what stands for booleans in files, flags or numbers 0 and 1, or raise DataError."""
    flat = value.reshape(len(value)) if value.ndim == 2 and value.shape[1] == 1 else value
    if flat.dtype == np.bool_ and flat.ndim == 1:
        return flat
    if flat.ndim != 1 or flat.dtype.kind not in "iuf" or not np.isin(flat, (0, 1)).all():
        raise DataError(f"{name} has shape {value.shape} and type {value.dtype}; it must hold a flag (0 or 1) per row")
    return flat.astype(np.bool_)


def as_rewards(value: np.ndarray, name: str) -> np.ndarray:
    """Return [n] float32, or raise DataError."""
    flat = value.reshape(len(value)) if value.ndim == 2 and value.shape[1] == 1 else value
    if flat.ndim != 1 or flat.dtype.kind not in "biuf":
        raise DataError(f"{name} has shape {value.shape} and type {value.dtype}; it must hold a number per row")
    return flat.astype(np.float32)


def lazy_columns(group: HDF5Tree, name: str) -> Columns:
    """Return an array, or the arrays of a group as a tree."""
    if not group.is_group(name):
        return group.lazy(name)
    inner = group.group(name)
    return {child: lazy_columns(inner, child) for child in inner.names()}


def read_rows(columns: Columns, start: int, stop: int) -> Any:
    """Return the rows start .. stop - 1 of lazy arrays as a tree of arrays, in this machine's order of bytes."""
    rows = tree.map_leaves(lambda column: column.read(start, stop), columns)
    return tree.map_leaves(lambda array: array.astype(array.dtype.newbyteorder("="), copy=False), rows)


def read_steps(columns: Columns, start: int, stop: int, rows: int) -> tuple[Any, Any]:
    """Return the rows start .. stop - 1 of lazy arrays, and those that follow them; the last of all follows itself."""
    seen = Batch(rows=read_rows(columns, start, min(stop + 1, rows)))
    following = seen[1:] if stop < rows else Batch.cat([seen[1:], seen[-1:]])
    return seen[: stop - start].rows, following.rows


class Ends(NamedTuple):
    """How episodes end in n rows of which the successors are not known but from the rows that follow them."""

    known: np.ndarray
    """[n] Whether what came after a row is known: the others are left out, and the rows before them are last ones."""
    truncated: np.ndarray
    cut: np.ndarray

    def put_into(self, part: Batch, start: int) -> Batch:
        """Return the rows from `start` on of which the successors are known, with the ends of episodes as they are."""
        here = slice(start, start + len(part.rew))
        part.truncated, part.cut = self.truncated[here], self.cut[here]
        return part if self.known[here].all() else part[self.known[here]]

    def notes(self, name: str) -> tuple[str, ...]:
        """Say, where it is so, that rows are left out as the file lacks the array `name`."""
        left_out = int((~self.known).sum())
        lacks = f"rows at which an episode was cut are left out: it has no {name!r}"
        return (f"{left_out:,} {lacks}",) if left_out else ()


def known_ends(terminated: np.ndarray, truncated: np.ndarray, last: np.ndarray) -> Ends:
    """Find the rows whose successors are not known, of flags [n]; `last` are those that the next row does not follow.

    Nobody knows what came after the row at which the recording of an episode stops, but the row before it is one whose
    successor is known.
    """
    unknown = last & ~terminated
    before = np.append(unknown[1:], False) & ~last
    return Ends(~unknown, before, before & ~np.append(truncated[1:], False))


def check_lengths(columns: Columns, rows: int, name: str) -> None:
    """Raise DataError unless all arrays of a tree have so many rows; it names one that has not."""
    for path, column in tree.leaves(columns, name):
        assert isinstance(column, LazyArray)
        if len(column.shape) == 0 or column.shape[0] != rows:
            raise DataError(f"{path} has shape {column.shape}; the file has {rows} rows")
