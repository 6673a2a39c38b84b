"""A policy acts in envs of its own spaces, and says so in others."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from argosy.collect import Collector
from argosy.env import DummyVectorEnv
from argosy.errors import ConfigError, SpaceError
from argosy.net import NetConfig
from argosy.policy import ActorCriticPolicy, QPolicy
from argosy.policy.fitting import fitting_policy

SEEN, CHOICES = spaces.Box(-1, 1, (3,)), spaces.Discrete(2)


@pytest.mark.parametrize(
    ("seen", "choices", "message"),
    [
        (spaces.Box(-1, 1, (2,)), CHOICES, r"QPolicy was made for observations of Box\(-1.0, 1.0, \(3,\).*\(2,\)"),
        (spaces.Dict(x=SEEN), CHOICES, "QPolicy was made for observations of Box"),
        (spaces.Discrete(3), CHOICES, "QPolicy was made for observations of Box"),
        (
            SEEN,
            spaces.Discrete(3),
            r"QPolicy was made for actions in Discrete\(2\); those of this env are Discrete\(3\)",
        ),
        (SEEN, spaces.Discrete(2, start=1), r"those of this env are Discrete\(2, start=1\)"),
        (SEEN, spaces.Box(-1, 1, (1,)), r"QPolicy was made for actions in Discrete\(2\)"),
    ],
)
def test_a_policy_of_other_spaces_is_refused(seen, choices, message):
    with pytest.raises(SpaceError, match=message):
        fitting_policy(QPolicy(SEEN, CHOICES), seen, choices)


def test_bounds_and_types_may_differ():
    policy = QPolicy(SEEN, CHOICES)
    assert fitting_policy(policy, spaces.Box(-9, 9, (3,), np.float64), CHOICES) is policy


def test_what_only_critics_see_may_be_missing():
    seen = spaces.Dict(x=SEEN, state=spaces.Box(-1, 1, (5,)))
    policy = ActorCriticPolicy(seen, CHOICES, NetConfig(critic_only=("state",)))
    assert fitting_policy(policy, seen, CHOICES) is policy
    assert fitting_policy(policy, spaces.Dict(x=SEEN), CHOICES) is policy
    with pytest.raises(SpaceError, match="ActorCriticPolicy was made for observations of Dict"):
        fitting_policy(policy, spaces.Dict(state=seen["state"]), CHOICES)


def test_what_collects_asks():
    env = DummyVectorEnv([lambda: gym.make("CartPole-v1")])
    with pytest.raises(SpaceError, match="QPolicy was made for observations of"):
        Collector(QPolicy(SEEN, CHOICES), env)
    with pytest.raises(ConfigError, match="the policy is of the type str"):
        Collector("policy", env)
    env.close()
