"""Sequences for recurrent training, by hand."""

from __future__ import annotations

import numpy as np
import pytest

from argosy.data import (
    Batch,
    CachedReplayBuffer,
    PrioritizedVectorReplayBuffer,
    ReplayBuffer,
    Sampling,
    VectorReplayBuffer,
)


def fill(buffer: ReplayBuffer, rows: int, ends: tuple[int, ...] = ()) -> None:
    """act = time, recurrent state before the step = 10 * time; rows `ends` are terminated."""
    n = getattr(buffer, "cached_buffer_num", buffer.buffer_num)
    for time in range(rows):
        obs = np.full((n, 1), float(time))
        buffer.add(
            Batch(
                obs=obs,
                act=np.full(n, time),
                rew=np.full(n, float(time)),
                terminated=np.full(n, time in ends),
                truncated=np.zeros(n, bool),
                obs_next=obs + 1,
                policy=Batch(state=np.full((n, 2), 10.0 * time)),
            )
        )


def test_sequence_with_burn_in_across_an_episode_end():
    buffer = ReplayBuffer(8)
    fill(buffer, 6, ends=(2,))
    batch, index = buffer.sample(0, Sampling(sequence_length=3, burn_in=1, n_step=2, gamma=0.5))
    assert batch.act.T.tolist() == [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [2, 3, 4, 5], [2, 3, 4, 5], [2, 3, 4, 5]]
    assert index.tolist() == [0, 1, 2, 3, 4, 5]
    assert batch.indices[:, 1].tolist() == [1, 2, 3, 4]
    assert batch.mask[:, 0].tolist() == [False, True, True, True]
    assert batch.weight[:, 0].tolist() == [0, 1, 1, 1]
    assert batch.on_reset[:, 0].tolist() == [True, False, False, True]
    assert batch.on_reset[:, 1].tolist() == [False, False, True, False]
    assert batch.policy.state[0, :, 0].tolist() == [0, 10, 20, 20, 20, 20]
    assert batch.rew[:, 0].tolist() == [0.5, 2.0, 2.0, 3.0]  # 0 + 1/2; 1 + 2/2; 2 (ends); 3 (the sequence ends)
    assert batch.discount[:, 0].tolist() == [0.25, 0.0, 0.0, 0.5]
    assert batch.final[:, 0].tolist() == [1, 2, 2, 3]
    assert batch.obs_next[:, 0, 0].tolist() == [2, 3, 3, 4]


def starts(buffer, span):
    """-> by the first row of a sequence: the rows' times and which of them do not go on from the row before."""
    batch, _ = buffer.sample(0, Sampling(sequence_length=span))
    return dict(
        zip(batch.act[0].tolist(), zip(batch.act.T.tolist(), batch.on_reset.T.tolist(), strict=True), strict=True)
    )


def test_what_is_left_of_a_long_episode_does_not_go_on_from_the_one_before():
    buffer = CachedReplayBuffer(ReplayBuffer(16), 1, max_episode_length=3)
    fill(buffer, 10, ends=(4, 9))  # of 5 rows each the last 3 stay
    assert starts(buffer, 4)[2] == ([2, 3, 4, 7], [False, False, False, True])


def test_rows_of_another_buffer_do_not_go_on_from_the_row_before():
    buffer, wrapped = ReplayBuffer(16), ReplayBuffer(3)
    fill(buffer, 2)
    fill(wrapped, 25)
    buffer.update(wrapped)
    assert starts(buffer, 4)[1] == ([1, 22, 23, 24], [False, True, False, False])
    several = VectorReplayBuffer(6, 2)
    fill(several, 25)
    buffer.update(several)
    assert starts(buffer, 8)[22][1] == [False, False, False, True, False, False, True, False]


def test_sums_of_rewards_end_with_the_sequence():
    buffer = ReplayBuffer(16)
    fill(buffer, 8, ends=(4,))
    batch, _ = buffer.sample(0, Sampling(sequence_length=5, n_step=3, gamma=0.5))
    assert batch.final[:, 0].tolist() == [2, 3, 4, 4, 4]  # rows 0 .. 4, the last one an end
    assert batch.final[:, 2].tolist() == [2, 2, 2, 4, 4]  # rows 2 .. 6: an end at row 4, the sequence's at row 6
    assert batch.final.dtype == np.int64
    assert batch.rew[:, 2].tolist() == [2 + 3 / 2 + 4 / 4, 3 + 4 / 2, 4.0, 5 + 6 / 2, 6.0]
    assert batch.discount[:, 2].tolist() == [0.0, 0.0, 0.0, 0.25, 0.5]
    assert batch.obs_next[:, 2, 0].tolist() == [5, 5, 5, 7, 7]
    assert "final" not in buffer.sample(4, Sampling(n_step=3))[0]


def test_padding_where_the_ring_is_short():
    buffer = VectorReplayBuffer(16, 2)
    fill(buffer, 2)
    batch, _ = buffer.sample(4, Sampling(sequence_length=3))
    assert batch.act.T.tolist() == [[0, 1, 1]] * 4
    assert batch.mask.T.tolist() == [[True, True, False]] * 4
    assert batch.on_reset.T.tolist() == [[True, False, False]] * 4
    assert "final" not in batch  # each row's successor is its own
    batch, _ = buffer.sample(4, Sampling(sequence_length=3, n_step=3, gamma=0.5))
    assert batch.final.T.tolist() == [[1, 1, 2]] * 4  # padding: its own
    assert batch.rew.T.tolist() == [[0.5, 1, 1]] * 4


@pytest.mark.parametrize(("rows", "learned"), [(1, [0]), (3, [0, 1, 2]), (4, [1, 2, 3]), (9, [2, 3, 4])])
def test_a_short_ring_gives_up_burn_in_before_rows_to_learn_from(rows, learned):
    buffer = ReplayBuffer(16)
    fill(buffer, rows)
    batch, _ = buffer.sample(0, Sampling(sequence_length=3, burn_in=2))
    assert batch.act[batch.mask[:, 0], 0].tolist() == learned
    assert (batch.weight[:, 0] > 0).tolist() == batch.mask[:, 0].tolist()
    assert batch.mask.any(axis=0).all()


def test_starts_are_drawn_alike_and_after_a_wrap_the_first_row_is_no_reset():
    buffer = ReplayBuffer(8, seed=0)
    fill(buffer, 12)  # holds 4 .. 11 of one long episode
    starts = []
    for _ in range(500):
        batch, index = buffer.sample(8, Sampling(sequence_length=5))
        assert (np.diff(batch.act, axis=0) == 1).all()
        assert batch.mask.all()
        assert not batch.on_reset.any()
        assert batch.act[0].tolist() == buffer.act[index].tolist()
        starts += batch.act[0].tolist()
    found, counts = np.unique(starts, return_counts=True)
    assert found.tolist() == [4, 5, 6, 7]
    assert abs(counts - 1000).max() < 5 * np.sqrt(1000)


def test_priorities_of_sequences():
    buffer = PrioritizedVectorReplayBuffer(16, 2, alpha=1.0, beta=1.0, seed=0)
    fill(buffer, 6)
    buffer.update_weight(buffer.sample_indices(0), np.full(12, 1e-30))
    buffer.update_weight([5], [1e9])  # the newest row of env 0: its sequence begins earlier
    batch, index = buffer.sample(3, Sampling(sequence_length=4))
    assert index.tolist() == [5, 5, 5]
    assert batch.act.T.tolist() == [[2, 3, 4, 5]] * 3
    assert batch.weight.tolist() == [[1.0] * 3] * 4
    buffer.update_weight(batch.indices, np.full((4, 3), 2.0))
    np.testing.assert_allclose(buffer.priorities.tree[np.arange(2, 6)], 2.0, rtol=1e-6)


def test_stacked_frames_in_sequences():
    buffer = ReplayBuffer(8, stack_num=2, ignore_obs_next=True)
    fill(buffer, 5, ends=(1,))
    batch, _ = buffer.sample(0, Sampling(sequence_length=2))
    assert batch.obs[:, 1, :, 0].tolist() == [[0, 1], [2, 2]]
    assert batch.obs_next[:, 1, :, 0].tolist() == [[1, 2], [2, 3]]
