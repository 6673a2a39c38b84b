"""One column of a buffer: in host memory, in a memory-mapped file, or on a torch device."""

from __future__ import annotations

import shutil
from pathlib import Path as FilePath
from typing import Any, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import torch

from argosy.data.buffer.rings import IntArray
from argosy.data.tree import fields_of
from argosy.errors import DataError

Array: TypeAlias = npt.NDArray[Any]
"""A column or rows of it. On a device it is a tensor: what is done with it (indexing, | ~ * sum) both can do."""


NOT_ON_DEVICES = frozenset(("uint16", "uint32", "uint64", np.dtype("g").name, np.dtype("G").name))
"""Types of numbers that torch lacks, or lacks assignment by index for: the last two are long doubles."""


def as_array(value: object, name: str) -> Array:
    """Return `value` as a numpy array of numbers or booleans.

    Raises:
        DataError: names the field when it is ragged or holds objects or strings.
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().cpu().numpy()
    if not isinstance(value, np.ndarray):
        if (fields := fields_of(value)) is not None:
            raise DataError(f"{name} has the keys {sorted(fields)}; the buffer stores one array here")
        try:
            value = np.asarray(value)
        except ValueError as error:
            raise DataError(f"{name} is ragged ({error}); every row must have the same shape") from error
    if value.dtype.kind not in "biufc":
        raise DataError(f"{name} has dtype {value.dtype}; a buffer stores numbers and booleans only")
    return value


class Leaf:
    """A contiguous array [slots, *shape] in host memory."""

    rows: npt.NDArray[np.void] | None
    """The column as one item of bytes per row, if that has any: numpy writes those 3x as fast as small arrays."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], slots: int) -> None:
        self.name, self.shape = name, shape
        self.dtype = dtype if dtype.isnative else dtype.newbyteorder("=")  # torch takes no other order of bytes
        self._hold(self._empty(slots))

    def _hold(self, data: Array) -> None:
        """Take a column."""
        self.data = data
        size = int(np.prod(self.shape)) * self.dtype.itemsize
        self.rows = np.ndarray(len(data), np.dtype((np.void, size)), data) if self.shape and size else None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "rows"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._hold(self.data)  # a copy of `rows` would be no view of it

    def _empty(self, slots: int) -> Array:
        try:
            return np.zeros((slots, *self.shape), self.dtype)
        except MemoryError as error:
            size = slots * int(np.prod(self.shape)) * self.dtype.itemsize / 2**30
            raise DataError(
                f"{self.name} needs {size:.1f} GiB for {slots} rows; use storage_dir or a smaller buffer"
            ) from error

    def check(self, value: object, rows: int, lift: bool = False) -> Array:
        """Return `value` as an array [rows, *shape] that can be written; `lift` adds the leading axis.

        Raises:
            DataError: names the field, what came and what the schema asks for.
        """
        array = value if type(value) is np.ndarray and value.dtype is self.dtype else as_array(value, self.name)
        if lift:
            array = array[None]
        if array.shape[1:] != self.shape or len(array) != rows:
            raise DataError(f"{self.name} has shape {array.shape}; the buffer stores {(rows, *self.shape)} here")
        if array.dtype is not self.dtype and not np.can_cast(array.dtype, self.dtype, "same_kind"):
            if self.dtype.kind == "b" and array.dtype.kind in "iu" and np.isin(array, (0, 1)).all():  # as in data sets
                return array.astype(np.bool_)
            raise DataError(f"{self.name} has dtype {array.dtype}; the buffer stores {self.dtype}")
        return array

    def put(self, index: IntArray, value: Array | int) -> None:
        """Write rows."""
        rows = self.rows
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

    def blank(self, rows: Array) -> Array:
        """Return uninitialised memory of the shape of gathered rows."""
        return np.empty_like(rows)

    def host(self, rows: Array) -> Array:
        """Return gathered rows in host memory."""
        return rows


class MappedLeaf(Leaf):
    """A column in a file `directory`/`name`.bin, for buffers larger than memory. The operating system pages it."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], slots: int, *, directory: str) -> None:
        self.directory = directory
        super().__init__(name, shape, dtype, slots)

    def _empty(self, slots: int) -> Array:
        directory = FilePath(self.directory)
        directory.mkdir(parents=True, exist_ok=True)
        size = slots * int(np.prod(self.shape)) * self.dtype.itemsize
        if size > shutil.disk_usage(directory).free:  # a full disk would kill the process at some later write
            raise DataError(f"{self.name} needs {size / 2**30:.1f} GiB in {directory}; there is less free space")
        path = directory / f"{self.name.replace('/', '_')}.bin"
        path.unlink(missing_ok=True)  # a column that grows copies from the old file, which stays open
        return np.asarray(np.memmap(path, self.dtype, "w+", shape=(slots, *self.shape)))


class DeviceLeaf(Leaf):
    """A column in the memory of a torch device; rows are gathered there."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], slots: int, *, device: str) -> None:
        self.device = torch.device(device)
        if dtype.name in NOT_ON_DEVICES:
            raise DataError(f"{name} has dtype {dtype}, which torch cannot store by index; convert it first")
        super().__init__(name, shape, dtype, slots)

    def _hold(self, data: Array) -> None:
        self.data, self.rows = data, None

    def _empty(self, slots: int) -> Array:
        like = torch.from_numpy(np.empty(0, self.dtype))
        return cast(Array, torch.zeros((slots, *self.shape), dtype=like.dtype, device=self.device))

    def like(self, array: Array) -> Array:
        """Return host data on the device."""
        return cast(Array, torch.from_numpy(np.ascontiguousarray(array)).to(self.device))

    def blank(self, rows: Array) -> Array:
        """Return uninitialised memory of the shape of gathered rows."""
        return cast(Array, torch.empty_like(cast(torch.Tensor, rows)))

    def host(self, rows: Array) -> Array:
        """Return gathered rows in host memory."""
        return cast(torch.Tensor, rows).cpu().numpy()

    def put(self, index: IntArray, value: Array | int) -> None:
        """Write rows."""
        data = cast(torch.Tensor, self.data)
        rows = cast(torch.Tensor, self.like(index))
        if not isinstance(value, int):
            value = self.like(value.astype(self.dtype, copy=False))
        data[rows] = cast("torch.Tensor | int", value)

    def take(self, index: IntArray) -> Array:
        """Return a copy of the rows at `index`."""
        return self.data[self.like(index)]
