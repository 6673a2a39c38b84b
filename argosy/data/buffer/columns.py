"""Columns of a buffer: arrays of rows, alone or in trees, checked before they are written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from argosy.data.buffer.rings import IntArray
from argosy.data.protocols import TransitionLike
from argosy.data.tree import NUMERIC, Fields, Path, State, fields_of, flatten, host, map_leaves, unflatten
from argosy.errors import DataError

REQUIRED = ("obs", "act", "rew", "terminated", "truncated", "obs_next")
OPTIONAL = ("info", "policy")
DTYPES = {"rew": np.dtype(np.float32), "terminated": np.dtype(np.bool_), "truncated": np.dtype(np.bool_)}
"""Of fields whose numbers may come in other types."""

Array: TypeAlias = npt.NDArray[Any]
"""A column or rows of it. On a device it is a tensor: what is done with it (indexing, | ~ * sum) both can do."""
Tree: TypeAlias = "Array | dict[str, Tree]"
Writes: TypeAlias = "list[tuple[Column, Array | int]]"
"""Checked writes: a column and its new rows (0: fill)."""
ColumnMaker: TypeAlias = "Callable[[str, tuple[int, ...], np.dtype[Any], int], Column]"


def as_array(value: object, name: str) -> Array:
    """Return `value` as a numpy array of numbers or booleans; a DataError names the field that is none."""
    value = host(value)
    if not isinstance(value, np.ndarray):
        if (fields := fields_of(value)) is not None:
            raise DataError(f"{name} has the keys {sorted(fields)}; the buffer stores one array here")
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise DataError(f"{name} is ragged ({error}); every row must have the same shape") from error
    if value.dtype.kind not in NUMERIC:
        raise DataError(
            f"{name} has dtype {value.dtype}; a buffer stores numbers and booleans only: let a wrapper of the env make"
            " arrays of one shape of it (of a graph: its features and edges, filled up to the largest)"
        )
    return value


_REQUIRED = frozenset(REQUIRED)


def given_fields(batch: TransitionLike | Fields, ignore_obs_next: bool) -> Fields:
    """Return the fields of new rows; `obs` stands for an `obs_next` that may be left out."""
    given = fields_of(batch)
    if given is None:
        given = vars(batch)
    if not given.keys() >= _REQUIRED:
        if ignore_obs_next and "obs" in given:
            given = {**given, "obs_next": given["obs"]}
        if missing := [name for name in REQUIRED if name not in given]:
            raise DataError(f"the batch has no field {missing[0]!r}; add() needs {', '.join(REQUIRED)}")
    return given


def info_columns(info: Any, keys: Sequence[str]) -> dict[str, object]:
    """Return the asked columns of `info`: a dict of arrays, or one dict per row; rows without a key hold zeros."""
    if info is None or not keys:
        return {}
    fields = fields_of(info)
    if fields is not None:
        return {key: fields[key] for key in keys if key in fields}
    columns: dict[str, object] = {}
    for key in keys:
        present = [row[key] for row in info if key in row]
        if present:
            blank = np.zeros_like(as_array(present[0], f"info.{key}"))
            columns[key] = [row.get(key, blank) for row in info]
    return columns


def last_frame(obs: Any, lift: bool) -> Any:
    """Return the newest frame of stacked observations [B, stack, ...] (`lift`: without B)."""
    return map_leaves(lambda leaf: leaf[-1] if lift else leaf[:, -1], obs)


class Column:
    """A contiguous array [slots, *shape] in host memory."""

    row_bytes: npt.NDArray[np.void] | None
    """The column as one item of bytes per row, if that has any: numpy writes those 3x as fast as small arrays."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], slots: int) -> None:
        self.name, self.shape = name, shape
        self.dtype = dtype if dtype.isnative else dtype.newbyteorder("=")  # torch takes no other order of bytes
        self._hold(self._empty(slots))

    def _hold(self, data: Array) -> None:
        """Take an array as the column."""
        self.data = data
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        self.row_bytes = np.ndarray(len(data), np.dtype((np.void, size)), data) if self.shape and size else None

    def __getstate__(self) -> State:
        return {name: value for name, value in vars(self).items() if name != "row_bytes"}

    def __setstate__(self, state: State) -> None:
        vars(self).update(state)
        self._hold(self.data)  # a copy of `row_bytes` would be no view of it

    def _empty(self, slots: int) -> Array:
        """Return memory for `slots` rows, all zero."""
        try:
            return np.zeros((slots, *self.shape), self.dtype)
        except MemoryError as error:
            size = slots * int(np.prod(self.shape)) * self.dtype.itemsize / 2**30
            raise DataError(
                f"{self.name} needs {size:.1f} GiB for {slots} rows; use storage_dir or a smaller buffer"
            ) from error

    def check(self, value: object, rows: int, lift: bool = False) -> Array:
        """Return `value` as an array [rows, *shape] that can be written; `lift` adds the leading axis."""
        if type(value) is np.ndarray and value.dtype is self.dtype and value.shape == (rows, *self.shape) and not lift:
            return value
        array = as_array(value, self.name)
        if lift:
            array = array[None]
        if array.shape[1:] != self.shape or len(array) != rows:
            raise DataError(f"{self.name} has shape {array.shape}; the buffer stores {(rows, *self.shape)} here")
        if array.dtype is not self.dtype and not np.can_cast(array.dtype, self.dtype, "same_kind"):
            if self.dtype.kind == "b" and array.dtype.kind in "iu" and np.isin(array, (0, 1)).all():  # as in data sets
                return array.astype(np.bool_)
            raise DataError(f"{self.name} has dtype {array.dtype}; the buffer stores {self.dtype}")
        narrows = self.dtype.kind in "iu" and not np.can_cast(array.dtype, self.dtype)
        if narrows and (lost := array != array.astype(self.dtype)).any():
            raise DataError(f"{self.name} holds {array[lost][0]}, beyond what the buffer's {self.dtype} can hold")
        return array

    def put(self, index: IntArray | slice, value: Array | int) -> None:
        """Write rows."""
        rows = self.row_bytes
        if rows is not None and type(value) is np.ndarray and value.dtype is self.dtype and value.flags.c_contiguous:
            rows[index] = np.ndarray(len(value), rows.dtype, value)
        else:
            self.data[index] = value

    def take(self, index: IntArray) -> Array:
        """Return a copy of the rows at `index` of any shape: [*index.shape, *shape]."""
        return self.data.take(index, axis=0) if self.shape else self.data[index]

    def grow(self, slots: int) -> None:
        """Append zero rows."""
        data = self._empty(slots)
        data[: len(self.data)] = self.data
        self._hold(data)

    def like(self, array: Array) -> Array:
        """Return small host data where this column is, to compute with its rows."""
        return array

    def host(self, rows: Array) -> Array:
        """Return gathered rows in host memory."""
        return rows


class Field:
    """One field of the transitions: a column, or a fixed tree of columns.

    An `optional` field may be absent or miss columns at any time: they are added when they first come, and rows
    without them hold zero.
    """

    def __init__(self, name: str, slots: int, make_column: ColumnMaker, optional: bool = False) -> None:
        self.name, self.slots, self.make_column, self.optional = name, slots, make_column, optional
        self.columns: dict[Path, Column] = {}
        self.single: Column | None = None
        """The column, where the field is one array."""

    def declare(self, key: Path, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
        """Allocate one column."""
        column = self.columns[key] = self.make_column(".".join((self.name, *key)), shape, dtype, self.slots)
        if key == ():
            self.single = column

    def declare_like(self, value: object, lift: bool, dtype: np.dtype[Any] | None = None) -> None:
        """Allocate what the first rows need (`lift`: a single one), in the `dtype` given or their own."""
        flat = flatten(value)
        if not flat:
            raise DataError(f"{self.name} is missing or empty; a buffer needs it in every row")
        for key, item in flat.items():
            if key in self.columns:
                continue
            array = as_array(item, ".".join((self.name, *key)))
            if array.ndim == 0 and not lift:
                raise DataError(f"{'.'.join((self.name, *key))} is a single number; it must have one row per env")
            self.declare(key, array.shape if lift else array.shape[1:], dtype or array.dtype)

    def check(self, value: object, rows: int, lift: bool, writes: Writes) -> None:
        """Append to `writes` what has to be written; raises DataError before anything is."""
        if self.single is not None and not self.optional:
            writes.append((self.single, self.single.check(value, rows, lift)))
            return
        flat = flatten(value)
        if not self.optional and flat.keys() != self.columns.keys():
            known, came = sorted(map(".".join, self.columns)), sorted(map(".".join, flat))
            raise DataError(f"{self.name} has the keys {came}; the buffer stores {known}")
        if flat.keys() - self.columns.keys():
            self.declare_like(value, lift)
        for key, column in self.columns.items():
            writes.append((column, column.check(flat[key], rows, lift) if key in flat else 0))

    def take(self, index: IntArray) -> Tree:
        """Gather the rows at `index`."""
        if self.single is not None:
            return self.single.take(index)
        return unflatten({key: column.take(index) for key, column in self.columns.items()}) if self.columns else {}
