"""Episodic and n-step returns of a buffer's rows, by numbers computed by hand."""

import numpy as np
import pytest
import torch

from argosy.collect import compute_episodic_return, compute_nstep_return
from argosy.data import Batch, Sampling, VectorReplayBuffer
from argosy.errors import DataError


def filled(**options):
    """Two rings. First: an episode of 2 that terminates, one of 2 that is truncated. Second: one that goes on."""
    buffer = VectorReplayBuffer(8, 2, **options)
    for t in range(4):
        buffer.add(
            Batch(
                obs=np.array([t, 10 + t], np.float32),
                obs_next=np.array([t + 1, 11 + t], np.float32),
                act=np.zeros(2, int),
                rew=np.array([1 + t, 10.0]),
                terminated=np.array([t == 1, False]),
                truncated=np.array([t == 3, False]),
            )
        )
    return buffer


def test_monte_carlo_returns():
    buffer = filled()
    batch, indices = buffer.sample(0)
    returns, adv = compute_episodic_return(batch, buffer, indices, gamma=0.5)
    assert returns.tolist() == [2, 2, 5, 4, 18.75, 17.5, 15, 10]
    assert adv.tolist() == returns.tolist()


def test_advantages_bootstrap_where_an_episode_did_not_terminate():
    buffer = filled()
    batch, indices = buffer.sample(0)
    value, value_next = batch.obs, torch.from_numpy(batch.obs_next)
    returns, adv = compute_episodic_return(batch, buffer, indices, value_next, value, gamma=0.5, gae_lambda=0.5)
    # by hand: delta = rew + 0.5 * next - value (terminated: no next), adv = delta + 0.25 * adv of the next row
    delta = [1 + 0.5 - 0, 2 - 1, 3 + 1.5 - 2, 4 + 2 - 3, 10 + 5.5 - 10, 10 + 6 - 11, 10 + 6.5 - 12, 10 + 7 - 13]
    last = [1, 3, 7]  # rows after which nothing is added
    expected = list(delta)
    for row in reversed(range(7)):
        if row not in last:
            expected[row] += 0.25 * expected[row + 1]
    assert adv == pytest.approx(expected)
    assert returns == pytest.approx(np.add(expected, batch.obs))
    assert compute_episodic_return(batch, buffer, indices, value_next, gamma=0.5, gae_lambda=1)[0][3] == 6
    with pytest.raises(DataError, match="value is None and gae_lambda"):
        compute_episodic_return(batch, buffer, indices, value_next)


def test_rows_that_do_not_follow_each_other_are_cut():
    buffer = filled()
    indices = np.array([4, 6, 7, 7])
    returns, _ = compute_episodic_return(buffer[indices], buffer, indices, gamma=0.5)
    assert returns.tolist() == [10, 15, 10, 10]


def test_n_step_returns():
    buffer = filled()
    _, indices = buffer.sample(0)
    slots = []

    def behind(of, final):
        slots.extend(final.tolist())
        return torch.from_numpy(of.obs_next[final])

    batch = compute_nstep_return(buffer[indices], buffer, indices, behind, gamma=0.5, n_step=2)
    assert slots == [1, 1, 3, 3, 5, 6, 7, 7]
    assert isinstance(batch.returns, torch.Tensor)
    assert batch.returns.tolist() == [2, 2, 3 + 2 + 1, 4 + 2, 15 + 3, 15 + 3.25, 15 + 3.5, 10 + 7]
    for n_step in (1, 3):
        batch = compute_nstep_return(
            buffer[indices], buffer, indices, lambda of, final: of.obs_next[final], 0.9, n_step
        )
        sample, _ = buffer.sample(0, Sampling(n_step=n_step, gamma=0.9))
        assert batch.returns == pytest.approx(sample.rew + sample.discount * sample.obs_next)


def test_n_step_returns_of_stacked_frames():
    buffer = filled(stack_num=3)
    _, indices = buffer.sample(0)
    batch = compute_nstep_return(
        buffer[indices], buffer, indices, lambda of, final: of.get(final, "obs_next", stack_num=1), 0.5, 2
    )
    assert batch.returns.tolist() == [2, 2, 3 + 2 + 1, 4 + 2, 15 + 3, 15 + 3.25, 15 + 3.5, 10 + 7]


def test_n_step_returns_of_several_actions():
    buffer = filled()
    indices = np.array([0, 2])
    batch = compute_nstep_return(buffer[indices], buffer, indices, lambda *_: np.ones((2, 3)), gamma=0.5)
    assert batch.returns.tolist() == [[1.5] * 3, [3.5] * 3]
