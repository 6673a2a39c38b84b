"""8 envs with a busy step of 1 ms, through shared memory, a process per core. Unit: one env step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from busy import Busy

from argosy.env import ShmemVectorEnv

NUM_ENVS = 8


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    env = ShmemVectorEnv([lambda: Busy(1e-3)] * NUM_ENVS)
    env.reset()
    action = np.ones(NUM_ENVS, np.int64)

    def run(count: int) -> dict[str, int]:
        for _ in range(-(-count // NUM_ENVS)):
            env.step(action)
        return {"steps": -(-count // NUM_ENVS) * NUM_ENVS}

    return run
