"""Large arrays that are read part by part, so that saving them needs no second copy in memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True, eq=False)
class LazyArray:
    """An array [n, ...] of which `read(start, stop)` returns rows."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    read: Callable[[int, int], np.ndarray]

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """Read all of it: numpy functions take a lazy array as the array that it stands for."""
        return np.asarray(self.read(0, self.shape[0]), dtype=dtype)
