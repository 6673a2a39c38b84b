"""How a fleet is doing: what its workers count, at what rates, who waits for whom, and whether anything moves."""

from __future__ import annotations

import dataclasses
import json
import math
from collections import deque
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from argosy.distributed.workers.evaluation import EvalResult

WINDOW_S = 10.0
"""Rates are of this time: those of a second jump with every rollout that comes in."""
_ROWS = 2000.0
"""In metrics.jsonl before rows become rarer: each one then comes after such a part of the run's time."""
Workers = Mapping[str, Mapping[str, Any]]
_WAITS = {
    "samples": "for its segments to be taken",
    "inference": "for actions",
    "parameters": "for parameters",
}
_MOST = 0.5
"""Share of the time that a worker must have waited, to be said to wait."""


@dataclass(frozen=True, kw_only=True)
class Snapshot:
    """How a fleet is doing."""

    wall_s: float
    """Seconds since this driver started."""
    env_steps: Mapping[str, int]
    """Per learning policy, steps that it has been trained with, by all its trainers together."""
    updates: Mapping[str, int]
    """Per learning policy; trainers of a group make each of them together."""
    gradient_steps: Mapping[str, int]
    steps_per_s: float = 0.0
    """Of all actor workers, over the last seconds (see `Rates`)."""
    updates_per_s: float = 0.0
    """Of all policies, over the last seconds."""
    evaluations: Mapping[str, EvalResult]
    """The newest one of each policy."""
    workers: Mapping[str, Mapping[str, Any]]
    """Per worker: state, restarts, pid, node, and what it counts."""
    stage: str = ""
    """Of the curriculum."""
    done: bool = False
    reason: str = ""
    """Why the fleet is done."""
    before_s: float = 0.0
    """Seconds that earlier drivers of this run have taken."""
    standstill: str = ""
    """That nothing was learned for `trainer.standstill_s`, and who waits for whom, or which worker no node can hold; ""
    while all is well."""

    @property
    def total_wall_s(self) -> float:
        """Seconds that the run has taken, over resumes."""
        return self.before_s + self.wall_s

    def bottleneck(self) -> str:
        """Say who waits for whom, from the times that the workers have spent waiting and working."""
        waits = {
            "actors wait for " + self._busier("trainer", "buffer"): self._share("actor", "wait_samples_s"),
            "actors wait for policy workers": self._share("actor", "wait_inference_s"),
            "actors wait for parameters": self._share("actor", "wait_parameters_s"),
            "trainers wait for " + self._busier("actor", "buffer"): self._share("trainer", "wait_s"),
        }
        worst = max(waits, key=lambda who: waits[who])
        return worst if waits[worst] > 0.2 else "nobody waits"

    def _busier(self, one: str, other: str) -> str:
        """Say which of two kinds of workers is at work for the larger part of its time."""
        waiting = sum(self._share("actor", f"wait_{what}_s") for what in ("samples", "inference", "parameters"))
        busy = {
            "actor": 1.0 - waiting,
            "trainer": self._share("trainer", "update_s"),
            "buffer": self._share("buffer", "process_s"),
        }
        names = {"actor": "actors", "trainer": "trainers", "buffer": "buffer workers"}
        return names[other if busy[other] > busy[one] else one]

    def _share(self, kind: str, counter: str) -> float:
        """Return the part of its time that a worker of this kind has spent on something, on average."""
        spent = [float(worker.get(counter, 0.0)) for name, worker in self.workers.items() if name.split(".")[0] == kind]
        return sum(spent) / max(len(spent), 1) / max(self.wall_s, 1e-9)

    def to_json(self) -> str:
        """Return everything as one line of JSON; NaN is null there."""
        return json.dumps(json.loads(json.dumps(dataclasses.asdict(self)), parse_constant=lambda _: None))


def is_due(snapshot: Snapshot, logged_s: float, tested: Collection[EvalResult]) -> bool:
    """Whether to log a snapshot, after one at `logged_s`: records of days would have a row a second, and be gigabytes.

    The last one is, and one with results that are not among `tested`.
    """
    news = any(result not in tested for result in snapshot.evaluations.values())
    return news or snapshot.done or snapshot.total_wall_s - logged_s >= snapshot.total_wall_s / _ROWS


def logged(snapshot: Snapshot, policies: Collection[str], tested: Collection[EvalResult]) -> dict[str, float]:
    """Return what is logged of a snapshot: of each policy what a local run logs, by the same names, then all counters.

    Args:
        snapshot: how the fleet is doing.
        policies: of the fleet; of several, each one's names begin with its own.
        tested: evaluations that were logged before.
    """
    metrics = {"time/steps_per_s": snapshot.steps_per_s, "time/updates_per_s": snapshot.updates_per_s}
    of = {policy: f"{policy}/" if len(policies) > 1 else "" for policy in policies}
    leaders = {f"trainer.{policy}.0": prefix for policy, prefix in of.items()}
    for name, worker in snapshot.workers.items():
        for key, value in worker.items():
            if name in leaders and key == "return_mean":
                metrics[f"{leaders[name]}episode/{key}"] = value
            elif name in leaders and key.startswith(("loss/", "stat/")):
                metrics[leaders[name] + key] = value
            elif isinstance(value, float) or key == "restarts":
                metrics[f"{name}/{key}"] = value
    for policy, result in snapshot.evaluations.items():
        if result not in tested:
            numbers = dataclasses.asdict(result)
            keys = ("return_mean", "return_std", "length_mean", "version")
            metrics |= {f"{of[policy]}test/{key}": numbers[key] for key in keys}
            metrics[f"{of[policy]}test/count"] = result.episodes
    if len(policies) > 1:
        metrics |= {f"{policy}/env_step": steps for policy, steps in snapshot.env_steps.items()}
    return metrics


class Rates:
    """Steps and updates per second over the last `WINDOW_S` seconds."""

    def __init__(self) -> None:
        self._window: deque[Snapshot] = deque()

    def of(self, now: Snapshot) -> tuple[float, float]:
        """Return both, as of `now`."""
        before = self._window[0] if self._window else None
        passed = max(now.wall_s - (before.wall_s if before is not None else 0.0), 1e-9)
        # Before a resumed trainer has said how far it is, nothing is known of what it has done since
        updates = 0 if before is None else sum(max(0, n - before.updates.get(k, n)) for k, n in now.updates.items())
        steps = 0.0
        for name, worker in now.workers.items():
            if name.startswith("actor."):
                old = {} if before is None else before.workers.get(name, {})
                steps += max(0.0, worker.get("steps", 0.0) - old.get("steps", 0.0))  # restarted, it counts from 0 again
        return steps / passed, updates / passed

    def add(self, snapshot: Snapshot) -> None:
        """Take in a snapshot."""
        self._window.append(snapshot)
        while self._window[0].wall_s < snapshot.wall_s - WINDOW_S:
            self._window.popleft()


class Standstill:
    """Watches the workers' counters.

    Args:
        patience_s: seconds in which no trainer has taken anything in or made an update (in a fleet without trainers:
            nobody has made a step) after which the fleet stands still; None: never.
    """

    def __init__(self, patience_s: float | None) -> None:
        self._patience_s = math.inf if patience_s is None else patience_s
        self._moved: tuple[float, ...] = ()
        self._since = 0.0
        self._then: Workers = {}

    def look(self, workers: Workers, now: float) -> str:
        """Return what is wrong, "" while all is well, by what the workers say of themselves `now` (in seconds)."""
        trainers = [worker for name, worker in workers.items() if name.startswith("trainer.")]
        keys = ("updates", "env_steps") if trainers else ("steps",)
        moved = tuple(float(worker.get(key, 0.0)) for worker in trainers or workers.values() for key in keys)
        if moved != self._moved or not self._then:
            self._moved, self._since, self._then = moved, now, workers
        passed = now - self._since
        if passed < self._patience_s:
            return ""
        said: dict[str, list[str]] = {}
        for name, worker in workers.items():
            what = _does(name, worker, self._then.get(name, {}), passed)
            if what:
                said.setdefault(what, []).append(name)
        reasons = "; ".join(f"{', '.join(names)}: {what}" for what, names in said.items())
        return f"nothing was {'learned' if trainers else 'done'} for {passed:.0f} s ({reasons})"


def _does(name: str, worker: Mapping[str, Any], then: Mapping[str, Any], passed: float) -> str:
    """Say what a worker has done since then; "" where it does not matter."""

    def grown(key: str) -> float:
        return float(worker.get(key, 0.0)) - float(then.get(key, 0.0))

    kind = name.split(".")[0]
    if worker["state"] != "running":
        return "" if worker["state"] == "done" else str(worker["state"])
    if kind == "trainer":
        if grown("dropped") > 0:
            return f"dropped {grown('dropped'):.0f} segments, which lag by more than staleness.max_lag allows"
        waits = grown("wait_s") > _MOST * passed
        return "waits for segments" if waits else "waits for other trainers, or for the parameter server"
    if kind == "actor":
        waited = {what: grown(f"wait_{what}_s") for what in _WAITS}
        longest = max(waited, key=lambda what: waited[what])
        if waited[longest] > _MOST * passed:
            return f"waits {_WAITS[longest]}"
        return f"made {grown('steps'):,.0f} steps" if grown("steps") else "stands in a step of its environments"
    if kind == "policy":
        return f"answered for {grown('rows'):,.0f} rows, {worker.get('queue', 0):.0f} requests wait"
    if kind == "buffer":
        return f"processed {grown('segments'):,.0f} segments, {worker.get('queue', 0):.0f} wait"
    return ""
