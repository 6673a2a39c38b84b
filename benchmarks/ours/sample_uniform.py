"""Draw 64 complete transitions (reward, discount, weight, true successor) from 20,000 slots. Unit: one sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from argosy.data import Batch, Sampling, VectorReplayBuffer


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
    sampling = Sampling(gamma=0.99)

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            batch, _ = buffer.sample(64, sampling)
        return {"samples": count} | {
            name: list(batch[name].shape) for name in sorted(batch.keys()) if isinstance(batch[name], np.ndarray)
        }

    return run
