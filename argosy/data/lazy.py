"""Large arrays that are read part by part, so that saving them needs no second copy in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

PART_BYTES = 1 << 24
"""About as many bytes of an array are in memory at a time."""


@dataclass(frozen=True, eq=False)
class LazyArray:
    """An array [n, ...] of which `read(start, stop)` returns rows."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int], np.ndarray]

    @classmethod
    def of(cls, array: np.ndarray) -> Self:
        """Return an array in memory as a lazy one."""
        return cls(array.shape, array.dtype, lambda start, stop: array[start:stop])

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __len__(self) -> int:
        return self.shape[0]

    def parts(self) -> Iterator[tuple[int, int]]:
        """Yield (start, stop) of parts that are read at a time."""
        rows = max(1, PART_BYTES // max(self.nbytes // max(len(self), 1), 1))
        for start in range(0, len(self), rows):
            yield start, min(start + rows, len(self))

    def picked(self, index: np.ndarray) -> LazyArray:
        """Return the rows `index` [n] as a lazy array; runs of rows that follow each other are read at once."""

        def read(start: int, stop: int) -> np.ndarray:
            rows = index[start:stop]
            runs = np.split(rows, np.flatnonzero(np.diff(rows) != 1) + 1)
            found = [self.read(int(run[0]), int(run[-1]) + 1) for run in runs if len(run)]
            return np.concatenate(found) if found else self.read(0, 0)

        return LazyArray((len(index), *self.shape[1:]), self.dtype, read)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Read all of it: numpy functions take a lazy array as the array that it stands for."""
        return np.asarray(self.read(0, self.shape[0]), dtype=dtype)
