"""Sum tree and prioritised sampling."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from copy import deepcopy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from argosy.data import (
    Batch,
    PrioritizedReplayBuffer,
    PrioritizedReplayBufferManager,
    PrioritizedVectorReplayBuffer,
    Priority,
    ReplayBuffer,
)
from argosy.data.buffer.sumtree import EPS, SumTree
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
    tree.add(np.arange(size))
    assert tree.total == size
    for start in range(0, len(changes), 7):  # several at a time, some repeating
        part = changes[start : start + 7]
        index = np.array([at % size for at, _ in part])
        value = np.array([v for _, v in part]) / 8  # sums are exact
        if start % 2:
            tree.drop(index)
            plain[index] = 0.0
        else:
            tree.restore(index, value, highest=2.0)
            plain[:] = 0.0
            plain[index] = value
        assert tree.total == plain.sum()
    if plain.sum() == 0:
        return
    upper = np.cumsum(plain)
    fraction = np.array([random.randrange(2**20) for _ in range(50)]) / 2**20
    assert tree.find(fraction).tolist() == np.searchsorted(upper, fraction * upper[-1], side="right").tolist()


def test_find_on_the_borders():
    tree = SumTree(2_000)
    tree.restore(np.array([3, 700, 1_999]), np.array([1.0, 2.0, 4.0]), highest=4.0)
    assert tree.find(np.array([0.0, 0.999, 1.0, 2.999, 3.0, 6.999]) / 7.0).tolist() == [3, 3, 700, 700, 1999, 1999]


def test_find_never_gives_a_slot_without_a_row():
    """Sums of such numbers are rounded: the last fractions would lead past the last row."""
    rng = np.random.default_rng(0)
    for size in (1, 3, 100, 5_000):
        stored = np.unique(rng.integers(0, size, max(size // 3, 1)))
        tree = SumTree(size)
        tree.restore(stored, 10.0 ** rng.uniform(-12, 12, len(stored)), highest=1.0)
        for fraction in (rng.random(1_000), np.full(3, np.nextafter(1.0, 0.0)), np.zeros(3)):
            assert set(tree.find(fraction)) <= set(stored)


def test_sums_do_not_drift():
    tree, rng = SumTree(1_000), np.random.default_rng(0)
    tree.add(np.arange(1_000))
    for _ in range(500):
        assert tree.update(rng.integers(0, 1_000, 64), 10.0 ** rng.uniform(-3, 3, 64), alpha=1.0) == 64
    assert tree.total == pytest.approx(tree[np.arange(1_000)].sum(), rel=1e-12)


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8])
def test_indices_and_priorities_in_any_form(dtype):
    """Strided, read-only, of other types, tensors that need gradients: the compiled code takes one form only."""
    buffer = PrioritizedReplayBuffer(6, alpha=1.0)
    fill(buffer, 6)
    index = np.arange(6, dtype=dtype)[::2]
    index.flags.writeable = False
    buffer.update_weight(index, np.array([3, 0, 5, 0, 7, 0], np.float16)[::2])
    np.testing.assert_allclose(buffer.priorities.tree[np.arange(6)], [3, 1, 5, 1, 7, 1], rtol=1e-6)
    buffer.update_weight(torch.tensor([1, 3]), torch.tensor([2.0, -4.0], requires_grad=True))
    np.testing.assert_allclose(buffer.priorities.tree[np.arange(6)], [3, 2, 5, 4, 7, 1], rtol=1e-6)
    buffer.update_weight([], [])
    buffer.update_weight([0, 0], [8, 9])
    assert buffer.priorities.tree[np.array([0])] == pytest.approx(9.0 + EPS)


@pytest.mark.parametrize("copy", [deepcopy, lambda buffer: pickle.loads(pickle.dumps(buffer))])
def test_copies_go_their_own_way(copy):
    buffer = PrioritizedReplayBuffer(6, alpha=1.0, seed=0)
    fill(buffer, 3)
    again = copy(buffer)
    assert again.sample(6)[1].tolist() == buffer.sample(6)[1].tolist()
    fill(again, 1)
    again.update_weight([3], [5.0])
    assert (again.priorities.tree.total, buffer.priorities.tree.total) == (pytest.approx(8.0), 3.0)
    assert again[:].obs.tolist() == [[0.0], [1.0], [2.0], [0.0]]
    assert buffer[:].obs.tolist() == [[0.0], [1.0], [2.0]]


def test_other_buffers_do_not_wait_for_the_compiled_code():
    code = "import sys, argosy.data as d; d.VectorReplayBuffer(8, 2); sys.exit('numba' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_compiles_where_no_folder_can_be_written():
    code = "from argosy.data.buffer.sumtree import SumTree; assert SumTree(4).total == 0.0"
    nowhere = {**os.environ, "NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator"}  # offers a folder to zip files only
    subprocess.run([sys.executable, "-c", code], check=True, env=nowhere)


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
