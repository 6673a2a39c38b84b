"""`predict`: one observation or a batch of them in, actions as the env takes them out."""

import re

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.errors import DataError, SpaceError
from argosy.net import NetConfig
from argosy.policy import (
    ActorCriticPolicy,
    EpsilonConfig,
    ForwardPolicy,
    NoiseConfig,
    QPolicy,
    RolloutRequest,
    SquashedGaussianPolicy,
)
from argosy.policy.deterministic import DeterministicPolicy
from argosy.policy.quantile import QuantilePolicy

VECTOR = spaces.Box(-1, 1, (3,))
MASKED = spaces.Dict({"x": VECTOR, "action_mask": spaces.MultiBinary(4)})
NESTED = spaces.Dict({"0": VECTOR, "1": spaces.Dict({"choice": spaces.Discrete(3), "y": spaces.Box(0, 1, ())})})
IMAGE = spaces.Box(0, 255, (40, 36, 3), np.uint8)
BOX = spaces.Box(np.float64([[0, -2], [10, 5]]), np.float64([[4, 2], [30, 6]]), dtype=np.float64)
NET = NetConfig(hidden_sizes=(8,), cnn_features=8)

CASES = {
    "discrete": (ActorCriticPolicy, VECTOR, spaces.Discrete(4, start=7)),
    "multi-discrete": (ActorCriticPolicy, NESTED, spaces.MultiDiscrete([2, 3])),
    "gaussian": (ActorCriticPolicy, VECTOR, BOX),
    "q": (QPolicy, IMAGE, spaces.Discrete(4)),
    "masked": (QPolicy, MASKED, spaces.Discrete(4)),
    "choice": (QPolicy, spaces.Discrete(5), spaces.Discrete(2)),
    "quantile": (QuantilePolicy, VECTOR, spaces.Discrete(4)),
    "deterministic": (DeterministicPolicy, VECTOR, spaces.Box(-3, 1, (2,))),
    "squashed": (SquashedGaussianPolicy, VECTOR, BOX),
}


def observations(space, count=5):
    """Rows of elements of a space, stacked; masks allow something."""
    rows = [space.sample() for _ in range(count)]
    if isinstance(space, spaces.Dict):
        stacked = {key: stack([row[key] for row in rows]) for key in space}
        if "action_mask" in stacked:
            stacked["action_mask"][:, 2] = 1
        return stacked
    return np.stack(rows)


def stack(parts):
    return {k: stack([p[k] for p in parts]) for k in parts[0]} if isinstance(parts[0], dict) else np.stack(parts)


def row(obs, index):
    return {key: row(part, index) for key, part in obs.items()} if isinstance(obs, dict) else obs[index]


@pytest.mark.parametrize("memory", [None, "gru"])
@pytest.mark.parametrize("case", CASES)
def test_one_observation_and_a_batch_give_what_the_env_takes(case, memory):
    cls, space, action_space = CASES[case]
    space.seed(0)
    torch.manual_seed(0)
    policy = cls(space, action_space, NetConfig(hidden_sizes=(8,), cnn_features=8, memory=memory, memory_size=6))
    batch, state = observations(space), None
    ones = [None] * 5
    for _ in range(3):
        evaluated = RolloutRequest(
            obs=batch,
            policy_state=np.zeros((5, policy.default_policy_state.size), np.float32)
            if memory and state is None
            else state,
            is_evaluation=np.ones(5, bool),
            on_reset=np.full(5, state is None),
        )
        expected = policy.rollout(evaluated)
        act, state = policy.predict(batch, state)
        assert isinstance(act, np.ndarray)
        assert act.dtype == action_space.dtype
        np.testing.assert_allclose(act, policy.map_action(expected.action), rtol=1e-5, atol=1e-5)
        assert (state is None) == (memory is None)
        for index in range(5):
            one, ones[index] = policy.predict(row(batch, index), ones[index])
            assert action_space.contains(one)
            assert one.dtype == action_space.dtype
            np.testing.assert_allclose(one, act[index], rtol=1e-5, atol=1e-5)
            if memory:
                np.testing.assert_allclose(ones[index], state[index], rtol=1e-5, atol=1e-6)
    assert all(parameter.grad is None for parameter in policy.parameters())


def test_memory_counts_and_a_row_begins_anew_with_the_default_state():
    policy = ActorCriticPolicy(VECTOR, BOX, NetConfig(memory="lstm", memory_size=5))
    obs = observations(VECTOR, 2)
    first, state = policy.predict(obs)
    second, state = policy.predict(obs, state)
    assert not np.allclose(first, second)
    state[1] = policy.default_policy_state
    third, _ = policy.predict(obs, state)
    assert np.allclose(third[1], first[1])
    assert not np.allclose(third[0], first[0])


@pytest.mark.parametrize(("obs", "state"), [(2, 3), (2, None), (None, 2)])
def test_a_state_of_other_rows_is_refused(obs, state):
    policy = ActorCriticPolicy(VECTOR, BOX, NetConfig(memory="gru", memory_size=5))
    shape = (5,) if state is None else (state, 5)
    with pytest.raises(SpaceError, match=rf"state has shape {re.escape(str(shape))}; that of these observations has"):
        policy.predict(np.zeros(3 if obs is None else (obs, 3)), np.zeros(shape, np.float32))


def test_observations_are_normalised():
    policy = ActorCriticPolicy(VECTOR, BOX, NetConfig(hidden_sizes=(8,), norm_obs=True))
    policy.normaliser.take_in(torch.randn(100, 3) * 0.1 + 0.7)
    policy.normaliser.merge()
    obs = np.float32([[0.6, 0.8, 0.7]])
    expected = policy.map_action(policy.rollout(RolloutRequest(obs=obs, is_evaluation=np.ones(1, bool))).action)
    np.testing.assert_allclose(policy.predict(obs)[0], expected, rtol=1e-5)
    policy.normaliser = None
    assert not np.allclose(policy.predict(obs)[0], expected, rtol=1e-3)


def test_deterministic_is_so_where_evaluation_explores_and_else_it_explores():
    policy = QPolicy(VECTOR, spaces.Discrete(4), NET)
    policy.explore_by(EpsilonConfig(eps_start=1.0, eps_test=1.0).build(4))
    obs = np.tile(np.float32([0.1, 0.2, 0.3]), (200, 1))
    act, _ = policy.predict(obs)
    assert len(set(act)) == 1
    assert len(set(policy.predict(obs, deterministic=False)[0])) == 4
    noisy = DeterministicPolicy(VECTOR, spaces.Box(-1, 1, (2,)), NET)
    noisy.explore_by(NoiseConfig(noise="ou").build(2))
    act, state = noisy.predict(obs, deterministic=False)
    assert len(np.unique(act[:, 0])) > 100
    assert state.shape == (200, 2)


def test_a_state_holds_memory_and_noise_whether_it_explores_or_not():
    policy = DeterministicPolicy(VECTOR, BOX, NetConfig(memory="gru", memory_size=5))
    policy.explore_by(NoiseConfig(noise="ou").build(4))
    state, obs = None, observations(VECTOR, 2)
    for deterministic in (True, False, False, True, True):
        noise = np.zeros((2, 4)) if state is None else state[:, 5:]
        _, state = policy.predict(obs, state, deterministic)
        assert state.shape == (2, *policy.default_policy_state.shape)
        assert np.array_equal(state[:, 5:], noise) == deterministic
    state[1] = policy.default_policy_state
    policy.predict(obs, state)


def test_a_tuple_wider_floats_lists_and_tensors_are_observations():
    policy = ActorCriticPolicy(NESTED, spaces.Discrete(3), NET)
    inner = {"choice": 2, "y": 0.5}
    expected, _ = policy.predict({"0": np.float32([0.1, 0.2, 0.3]), "1": inner})
    assert policy.predict(([0.1, 0.2, 0.3], inner))[0] == expected
    assert policy.predict((np.float64([0.1, 0.2, 0.3]), inner))[0] == expected
    assert policy.predict((torch.tensor([0.1, 0.2, 0.3]), inner))[0] == expected


def test_a_policy_that_acts_by_its_forward_alone():
    class Follow(ForwardPolicy):
        def forward(self, batch, state=None):
            return Batch(act=batch.obs[:, 0], state=None)

    policy = Follow(observation_space=spaces.Box(0, 9, (2,), np.int64), action_space=spaces.Discrete(10))
    assert policy.predict([3, 4]) == (3, None)
    with pytest.raises(SpaceError, match="must be given its observation_space"):
        Follow(action_space=spaces.Discrete(10)).predict([3, 4])


@pytest.mark.parametrize(
    ("space", "obs", "message"),
    [
        (VECTOR, np.zeros(4), r"obs has shape \(4,\); one observation has \(3,\), a batch \(B, 3\)"),
        (VECTOR, (np.zeros(3), {}), r"cannot be read as an array .*of what a reset returns, \(obs, info\), the first"),
        (VECTOR, np.array([0, np.nan, 0]), "obs holds NaN or infinity"),
        (VECTOR, np.zeros((2, 2, 3)), r"obs has shape \(2, 2, 3\)"),
        (IMAGE, np.zeros((40, 36, 3)), "obs has dtype float64; the policy was made for uint8"),
        (MASKED, np.zeros(3), r"obs is a ndarray; the policy was made for a dict with the keys"),
        (MASKED, {"x": np.zeros(3)}, r"obs is \['x'\]; the policy was made for a dict with the keys"),
        (
            MASKED,
            {"x": np.zeros((2, 3)), "action_mask": np.ones(4, np.int8)},
            "some entries of obs are one",
        ),
        (MASKED, {"x": np.zeros(2), "action_mask": np.ones(4, np.int8)}, r"obs\['x'\] has shape \(2,\)"),
    ],
)
def test_what_is_no_observation_is_refused(space, obs, message):
    with pytest.raises((SpaceError, DataError), match=message):
        QPolicy(space, spaces.Discrete(4), NET).predict(obs)
