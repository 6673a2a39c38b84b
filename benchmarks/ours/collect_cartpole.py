"""CartPole-v1, 8 environments in this process, epsilon-greedy MLP 128x2, all stored. Unit: one env step."""

from __future__ import annotations

from collections.abc import Callable

import gymnasium as gym
import torch

from argosy.algorithm import DQN, DQNConfig, Task
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig


def balance(parameters: list[torch.nn.Parameter]) -> None:
    """Let a Q-network 4-128-128-2 push towards where the pole falls, so that all sides have episodes of one length."""
    with torch.no_grad():
        for parameter in parameters:
            parameter.zero_()
        first, _, second, _, last, _ = parameters
        first[2:, 0], first[2:, 1] = 1.0, -1.0  # weights lie [in, out]
        second[0, 0] = second[1, 1] = last[1, 0] = last[0, 1] = 1.0


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    env = DummyVectorEnv([lambda: gym.make("CartPole-v1")] * 8)
    net = NetConfig(hidden_sizes=(128, 128))
    task = Task(observation_space=env.single_observation_space, action_space=env.single_action_space, net=net)
    algorithm = DQN.make(DQNConfig(exploration=EpsilonConfig(eps_start=0.5)), task, seed)
    balance(list(algorithm.policy.parameters()))
    buffer = VectorReplayBuffer(20_000, 8)
    collector = Collector(algorithm.policy, env, buffer, exploration_noise=True, seed=seed)

    def run(count: int) -> dict[str, int]:
        stats = collector.collect(n_step=count)
        return {"steps": stats.n_collected_steps, "stored": len(buffer), "episodes": stats.n_collected_episodes}

    return run
