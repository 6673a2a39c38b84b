"""A million transitions: those of HalfCheetah's size in an HDF5 file, frames in a buffer."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

import h5py
import numpy as np

TRANSITIONS, EPISODE, SIDE = 1_000_000, 1_000, 28
COLUMNS = ("observations", "actions", "rewards", "terminals", "timeouts", "next_observations")


@cache
def folder() -> Path:
    """Return a folder that goes with the process."""
    made = tempfile.TemporaryDirectory()
    _kept.append(made)
    return Path(made.name)


_kept: list[tempfile.TemporaryDirectory[str]] = []


def _columns(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    obs = rng.standard_normal((TRANSITIONS + 1, 17), np.float32)
    act, rew = rng.standard_normal((TRANSITIONS, 6), np.float32), rng.standard_normal(TRANSITIONS, np.float32)
    timeouts = np.arange(TRANSITIONS) % EPISODE == EPISODE - 1
    return dict(zip(COLUMNS, (obs[:-1], act, rew, np.zeros_like(timeouts), timeouts, obs[1:]), strict=True))


def d4rl_file(seed: int) -> Path:
    """Write transitions as D4RL does."""
    with h5py.File(folder() / "d4rl.hdf5", "w") as file:
        for name, value in _columns(seed).items():
            file[name] = value
    return folder() / "d4rl.hdf5"


def own_file(seed: int) -> Path:
    """Write the same as argosy does."""
    from argosy.data import ReplayBuffer

    obs, act, rew, terminated, truncated, obs_next = _columns(seed).values()
    buffer = ReplayBuffer.from_data(obs, act, rew, terminated, truncated, truncated, obs_next)
    buffer.save_hdf5(folder() / "own.hdf5")
    return folder() / "own.hdf5"


def sampling_frames(seed: int, *, mapped: bool):  # type: ignore[no-untyped-def]  # peers' Python knows no argosy
    """Return what draws 32 stacks of 4 from a buffer of frames, in memory or in mapped files."""
    from argosy.data import Batch, Sampling, VectorReplayBuffer

    rng, steps = np.random.default_rng(seed), 100
    options = {"storage_dir": folder()} if mapped else {}
    buffer = VectorReplayBuffer(TRANSITIONS, 8, stack_num=4, ignore_obs_next=True, seed=seed, **options)
    frames = rng.integers(0, 256, (steps * 8, SIDE, SIDE), np.uint8)
    no, end = np.zeros(steps * 8, np.bool_), np.repeat(np.arange(steps) == steps - 1, 8)
    part = Batch(obs=frames, act=no, rew=no, terminated=no, truncated=end, obs_next=frames)
    for _ in range(0, TRANSITIONS, steps * 8):
        buffer.add_steps(part, steps)

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            batch, _ = buffer.sample(32, Sampling())
        return {"samples": count, "obs": list(batch.obs.shape), "obs_next": list(batch.obs_next.shape)}

    return run
