"""Draws and values of tabular models, by hand."""

import numpy as np
import pytest

from argosy.ops.tabular import best_values, normal_gamma_draw


def test_means_are_drawn_around_what_was_seen():
    """Of 4 rewards with mean 3 beside a prior of 1 with mean 0 and deviation 1: Student's t around 12 / 5."""
    seen = np.array([2.0, 2.0, 4.0, 4.0])
    shape = (200_000,)
    count, total, squares = (np.full(shape, x) for x in (4.0, seen.sum(), (seen**2).sum()))
    drawn = normal_gamma_draw(count, total, squares, (1.0, 0.0, 1.0), np.random.default_rng(0))
    # a = 1 + 4/2 = 3; b = 1 + (40 - 5 * 2.4^2) / 2 = 6.6; variance of the mean b / (k (a - 1)) = 0.66
    assert drawn.mean() == pytest.approx(2.4, abs=0.01)
    assert drawn.var() == pytest.approx(0.66, abs=0.02)


def test_without_rewards_the_prior_alone_is_drawn_from():
    nothing = np.zeros(100_000)
    drawn = normal_gamma_draw(nothing, nothing, nothing, (2.0, 5.0, 3.0), np.random.default_rng(0))
    assert np.median(drawn) == pytest.approx(5.0, abs=0.05)
    assert drawn.std() > 2.0


def test_best_values_of_a_chain_by_hand():
    """State 0: stay for 1, or go to state 1 for 0; state 1: end with 4, or stay for 0."""
    transitions = np.zeros((2, 2, 3))
    transitions[0, 0, 0] = transitions[0, 1, 1] = transitions[1, 0, 2] = transitions[1, 1, 1] = 1.0
    rewards = np.array([[1.0, 0.0], [4.0, 0.0]])
    # gamma 0.5: staying is worth 2, going 0.5 * 4 = 2 as well; with 0.6: 2.5 and 2.4; with 0.4: 1.667 and 1.6
    np.testing.assert_allclose(best_values(transitions, rewards, 0.6), [[2.5, 2.4], [4.0, 2.4]])
    np.testing.assert_allclose(best_values(transitions, 2 * rewards, 0.5), [[4.0, 4.0], [8.0, 4.0]])


def test_best_values_are_those_of_value_iteration():
    rng = np.random.default_rng(0)
    transitions = rng.dirichlet(np.full(8, 0.2), size=(7, 3))
    rewards = rng.normal(size=(7, 3))
    values = np.zeros(7)
    for _ in range(5000):
        q = rewards + 0.99 * transitions[..., :-1] @ values
        values = q.max(axis=-1)
    np.testing.assert_allclose(best_values(transitions, rewards, 0.99), q, rtol=1e-6)
