"""The states of rows that act: where episodes begin, and what is stored of them."""

import numpy as np
import pytest
from gymnasium import spaces

from argosy.collect.rows import begin_anew, with_state
from argosy.data import Batch, NamedArray
from argosy.net import NetConfig
from argosy.policy import NoiseConfig, QPolicy
from argosy.policy.deterministic import DeterministicPolicy

OBS = spaces.Box(-1, 1, (1,), np.float32)


def q_policy(**net):
    return QPolicy(OBS, spaces.Discrete(2), NetConfig(hidden_sizes=(2,), **net))


def test_states_begin_anew_in_copies():
    state = NamedArray(h=np.ones((3, 2)))
    begun = begin_anew(state, np.array([True, False, True]), NamedArray(h=np.array([5.0, 6.0])))
    assert begun.h.tolist() == [[5, 6], [1, 1], [5, 6]]
    assert state.h.tolist() == [[1, 1]] * 3
    assert begin_anew(np.ones((2, 1)), np.array([1]), np.zeros(1)).tolist() == [[1], [0]]


@pytest.mark.parametrize(("memory", "width"), [("gru", 3), ("lstm", 6)])
def test_states_of_policies_with_memory_are_put_to_what_is_stored(memory, width):
    policy = q_policy(memory=memory, memory_size=3)
    state = policy.first_states(4)
    assert state.tolist() == [[0.0] * width] * 4
    stored = with_state(policy, Batch(logp=np.zeros(4)), state)
    assert stored.state is state
    assert set(stored.keys()) == {"logp", "state"}
    assert with_state(policy, None, state).state is state


def test_nothing_is_stored_without_memory():
    assert q_policy().first_states(4) is None
    assert with_state(q_policy(), None, None) is None


def test_a_state_of_exploration_alone_is_carried_and_not_stored():
    policy = DeterministicPolicy(OBS, spaces.Box(-1, 1, (2,), np.float32), NetConfig(hidden_sizes=(2,)))
    policy.explore_by(NoiseConfig(noise="ou").build(2))
    assert policy.first_states(3).tolist() == [[0.0, 0.0]] * 3
    assert with_state(policy, None, policy.first_states(3)) is None
