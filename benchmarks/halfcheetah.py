"""HalfCheetah-v5 end to end for what learns off-policy: 1 env, 1 update per step, batches of 256, MLPs 256x2."""

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


def halfcheetah(cls: type[Algorithm], config: AlgorithmConfig, seed: int) -> Callable[[int], dict[str, object]]:
    """Return what makes so many env steps with their updates; the 300 steps before the first update are done."""
    env = DummyVectorEnv([lambda: gym.make("HalfCheetah-v5")])
    net = NetConfig(hidden_sizes=(256, 256))
    task = Task(observation_space=env.single_observation_space, action_space=env.single_action_space, net=net)
    algorithm = cls.make(config, task, seed)
    buffer = VectorReplayBuffer(100_000, 1, seed=seed)
    collector = Collector(algorithm.policy, env, buffer, exploration_noise=True, seed=seed)
    collector.collect(n_step=300, random=True)

    def run(count: int) -> dict[str, object]:
        trainer = OffpolicyTrainer(
            algorithm=algorithm,
            train_collector=collector,
            max_epoch=1,
            step_per_epoch=count,
            step_per_collect=1,
            update_per_step=1.0,
            batch_size=256,
            verbose=False,
            show_progress=False,
        )
        losses = [epoch.training_stat.loss_critic for epoch in trainer if epoch.training_stat is not None]
        finite = all(map(math.isfinite, losses))
        return {"steps": trainer.state.env_step, "gradient_steps": trainer.state.gradient_step, "finite": finite}

    return run
