"""Boxes at their edges: whole numbers, dimensions without width, bounds that bound nothing."""

import warnings

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.data import Batch
from argosy.env.actions import random_actions
from argosy.env.spaces import is_bounded
from argosy.errors import SpaceError
from argosy.net import NetConfig
from argosy.policy import ActorCriticPolicy, SquashedGaussianPolicy
from argosy.policy.deterministic import DeterministicPolicy

OBS = spaces.Box(-1, 1, (3,), np.float32)
HUGE = spaces.Box(-3e38, 3e38, (2,), np.float32)


def policy(space, **settings):
    return ActorCriticPolicy(OBS, space, **settings)


@pytest.mark.parametrize("dtype", [np.int64, np.int32, np.uint8, np.int8])
def test_every_whole_number_has_a_bin_of_equal_width(dtype):
    act = np.random.default_rng(0).uniform(-1, 1, (110_000, 1)).astype(np.float32)
    found, counts = np.unique(policy(spaces.Box(0, 10, (1,), dtype)).map_action(act), return_counts=True)
    assert found.dtype == dtype
    assert found.tolist() == list(range(11))
    assert counts == pytest.approx(10_000, rel=0.05)


@pytest.mark.parametrize("space", [spaces.Box(0, 10, (1,), np.int64), spaces.Box(-128, 127, (1,), np.int8)])
@pytest.mark.parametrize("method", ["clip", "tanh"])
def test_whole_numbers_there_and_back(space, method):
    every = np.arange(int(space.low[0]), int(space.high[0]) + 1).astype(space.dtype).reshape(-1, 1)
    made = policy(space, action_bound_method=method)
    assert (made.map_action(made.map_action_inverse(every)) == every).all()
    edges = np.array([[-50.0], [50.0]], np.float32)
    assert made.map_action(edges).ravel().tolist() == [space.low[0], space.high[0]]


def test_without_scaling_the_nearest_whole_number_is_taken():
    made = policy(spaces.Box(0, 10, (1,), np.int64), action_scaling=False)
    assert made.map_action(np.float32([[-3.0], [3.6], [4.4], [20.0]])).ravel().tolist() == [0, 4, 4, 10]
    assert made.map_action_inverse(np.array([[4]])).tolist() == [[4.0]]


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_a_dimension_without_width_has_its_one_value(dtype):
    space = spaces.Box(np.array([0, 3]), np.array([10, 3]), dtype=dtype)
    made = policy(space)
    assert made.map_action(np.float32([[0.0, -1.0], [1.0, 0.7]]))[:, 1].tolist() == [3, 3]
    back = made.map_action_inverse(random_actions(space, 100, np.random.default_rng(0)))
    assert np.isfinite(back).all()
    assert (back[:, 1] == 0).all()


def test_a_box_wider_than_its_type_can_say():
    space = spaces.Box(-60_000, 60_000, (1,), np.float16)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = policy(space)
    act = np.float32([[-1.0], [0.5], [1.0]])
    assert made.map_action(act).ravel().tolist() == [-60_000, 30_000, 60_000]
    assert made.map_action_inverse(made.map_action(act)) == pytest.approx(act)


def test_bounds_of_3e38_bound_nothing():
    assert not is_bounded(HUGE)
    assert is_bounded(spaces.Box(-1e6, 1e6, (2,)))
    made = policy(HUGE)
    assert not made.action_scaling
    assert made.map_action(np.float32([[-30.0, 40.0]])).tolist() == [[-30.0, 40.0]]
    assert np.abs(random_actions(HUGE, 1000, np.random.default_rng(0))).max() < 10
    with pytest.raises(SpaceError, match="infinite"):
        SquashedGaussianPolicy(OBS, HUGE)


@pytest.mark.parametrize(
    ("space", "settings", "low", "high"),
    [
        (spaces.Box(0.0, np.inf, (2,), np.float32), {}, 0.0, np.inf),
        (spaces.Box(-2.0, 2.0, (2,), np.float32), {"action_scaling": False}, -2.0, 2.0),
        (spaces.Box(-2.0, 2.0, (2,), np.float32), {}, -1.0, 1.0),
        (spaces.Box(-2.0, 2.0, (2,), np.float32), {"action_bound_method": "tanh"}, -np.inf, np.inf),
    ],
)
def test_draws_are_what_the_env_would_take(space, settings, low, high):
    made = policy(space, log_std_init=1.5, **settings)
    drawn = made.analyze(Batch(obs=torch.zeros(500, 3))).sample(torch.Generator().manual_seed(0)).detach().numpy()
    assert drawn.min() == low if np.isfinite(low) else drawn.min() < -3.0
    assert drawn.max() == high if np.isfinite(high) else drawn.max() > 3.0
    assert made.map_action(drawn) == pytest.approx(made.map_action(made.map_action_inverse(made.map_action(drawn))))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["clip", "tanh"])
def test_no_action_leaves_its_bounds_by_rounding(dtype, method):
    low = np.round(np.random.default_rng(0).uniform(-3, 0, 2_000), 2).astype(dtype)
    high = np.round(np.random.default_rng(1).uniform(0.1, 3, 2_000), 2).astype(dtype)
    space = spaces.Box(low, high, dtype=dtype)
    made = policy(space, action_bound_method=method)
    for act in (-50.0, -1.0, 1.0, 50.0):
        assert space.contains(made.map_action(np.full((1, 2_000), act, np.float32))[0])
    stretched = low + (high - low) * dtype(1.0)
    assert (stretched > high).any()  # what is looked for is there


@pytest.mark.parametrize("make", [SquashedGaussianPolicy, DeterministicPolicy])
def test_a_squashed_action_at_its_limit_is_within_bounds(make):
    space = spaces.Box(-1.19, 1.17, (1,), np.float32)
    made = make(OBS, space, NetConfig(hidden_sizes=(4,)))
    with torch.no_grad():
        made.head.bias.fill_(30.0)
    assert made.predict(np.zeros((1, 3), np.float32))[0].tolist() == [space.high.tolist()]
