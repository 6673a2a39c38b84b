"""DQN on CartPole-v1, end to end: 8 envs, one update per step of all of them, batch 64, MLP 128x2, plain target.

Unit: one env step. The 800 steps before the first update are done in `prepare`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import gymnasium as gym

from argosy.algorithm import DQN, DQNConfig, OptimConfig, Task
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig
from argosy.trainer import OffpolicyTrainer


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    env = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 8)
    config = DQNConfig(
        optim=OptimConfig(lr=1e-3, max_grad_norm=10.0),
        double=False,
        target_update_freq=500,
        exploration=EpsilonConfig(eps_start=0.1, eps_end=0.1),
    )
    net = NetConfig(hidden_sizes=(128, 128))
    task = Task(observation_space=env.single_observation_space, action_space=env.single_action_space, net=net)
    algorithm = DQN.make(config, task, seed)
    buffer = VectorReplayBuffer(20_000, 8, seed=seed)
    collector = Collector(algorithm.policy, env, buffer, exploration_noise=True, seed=seed)
    collector.collect(n_step=800, random=True)

    def run(count: int) -> dict[str, object]:
        trainer = OffpolicyTrainer(
            algorithm=algorithm,
            train_collector=collector,
            max_epoch=1,
            step_per_epoch=count,
            step_per_collect=8,
            update_per_step=1 / 8,
            batch_size=64,
            verbose=False,
            show_progress=False,
        )
        losses = [epoch.training_stat.loss for epoch in trainer if epoch.training_stat is not None]
        finite = all(map(math.isfinite, losses))
        return {"steps": trainer.state.env_step, "gradient_steps": trainer.state.gradient_step, "finite": finite}

    return run
