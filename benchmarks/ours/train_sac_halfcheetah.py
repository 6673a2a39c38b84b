"""SAC on HalfCheetah-v5, end to end: 1 env, 1 update per step, batch 256, MLPs 256x2, learned temperature.

Unit: one env step with its update. The 300 steps before the first update are done in `prepare`.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import gymnasium as gym

from argosy.algorithm import SAC, OptimConfig, SACConfig, Task
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.trainer import OffpolicyTrainer


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    env = DummyVectorEnv([lambda: gym.make("HalfCheetah-v5")])
    optim = OptimConfig(lr=3e-4)
    config = SACConfig(actor_optim=optim, critic_optim=optim, alpha_optim=optim, alpha=1.0)
    net = NetConfig(hidden_sizes=(256, 256))
    task = Task(observation_space=env.single_observation_space, action_space=env.single_action_space, net=net)
    algorithm = SAC.make(config, task, seed)
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
