"""DQN on CartPole-v1, end to end: 8 envs, one update per step of all of them, batch 64, MLP 128x2, plain target.

Unit: one env step. The 800 steps before the first update are done in `prepare`.
"""

from __future__ import annotations

from collections.abc import Callable

from offpolicy import off_policy

from argosy.algorithm import DQN, DQNConfig, OptimConfig
from argosy.policy import EpsilonConfig


def prepare(seed: int) -> Callable[[int], dict[str, object]]:
    config = DQNConfig(
        optim=OptimConfig(lr=1e-3, max_grad_norm=10.0),
        double=False,
        target_update_freq=500,
        exploration=EpsilonConfig(eps_start=0.1, eps_end=0.1),
    )
    return off_policy(
        DQN, config, "CartPole-v1", seed, num_envs=8, width=128, slots=20_000, batch_size=64, start_steps=800
    )
