"""Whether some runs are better than others, and how sure that is, in words and numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from argosy.errors import ConfigError
from argosy.report.figure import short
from argosy.report.runs import Run, labels
from argosy.report.statistics import FloatArray, Interval, difference, improvement, interval

ENOUGH = 5
"""Seeds with fewer of which an interval by resampling is too narrow to be trusted."""


def by_task(runs: Sequence[Run]) -> dict[str, list[float]]:
    """Return the scores of each task."""
    scores: dict[str, list[float]] = {}
    for run in runs:
        if run.score is not None:
            scores.setdefault(run.task, []).append(run.score)
    return scores


def tables(scores: Sequence[Mapping[str, Sequence[float]]], tasks: Sequence[str]) -> list[FloatArray]:
    """Return each side's scores on these tasks as [runs, tasks], with as many runs as it has of every task.

    Where there are several tasks, 0 is a task's lowest score and 1 its highest, so that they can be averaged.
    """
    rows = [min(len(side[task]) for task in tasks) for side in scores]
    made = [np.array([side[task][:n] for task in tasks]).T for side, n in zip(scores, rows, strict=True)]
    if len(tasks) > 1:
        low, high = (bound([bound(one, axis=0) for one in made], axis=0) for bound in (np.min, np.max))
        made = [(one - low) / np.where(high > low, high - low, 1.0) for one in made]
    return made


def described(found: Interval) -> str:
    """Return a number with its interval."""
    bounds = f"{short(found.low)} to {short(found.high)}" if np.isfinite(found.low) else "needs more seeds"
    return f"{short(found.value)} (95 % interval: {bounds})"


def compare(ours: Sequence[Run], theirs: Sequence[Run]) -> list[str]:
    """Return sentences on whether runs A, `ours`, are better than runs B, `theirs`, on the tasks that both have.

    Raises:
        ConfigError: there is no task of which both have a score.
    """
    a, b = by_task(ours), by_task(theirs)
    tasks = sorted(a.keys() & b.keys())
    if not tasks:
        raise ConfigError(
            f"A has scores of {', '.join(a) or 'no task'}, B of {', '.join(b) or 'no task'}; "
            "give runs of one task at least that both have played"
        )
    said, mixed = list[str](), list[str]()
    for name, runs in (("A", ours), ("B", theirs)):
        said.append(f"{name}: {', '.join(sorted({run.algorithm for run in runs}))}, {len(runs)} runs")
        for task in tasks:
            variants = sorted(set(labels([run for run in runs if run.task == task])))
            if len(variants) > 1:
                said.append(f"{name} mixes on {task}, as if they were one: {'; '.join(variants)}")
                mixed.append(name)
    if alone := sorted(a.keys() ^ b.keys()):
        said.append(f"Left out, only one of them has played it: {', '.join(alone)}")
    said += [f"{task}: A {_side(a[task])}, B {_side(b[task])}" for task in tasks]
    first, second = tables([a, b], tasks)
    apart, chance = difference(first, second), improvement(first, second)
    unit = "" if len(tasks) == 1 else ", each task's scores from 0, the lowest, to 1, the highest"
    said.append(f"Difference of the interquartile means, A - B: {described(apart)}{unit}")
    said.append(f"Probability that a run of A beats one of B: {chance:.2f}")
    seeds = min(len(first), len(second))
    if mixed:
        both = " and ".join(dict.fromkeys(mixed))
        said.append(
            f"No answer: the runs of {both} are not of one algorithm with the same settings; name fewer of them"
        )
    elif seeds < ENOUGH:
        said.append(f"Too few seeds to tell ({len(first)} and {len(second)}): make {ENOUGH} of each at least")
    elif apart.low > 0.0:
        said.append("A is better: the whole interval lies above 0")
    elif apart.high < 0.0:
        said.append("A is worse: the whole interval lies below 0")
    else:
        said.append("Not decided: the interval holds 0; more seeds would make it narrower")
    return said


def _side(scores: Sequence[float]) -> str:
    return f"{described(interval(scores))}, {len(scores)} runs"
