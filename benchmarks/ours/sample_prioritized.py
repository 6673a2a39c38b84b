"""Prioritised replay: add 8 rows, draw 64 of 20,000 slots by priority, set their priorities. Unit: all three once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from argosy.data import Batch, PrioritizedVectorReplayBuffer, Sampling


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    rng = np.random.default_rng(seed)
    buffer = PrioritizedVectorReplayBuffer(20_000, 8, alpha=0.6, beta=0.4, seed=seed)
    row = Batch(
        obs=rng.standard_normal((8, 4), np.float32),
        act=rng.integers(0, 2, 8),
        rew=np.ones(8, np.float32),
        terminated=np.zeros(8, bool),
        truncated=np.zeros(8, bool),
        obs_next=rng.standard_normal((8, 4), np.float32),
    )
    for _ in range(2_500):
        buffer.add(row)
    priorities = rng.random(64) + 0.1
    sampling = Sampling(gamma=0.99)

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            buffer.add(row)
            batch, indices = buffer.sample(64, sampling)
            buffer.update_weight(indices, priorities)
        return {"rounds": count, "obs": list(batch.obs.shape), "weight": list(batch.weight.shape)}

    return run
