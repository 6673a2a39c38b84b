"""How the rows on vector environments step 8 envs: in worker processes, or one after the other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from busy import Busy

NUM_ENVS = 8
Run = Callable[[int], dict[str, int]]


def in_processes(make_env: Callable[[], Busy]) -> Run:
    """Step through shared memory, with a process per core."""
    from argosy.env import ShmemVectorEnv

    env = ShmemVectorEnv([make_env] * NUM_ENVS)
    env.reset()
    action = np.ones(NUM_ENVS, np.int64)
    return _rounds(lambda: env.step(action))


def in_turn(make_env: Callable[[], Busy]) -> Run:
    """Step on one core, and do nothing with what comes back."""
    envs = [make_env() for _ in range(NUM_ENVS)]
    for env in envs:
        env.reset()

    def step_all() -> None:
        for env in envs:
            env.step(1)

    return _rounds(step_all)


def _rounds(step_all: Callable[[], object]) -> Run:
    def run(count: int) -> dict[str, int]:
        for _ in range(-(-count // NUM_ENVS)):
            step_all()
        return {"steps": -(-count // NUM_ENVS) * NUM_ENVS}

    return run
