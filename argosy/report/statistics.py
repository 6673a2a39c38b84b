"""Averages over runs and tasks with intervals (Agarwal et al., 2021, https://arxiv.org/abs/2108.13264).

A score is one number per run and task, e.g. the final return, normalised where tasks are averaged. Runs of one task are
independent draws, tasks are fixed: resampling takes runs within each task. Needs scipy (the extra `report`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from argosy.errors import DataError, require

FloatArray = npt.NDArray[np.float64]
Statistic = Callable[..., FloatArray]


class Interval(NamedTuple):
    """A statistic and the bounds within which it lies with a given confidence."""

    value: float
    low: float
    high: float


def iqm(scores: FloatArray) -> FloatArray:
    """Interquartile mean [...] of scores [..., n]: the mean of those between the lowest and the highest quarter.

    Less noisy than the median, less led by single runs than the mean.
    """
    count = np.shape(scores)[-1]
    cut = count // 4
    return np.asarray(np.sort(scores, axis=-1)[..., cut : count - cut].mean(axis=-1))


def interval(scores: npt.ArrayLike, *, resamples: int = 2000, seed: int = 0) -> Interval:
    """Return the interquartile mean of scores [runs, tasks] (or [runs], of one task) with its bootstrapped interval.

    Percentiles of the mean over resamples of the runs within each task; 95 % of such intervals hold the true value.

    Args:
        scores: all finite.
        resamples: draws, of which the interval is made.
        seed: of the draws.

    Raises:
        DataError: there is no score, or one is not finite.
        MissingExtraError: scipy is not installed.
    """
    table = _table(scores)

    def of_tasks(*tasks: FloatArray) -> FloatArray:
        return iqm(np.concatenate(tasks, axis=-1))

    low, high = _bounds(tuple(table.T), of_tasks, resamples, seed)
    return Interval(float(iqm(table.ravel())), float(low), float(high))


def band(curves: npt.ArrayLike) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return the interquartile mean [points] over the runs of curves [runs, points], and its bounds at each point."""
    table = _table(curves)
    return iqm(table.T), *_bounds((table.T,), iqm, 500, 0)


def difference(scores: npt.ArrayLike, others: npt.ArrayLike) -> Interval:
    """Return by how much the interquartile mean of `scores` [runs, tasks] is above that of `others` [runs', tasks].

    Raises:
        DataError: they are of different numbers of tasks.
    """
    ours, theirs = _pair(scores, others)
    tasks = ours.shape[1]

    def apart(*columns: FloatArray) -> FloatArray:
        return iqm(np.concatenate(columns[:tasks], axis=-1)) - iqm(np.concatenate(columns[tasks:], axis=-1))

    samples = (*ours.T, *theirs.T)
    low, high = _bounds(samples, apart, 2000, 0)
    return Interval(float(apart(*samples)), float(low), float(high))


def profile(scores: npt.ArrayLike, thresholds: npt.ArrayLike) -> FloatArray:
    """Return the share of runs [len(thresholds)], mean over tasks, whose score [runs, tasks] exceeds each threshold."""
    above = _table(scores)[..., None] > np.asarray(thresholds, np.float64)
    return np.asarray(above.mean(axis=(0, 1)))


def improvement(scores: npt.ArrayLike, others: npt.ArrayLike) -> float:
    """Return the probability that a run of `scores` [runs, tasks] beats one of `others` [runs', tasks] on some task.

    Ties count half (Mann-Whitney's U over the number of pairs).

    Raises:
        DataError: they are of different numbers of tasks.
    """
    ours, theirs = _pair(scores, others)
    ahead = np.sign(ours[:, None] - theirs[None])  # 1 wins, 0 ties, -1 loses
    return float((ahead.mean() + 1.0) / 2.0)


def _bounds(
    samples: tuple[FloatArray, ...], statistic: Statistic, resamples: int, seed: int
) -> tuple[FloatArray, FloatArray]:
    """Return the bounds [...] of a statistic of samples [..., runs], which are independent of one another."""
    if min(sample.shape[-1] for sample in samples) == 1:  # one run says nothing about others
        nothing = np.full(samples[0].shape[:-1], np.nan)
        return nothing, nothing
    found = require("scipy.stats", "report").bootstrap(
        samples,
        lambda *drawn, axis: statistic(*drawn),
        n_resamples=resamples,
        confidence_level=0.95,
        method="percentile",
        rng=np.random.default_rng(seed),
        vectorized=True,
        axis=-1,
    )
    return np.asarray(found.confidence_interval.low), np.asarray(found.confidence_interval.high)


def _pair(scores: npt.ArrayLike, others: npt.ArrayLike) -> tuple[FloatArray, FloatArray]:
    ours, theirs = _table(scores), _table(others)
    if ours.shape[1] != theirs.shape[1]:
        raise DataError(f"scores of {ours.shape[1]} and of {theirs.shape[1]} tasks cannot be compared")
    return ours, theirs


def _table(scores: npt.ArrayLike) -> FloatArray:
    """Return scores as [runs, tasks]."""
    table = np.asarray(scores, np.float64)
    table = table[:, None] if table.ndim == 1 else table
    if table.ndim != 2 or table.size == 0:
        raise DataError(f"scores have shape {np.shape(scores)}; they must be [runs] or [runs, tasks], at least one")
    if not np.isfinite(table).all():
        raise DataError(f"a score is not finite: {table[~np.isfinite(table)][0]}")
    return table
