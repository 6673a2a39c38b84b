"""Draw 32 transitions from 20,000 single frames of 84x84, stacked to 4 at sample time. Unit: one sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from argosy.data import Batch, Sampling, VectorReplayBuffer


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    rng = np.random.default_rng(seed)
    buffer = VectorReplayBuffer(20_000, 8, stack_num=4, ignore_obs_next=True, save_only_last_obs=True, seed=seed)
    for t in range(2_500):
        buffer.add(
            Batch(
                obs=rng.integers(0, 256, (8, 4, 84, 84), np.uint8),
                act=rng.integers(0, 6, 8),
                rew=np.ones(8, np.float32),
                terminated=np.full(8, t % 250 == 249),
                truncated=np.zeros(8, bool),
                obs_next=rng.integers(0, 256, (8, 4, 84, 84), np.uint8),
            )
        )
    sampling = Sampling(gamma=0.99)

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            batch, _ = buffer.sample(32, sampling)
        return {"samples": count} | {
            name: list(batch[name].shape) for name in sorted(batch.keys()) if isinstance(batch[name], np.ndarray)
        }

    return run
