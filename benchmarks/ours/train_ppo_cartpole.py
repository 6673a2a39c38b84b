"""PPO on CartPole-v1, end to end: 8 envs x 128, 4 epochs, minibatches of 256, two MLPs 64x2. Unit: one env step."""

from __future__ import annotations

import math
from collections.abc import Callable

import gymnasium as gym

from argosy.algorithm import PPO, OptimConfig, PPOConfig, Task
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.trainer import OnpolicyTrainer


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    env = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 8)
    optim = OptimConfig(lr=2.5e-4, eps=1e-5, max_grad_norm=0.5)
    config = PPOConfig(optim=optim, repeat_per_collect=4, batch_size=256, entropy_coef=0.01)
    net = NetConfig(hidden_sizes=(64, 64), activation="tanh")
    task = Task(observation_space=env.single_observation_space, action_space=env.single_action_space, net=net)
    algorithm = PPO.make(config, task, seed)
    collector = Collector(algorithm.policy, env, VectorReplayBuffer(1024, 8), exploration_noise=True, seed=seed)

    def run(count: int) -> dict[str, object]:
        trainer = OnpolicyTrainer(
            algorithm=algorithm,
            train_collector=collector,
            max_epoch=1,
            step_per_epoch=count,
            step_per_collect=1024,
            verbose=False,
            show_progress=False,
        )
        losses = [epoch.training_stat.loss for epoch in trainer if epoch.training_stat is not None]
        finite = all(map(math.isfinite, losses))
        return {"steps": trainer.state.env_step, "gradient_steps": trainer.state.gradient_step, "finite": finite}

    return run
