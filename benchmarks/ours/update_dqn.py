"""DQN updates from a buffer of 20,000 slots: batch 64, MLP 128x2, double Q, hard target every 500 updates.

Unit: one update, its sample included.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from filled import filled_buffer
from gymnasium import spaces

from argosy.algorithm import DQN, DQNConfig, Task
from argosy.net import NetConfig


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    buffer = filled_buffer(seed)
    task = Task(
        observation_space=spaces.Box(-10, 10, (4,)),
        action_space=spaces.Discrete(2),
        net=NetConfig(hidden_sizes=(128, 128)),
    )
    algorithm = DQN.make(DQNConfig(loss="mse"), task, seed)
    sampling = algorithm.sampling

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            stats = algorithm.update(buffer.sample(64, sampling)[0])
        parameters = sum(p.numel() for p in algorithm.policy.parameters())
        return {"updates": count, "finite": math.isfinite(stats.loss), "parameters": parameters}

    return run
