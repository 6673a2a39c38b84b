from __future__ import annotations

import numpy as np
import pytest
from gymnasium import spaces

from argosy.errors import SpaceError
from argosy.policy.forward import random_actions

SPACES = [
    spaces.Discrete(3, start=-1),
    spaces.MultiDiscrete([2, 5, 3]),
    spaces.MultiDiscrete([[2, 3], [4, 5]]),
    spaces.MultiBinary(4),
    spaces.Box(-2.0, 3.0, (2, 2), np.float32),
    spaces.Box(np.array([-np.inf, 0, -np.inf, -1]), np.array([np.inf, np.inf, 0, 1]), dtype=np.float64),
    spaces.Box(0, 255, (3,), np.uint8),
]


@pytest.mark.parametrize("space", SPACES, ids=str)
def test_actions_are_in_their_space_and_follow_the_seed(space: spaces.Space) -> None:
    actions = random_actions(space, 200, np.random.default_rng(0))
    assert actions.shape == (200, *space.shape)
    assert all(space.contains(action) for action in actions.astype(space.dtype))
    np.testing.assert_array_equal(actions, random_actions(space, 200, np.random.default_rng(0)))
    assert len(np.unique(actions)) > 1


def test_discrete_actions_are_uniform_with_and_without_a_mask() -> None:
    rng = np.random.default_rng(0)
    counts = np.bincount(random_actions(spaces.Discrete(4), 4000, rng), minlength=4)
    assert (abs(counts - 1000) < 120).all()  # four standard deviations
    mask = np.tile([1, 0, 1, 0], (4000, 1))
    counts = np.bincount(random_actions(spaces.Discrete(4), 4000, rng, mask), minlength=4)
    assert counts[[1, 3]].sum() == 0
    assert abs(counts[0] - 2000) < 130


def test_each_part_of_a_multi_discrete_action_follows_its_mask() -> None:
    mask = np.tile([0, 1, 1, 0, 0], (50, 1))
    actions = random_actions(spaces.MultiDiscrete([2, 3]), 50, np.random.default_rng(0), mask)
    assert set(map(tuple, actions.tolist())) == {(1, 0)}


def test_a_mask_that_allows_nothing_is_refused() -> None:
    with pytest.raises(SpaceError, match="row 1"):
        random_actions(spaces.Discrete(2), 2, np.random.default_rng(0), np.array([[1, 1], [0, 0]]))


def test_unknown_spaces_are_refused() -> None:
    with pytest.raises(SpaceError, match="not supported"):
        random_actions(spaces.Text(5), 2, np.random.default_rng(0))
