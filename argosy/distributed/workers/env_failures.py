"""Failures of environments: workers survive some of them, and the run's folder says what they were."""

from __future__ import annotations

import traceback

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
