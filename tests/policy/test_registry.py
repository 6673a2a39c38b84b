import pytest
from gymnasium import spaces

from argosy.errors import ConfigError
from argosy.policy import ActorCriticPolicy, QPolicy, policy_class, register_policy


def test_names_stand_for_classes():
    assert policy_class("actor-critic") is ActorCriticPolicy
    assert policy_class("argosy.policy.q:QPolicy") is QPolicy
    register_policy("by-class", QPolicy)
    register_policy("by-name", "QPolicy", module="argosy.policy.q")
    assert policy_class("by-class") is policy_class("by-name") is QPolicy
    assert isinstance(policy_class("by-name")(spaces.Box(-1, 1, (2,)), spaces.Discrete(2)), QPolicy)


def test_wrong_names_are_told():
    with pytest.raises(ConfigError, match="did you mean 'actor-critic'"):
        policy_class("actor_critic")
    with pytest.raises(ConfigError, match=r"could not be imported from 'argosy\.policy\.q'"):
        policy_class("argosy.policy.q:Nothing")
    with pytest.raises(ConfigError, match="registered already"):
        register_policy("q", QPolicy)
    with pytest.raises(ConfigError, match="needs module="):
        register_policy("lazy", "QPolicy")
