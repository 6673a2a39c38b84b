"""What holds for every algorithm."""

import numpy as np
import pytest
from algorithm_checks import OBSERVATIONS, check_algorithm
from gymnasium import spaces

from argosy.algorithm import ALGORITHMS, DQN, PPO, SAC, DQNConfig, PPOConfig, SACConfig, algorithm_class
from argosy.errors import ConfigError, SpaceError

BOX = spaces.Box(-2.0, 2.0, (2,), np.float32)
MULTI = spaces.MultiDiscrete([2, 3])

CASES = {
    "dqn": ("dqn", DQNConfig(target_update_freq=2), spaces.Discrete(3)),
    "dqn clipped": ("dqn", DQNConfig(max_grad_norm=0.1, loss="mse", tau=0.1, target_update_freq=1), spaces.Discrete(3)),
    "ppo discrete": ("ppo", PPOConfig(repeat_per_collect=2, batch_size=8), spaces.Discrete(3)),
    "ppo multi-discrete": ("ppo", PPOConfig(repeat_per_collect=3, batch_size=None, recompute_advantage=True), MULTI),
    "ppo box": (
        "ppo",
        PPOConfig(repeat_per_collect=2, return_scaling=True, value_clip=True, dual_clip=3.0, batch_size=16),
        BOX,
    ),
    "sac": ("sac", SACConfig(), BOX),
    "sac fixed": ("sac", SACConfig(auto_alpha=False, num_critics=3), BOX),
}
LEARNS = {"sac": ("policy", "critic")}
FOLLOWS = {"dqn": ("target",), "sac": ("critic_target", "temperature")}


@pytest.mark.parametrize("case", CASES)
def test_check_algorithm(case, tmp_path):
    name, config, action_space = CASES[case]
    check_algorithm(
        name, config, action_space, tmp_path, learns=LEARNS.get(name, ("policy",)), follows=FOLLOWS.get(name, ())
    )


def test_every_algorithm_is_checked():
    assert {name for name, _, _ in CASES.values()} == set(ALGORITHMS)


def test_unknown_algorithms_are_refused_with_the_nearest_name():
    with pytest.raises(ConfigError, match=r"unknown algorithm 'dqnn': did you mean 'dqn'\?"):
        algorithm_class("dqnn")


@pytest.mark.parametrize(
    ("cls", "config", "space", "message"),
    [
        (DQN, DQNConfig(), BOX, r"DQN needs a Discrete action space, not Box.*algorithms that fit it:.*ppo, sac"),
        (SAC, SACConfig(), spaces.Discrete(2), r"SAC needs a Box action space, not Discrete\(2\).*dqn, ppo"),
        (PPO, PPOConfig(), spaces.MultiBinary(2), r"not MultiBinary.*none yet"),
    ],
)
def test_wrong_action_spaces_are_refused_with_the_algorithms_that_fit(cls, config, space, message):
    with pytest.raises(SpaceError, match=message):
        cls.from_spaces(config, OBSERVATIONS["vector"], space)


@pytest.mark.parametrize(
    ("config", "field", "value"),
    [
        (DQNConfig, "gamma", 1.5),
        (DQNConfig, "n_step", 0),
        (DQNConfig, "lr", 0.0),
        (DQNConfig, "loss", "l1"),
        (DQNConfig, "tau", 0.0),
        (DQNConfig, "target_update_freq", 0),
        (DQNConfig, "eps_end", -0.1),
        (DQNConfig, "max_grad_norm", 0.0),
        (PPOConfig, "gamma", -0.1),
        (PPOConfig, "gae_lambda", 2.0),
        (PPOConfig, "clip_ratio", -1.0),
        (PPOConfig, "dual_clip", 1.0),
        (PPOConfig, "batch_size", 0),
        (PPOConfig, "repeat_per_collect", 0),
        (PPOConfig, "target_kl", 0.0),
        (PPOConfig, "action_bound_method", "cut"),
        (SACConfig, "alpha", 0.0),
        (SACConfig, "num_critics", 0),
        (SACConfig, "actor_lr", -1.0),
        (SACConfig, "tau", 1.5),
    ],
)
def test_configs_check_their_ranges(config, field, value):
    with pytest.raises(ConfigError, match=rf"{config.__name__}\.{field} is {value!r}; it must be"):
        config(**{field: value})
