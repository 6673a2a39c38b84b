"""Pong through EnvPool, 8 envs, Nature CNN picks the action, every transition stored. Unit: one env step (4 frames)."""

from __future__ import annotations

from collections.abc import Callable

from argosy.algorithm import DQN, DQNConfig, Task
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.env import EnvConfig, make_vector_env
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig


def prepare(seed: int) -> Callable[[int], dict[str, int]]:
    env = make_vector_env("PongNoFrameskip-v4", 8, seed=seed, config=EnvConfig(vector="envpool"))
    config, net = DQNConfig(exploration=EpsilonConfig(eps_start=0.0, eps_end=0.0)), NetConfig(hidden_sizes=(512,))
    task = Task(observation_space=env.single_observation_space, action_space=env.single_action_space, net=net)
    algorithm = DQN.make(config, task, seed)
    buffer = VectorReplayBuffer(20_000, 8, stack_num=4, ignore_obs_next=True, save_only_last_obs=True)
    collector = Collector(algorithm.policy, env, buffer, exploration_noise=True)

    def run(count: int) -> dict[str, int]:
        return {"steps": collector.collect(n_step=count).n_collected_steps}

    return run
