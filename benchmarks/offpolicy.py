"""Runs of what learns off-policy, end to end: as many env steps as are asked for, with their updates."""

from __future__ import annotations

import math
from collections.abc import Callable

import gymnasium as gym

from argosy.algorithm import Algorithm, AlgorithmConfig, Task
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.trainer import OffpolicyTrainer


def off_policy(
    cls: type[Algorithm],
    config: AlgorithmConfig,
    task_id: str,
    seed: int,
    *,
    num_envs: int,
    width: int,
    slots: int,
    batch_size: int,
    start_steps: int,
) -> Callable[[int], dict[str, object]]:
    """Return what makes so many env steps, one update per step of all envs; those before the first update are done.

    Networks have two hidden layers.
    """
    env = DummyVectorEnv([lambda: gym.make(task_id)] * num_envs)
    net = NetConfig(hidden_sizes=(width, width))
    task = Task(observation_space=env.single_observation_space, action_space=env.single_action_space, net=net)
    algorithm = cls.make(config, task, seed)
    buffer = VectorReplayBuffer(slots, num_envs, seed=seed)
    collector = Collector(algorithm.policy, env, buffer, exploration_noise=True, seed=seed)
    collector.collect(n_step=start_steps, random=True)

    def run(count: int) -> dict[str, object]:
        trainer = OffpolicyTrainer(
            algorithm=algorithm,
            train_collector=collector,
            max_epoch=1,
            step_per_epoch=count,
            step_per_collect=num_envs,
            update_per_step=1 / num_envs,
            batch_size=batch_size,
            verbose=False,
            show_progress=False,
        )
        trained = [epoch.training_stat for epoch in trainer if epoch.training_stat is not None]
        losses = [value for stats in trained for name, value in vars(stats).items() if name.startswith("loss")]
        finite = all(loss is None or math.isfinite(loss) for loss in losses)
        return {"steps": trainer.state.env_step, "gradient_steps": trainer.state.gradient_step, "finite": finite}

    return run


def halfcheetah(cls: type[Algorithm], config: AlgorithmConfig, seed: int) -> Callable[[int], dict[str, object]]:
    """HalfCheetah-v5: 1 env, batches of 256, MLPs 256x2; the first 300 steps are done."""
    return off_policy(
        cls,
        config,
        "HalfCheetah-v5",
        seed,
        num_envs=1,
        width=256,
        slots=100_000,
        batch_size=256,
        start_steps=300,
    )
