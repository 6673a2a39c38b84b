"""Sum tree and prioritised sampling."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.data import Batch
from argosy.data.buffer import (
    PrioritizedReplayBuffer,
    PrioritizedReplayBufferManager,
    PrioritizedVectorReplayBuffer,
    Priority,
    ReplayBuffer,
)
from argosy.data.buffer.sumtree import SumTree
from argosy.errors import ConfigError


def fill(buffer: ReplayBuffer, rows: int) -> None:
    n = buffer.buffer_num
    for value in range(rows):
        obs = np.full((n, 1), float(value))
        no = np.zeros(n, bool)
        buffer.add(Batch(obs=obs, act=np.full(n, value), rew=np.ones(n), terminated=no, truncated=no, obs_next=obs + 1))


@settings(max_examples=100, deadline=None)
@given(
    st.sampled_from([1, 5, 1_024, 1_025, 5_000, 40_000]),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 100)), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
def test_sum_tree_against_plain_sums(size, changes, random):
    tree, plain = SumTree(size), np.zeros(size)
    for start in range(0, len(changes), 7):  # several at a time, some repeating
        part = changes[start : start + 7]
        index = np.array([at % size for at, _ in part])
        value = np.array([v for _, v in part]) / 8  # sums are exact
        tree[index] = value
        plain[index] = value
        assert tree.total == pytest.approx(plain.sum())
    if plain.sum() == 0:
        return
    upper = np.cumsum(plain)
    fraction = np.array([random.randrange(2**20) for _ in range(50)]) / 2**20
    assert tree.find(fraction).tolist() == np.searchsorted(upper, fraction * upper[-1], side="right").tolist()


def test_find_on_the_borders():
    tree = SumTree(2_000)
    tree[np.array([3, 700, 1_999])] = np.array([1.0, 2.0, 4.0])
    assert tree.find(np.array([0.0, 0.999, 1.0, 2.999, 3.0, 6.999]) / 7.0).tolist() == [3, 3, 700, 700, 1999, 1999]


@pytest.mark.parametrize("weight_norm", [False, True])
def test_weights_of_slots(weight_norm):
    buffer = PrioritizedReplayBuffer(5, alpha=1.0, beta=0.5, weight_norm=weight_norm)
    fill(buffer, 4)
    buffer.update_weight(np.arange(4), np.array([1.0, 4.0, 4.0, 16.0]))
    plain = (4 * np.array([1.0, 4.0, 4.0, 16.0]) / 25.0) ** -0.5
    expected = plain / plain.max() if weight_norm else plain
    np.testing.assert_allclose(buffer.get_weight(np.arange(4)), expected, rtol=1e-5)
    np.testing.assert_allclose(buffer.get_weight([[0, 3]]), expected[None, [0, 3]], rtol=1e-5)
    assert buffer.get_weight(0).shape == ()


def test_draws_follow_the_priorities():
    buffer = PrioritizedReplayBuffer(4, alpha=1.0, beta=1.0, seed=0)
    fill(buffer, 4)
    buffer.update_weight([0, 1, 2, 3], [1.0, 2.0, 3.0, 4.0])
    counts = np.bincount(np.concatenate([buffer.sample_indices(4) for _ in range(5_000)]), minlength=4)
    expected = 20_000 * np.array([0.1, 0.2, 0.3, 0.4])
    assert (abs(counts - expected) < 5 * np.sqrt(expected)).all()


def test_importance_weights_by_hand():
    """Priorities 1 and 3 of 4 rows, alpha 1: probabilities 1/8 and 3/8; weights (4 p)^-beta."""
    buffer = PrioritizedReplayBuffer(4, alpha=1.0, beta=0.5, weight_norm=False, seed=0)
    fill(buffer, 4)
    buffer.update_weight(np.arange(4), torch.tensor([1.0, 3.0, 1.0, 3.0]))
    batch, index = buffer.sample(4)
    np.testing.assert_allclose(batch.weight, np.where(index % 2, 1.5, 0.5) ** -0.5, rtol=1e-5)
    normed = PrioritizedReplayBuffer(4, alpha=1.0, beta=0.5, seed=0)
    normed.load_state_dict(buffer.state_dict())
    batch, index = normed.sample(0)
    np.testing.assert_allclose(batch.weight, [1, 3**-0.5, 1, 3**-0.5], rtol=1e-5)


def test_new_rows_get_the_largest_priority():
    buffer = PrioritizedReplayBuffer(3, alpha=0.5, beta=0.4)
    fill(buffer, 2)
    buffer.update_weight([0], [9.0])
    fill(buffer, 2)  # slot 2, then slot 0 again
    np.testing.assert_allclose(buffer.priorities.tree[np.arange(3)], [3.0, 1.0, 3.0], rtol=1e-6)
    buffer.reset()
    fill(buffer, 1)
    assert buffer.priorities.tree.total == 1.0


def test_two_dimensional_updates_as_of_sequences():
    buffer = PrioritizedReplayBuffer(4, alpha=1.0)
    fill(buffer, 4)
    buffer.update_weight(np.array([[0, 1], [2, 3]]), np.array([[1.0, -2.0], [3.0, 4.0]]))
    np.testing.assert_allclose(buffer.priorities.tree[np.arange(4)], [1, 2, 3, 4], rtol=1e-6)


def test_beta_schedule_and_set_beta():
    buffer = ReplayBuffer(2, priority=Priority(beta=0.4, beta_final=1.0, beta_samples=3))
    fill(buffer, 2)
    betas = []
    for _ in range(4):
        buffer.sample(1)
        betas.append(buffer.priorities.beta)
    assert betas == pytest.approx([0.6, 0.8, 1.0, 1.0])
    other = ReplayBuffer(2, priority=buffer.priorities.config)
    other.load_state_dict(buffer.state_dict())
    assert (other.priorities.beta, other.priorities.samples) == (1.0, 4)
    with pytest.raises(ConfigError, match="beta_final"):
        buffer.set_beta(0.5)
    free = PrioritizedReplayBuffer(2, 0.6, 0.4)
    free.set_beta(0.7)
    assert free.priorities.beta == 0.7


def test_manager_and_vector_forms():
    one = PrioritizedReplayBuffer(2, 0.6, 0.4)
    fill(one, 3)
    manager = PrioritizedReplayBufferManager([one, PrioritizedReplayBuffer(3, 0.6, 0.4)])
    assert isinstance(manager, PrioritizedReplayBuffer)
    assert manager.maxsize == 5
    assert set(manager.sample_indices(5)) <= {0, 1}
    assert isinstance(PrioritizedVectorReplayBuffer(4, 2, alpha=0.6, beta=0.4), PrioritizedReplayBufferManager)


def test_sample_avail_with_priorities():
    buffer = PrioritizedReplayBuffer(5, stack_num=2, sample_avail=True, seed=0)
    fill(buffer, 3)
    buffer.update_weight([0], [1e6])
    assert set(buffer.sample_indices(5)) <= {1, 2}


def test_rows_without_priority_state_get_the_largest():
    plain = ReplayBuffer(3)
    fill(plain, 3)
    buffer = PrioritizedReplayBuffer(3)
    buffer.load_state_dict(plain.state_dict())
    assert buffer.priorities.tree.total == 3.0
