from __future__ import annotations

import numpy as np
import pytest
from scripted import ScriptedPolicy, make_env

from argosy.collect import CollectHook, Collector, EpisodeEvent, MonteCarloReturns
from argosy.data import CachedReplayBuffer, ReplayBuffer, ReplayBufferManager, VectorReplayBuffer


@pytest.mark.parametrize(
    ("buffer", "kept"),
    [
        (VectorReplayBuffer(40, 2), 5),
        (VectorReplayBuffer(6, 2), 3),
        (VectorReplayBuffer(40, 3), 5),
        (ReplayBufferManager([ReplayBuffer(7), ReplayBuffer(12)]), 5),
        (CachedReplayBuffer(ReplayBuffer(40), 2, 10), 5),
        (CachedReplayBuffer(ReplayBuffer(4), 2, 3), 3),
    ],
    ids=["whole", "overwritten", "spare ring", "unequal rings", "cached", "cached and cut"],
)
def test_hooks_are_told_where_the_rows_of_an_episode_lie(buffer: ReplayBuffer, kept: int) -> None:
    class Look(CollectHook):
        def on_episode(self, event: EpisodeEvent) -> None:
            assert event.buffer is not None
            found.append((event.length, event.buffer.rew[event.slots].tolist()))

    found: list[tuple[int, list[float]]] = []
    env = make_env([3, 5], [5])
    Collector(ScriptedPolicy(env), env, buffer, hooks=[Look()]).collect(n_step=60)
    assert len(found) == 13
    for length, rewards in found:
        assert rewards == list(range(length - len(rewards) + 1, length + 1))
    assert max(len(rewards) for _, rewards in found) == kept


def test_monte_carlo_returns() -> None:
    env = make_env([3], [2])
    buffer = VectorReplayBuffer(8, 2)
    hook = MonteCarloReturns(gamma=0.5)
    Collector(ScriptedPolicy(env), env, buffer, hooks=[hook]).collect(n_step=8)
    # rewards 1, 2, 3: 1 + 0.5 * (2 + 0.5 * 3) = 2.75; the second episode of env 0 has not ended
    np.testing.assert_allclose(hook.returns, [2.75, 3.5, 3.0, np.nan, 2.0, 2.0, 2.0, 2.0])
    _, indices = buffer.sample(8)
    assert hook.returns[indices].shape == (8,)


def test_monte_carlo_returns_forget_rows_that_were_overwritten() -> None:
    env = make_env([2, 9])
    hook = MonteCarloReturns(gamma=1.0)
    Collector(ScriptedPolicy(env), env, VectorReplayBuffer(3, 1), hooks=[hook]).collect(n_step=4)
    assert np.isnan(hook.returns[[0, 2]]).all()
    assert hook.returns[1] == 2.0


def test_monte_carlo_returns_forget_what_cut_episodes_were_moved_over() -> None:
    env, hook = make_env([4]), MonteCarloReturns(gamma=1.0)
    buffer = CachedReplayBuffer(ReplayBuffer(4), 1, 8)
    collector = Collector(ScriptedPolicy(env), env, buffer, hooks=[hook])
    collector.collect(n_step=6)
    assert hook.returns[:4].tolist() == [10, 9, 7, 4]
    collector.reset_env()  # two rows of the second episode
    collector.collect(n_step=1)
    np.testing.assert_array_equal(hook.returns[:5], [np.nan, np.nan, 7, 4, np.nan])


def test_returns_outlive_a_checkpoint() -> None:
    def make() -> tuple[Collector, MonteCarloReturns]:
        env, hook = make_env([3], [2]), MonteCarloReturns()
        return Collector(ScriptedPolicy(env), env, VectorReplayBuffer(8, 2), hooks=[hook]), hook

    collector, hook = make()
    collector.collect(n_step=8)
    other, other_hook = make()
    state = collector.state_dict()
    other.load_state_dict(state)
    np.testing.assert_array_equal(other_hook.returns, hook.returns)
    collector.collect(n_step=6)
    np.testing.assert_array_equal(other_hook.returns, state["hooks"][0]["returns"])
