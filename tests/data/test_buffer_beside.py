import numpy as np
import pytest

from argosy.data import Batch, ReplayBuffer, VectorReplayBuffer
from argosy.data.buffer.replay import Sampling
from argosy.errors import DataError


def two_rings(device=None):
    """Rewards 1, 2, 3 of an episode that terminates, 4 of one that goes on; 10, 20 of a truncated one, 30, 40."""
    buffer = VectorReplayBuffer(10, 2, device=device)
    rows = [(1.0, 10.0), (2.0, 20.0), (3.0, 30.0), (4.0, 40.0)]
    for t, rew in enumerate(rows):
        terminated, truncated = np.array([t == 2, False]), np.array([False, t == 1])
        obs = np.full((2, 1), t, np.float32)
        act = np.array([[t, -1.0], [10 + t, -2.0]], np.float32)
        row = {"obs": obs, "act": act, "rew": np.array(rew, np.float32), "terminated": terminated}
        buffer.add(Batch({**row, "truncated": truncated, "obs_next": obs + 1}))
    return buffer


@pytest.mark.parametrize("device", [None, "cpu"])
def test_returns_sum_to_the_end_of_the_episode_or_of_the_data(device):
    buffer, sampling = two_rings(device), Sampling(gamma=0.5, fields=("returns",))
    batch, _ = buffer.sample(0, sampling)
    assert batch.returns.tolist() == [1 + 1 + 0.75, 2 + 1.5, 3, 4, 10 + 10, 20, 30 + 20, 40]
    assert batch.rew.tolist() == [1, 2, 3, 4, 10, 20, 30, 40]


@pytest.mark.parametrize("device", [None, "cpu"])
def test_actions_that_follow_and_none_where_nothing_does(device):
    buffer, sampling = two_rings(device), Sampling(fields=("act_next",))
    found = np.asarray(buffer.sample(0, sampling)[0].act_next)
    ends = [2, 3, 5, 7]
    assert np.isnan(found[ends]).all()
    assert np.delete(found, ends, axis=0).tolist() == [[1, -1], [2, -1], [11, -2], [13, -2]]


def test_actions_that_follow_several_steps():
    buffer = two_rings()
    found = buffer.sample(0, Sampling(n_step=2, fields=("act_next",)))[0].act_next[..., 0]
    assert found.tolist() == pytest.approx([2, *[np.nan] * 7], nan_ok=True)
    batch, _ = buffer.sample(4, Sampling(n_step=2, fields=("act_next",), sequence_length=4))
    assert batch.act_next[0, :, 0].tolist() == [
        2.0 if first == 0 else pytest.approx(np.nan, nan_ok=True) for first in batch.act[0, :, 0]
    ]


@pytest.mark.parametrize("length", [1, 127, 128, 129, 300])
def test_returns_of_long_episodes(length):
    buffer, rng = ReplayBuffer(400), np.random.default_rng(0)
    rew = rng.normal(size=length)
    for t in range(length):
        row = {"obs": 0.0, "act": 0, "rew": rew[t], "obs_next": 0.0, "terminated": t == length - 1, "truncated": False}
        buffer.add(Batch(row))
    found = buffer.sample(0, Sampling(gamma=0.99, fields=("returns",)))[0].returns
    expected = [sum(0.99 ** (k - t) * rew[k] for k in range(t, length)) for t in range(length)]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("device", [None, "cpu"])
def test_which_episodes_have_their_end_in_the_data(device):
    buffer, expected = two_rings(device), np.array([True, True, True, False, True, True, False, False])
    assert buffer.sample(0, Sampling(fields=("ended",)))[0].ended.tolist() == expected.tolist()
    stored = buffer.sample_indices(0).tolist()
    for length in (1, 2, 3, 4):  # the ends of some are behind their sequence
        batch, _ = buffer.sample(10, Sampling(fields=("ended",), sequence_length=length))
        assert np.array_equal(batch.ended, expected[np.searchsorted(stored, np.asarray(batch.indices))])


@pytest.mark.parametrize("length", [1, 127, 128, 129, 300])
def test_ends_of_long_episodes(length):
    buffer = ReplayBuffer(2 * length + 5)
    for t in range(2 * length + 5):  # one terminates, one is truncated, one goes on
        flags = {"terminated": t == length - 1, "truncated": t == 2 * length - 1}
        buffer.add(Batch({"obs": 0.0, "act": 0, "rew": 0.0, "obs_next": 0.0, **flags}))
    found = buffer.sample(0, Sampling(fields=("ended",)))[0].ended
    assert found.tolist() == [True] * 2 * length + [False] * 5
    found = buffer.sample(0, Sampling(fields=("ended",), sequence_length=3))[0]
    assert np.array_equal(found.ended, found.indices < 2 * length)


def filled(ends, cuts, size=6):
    """Rows with truncated ends, some of them cut."""
    buffer, rows = ReplayBuffer(size), len(ends)
    zero, truncated = np.zeros(rows, np.float32), np.array(ends, bool)
    fields = {"obs": zero, "act": zero, "rew": zero, "obs_next": zero, "terminated": truncated & False}
    buffer.add_steps({**fields, "truncated": truncated}, rows, np.array(cuts, bool))
    return buffer


def ended(buffer):
    return buffer.sample(0, Sampling(fields=("ended",)))[0].ended.astype(int).tolist()


def test_with_what_is_left_of_an_episode_none_begins():
    buffer = ReplayBuffer(15)
    for t in range(20):  # of two episodes of ten rows, five rows are overwritten
        buffer.add(
            Batch({"obs": 0.0, "act": 0, "rew": 0.0, "obs_next": 0.0, "terminated": t % 10 == 9, "truncated": False})
        )
    batch = buffer.sample(0, Sampling(fields=("ended",)))[0]
    assert ended(buffer) == [0] + [1] * 14
    batch, _ = buffer.sample(15, Sampling(fields=("ended",), sequence_length=4))
    begins = batch.on_reset & batch.ended
    assert set(np.unique(batch.indices[begins])) == {10}


def test_a_recording_that_stops_is_no_end_but_where_there_is_no_other():
    assert ended(filled([0, 1, 0, 1, 0, 0], [0, 0, 0, 1, 0, 0])) == [1, 1, 0, 0, 0, 0]
    assert ended(filled([0, 1, 0, 1, 0, 0], [0, 1, 0, 1, 0, 0])) == [1] * 6
    assert ended(filled([0, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0])) == [1] * 6
    wrapped = filled([0, 0, 0, 1], [0, 0, 0, 0], size=5)
    for _ in range(2):
        row = {"obs": 0.0, "act": 0.0, "rew": 0.0, "obs_next": 0.0, "terminated": False, "truncated": False}
        wrapped.add(Batch({name: np.array([value]) for name, value in row.items()}))
    assert ended(wrapped) == [1] * 5  # of the one that ends, the beginning is overwritten


def test_where_recordings_stopped_stays_known_until_it_is_overwritten(tmp_path):
    pytest.importorskip("h5py")
    buffer = filled([0, 1, 0, 1, 0, 1], [0, 0, 0, 1, 0, 0])
    expected = [1, 1, 0, 0, 1, 1]
    assert ended(buffer) == expected
    copy, other = ReplayBuffer(6), ReplayBuffer(9)
    copy.load_state_dict(buffer.state_dict())
    other.update(buffer)
    buffer.save_hdf5(tmp_path / "a.hdf5")
    for one in (copy, other, ReplayBuffer.load_hdf5(tmp_path / "a.hdf5")):
        assert ended(one) == expected
    copy.add(Batch({name: copy[3:4][name] for name in ("obs", "act", "rew", "obs_next", "terminated", "truncated")}))
    copy.add_steps(copy[:4], 4)
    assert not copy.rings.cut.any()


def test_what_is_collected_later_has_its_own():
    buffer, sampling = ReplayBuffer(4), Sampling(gamma=0.5, fields=("returns",))
    for t in range(6):  # the oldest rows are overwritten on the way
        flags = {"terminated": False, "truncated": False}
        buffer.add(Batch({"obs": 0.0, "act": 0, "rew": float(t), "obs_next": 0.0, **flags}))
    assert buffer.sample(0, sampling)[0].returns.tolist() == [2 + 1.5 + 1 + 0.625, 3 + 2 + 1.25, 4 + 2.5, 5]


def test_sequences_hold_them_too():
    buffer, sampling = two_rings(), Sampling(gamma=0.0, fields=("returns",), sequence_length=2)
    batch, _ = buffer.sample(6, sampling)
    assert batch.returns.shape == (2, 6)
    assert np.array_equal(batch.returns, batch.rew)


def test_what_nothing_makes_is_refused_with_the_nearest():
    with pytest.raises(DataError, match=r"'return', which nothing makes: did you mean 'returns'"):
        two_rings().sample(2, Sampling(fields=("return",)))
