import numpy as np

from argosy.distributed.learning import rollout
from argosy.distributed.recorder import Recorder


def fields(values, done=()):
    values = np.asarray(values, np.float32)
    return {
        "obs": values[:, None],
        "rew": values,
        "terminated": np.isin(np.arange(len(values)), done),
        "truncated": np.zeros(len(values), bool),
        "policy": None,
    }


def test_rows_in_step_fill_one_segment():
    recorder = Recorder("a", 0, rows=2, steps=3)
    both = np.arange(2)
    assert recorder.add(both, fields([1, 10])) == []
    assert recorder.add(both, fields([2, 20], done=[1])) == []
    (segment,) = recorder.add(both, fields([3, 30]))
    assert segment.data.rew.tolist() == [[1, 10], [2, 20], [3, 30]]
    assert segment.data.obs.shape == (3, 2, 1)
    assert (segment.seq, segment.steps, segment.rows.tolist()) == (0, 6, [0, 1])
    assert (segment.episode_returns.tolist(), segment.episode_lengths.tolist()) == ([30.0], [2])
    recorder.add(both, fields([4, 40]))
    assert segment.data.rew[0].tolist() == [1, 10]  # the receiver's arrays are not written to again


def test_every_row_has_its_own_time():
    recorder = Recorder("a", 0, rows=3, steps=2)
    assert recorder.add(np.array([0, 2]), fields([1, 3])) == []
    (first,) = recorder.add(np.array([0, 1]), fields([11, 2]))
    assert (first.rows.tolist(), first.data.rew.tolist()) == ([0], [[1], [11]])
    (second,) = recorder.add(np.array([1, 2]), fields([12, 13]))
    assert (second.rows.tolist(), second.data.rew.tolist()) == ([1, 2], [[2, 3], [12, 13]])
    assert second.seq == 1
    (third,) = recorder.add(np.arange(3), fields([5, 6, 7])) or recorder.add(np.arange(3), fields([8, 9, 10]))
    assert third.data.rew.tolist() == [[5, 6, 7], [8, 9, 10]]  # in step again


def test_whole_episodes_have_their_own_length():
    recorder = Recorder("a", 0, rows=2, steps=10, whole_episodes=True)
    both = np.arange(2)
    recorder.add(both, fields([1, 10]))
    (first,) = recorder.add(both, fields([2, 20], done=[0]))
    assert (first.rows.tolist(), first.data.rew.tolist()) == ([0], [[1], [2]])
    (second,) = recorder.add(both, fields([3, 30], done=[1]))
    assert second.data.rew.tolist() == [[10], [20], [30]]
    # side by side they have no common length: one column, cut where one ends
    joined = rollout([first, second])
    assert joined.rew.tolist() == [[1], [2], [10], [20], [30]]
    assert joined.cut.tolist() == [[False], [True], [False], [False], [True]]


def test_cut_ends_what_was_recorded_and_leaves_a_gap():
    recorder = Recorder("a", 0, rows=2, steps=2)
    recorder.add(np.array([0]), fields([1]))
    recorder.cut()  # row 1 has recorded nothing of this segment
    assert recorder.seq == 1
    segments = recorder.add(np.arange(2), fields([5, 6]))
    assert segments[0].data.truncated.tolist() == [[True], [False]]
    assert segments[0].data.rew.tolist() == [[1], [5]]
    assert segments[0].episode_returns.size == 0


def test_rollout_puts_equal_segments_side_by_side():
    segments = []
    for start in (0, 100):
        recorder = Recorder("a", 0, rows=1, steps=2)
        recorder.add(np.array([0]), fields([start + 1]))
        segments += recorder.add(np.array([0]), fields([start + 2]))
    joined = rollout(segments)
    assert joined.rew.tolist() == [[1, 101], [2, 102]]
    assert joined.cut.tolist() == [[False, False], [True, True]]
