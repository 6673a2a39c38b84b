"""Makes a data set of what a run's best policy does."""

from __future__ import annotations

import contextlib
import json
import math
from os import PathLike
from pathlib import Path

import numpy as np

from argosy.algorithm import algorithm_name
from argosy.collect import Collector
from argosy.config import to_plain
from argosy.data import CollectStats, VectorReplayBuffer
from argosy.data.datasets import DatasetWriter
from argosy.env import VectorEnv, make_vector_env
from argosy.env.spaces import leaves, normal_form
from argosy.errors import ConfigError
from argosy.logger import ProgressBar
from argosy.process import computing_threads, device_here
from argosy.rng import check_seed
from argosy.run.saved import read_policy

PART_BYTES = 1 << 24
"""About as many bytes of observations are in memory at a time, in at most `PART_STEPS` steps of each env."""
PART_STEPS = 1000
STEPS_PER_ENV = 1000
"""At least as many steps of each env, where there are so many: with few, hardly an episode would come to its end."""


def collect_data(
    run_dir: str | PathLike[str],
    path: str | Path,
    *,
    steps: int,
    eps: float = 0.0,
    explore: bool = False,
    seed: int = 0,
    show_progress: bool = False,
    trust: bool = False,
) -> CollectStats:
    """Play with the best policy of a run and write the transitions to one HDF5 file.

    The environments are those of tests: whole episodes, rewards as they are. What is in memory does not grow with the
    file, which `ReplayBuffer.load_hdf5` reads, and which `data` of an experiment names. Its actions are in the env's
    scale (attribute `action_scale`); further attributes say task, settings of the env (JSON), policy and returns.

    Args:
        run_dir: the run's folder.
        path: the file; one that is there is replaced in the end.
        steps: transitions over all envs, rounded up to a multiple of their number.
        eps: probability of a uniformly random action instead of the policy's.
        explore: act as while training (draws from a distribution, noise, a share of random actions) instead of as in
            tests. D4RL's files are made so.
        seed: of the environments, of exploration and of random actions.
        show_progress: a progress bar, on standard error.
        trust: import the code that the run names as "MODULE:CLASS", though nobody has named it in this process.

    Raises:
        TrustError, CheckpointError: as `load` says.
        ConfigError: `steps`, `eps` or `seed` are out of range.
        DataError: the file cannot be written.
        MissingExtraError: h5py is not installed.
    """
    if not isinstance(steps, int | np.integer) or steps < 1:
        raise ConfigError(f"steps is {steps!r}; it must be a whole number >= 1")
    if not 0 <= eps <= 1:
        raise ConfigError(f"eps is {eps}; it must be >= 0 and <= 1")
    check_seed(seed)
    saved = read_policy(run_dir, trust=trust)
    experiment = saved.experiment
    num_envs = max(1, min(experiment.env.test_num_envs, steps // STEPS_PER_ENV))
    each = -(-steps // num_envs)
    stats = CollectStats()
    stored = experiment.buffer.stored
    env = make_vector_env(experiment.task, num_envs, test=True, config=experiment.env)
    bar = ProgressBar(show_progress)
    with contextlib.closing(env), contextlib.closing(bar), computing_threads(experiment.threads):
        policy = saved.policy(device_here(experiment.device))
        policy.seed(seed)
        rows = min(each, _part_steps(env))
        buffer = VectorReplayBuffer(rows * num_envs, num_envs, save_only_last_obs=stored["save_only_last_obs"])
        collector = Collector(policy, env, buffer, exploration_noise=explore, seed=seed)
        with DatasetWriter(path, num_envs, each, stored) as writer:
            bar.open(each * num_envs, 0)
            while writer.written < each:
                part = collector.collect(n_step=min(rows, each - writer.written) * num_envs, random=eps)
                stats = CollectStats.merged([stats, part]) or part
                batch = buffer.rollout()
                batch.act = policy.map_action(batch.act)
                writer.write(batch)
                buffer.reset()
                bar.move(writer.written * num_envs)
            returns = stats.returns_stat
            writer.finish(
                {
                    "action_scale": "env",
                    "task": experiment.task,
                    "env": json.dumps(to_plain(experiment.env)),
                    "algorithm": algorithm_name(experiment.algorithm),
                    "version": policy.version,
                    "eps": eps,
                    "explore": explore,
                    "seed": seed,
                    "episodes": stats.n_collected_episodes,
                    "return_mean": math.nan if returns is None else returns.mean,
                    "return_std": math.nan if returns is None else returns.std,
                }
            )
    return stats


def _part_steps(env: VectorEnv) -> int:
    """Return how many steps of all envs are held in memory at a time."""
    space = normal_form(env.single_observation_space)
    size = sum(math.prod(shape) * dtype.itemsize for _, shape, dtype in leaves(space))
    return max(1, min(PART_STEPS, PART_BYTES // (2 * env.num_envs * max(size, 1))))
