"""Failures of environments: workers survive some of them, and the run's folder says what they were."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future

from argosy.distributed.host.base import Peer, PeerLostError
from argosy.distributed.host.supervisor import Failure
from argosy.errors import EnvError


class Tolerance:
    """Counts the failures of a worker's environments.

    Args:
        allowed: how many may happen.
        setting: what says so, for the error.
    """

    def __init__(self, allowed: int, setting: str) -> None:
        self._allowed, self._setting = allowed, setting
        self.count = 0
        self.last = ""
        """Traceback of the last failure."""

    def note(self, error: Exception) -> None:
        """Count a failure that is being handled.

        Raises:
            EnvError: that has happened too often.
        """
        self.count += 1
        self.last = traceback.format_exc()
        if self.count > self._allowed:
            raise EnvError(
                f"environments failed {self.count} times, more than {self._setting}={self._allowed} allows; the last "
                f"time: {error!r}"
            ) from error


class EnvFailures:
    """The driver's ear: asks workers whose environments failed for the traceback, without waiting.

    Args:
        connect: finds a worker by name.
    """

    def __init__(self, connect: Callable[[str], Peer]) -> None:
        self._connect = connect
        self._counts: dict[str, float] = {}
        self._asked: dict[str, Future[str]] = {}

    def poll(self, workers: Mapping[str, Mapping[str, object]]) -> list[Failure]:
        """Return what is new, the last failure of each worker; `workers` holds what they count."""
        for name, worker in workers.items():
            count = worker.get("env_failures", 0.0)
            if not isinstance(count, float) or count == self._counts.get(name, 0.0):
                continue
            if count > 0 and name not in self._asked:
                self._asked[name] = self._connect(name).call("last_env_failure")
            self._counts[name] = count
        news = []
        for name, asked in list(self._asked.items()):
            if asked.done():
                del self._asked[name]
                try:
                    text = asked.result()
                except PeerLostError:
                    continue
                reason = f"an environment failed, {self._counts[name]:.0f} so far; the worker goes on"
                news.append(Failure(role=name, incarnation=-1, time=time.time(), reason=reason, traceback=text))
        return news
