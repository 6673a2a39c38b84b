"""Long runs: memory stays flat."""

from __future__ import annotations

import numpy as np
import psutil
import pytest

from argosy.data import Batch, Priority, ReplayBuffer, Sampling, VectorReplayBuffer


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("ignore", [False, True])
def test_two_million_steps_in_8_mb(ignore):
    """Rows of 100 or 60 bytes; short and long episodes, samples of several sizes, resets from outside."""
    envs, per_row = 64, 64 * 4 * (1 if ignore else 2) + 14
    buffer: ReplayBuffer = VectorReplayBuffer(
        8 * 2**20 // per_row, envs, ignore_obs_next=ignore, priority=Priority() if ignore else None, seed=0
    )
    rng = np.random.default_rng(0)
    obs = rng.random((65, envs, 64), dtype=np.float32)
    process = psutil.Process()
    sizes = []
    for step in range(2_000_000 // envs):
        k = step % 64
        buffer.add(
            Batch(
                obs=obs[k],
                act=np.zeros(envs, np.int64),
                rew=np.ones(envs, np.float32),
                terminated=rng.random(envs) < (0.3 if step % 2_000 < 200 else 0.01),
                truncated=np.zeros(envs, bool),
                obs_next=obs[k + 1],
            )
        )
        if step % 50 == 0:
            _, index = buffer.sample(32 + step % 97, Sampling(n_step=1 + step % 5))
            if ignore:
                buffer.update_weight(index, rng.random(len(index)))
        if step % 1_000 == 0:
            buffer.end_episodes()
            sizes.append(process.memory_info().rss)
    settled, end = max(sizes[5:10]), sizes[-1]
    assert end - settled < 4 * 2**20, [size // 2**20 for size in sizes]
