"""Draw 32 transitions from 20,000 single frames of 84x84, stacked to 4 at sample time. Unit: one sample.

The successor's stack is the frames one slot later, except where the episode ends: there the last frame comes from a
side table. The stacks have three of their four frames in common, so one gather of five brings both, as views of one
block.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

NUM_ENVS, SLOTS, BATCH, STACK, GAMMA, EPISODE = 8, 2_500, 32, 4, 0.99, 250


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    rng = np.random.default_rng(seed)
    total = NUM_ENVS * SLOTS
    frames = rng.integers(0, 256, (total, 84, 84), np.uint8)
    act = rng.integers(0, 6, total)
    rew = np.ones(total, np.float32)
    terminated = np.arange(total) % EPISODE == EPISODE - 1
    truncated = np.zeros(total, bool)
    start = np.arange(total) // EPISODE * EPISODE  # slot of the episode's first frame
    last = {int(slot): rng.integers(0, 256, (84, 84), np.uint8) for slot in np.flatnonzero(terminated)}
    back = np.arange(STACK - 1, -2, -1)  # 3, 2, 1, 0, -1: the oldest frame ... this one, the next one

    def sample() -> dict[str, np.ndarray]:
        indices = rng.integers(0, total, BATCH)
        stack = np.maximum(indices[:, None] - back, start[indices][:, None])
        b_terminated, b_truncated = terminated[indices], truncated[indices]
        b_done = b_terminated | b_truncated
        five = frames.take(stack, axis=0, mode="clip")  # [B, 5, 84, 84]
        for row in np.flatnonzero(b_done):
            five[row, -1] = last[int(indices[row])]
        return {
            "obs": five[:, :STACK],
            "act": act[indices],
            "rew": rew[indices],
            "terminated": b_terminated,
            "truncated": b_truncated,
            "done": b_done,
            "obs_next": five[:, 1:],
            "discount": (GAMMA * ~b_terminated).astype(np.float32),
            "weight": np.ones(BATCH, np.float32),
            "indices": indices,
        }

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            batch = sample()
        return {"samples": count} | {name: list(batch[name].shape) for name in sorted(batch)}

    return run
