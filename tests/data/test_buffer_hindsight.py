"""Hindsight buffers by hand, and all samplers at once."""

from __future__ import annotations

import numpy as np
import pytest

from argosy.data import (
    Batch,
    HERReplayBuffer,
    HERReplayBufferManager,
    HERVectorReplayBuffer,
    Hindsight,
    Priority,
    ReplayBuffer,
    Sampling,
    VectorReplayBuffer,
)
from argosy.data.buffer.hindsight import look_up
from argosy.errors import DataError


def reached(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    return np.where(np.abs(achieved - desired).max(axis=-1) < 0.5, 0.0, -1.0)


def fill(buffer: ReplayBuffer, lengths: list[int]) -> None:
    """Episodes of these lengths in every env; position 100 * episode + step, the goal (-1) is out of reach."""
    n = buffer.buffer_num
    for episode, length in enumerate(lengths):
        for step in range(length):
            here = np.full((n, 1), 100.0 * episode + step)

            def obs(place: np.ndarray) -> Batch:
                return Batch(observation=place, achieved_goal=place, desired_goal=np.full((n, 1), -1.0))

            buffer.add(
                Batch(
                    obs=obs(here),
                    obs_next=obs(here + 1),
                    act=np.zeros((n, 1)),
                    rew=np.full(n, -1.0),
                    terminated=np.zeros(n, bool),
                    truncated=np.full(n, step == length - 1),
                )
            )


def test_relabelled_share_and_range():
    buffer = HERReplayBuffer(100, reached, horizon=50, future_k=3.0, seed=0)
    fill(buffer, [50, 50])
    share = []
    for _ in range(50):
        batch, _ = buffer.sample(100)
        goal, here = batch.obs.desired_goal[:, 0], batch.obs.achieved_goal[:, 0]
        new = goal != -1.0
        share.append(new.mean())
        assert (goal[new] > here[new]).all()
        assert (goal[new] // 100 == here[new] // 100).all() or (goal[new] % 100 == 50).any()
        assert (batch.rew == np.where(goal == here + 1, 0.0, -1.0)).all()
        np.testing.assert_array_equal(batch.obs_next.desired_goal, batch.obs.desired_goal)
    assert np.mean(share) == pytest.approx(0.75, abs=0.03)
    assert (buffer.obs.desired_goal == -1.0).all()
    assert (buffer.rew == -1.0).all()


def test_all_goals_ahead_are_drawn_alike():
    buffer = HERReplayBuffer(4, reached, horizon=4, future_k=1e9, seed=0)
    fill(buffer, [4])
    goals = np.concatenate([buffer.sample(0)[0].obs.desired_goal[:, 0].reshape(1, -1) for _ in range(3_000)])
    for step in range(4):
        found, counts = np.unique(goals[:, step], return_counts=True)
        assert found.tolist() == list(range(step + 1, 5))
        assert abs(counts - 3_000 / len(found)).max() < 200


def test_horizon_limits_how_far_ahead():
    buffer = HERReplayBuffer(10, reached, horizon=2, future_k=1e9, seed=0)
    fill(buffer, [10])
    for _ in range(50):
        batch, _ = buffer.sample(0)
        ahead = batch.obs.desired_goal - batch.obs.achieved_goal
        assert ahead.min() >= 1
        assert ahead.max() <= 2


def test_no_goals_and_no_questions_when_future_k_is_zero():
    def refuse(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
        raise AssertionError(f"asked about {len(achieved)} goals")

    buffer = HERReplayBuffer(10, refuse, horizon=5, future_k=0.0)
    fill(buffer, [10])
    assert (buffer.sample(10)[0].obs.desired_goal == -1).all()


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_priorities_hindsight_n_step_and_stacks_at_once(ignore, device):
    """A priority that leaves two rows; their windows, stacks, goals and rewards by hand."""
    buffer = VectorReplayBuffer(
        24,
        2,
        stack_num=2,
        ignore_obs_next=ignore,
        priority=Priority(alpha=1.0, beta=1.0),
        hindsight=Hindsight(compute_reward_fn=reached, horizon=10, future_k=1e9),
        seed=0,
        device=device,
    )
    fill(buffer, [4, 6, 4])  # rings of 12: the first two rows are overwritten
    slots = buffer.sample_indices(0)
    buffer.update_weight(slots, np.full(len(slots), 1e-30))
    # Env 1, episode 0: its last row (position 3). Env 0, episode 1: its row at position 103.
    place = np.asarray(buffer.obs.observation)[:, 0]
    last = int(next(s for s in slots if s >= 12 and place[s] == 3))
    inner = int(next(s for s in slots if s < 12 and place[s] == 103))
    buffer.update_weight([last, inner], [1e9, 3e9])
    seen: dict[int, set[float]] = {last: set(), inner: set()}
    for _ in range(40):
        batch, index = buffer.sample(8, Sampling(n_step=3, gamma=0.5))
        for k, slot in enumerate(index.tolist()):
            goal = float(batch.obs.desired_goal[k, -1, 0])
            seen[slot].add(goal)
            assert batch.obs.desired_goal[k].tolist() == batch.obs_next.desired_goal[k].tolist() == [[goal], [goal]]
            if slot == last:
                assert batch.obs.observation[k, :, 0].tolist() == [2, 3]
                assert batch.obs_next.observation[k, :, 0].tolist() == [3, 4]
                assert float(batch.rew[k]) == 0.0  # the only goal ahead is where it arrives
                assert float(batch.discount[k]) == 0.5
                assert bool(batch.truncated[k])
            else:
                assert batch.obs.observation[k, :, 0].tolist() == [102, 103]
                assert batch.obs_next.observation[k, :, 0].tolist() == [105, 106]
                rew = [-1.0, -1.0, -1.0]
                rew[int(goal) - 104] = 0.0
                assert float(batch.rew[k]) == rew[0] + 0.5 * rew[1] + 0.25 * rew[2]
                assert float(batch.discount[k]) == 0.125
        weights = np.asarray(batch.weight)
        np.testing.assert_allclose(weights, np.where(index == last, 1.0, 1 / 3) / weights_max(index, last), rtol=1e-5)
    assert seen == {last: {4.0}, inner: {104.0, 105.0, 106.0}}


def weights_max(index: np.ndarray, last: int) -> float:
    return 1.0 if last in index else 1 / 3


def test_sequences_keep_one_goal_per_episode():
    buffer = HERVectorReplayBuffer(40, 2, reached, 10, 1e9, seed=0)
    fill(buffer, [6, 6, 6])
    for _ in range(20):
        batch, _ = buffer.sample(16, Sampling(sequence_length=4))
        goal, here = batch.obs.desired_goal[..., 0], batch.obs.achieved_goal[..., 0]
        first_episode = here // 100 == here[0] // 100
        for b in range(16):
            same = first_episode[:, b]
            assert len(set(goal[same, b])) == 1
            assert goal[same, b][0] > here[same, b].max()
            assert (goal[~same, b] == -1).all()


def is_reached(achieved: np.ndarray, desired: np.ndarray) -> np.ndarray:
    return reached(achieved, desired) == 0.0


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("device", [None, "cpu"])
def test_a_new_goal_ends_the_episode_where_the_env_says_so(n_step, device):
    """Row t of the only episode arrives at t + 1; under a goal g it ends after g - t steps."""
    hindsight = Hindsight(compute_reward_fn=reached, compute_terminated_fn=is_reached, horizon=9, future_k=4.0)
    buffer = ReplayBuffer(6, hindsight=hindsight, seed=0, device=device)
    fill(buffer, [6])
    buffer.terminated[5] = True  # of the old goal, not of a new one
    left = set()
    for _ in range(40):
        batch, slots = buffer.sample(0, Sampling(n_step=n_step, gamma=0.5))
        for t, goal in zip(slots.tolist(), np.asarray(batch.obs.desired_goal)[:, 0].tolist(), strict=True):
            window = min(n_step, 6 - t)
            if goal == -1.0:  # kept: as stored
                ends, steps, rewards = t + window == 6, window, [-1.0] * window
            else:
                steps = min(window, int(goal) - t)
                ends = t + steps == goal
                rewards = [-1.0] * (steps - 1) + [0.0 if ends else -1.0]
            assert bool(batch.terminated[t]) == ends
            assert bool(batch.done[t]) == (ends or t + window == 6)
            assert bool(batch.truncated[t]) == (t + window == 6)
            assert float(batch.discount[t]) == (0.0 if ends else 0.5**steps)
            assert float(batch.rew[t]) == sum(0.5**k * r for k, r in enumerate(rewards))
            left.add((goal == -1.0, ends, steps))
    assert {ends for kept, ends, _ in left if not kept} == {True, False}
    assert bool(buffer.terminated[5])
    assert not buffer.terminated[:5].any()


def test_sequences_end_where_their_new_goal_is_reached():
    hindsight = Hindsight(compute_reward_fn=reached, compute_terminated_fn=is_reached, horizon=9, future_k=1e9)
    buffer = VectorReplayBuffer(16, 2, hindsight=hindsight, seed=0)
    fill(buffer, [8])
    for _ in range(10):
        batch, _ = buffer.sample(8, Sampling(sequence_length=4, gamma=0.5))
        arrives = batch.obs_next.achieved_goal[..., 0] == batch.obs.desired_goal[..., 0]
        np.testing.assert_array_equal(batch.terminated, arrives)
        np.testing.assert_array_equal(batch.discount, np.where(arrives, 0.0, 0.5))


def test_an_env_whose_goals_end_nothing_learns_as_before():
    def nothing_ends(achieved, desired):
        return np.zeros(len(achieved), bool)

    batches = []
    for ends in (None, nothing_ends):
        hindsight = Hindsight(compute_reward_fn=reached, compute_terminated_fn=ends, horizon=9)
        buffer = ReplayBuffer(12, hindsight=hindsight, seed=0)
        fill(buffer, [6, 6])
        batches.append(buffer.sample(12, Sampling(n_step=3))[0])
    assert batches[0] == batches[1]


@pytest.mark.parametrize(("value", "message"), [([True], "returned shape"), ([np.nan] * 3, "returned NaN")])
def test_an_answer_that_is_none_is_refused(value, message):
    hindsight = Hindsight(
        compute_reward_fn=reached, compute_terminated_fn=lambda a, d: np.array(value), horizon=9, future_k=1e9
    )
    buffer = ReplayBuffer(3, hindsight=hindsight)
    fill(buffer, [3])
    with pytest.raises(DataError, match=f"compute_terminated_fn {message}"):
        buffer.sample(0)


def test_manager_and_types():
    one = HERReplayBuffer(10, reached, 5)
    fill(one, [5])
    manager = HERReplayBufferManager([one, HERReplayBuffer(10, reached, 5)])
    assert isinstance(HERVectorReplayBuffer(10, 2, reached, 5), HERReplayBuffer)
    assert manager.hindsight == one.hindsight
    assert manager.sample(10)[0].obs.desired_goal.shape == (10, 1)


def test_rewards_of_agents_are_refused():
    buffer = HERReplayBuffer(10, reached, 5)
    goal = {key: np.ones((1, 1)) for key in ("observation", "achieved_goal", "desired_goal")}
    no = np.zeros(1, bool)
    buffer.add(Batch(obs=goal, obs_next=goal, act=no, rew=np.ones((1, 2)), terminated=no, truncated=no))
    with pytest.raises(DataError, match="one reward per row"):
        buffer.sample(1)


def test_returns_of_several_rewards_are_refused():
    buffer, no = ReplayBuffer(6), np.zeros(1, bool)
    buffer.add(Batch(obs=np.ones(1), obs_next=np.ones(1), act=no, rew=np.ones((1, 2)), terminated=no, truncated=no))
    with pytest.raises(DataError, match="'returns', which need one reward per row; the buffer stores several"):
        buffer.sample(1, Sampling(fields=("returns",)))


def test_returns_of_goals_that_were_not_pursued_are_refused():
    hindsight = Hindsight(compute_reward_fn=reached, horizon=9, future_k=4.0)
    with pytest.raises(DataError, match=r"'returns', which are of the goals that were pursued, with new goals"):
        look_up(ReplayBuffer(6, hindsight=hindsight), np.arange(1), np.arange(1), Sampling(fields=("returns",)))
