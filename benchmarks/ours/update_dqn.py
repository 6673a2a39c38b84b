"""DQN updates from a buffer of 20,000 slots: batch 64, MLP 128x2, double Q, hard target every 500 updates.

Unit: one update, its sample included.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from gymnasium import spaces

from argosy.algorithm.dqn import DQN, DQNConfig
from argosy.data import Batch, VectorReplayBuffer
from argosy.net import NetConfig


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    rng = np.random.default_rng(seed)
    buffer = VectorReplayBuffer(20_000, 8, seed=seed)
    for t in range(2_500):
        buffer.add(
            Batch(
                obs=rng.standard_normal((8, 4), np.float32),
                act=rng.integers(0, 2, 8),
                rew=np.ones(8, np.float32),
                terminated=np.full(8, t % 50 == 49),
                truncated=np.zeros(8, bool),
                obs_next=rng.standard_normal((8, 4), np.float32),
            )
        )
    algorithm = DQN.from_spaces(
        DQNConfig(loss="mse"),
        spaces.Box(-10, 10, (4,)),
        spaces.Discrete(2),
        NetConfig(hidden_sizes=(128, 128)),
        seed=seed,
    )
    sampling = algorithm.sampling

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            stats = algorithm.update(buffer.sample(64, sampling)[0])
        parameters = sum(p.numel() for p in algorithm.policy.parameters())
        return {"updates": count, "finite": math.isfinite(stats.loss), "parameters": parameters}

    return run
