"""Draw 256 complete transitions with hindsight goals ('future', 8 of 9) from 20,000 slots. Unit: one sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from argosy.data import Batch, HERVectorReplayBuffer, Sampling


def reached(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    return -(np.linalg.norm(achieved - desired, axis=-1) > 0.05).astype(np.float32)


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    rng = np.random.default_rng(seed)
    buffer = HERVectorReplayBuffer(20_000, 8, compute_reward_fn=reached, horizon=50, future_k=8.0, seed=seed)

    def obs() -> Batch:
        return Batch(
            observation=rng.standard_normal((8, 10), np.float32),
            achieved_goal=rng.standard_normal((8, 3), np.float32),
            desired_goal=rng.standard_normal((8, 3), np.float32),
        )

    for t in range(2_500):
        buffer.add(
            Batch(
                obs=obs(),
                act=rng.standard_normal((8, 4), np.float32),
                rew=-np.ones(8, np.float32),
                terminated=np.zeros(8, bool),
                truncated=np.full(8, t % 50 == 49),
                obs_next=obs(),
            )
        )
    sampling = Sampling(gamma=0.98)

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            batch, _ = buffer.sample(256, sampling)
        return {"samples": count, "goals": list(batch.obs.desired_goal.shape)}

    return run
