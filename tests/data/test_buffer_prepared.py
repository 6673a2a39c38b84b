import numpy as np
import pytest

from argosy.data import Batch, VectorReplayBuffer
from argosy.data.buffer.prepared import prepare
from argosy.data.buffer.replay import Sampling
from argosy.errors import DataError


def two_rings():
    """Rewards 1, 2, 3 of an episode that terminates, 4 of one that goes on; 10, 20 of a truncated one, 30, 40."""
    buffer = VectorReplayBuffer(10, 2)
    rows = [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0), (4.0, 40.0)]
    for t, rew in enumerate(rows):
        terminated, truncated = np.array([t == 2, False]), np.array([False, t == 1])
        obs = np.full((2, 1), t, np.float32)
        act = np.array([[t, -1.0], [10 + t, -2.0]], np.float32)
        row = {"obs": obs, "act": act, "rew": np.array(rew, np.float32), "terminated": terminated}
        buffer.add(Batch({**row, "truncated": truncated, "obs_next": obs + 1}))
    return buffer


def test_returns_sum_to_the_end_of_the_episode_or_of_the_data():
    buffer, sampling = two_rings(), Sampling(gamma=0.5, fields=("returns",))
    prepare(buffer, sampling)
    batch, _ = buffer.sample(0, sampling)
    assert batch.returns.tolist() == [1 + 1 + 0.75, 2 + 1.5, 3, 4, 10 + 10, 20, 30 + 20, 40]
    assert batch.rew.tolist() == [1, 2, 3, 4, 10, 20, 30, 40]


def test_actions_that_follow_and_none_where_nothing_does():
    buffer, sampling = two_rings(), Sampling(fields=("act_next",))
    prepare(buffer, sampling)
    found = buffer.sample(0, sampling)[0].act_next
    ends = [2, 3, 5, 7]
    assert np.isnan(found[ends]).all()
    assert np.delete(found, ends, axis=0).tolist() == [[1, -1], [2, -1], [11, -2], [13, -2]]


def test_sequences_hold_them_too():
    buffer, sampling = two_rings(), Sampling(gamma=0.0, fields=("returns",), sequence_length=2)
    prepare(buffer, sampling)
    batch, _ = buffer.sample(6, sampling)
    assert batch.returns.shape == (2, 6)
    assert np.array_equal(batch.returns, batch.rew)


def test_without_fields_nothing_is_added():
    buffer = two_rings()
    prepare(buffer, Sampling())
    assert "returns" not in buffer.fields


def test_what_nothing_makes_is_refused_with_the_nearest():
    with pytest.raises(DataError, match=r"'return', which nothing makes: did you mean 'returns'"):
        prepare(two_rings(), Sampling(fields=("return",)))
