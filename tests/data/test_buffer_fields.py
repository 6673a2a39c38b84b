"""Fields of one's own, an `obs_next` that is left out, objects that are refused, and sub-buffers to look at."""

import copy
import pickle

import numpy as np
import pytest

from argosy.data import Batch, CachedReplayBuffer, ReplayBuffer, ReplayBufferManager, Sampling, VectorReplayBuffer
from argosy.errors import DataError


def step(t, n=2, **fields):
    """Row `t` of n environments; the observation is 10 * env + t, episodes end at t = 2, 5, ..."""
    obs = 10.0 * np.arange(n) + t
    given = {
        "obs": obs,
        "act": np.zeros(n, int),
        "rew": np.ones(n),
        "terminated": np.full(n, t % 6 == 5),
        "truncated": np.full(n, t % 6 == 2),
        "obs_next": obs + 1,
    }
    return Batch({**given, **fields})


def own(t, n=2):
    return step(t, n, adv=np.full(n, t, np.float32), extra={"id": np.arange(n) + 100 * t, "none": Batch()})


def test_fields_of_ones_own_are_stored_and_sampled():
    buffer = VectorReplayBuffer(12, 2)
    for t in range(4):
        buffer.add(own(t))
    for batch in (buffer[:], buffer.sample(0)[0], buffer.sample(0, Sampling(n_step=2))[0]):
        assert batch.adv.tolist() == [0, 1, 2, 3] * 2
        assert batch.extra.id.tolist() == [0, 100, 200, 300, 1, 101, 201, 301]
    assert buffer.rollout().adv.shape == (4, 2)
    assert buffer.sample(3, Sampling(sequence_length=2))[0].extra.id.shape == (2, 3)
    assert buffer.adv[:4].tolist() == [0, 1, 2, 3]
    assert buffer.get([6, 7], "adv").tolist() == [0, 1]
    assert buffer[7].extra.id == 101
    with pytest.raises(AttributeError, match="'VectorReplayBuffer' object has no attribute 'advantage'"):
        _ = buffer.advantage


@pytest.mark.parametrize("name", ["maxsize", "priorities", "hindsight", "cached_buffer_num", "rings"])
def test_they_hide_nothing_that_buffers_have(name):
    buffer = ReplayBuffer(3)
    buffer.add(step(0, 1, **{name: np.full(1, 7.0)}))
    assert buffer[0][name] == 7.0
    assert len(buffer.sample(2)[0]) == 2
    assert ReplayBuffer(5).maxsize == 5
    assert CachedReplayBuffer(ReplayBuffer(5), 2, 3).cached_buffer_num == 2


def test_they_may_come_and_go():
    """Rows without them hold zero, also where a row that had them is overwritten."""
    buffer = ReplayBuffer(3)
    buffer.add(step(0, 1))
    assert "adv" not in buffer[:]
    for t in (1, 2):
        buffer.add(own(t, 1))
    assert buffer[:].adv.tolist() == [0, 1, 2]
    buffer.add(step(3, 1))
    buffer.add(step(4, 1))
    assert buffer[:].adv.tolist() == [2, 0, 0]
    with pytest.raises(DataError, match=r"adv has shape \(1, 2\); the buffer stores \(1,\)"):
        buffer.add(step(5, 1, adv=np.zeros((1, 2))))
    with pytest.raises(DataError, match=r"name has dtype (<U1|object); a buffer stores numbers"):
        buffer.add(step(5, 1, name=np.array(["x"])))
    assert (len(buffer), "name" in buffer[:]) == (3, False)


def test_what_reading_made_is_not_stored():
    buffer = ReplayBuffer(8)
    buffer.add(own(0, 1))
    sample, _ = buffer.sample(1)
    buffer.add(sample)
    assert set(buffer[:].keys()) == {*own(0).keys(), "done", "info", "policy"}


@pytest.mark.parametrize("options", [{}, {"ignore_obs_next": True}, {"device": "cpu"}])
def test_they_are_part_of_the_state(tmp_path, options):
    buffer = VectorReplayBuffer(8, 2, **options)
    for t in range(6):
        buffer.add(own(t))
    again = [copy.deepcopy(buffer), pickle.loads(pickle.dumps(buffer)), VectorReplayBuffer(8, 2, **options)]
    again[2].load_state_dict(buffer.state_dict())
    if not options.get("device"):
        pytest.importorskip("h5py")
        buffer.save_hdf5(tmp_path / "buffer.hdf5")
        again.append(VectorReplayBuffer.load_hdf5(tmp_path / "buffer.hdf5"))
    for one in again:
        assert one[:] == buffer[:]
        one.add(own(6))
        assert one[:].adv[3] == 6
    other = ReplayBuffer(20)
    other.add(step(0, 1))
    other.update(buffer)
    assert other[:].adv.tolist() == [0, 2, 3, 4, 5, 2, 3, 4, 5]


def test_they_move_with_their_episode():
    buffer = CachedReplayBuffer(ReplayBuffer(9), 2, 5)
    for t in range(4):
        buffer.add(own(t))
    assert buffer[:].adv.tolist() == [0, 1, 2, 0, 1, 2, 3, 3]
    assert ReplayBufferManager([ReplayBuffer(3), ReplayBuffer(3)]).buffer_num == 2


def test_successors_need_not_be_given_where_they_are_not_stored():
    buffer = VectorReplayBuffer(12, 2, ignore_obs_next=True)
    for t in range(5):
        given = step(t)
        del given["obs_next"]
        buffer.add(given)
    batch = buffer[:]
    assert batch.obs_next[:5].tolist() == [1, 2, 2, 4, 4]  # an episode's last row and the newest one have their own
    one = step(5, 1)[0]
    del one["obs_next"]
    buffer.add(one, [1])
    assert buffer[:].obs_next[5:].tolist() == [11, 12, 12, 14, 5, 5]
    with pytest.raises(DataError, match="the batch has no field 'obs_next'"):
        VectorReplayBuffer(12, 2).add(given)
    with pytest.raises(DataError, match="the batch has no field 'obs'"):
        buffer.add(Batch(act=np.zeros(2)))


def test_frames_without_successors():
    """Stacks of a buffer that knows observations alone, as Atari scripts make it."""
    buffer = ReplayBuffer(9, stack_num=2, ignore_obs_next=True, save_only_last_obs=True)
    for t in range(3):
        given = step(t, 1, obs=np.array([[max(t - 1, 0), t]]))
        del given["obs_next"]
        buffer.add(given)
    assert buffer[:].obs.tolist() == [[0, 0], [0, 1], [1, 2]]
    assert buffer[:].obs_next.tolist() == [[0, 1], [1, 2], [2, 2]]


def test_objects_are_refused_with_advice():
    graphs = np.array([{1: 2}, object()], object)
    with pytest.raises(DataError, match=r"obs has dtype object; .* let a wrapper of the env make arrays of one shape"):
        VectorReplayBuffer(4, 2).add(step(0, obs=graphs, obs_next=graphs))


def test_sub_buffers_to_look_at():
    buffer = VectorReplayBuffer(8, 2)
    first, second = buffer.buffers
    assert (len(first), first.maxsize, second.offset) == (0, 4, 4)
    for t in range(5):
        buffer.add(step(t))
    buffer.add(step(5)[:1], [1])
    assert (len(first), len(second)) == (4, 4)
    assert first[:].obs.tolist() == [1, 2, 3, 4]  # oldest first
    assert second[:].obs.tolist() == [12, 13, 14, 5]
    assert second.slots.tolist() == [6, 7, 4, 5]
    assert (second[1].obs, second[-1].obs) == (5, 13)
    assert first[[0, 3]].obs.tolist() == [4, 3]
    assert second[1:3].obs.tolist() == [5, 12]
    assert (first.last_index.tolist(), second.last_index.tolist()) == ([0], [1])
    assert (first.unfinished_index().tolist(), second.unfinished_index().tolist()) == ([0], [])
    with pytest.raises(IndexError, match="it has 4 slots"):
        first[4]
    assert sum(map(len, ReplayBufferManager([ReplayBuffer(3), ReplayBuffer(5)]).buffers)) == 0
