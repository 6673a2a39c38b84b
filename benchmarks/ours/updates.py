"""One update of each algorithm at its usual batch, its sample included; networks of 64 x 2, value-based ones 128 x 2.

Rows whose name ends in _large are of networks of 256 x 2, or of the Nature CNN.

Unit: one update; of on-policy algorithms one pass of all that a rollout of 1,024 rows is good for.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
from filled import filled_buffer, filled_frames
from gymnasium import spaces

from argosy.algorithm import Algorithm, Task, algorithm_class
from argosy.algorithm.optim import Optim
from argosy.collect import Collector
from argosy.config import replaced
from argosy.data import PrioritizedVectorReplayBuffer, VectorReplayBuffer
from argosy.env import make_vector_env
from argosy.net import NetConfig

Run = Callable[[int], dict[str, object]]
OBS, ACT, CHOICES = 17, 6, (5, 5, 5, 5)


def _made(
    name: str,
    settings: Mapping[str, object],
    obs: int | spaces.Space[Any],
    action_space: spaces.Space[Any],
    net: NetConfig,
    seed: int,
) -> Algorithm:
    cls = algorithm_class(name)
    task = Task(
        observation_space=spaces.Box(-10, 10, (obs,)) if isinstance(obs, int) else obs,
        action_space=action_space,
        net=net,
    )
    return cls.make(replaced(cls.config_type(), settings), task, seed)


def _value_based(name: str, seed: int, prioritized: bool = False, **settings: object) -> Run:
    """From samples of 64 rows, of 4 numbers and 2 actions."""
    buffer = filled_buffer(seed, prioritized=prioritized)
    return _sampled(_made(name, settings, 4, spaces.Discrete(2), NetConfig(hidden_sizes=(128, 128)), seed), buffer, 64)


def _branching(name: str, seed: int) -> Run:
    """From samples of 64 rows, of 17 numbers and actions of 4 parts."""
    buffer = filled_buffer(seed, OBS, choices=CHOICES)
    space, net = spaces.MultiDiscrete(list(CHOICES)), NetConfig(hidden_sizes=(128, 128))
    return _sampled(_made(name, {}, OBS, space, net, seed), buffer, 64)


def _frames(name: str, seed: int, **settings: object) -> Run:
    """From samples of 32 stacks of 4 frames of 84x84 and 6 actions."""
    images = spaces.Box(0, 255, (4, 84, 84), np.uint8)
    algorithm = _made(name, settings, images, spaces.Discrete(6), NetConfig(), seed)
    return _sampled(algorithm, filled_frames(seed, 2_000, episode=50), 32)


def _actor_critic(name: str, seed: int, width: int = 64, rows: int = 128, **settings: object) -> Run:
    """From samples of 128 rows, of 17 numbers and actions of 6."""
    buffer = filled_buffer(seed, OBS, ACT)
    net = NetConfig(hidden_sizes=(width, width))
    return _sampled(_made(name, settings, OBS, spaces.Box(-1, 1, (ACT,)), net, seed), buffer, rows)


def _remembering(seed: int) -> Run:
    """R2D2, from samples of 64 sequences of 16 rows."""
    net = NetConfig(hidden_sizes=(128, 128), memory="lstm", memory_size=128)
    algorithm = _made("r2d2", {}, 4, spaces.Discrete(2), net, seed)
    return _sampled(algorithm, filled_buffer(seed, state=256), 64)


def _sequences(seed: int) -> Run:
    """The decision transformer, from samples of 64 sequences of 20 rows."""
    net = NetConfig(hidden_sizes=(128, 128, 128), activation="gelu")
    algorithm = _made("decision_transformer", {}, OBS, spaces.Box(-1, 1, (ACT,)), net, seed)
    return _sampled(algorithm, filled_buffer(seed, OBS, ACT), 64)


def _sampled(algorithm: Algorithm, buffer: VectorReplayBuffer, rows: int) -> Run:
    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            batch, index = buffer.sample(rows, algorithm.sampling)
            stats = algorithm.update(batch)
            if isinstance(buffer, PrioritizedVectorReplayBuffer):
                buffer.update_weight(index, stats.priorities.numpy())
        return {"updates": count, "parameters": _learned(algorithm)}

    return run


def _learned(algorithm: Algorithm) -> int:
    optimisers = (part for part in algorithm.parts().values() if isinstance(part, Optim))
    return sum(parameter.numel() for optim in optimisers for parameter in optim.parameters)


def _on_policy(
    name: str, seed: int, task_id: str = "CartPole-v1", width: int = 64, *, random: bool = False, **settings: object
) -> Run:
    """From a rollout of 8 envs x 128 steps; where there is an expert, beside 1,024 of its rows."""
    env = make_vector_env(task_id, 8, seed=seed)
    net = NetConfig(hidden_sizes=(width, width), activation="tanh")
    algorithm = _made(name, settings, env.single_observation_space, env.single_action_space, net, seed)
    buffer = VectorReplayBuffer(1_024, 8, seed=seed)
    Collector(algorithm.policy, env, buffer).collect(n_step=1_024, random=random)
    expert = filled_buffer(seed, 3, act=1) if algorithm.expert_rows else None

    def run(count: int) -> dict[str, object]:
        for _ in range(count):
            rollout = buffer.rollout()
            if expert is not None:
                rollout.expert, _ = expert.sample(1_024)
            algorithm.update(rollout)
        return {"updates": count, "parameters": _learned(algorithm)}

    return run


ROWS = {
    "update_c51": partial(_value_based, "c51"),
    "update_rainbow": partial(_value_based, "rainbow", prioritized=True),
    "update_qrdqn": partial(_value_based, "qrdqn"),
    "update_iqn": partial(_value_based, "iqn", num_mean_quantiles=8),  # as many as Tianshou 1.0 asks when it learns
    "update_fqf": partial(_value_based, "fqf"),
    "update_r2d2": _remembering,
    "update_discrete_sac": partial(_value_based, "discrete_sac"),
    "update_branching_dqn": partial(_branching, "branching_dqn"),
    "update_qmix": partial(_branching, "qmix"),
    "update_ddpg": partial(_actor_critic, "ddpg"),
    "update_td3": partial(_actor_critic, "td3"),
    "update_sac": partial(_actor_critic, "sac"),
    "update_tqc": partial(_actor_critic, "tqc"),
    "update_crossq": partial(_actor_critic, "crossq"),
    "update_droq": partial(_actor_critic, "droq"),
    "update_redq": partial(_actor_critic, "redq", auto_alpha=False),
    "update_td3_bc": partial(_actor_critic, "td3_bc"),
    "update_rebrac": partial(_actor_critic, "rebrac"),
    "update_iql": partial(_actor_critic, "iql"),
    "update_awac": partial(_actor_critic, "awac"),
    "update_cql": partial(_actor_critic, "cql", lagrange=True),
    "update_bcq": partial(_actor_critic, "bcq"),
    "update_bc": partial(_actor_critic, "bc"),
    "update_dagger": partial(_actor_critic, "dagger"),
    "update_discrete_bcq": partial(_value_based, "discrete_bcq"),
    "update_discrete_cql": partial(_value_based, "discrete_cql", double=True, num_quantiles=32),  # as d3rlpy
    "update_discrete_crr": partial(_value_based, "discrete_crr", conservative_weight=10.0),  # as Tianshou 1.0
    "update_decision_transformer": _sequences,
    "update_ppo": partial(_on_policy, "ppo"),
    "update_spo": partial(_on_policy, "spo"),
    "update_a2c": partial(_on_policy, "a2c"),
    "update_reinforce": partial(_on_policy, "reinforce"),
    "update_npg": partial(_on_policy, "npg", critic_steps=5, step_size=1e-4),
    "update_trpo": partial(_on_policy, "trpo", critic_steps=5),
    "update_ppg": partial(_on_policy, "ppg", rollouts_per_phase=8),
    "update_impala": partial(_on_policy, "impala"),
    "update_psrl": partial(_on_policy, "psrl", task_id="FrozenLake-v1", random=True),
    "update_gail": partial(_on_policy, "gail", task_id="Pendulum-v1"),
    "update_sac_large": partial(_actor_critic, "sac", width=256, rows=256),
    "update_dqn_large": partial(_frames, "dqn", loss="mse"),
    "update_ppo_large": partial(_on_policy, "ppo", width=256),
}
