"""Boxes at their edges: whole numbers, dimensions without width, bounds that bound nothing."""

import numpy as np
import pytest
from gymnasium import spaces

from argosy.env.actions import random_actions
from argosy.env.spaces import is_bounded
from argosy.errors import SpaceError
from argosy.policy import ActorCriticPolicy, SquashedGaussianPolicy

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


def test_bounds_of_3e38_bound_nothing():
    assert not is_bounded(HUGE)
    assert is_bounded(spaces.Box(-1e6, 1e6, (2,)))
    made = policy(HUGE)
    assert not made.action_scaling
    assert made.map_action(np.float32([[-30.0, 40.0]])).tolist() == [[-30.0, 40.0]]
    assert np.abs(random_actions(HUGE, 1000, np.random.default_rng(0))).max() < 10
    with pytest.raises(SpaceError, match="infinite"):
        SquashedGaussianPolicy(OBS, HUGE)
