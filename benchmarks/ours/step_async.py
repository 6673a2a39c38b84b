"""8 envs whose steps wait 1 to 20 ms (a simulator elsewhere), asynchronously, as they come. Unit: one env step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from busy import Waiting

from argosy.env import ShmemVectorEnv

NUM_ENVS = 8


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    env = ShmemVectorEnv([lambda i=i: Waiting(seed * NUM_ENVS + i) for i in range(NUM_ENVS)], wait_num=1)
    env.reset()
    env.send(np.ones(NUM_ENVS, np.int64))

    def run(count: int) -> dict[str, int]:
        steps = 0
        while steps < count:
            ids = env.recv().env_id
            env.send(np.ones(len(ids), np.int64), ids)
            steps += len(ids)
        return {"steps": steps}

    return run
