"""Data that several rows work on."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from argosy.data import Batch, NamedArray, PrioritizedVectorReplayBuffer, VectorReplayBuffer


def filled_buffer(
    seed: int,
    obs: int = 4,
    act: int | None = None,
    choices: Sequence[int] | None = None,
    prioritized: bool = False,
    state: int | None = None,
) -> VectorReplayBuffer:
    """Return 20,000 full slots of 8 envs: observations of `obs` numbers, episodes of 50 steps.

    Actions are one of two, or `act` numbers, or one of so many `choices` in each part. With `state`, so many numbers of
    a policy's memory are stored, too.
    """
    rng = np.random.default_rng(seed)

    def actions() -> np.ndarray:
        if choices is not None:
            return rng.integers(0, choices, (8, len(choices)))
        return rng.integers(0, 2, 8) if act is None else rng.uniform(-1, 1, (8, act)).astype(np.float32)

    if prioritized:
        buffer: VectorReplayBuffer = PrioritizedVectorReplayBuffer(20_000, 8, alpha=0.6, beta=0.4, seed=seed)
    else:
        buffer = VectorReplayBuffer(20_000, 8, seed=seed)
    policy = Batch() if state is None else Batch(state=np.zeros((8, state), np.float32))
    for t in range(2_500):
        buffer.add(
            Batch(
                policy=policy,
                obs=rng.standard_normal((8, obs), np.float32),
                act=actions(),
                rew=np.ones(8, np.float32),
                terminated=np.full(8, t % 50 == 49),
                truncated=np.zeros(8, bool),
                obs_next=rng.standard_normal((8, obs), np.float32),
            )
        )
    return buffer


def filled_frames(seed: int, slots: int, episode: int) -> VectorReplayBuffer:
    """Return full slots of 8 envs: frames of 84x84, stacked to 4 at sample time, episodes of so many steps."""
    rng = np.random.default_rng(seed)
    buffer = VectorReplayBuffer(slots, 8, stack_num=4, ignore_obs_next=True, save_only_last_obs=True, seed=seed)
    for t in range(slots // 8):
        buffer.add(
            Batch(
                obs=rng.integers(0, 256, (8, 4, 84, 84), np.uint8),
                act=rng.integers(0, 6, 8),
                rew=np.ones(8, np.float32),
                terminated=np.full(8, t % episode == episode - 1),
                truncated=np.zeros(8, bool),
                obs_next=rng.integers(0, 256, (8, 4, 84, 84), np.uint8),
            )
        )
    return buffer


def segment(seed: int) -> NamedArray:
    """Return what an actor might send: 20 fields of 160 steps x 32 envs, of 1 to 32 numbers each; 3.8 MB."""
    rng = np.random.default_rng(seed)
    sizes = [1, 2, 4, 8, 16, 32, 16, 8, 4, 2] * 2
    return NamedArray(**{f"field_{i}": rng.standard_normal((160, 32, n), np.float32) for i, n in enumerate(sizes)})


def keep_freed_memory() -> None:
    """Let the allocator keep what is freed, on both sides: else fresh pages cost several times what a copy does."""
    np.empty(31 * 2**20, np.uint8)
