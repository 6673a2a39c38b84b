"""Notice that a fleet learns nothing any more, and say who waits for whom."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

Workers = Mapping[str, Mapping[str, Any]]

_WAITS = {
    "samples": "for its segments to be taken",
    "inference": "for actions",
    "parameters": "for parameters",
}
_MOST = 0.5
"""Share of the time that a worker must have waited, to be said to wait."""


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
        """Return what is wrong, "" while all is well.

        Args:
            workers: what they say of themselves.
            now: seconds.
        """
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
