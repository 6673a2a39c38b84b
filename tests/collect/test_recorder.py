import numpy as np
import pytest

from argosy.collect.recorder import Recorder, SegmentSpec, join_segments


def play(recorder, values, done=(), info=None):
    """One row lives through `values`; returns the segments."""
    segments = []
    for value in values:
        told = None if info is None else np.array([info(value)], object)
        segments += recorder.add(np.array([0]), fields([value], [0] if value in done else ()), told)
    return segments


def seen(segments):
    return [(s.data.rew[:, 0].tolist(), s.data.mask[:, 0].astype(int).tolist()) for s in segments]


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
    recorder = Recorder("a", 0, 2, SegmentSpec(sample_steps=3))
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
    recorder = Recorder("a", 0, 3, SegmentSpec(sample_steps=2))
    assert recorder.add(np.array([0, 2]), fields([1, 3])) == []
    (first,) = recorder.add(np.array([0, 1]), fields([11, 2]))
    assert (first.rows.tolist(), first.data.rew.tolist()) == ([0], [[1], [11]])
    (second,) = recorder.add(np.array([1, 2]), fields([12, 13]))
    assert (second.rows.tolist(), second.data.rew.tolist()) == ([1, 2], [[2, 3], [12, 13]])
    assert second.seq == 1
    (third,) = recorder.add(np.arange(3), fields([5, 6, 7])) or recorder.add(np.arange(3), fields([8, 9, 10]))
    assert third.data.rew.tolist() == [[5, 6, 7], [8, 9, 10]]  # in step again


def test_whole_episodes_have_their_own_length():
    recorder = Recorder("a", 0, 2, SegmentSpec(sample_steps=10, whole_episodes=True))
    both = np.arange(2)
    recorder.add(both, fields([1, 10]))
    (first,) = recorder.add(both, fields([2, 20], done=[0]))
    assert (first.rows.tolist(), first.data.rew.tolist()) == ([0], [[1], [2]])
    (second,) = recorder.add(both, fields([3, 30], done=[1]))
    assert second.data.rew.tolist() == [[10], [20], [30]]
    # side by side they have no common length: one column, cut where one ends
    joined = join_segments([first, second])
    assert joined.rew.tolist() == [[1], [2], [10], [20], [30]]
    assert joined.cut.tolist() == [[False], [True], [False], [False], [True]]


@pytest.mark.parametrize("spec", [{"sample_steps": 3}, {"sample_steps": 2, "send_after_done": True}])
def test_what_a_policy_stores_is_zero_where_it_did_not_act(spec):
    """As in a local run's buffer, whose first steps are random."""
    recorder = Recorder("a", 0, 1, SegmentSpec(**spec))
    assert recorder.add(np.array([0]), fields([1])) == []
    assert recorder.add(np.array([0]), {**fields([2]), "policy": {"logp": np.float32([-2])}}) == []
    segments = recorder.add(np.array([0]), {**fields([3], done=[0]), "policy": {"logp": np.float32([-3])}})
    assert np.concatenate([s.data.policy["logp"][:, 0] for s in segments]).tolist() == [0, -2, -3]
    assert np.concatenate([s.data.rew[:, 0] for s in segments]).tolist() == [1, 2, 3]


def test_cut_ends_what_was_recorded_and_leaves_a_gap():
    recorder = Recorder("a", 0, 2, SegmentSpec(sample_steps=2))
    recorder.add(np.array([0]), fields([1]))
    recorder.cut()  # row 1 has recorded nothing of this segment
    assert recorder.seq == 1
    segments = recorder.add(np.arange(2), fields([5, 6]))
    assert segments[0].data.truncated.tolist() == [[True], [False]]
    assert segments[0].data.rew.tolist() == [[1], [5]]
    assert segments[0].episode_returns.size == 0


def test_equal_segments_go_side_by_side():
    segments = []
    for start in (0, 100):
        recorder = Recorder("a", 0, 1, SegmentSpec(sample_steps=2))
        recorder.add(np.array([0]), fields([start + 1]))
        segments += recorder.add(np.array([0]), fields([start + 2]))
    joined = join_segments(segments)
    assert joined.rew.tolist() == [[1, 101], [2, 102]]
    assert joined.cut.tolist() == [[False, False], [True, True]]


def test_segments_overlap_by_burn_in_and_bootstrap_steps():
    recorder = Recorder("a", 0, 1, SegmentSpec(sample_steps=3, burn_in_steps=2, bootstrap_steps=1))
    segments = play(recorder, range(1, 12))
    assert seen(segments) == [
        ([0, 0, 1, 2, 3, 4], [0, 0, 1, 1, 1, 0]),
        ([2, 3, 4, 5, 6, 7], [0, 0, 1, 1, 1, 0]),
        ([5, 6, 7, 8, 9, 10], [0, 0, 1, 1, 1, 0]),
    ]
    assert [segment.steps for segment in segments] == [3, 3, 3]  # each transition counts once


def test_rows_out_of_step_overlap_each_by_its_own():
    recorder = Recorder("a", 0, 2, SegmentSpec(sample_steps=2, burn_in_steps=1))
    assert recorder.add(np.array([0]), fields([1])) == []
    (first,) = recorder.add(np.arange(2), fields([2, 10]))
    (second,) = recorder.add(np.arange(2), fields([3, 20]))
    (third,) = recorder.add(np.arange(2), fields([4, 30]))
    assert (first.rows.tolist(), first.data.rew[:, 0].tolist()) == ([0], [0, 1, 2])
    assert (second.rows.tolist(), second.data.rew[:, 0].tolist()) == ([1], [0, 10, 20])
    assert (third.rows.tolist(), third.data.rew[:, 0].tolist()) == ([0], [2, 3, 4])


def test_cut_after_a_burn_in_leaves_a_gap():
    recorder = Recorder("a", 0, 1, SegmentSpec(sample_steps=2, burn_in_steps=1))
    assert len(play(recorder, [1, 2])) == 1
    recorder.cut()  # what would be marked has been learned from already
    (segment,) = play(recorder, [3, 4])
    assert segment.seq == 2


def test_sent_after_the_episode_is_done():
    recorder = Recorder(
        "a", 0, 1, SegmentSpec(sample_steps=3, burn_in_steps=1, bootstrap_steps=1, send_after_done=True)
    )
    assert play(recorder, range(1, 8)) == []
    segments = play(recorder, [8, 9], done=[8])
    assert seen(segments) == [
        ([0, 1, 2, 3, 4], [0, 1, 1, 1, 0]),
        ([3, 4, 5, 6, 7], [0, 1, 1, 1, 0]),
        ([6, 7, 8], [0, 1, 1]),
    ]
    assert [s.seq for s in segments] == [0, 1, 2]
    assert [s.episode_returns.tolist() for s in segments] == [[36.0], [], []]
    (other,) = play(recorder, [10], done=[10])  # 9 and 10 are the next episode
    assert seen([other]) == [([0, 9, 10], [0, 1, 1])]


def test_padding_gives_all_segments_one_length():
    recorder = Recorder("a", 0, 1, SegmentSpec(sample_steps=3, bootstrap_steps=1, send_after_done=True, pad=True))
    segments = play(recorder, [1, 2, 3, 4], done=[4])
    assert seen(segments) == [([1, 2, 3, 4], [1, 1, 1, 0]), ([4, 0, 0, 0], [1, 0, 0, 0])]
    assert segments[1].data.terminated[:, 0].tolist() == [True, True, True, True]
    assert [s.steps for s in segments] == [3, 1]
    whole = Recorder("a", 0, 1, SegmentSpec(sample_steps=3, whole_episodes=True, pad=True))
    assert seen(play(whole, [1, 2], done=[2])) == [([1, 2, 0], [1, 1, 0])]
    assert join_segments(segments).rew.T.tolist() == [[1, 2, 3, 4], [4, 0, 0, 0]]


def test_a_cut_ends_whole_episodes():
    recorder = Recorder("a", 0, 2, SegmentSpec(sample_steps=9, whole_episodes=True))
    recorder.add(np.arange(2), fields([1, 10]))
    recorder.cut()
    first = recorder.add(np.arange(2), fields([2, 20], done=[0]))
    assert [s.data.rew.T.tolist() for s in first] == [[[1], [10]], [[2]]]
    assert first[0].data.truncated.all()


def test_episodes_of_one_length_go_side_by_side():
    recorder = Recorder("a", 0, 2, SegmentSpec(sample_steps=9, send_after_done=True))
    recorder.add(np.arange(2), fields([1, 10]))
    (segment,) = recorder.add(np.arange(2), fields([2, 20], done=[0, 1]))
    assert segment.data.rew.tolist() == [[1, 10], [2, 20]]


def test_postprocessing_sees_the_episode_as_a_whole():
    def to_go(fields):
        return {**fields, "returns": np.cumsum(fields["rew"][::-1], axis=0)[::-1]}

    recorder = Recorder("a", 0, 1, SegmentSpec(sample_steps=2, send_after_done=True), to_go)
    segments = play(recorder, [1, 2, 3], done=[3])
    assert [s.data.returns[:, 0].tolist() for s in segments] == [[6, 5], [3]]
    assert join_segments(segments[:1]).returns.tolist() == [[6], [5]]  # it reaches the algorithm


def test_episode_info_is_what_was_said_at_the_end():
    recorder = Recorder("a", 0, 1, SegmentSpec(sample_steps=4, episode_info=("won", "missing")))
    (segment,) = play(recorder, [1, 2, 3, 4], done=[2, 3], info=lambda value: {"won": 10 * value})
    assert segment.episode_info["won"].tolist() == [20.0, 30.0]
    assert np.isnan(segment.episode_info["missing"]).all()


def test_what_stands_before_an_episode_is_no_part_of_it():
    """Whoever runs through a segment begins anew behind what was made up, row by row and when episodes are sent."""
    recorder = Recorder("a", 0, 2, SegmentSpec(sample_steps=2, burn_in_steps=2))
    recorder.add(np.array([0]), fields([1]))
    (first,) = recorder.add(np.arange(2), fields([2, 10]))
    (other,) = recorder.add(np.arange(2), fields([3, 20]))
    for segment in (first, other):
        assert join_segments([segment]).cut[:, 0].tolist() == [True, True, False, True]
    by_episode = Recorder("a", 0, 1, SegmentSpec(sample_steps=2, burn_in_steps=2, send_after_done=True))
    segments = play(by_episode, [1, 2, 3, 4], done=[4])
    assert [join_segments([s]).cut[:, 0].tolist() for s in segments] == [
        [True, True, False, True],
        [False, False, False, True],
    ]


def test_a_cut_at_the_border_of_two_segments_is_seen_in_the_next_ones_burn_in():
    recorder = Recorder("a", 0, 1, SegmentSpec(sample_steps=2, burn_in_steps=2))
    (sent,) = play(recorder, [1, 2])
    recorder.cut()
    (segment,) = play(recorder, [3, 4])
    assert segment.data.rew[:, 0].tolist() == [1, 2, 3, 4]
    assert segment.data.truncated[:, 0].tolist() == [False, True, False, False]
    assert not sent.data.truncated.any()  # that one was handed out already
    fresh = Recorder("a", 0, 1, SegmentSpec(sample_steps=1, burn_in_steps=1))
    fresh.cut()
    (segment,) = play(fresh, [5])
    assert (segment.data.terminated[:, 0].tolist(), segment.data.truncated[:, 0].tolist()) == (
        [True, False],
        [False, False],
    )
