"""Columns elsewhere than in host memory: in memory-mapped files, on torch devices."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch

from argosy.data.buffer.columns import Array, Column, ColumnMaker
from argosy.data.buffer.rings import IntArray, Rings
from argosy.errors import ConfigError, DataError
from argosy.files import make_folder
from argosy.process import usable_device

NOT_ON_DEVICES = frozenset(("uint16", "uint32", "uint64", np.dtype("g").name, np.dtype("G").name))
"""Types of numbers that torch lacks, or lacks assignment by index for: the last two are long doubles."""


def column_maker(device: str | None, storage_dir: str | PathLike[str] | None) -> ColumnMaker:
    """Return what makes the columns of a buffer: in host memory, on a device, or in files."""
    if device is not None and storage_dir is not None:
        raise ConfigError(f"device is {device!r} and storage_dir {str(storage_dir)!r}; choose one of them")
    if device is not None:
        return partial(DeviceColumn, device=usable_device(str(device)))
    if storage_dir is None:
        return Column
    make_folder(Path(storage_dir))
    return partial(MappedColumn, directory=str(storage_dir))


def adopted(column: Column, rings: Rings, rows: Array | int) -> bool:
    """Make a column of rows that are mapped from a file, where they are just what it holds; return whether they are."""
    if type(column) is not Column or not isinstance(rows, np.memmap) or rows.dtype != column.dtype:
        return False
    if rings.total < rings.slots or len(rows) != rings.slots or (rings.head != rings.offset).any():
        return False
    column._hold(np.asarray(rows))
    return True


class MappedColumn(Column):
    """A column in a file without a name in `directory`, for buffers larger than memory: the system pages it.

    The file goes with the column, or with the process, however that ends.
    """

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], slots: int, *, directory: str) -> None:
        self.directory = directory
        super().__init__(name, shape, dtype, slots)

    def _empty(self, slots: int) -> Array:
        size, free = slots * int(np.prod(self.shape)) * self.dtype.itemsize, shutil.disk_usage(self.directory).free
        with tempfile.TemporaryFile(dir=self.directory) as file:
            try:
                if size > free:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                if size and hasattr(
                    os, "posix_fallocate"
                ):  # or a disk that fills up kills the process at a later write
                    os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:
                raise DataError(
                    f"{self.name} needs {size / 2**30:.3g} GiB in {self.directory}, where {free / 2**30:.3g} GiB are "
                    f"free ({error.strerror}); make room, or the buffer smaller"
                ) from error
            return np.asarray(np.memmap(file, self.dtype, "w+", shape=(slots, *self.shape)))


class DeviceColumn(Column):
    """A column in the memory of a torch device; rows are gathered there."""

    def __init__(self, name: str, shape: tuple[int, ...], dtype: np.dtype[Any], slots: int, *, device: str) -> None:
        self.device = torch.device(device)
        if dtype.name in NOT_ON_DEVICES:
            raise DataError(f"{name} has dtype {dtype}, which torch cannot store by index; convert it first")
        super().__init__(name, shape, dtype, slots)

    def _hold(self, data: Array) -> None:
        self.data, self.row_bytes = data, None

    def _empty(self, slots: int) -> Array:
        like = torch.from_numpy(np.empty(0, self.dtype))
        return cast(Array, torch.zeros((slots, *self.shape), dtype=like.dtype, device=self.device))

    def like(self, array: Array) -> Array:
        """Return host data on the device."""
        return cast(Array, torch.from_numpy(np.ascontiguousarray(array)).to(self.device))

    def host(self, rows: Array) -> Array:
        """Return gathered rows in host memory."""
        return cast(torch.Tensor, rows).cpu().numpy()

    def put(self, index: IntArray | slice, value: Array | int) -> None:
        """Write rows."""
        data = cast(torch.Tensor, self.data)
        rows = index if isinstance(index, slice) else cast(torch.Tensor, self.like(index))
        if not isinstance(value, int):
            value = self.like(value.astype(self.dtype, copy=False))
        data[rows] = cast("torch.Tensor | int", value)

    def take(self, index: IntArray) -> Array:
        """Return a copy of the rows at `index`."""
        return self.data[self.like(index)]
