"""8 envs whose steps wait 1 to 20 ms, all in step: the slowest sets the pace. Unit: one env step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from busy import Waiting

from argosy.env import ShmemVectorEnv

NUM_ENVS = 8


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    env = ShmemVectorEnv([lambda i=i: Waiting(seed * NUM_ENVS + i) for i in range(NUM_ENVS)], envs_per_worker=1)
    env.reset()
    action = np.ones(NUM_ENVS, np.int64)

    def run(count: int) -> dict[str, int]:
        for _ in range(-(-count // NUM_ENVS)):
            env.step(action)
        return {"steps": -(-count // NUM_ENVS) * NUM_ENVS}

    return run
