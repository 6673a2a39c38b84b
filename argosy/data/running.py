"""Running statistics: mean and variance of a stream of batches, and of the last few numbers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import torch

from argosy.data.tree import State, host
from argosy.errors import DataError


class RunningMeanStd:
    """Exact mean and population variance of all rows seen so far, in float64, without keeping them.

    Batches are merged with the pairwise formula of Chan, Golub and LeVeque (1979), which loses no digits over long
    streams as running sums of squares would. Before the first row: mean 0, variance 1.

    Args:
        shape: shape of one row; the statistics are per element. None: that of the rows of the first batch.
        clip_max: `norm` clips to [-clip_max, clip_max]; None: no clipping.
        epsilon: added to the variance in `norm`.
    """

    def __init__(
        self, shape: tuple[int, ...] | None = None, *, clip_max: float | None = 10.0, epsilon: float = 1e-8
    ) -> None:
        self.shape = shape
        self.clip_max = clip_max
        self.epsilon = epsilon
        self.frozen = False
        """While True, `update` leaves the statistics as they are (e.g. in test envs)."""
        self.pool: Callable[[np.ndarray], np.ndarray] = np.asarray
        """Sums an array over all processes that share their rows; by itself there is one."""
        self.mean = np.zeros(shape or (), dtype=np.float64)
        self.var = np.ones(shape or (), dtype=np.float64)
        self.count = 0

    @property
    def std(self) -> np.ndarray:
        """Population standard deviation, of `shape`."""
        return np.asarray(np.sqrt(self.var))

    def update(self, rows: np.ndarray) -> None:
        """Take in a batch [..., *shape]; all leading axes count as rows (of a first batch that gives the shape, one).

        Raises:
            DataError: the trailing axes are not `shape`, or a value is NaN or infinite; nothing has changed then.
        """
        if self.frozen:
            return
        rows = np.asarray(rows, dtype=np.float64)
        shape = rows.shape[1:] if self.shape is None else self.shape
        lead = rows.ndim - len(shape)
        if lead < 0 or rows.shape[lead:] != shape:
            raise DataError(f"rows have shape {rows.shape}; their last axes must be {shape}")
        rows = rows.reshape(-1, *shape)
        added = int(self.pool(np.array(len(rows))))
        if added == 0:
            return
        batch_mean = self.pool(rows.sum(axis=0)) / added
        batch_var = self.pool(np.square(rows - batch_mean).sum(axis=0)) / added
        if not np.isfinite(batch_var).all():
            raise DataError("rows hold NaN or infinite values; running statistics take finite numbers only")
        self.shape = shape
        total = self.count + added
        delta = batch_mean - self.mean
        # Before the first row `var` is a placeholder of weight 0.
        squares = self.var * self.count + batch_var * added + delta**2 * (self.count * added / total)
        self.mean = np.asarray(self.mean + delta * (added / total))
        self.var = np.asarray(squares / total)
        self.count = total

    def norm(self, rows: np.ndarray) -> np.ndarray:
        """Return (rows - mean) / std, clipped, as float32 of the same shape [..., *shape]."""
        scaled = (rows - self.mean) / np.sqrt(self.var + self.epsilon)
        if self.clip_max is not None:
            scaled = np.clip(scaled, -self.clip_max, self.clip_max)
        return np.asarray(scaled, dtype=np.float32)

    def state_dict(self) -> State:
        """Return copies of the statistics."""
        return {"mean": self.mean.copy(), "var": self.var.copy(), "count": self.count}

    def load_state_dict(self, state: State) -> None:
        """Continue from saved statistics.

        Raises:
            DataError: they belong to rows of another shape.
        """
        mean = np.array(state["mean"], dtype=np.float64)
        if self.shape is None and int(state["count"]):
            self.shape = mean.shape
        if mean.shape != (self.shape or ()):
            raise DataError(f"saved statistics are of rows of shape {mean.shape}; here rows have shape {self.shape}")
        self.mean = mean
        self.var = np.array(state["var"], dtype=np.float64).reshape(mean.shape)
        self.count = int(state["count"])


class MovAvg:
    """Mean and deviation of the last `size` finite numbers, e.g. of losses to show."""

    def __init__(self, size: int = 100) -> None:
        self._numbers: deque[float] = deque(maxlen=size)

    def add(self, numbers: npt.ArrayLike | torch.Tensor) -> float:
        """Take in a number or several (those that are NaN or infinite are left out); return the mean."""
        values = np.asarray(host(numbers), np.float64)
        self._numbers.extend(values[np.isfinite(values)].ravel().tolist())
        return self.mean()

    def get(self) -> float:
        """Return the mean."""
        return self.mean()

    def mean(self) -> float:
        """Return the mean; 0 before the first number."""
        return float(np.mean(self._numbers)) if self._numbers else 0.0

    def std(self) -> float:
        """Return the population standard deviation; 0 before the first number."""
        return float(np.std(self._numbers)) if self._numbers else 0.0
