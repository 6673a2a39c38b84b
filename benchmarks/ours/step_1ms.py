"""8 envs with a busy step of 1 ms, through shared memory, a process per core. Unit: one env step."""

from __future__ import annotations

from busy import Busy
from stepping import Run, in_processes


def prepare(seed: int) -> Run:
    return in_processes(lambda: Busy(1e-3))
