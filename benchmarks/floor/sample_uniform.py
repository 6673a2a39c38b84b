"""Draw 64 complete transitions (reward, discount, weight, true successor) from 20,000 slots. Unit: one sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

SLOTS, BATCH, GAMMA = 20_000, 64, 0.99


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    rng = np.random.default_rng(seed)
    obs = rng.standard_normal((SLOTS, 4), np.float32)
    obs_next = rng.standard_normal((SLOTS, 4), np.float32)
    act = rng.integers(0, 2, SLOTS)
    rew = np.ones(SLOTS, np.float32)
    terminated = np.arange(SLOTS) % 50 == 49
    truncated = np.zeros(SLOTS, bool)

    def sample() -> dict[str, np.ndarray]:
        indices = rng.integers(0, SLOTS, BATCH)
        b_terminated = terminated[indices]
        b_truncated = truncated[indices]
        return {
            "obs": obs[indices],
            "act": act[indices],
            "rew": rew[indices],
            "terminated": b_terminated,
            "truncated": b_truncated,
            "done": b_terminated | b_truncated,
            "obs_next": obs_next[indices],
            "discount": (GAMMA * ~b_terminated).astype(np.float32),
            "weight": np.ones(BATCH, np.float32),
            "indices": indices,
        }

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            batch = sample()
        return {"samples": count} | {name: list(batch[name].shape) for name in sorted(batch)}

    return run
