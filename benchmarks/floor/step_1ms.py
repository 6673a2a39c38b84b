"""8 envs with a busy step of 1 ms, stepped one after the other on one core. Unit: one env step."""

from __future__ import annotations

from busy import Busy
from stepping import Run, in_turn


def prepare(seed: int) -> Run:
    return in_turn(lambda: Busy(1e-3))
