from __future__ import annotations

import numpy as np
import pytest
from scripted import ScriptedPolicy, make_env

from argosy.collect import Collector, MonteCarloReturns
from argosy.collect.hooks import episode_slots
from argosy.data import VectorReplayBuffer


@pytest.mark.parametrize(
    ("last", "length", "size", "slots"),
    [
        (3, 3, 10, [1, 2, 3]),
        (1, 4, 5, [3, 4, 0, 1]),
        (11, 3, 5, [14, 10, 11]),
        (7, 9, 5, [8, 9, 5, 6, 7]),
    ],
)
def test_slots_of_an_episode(last: int, length: int, size: int, slots: list[int]) -> None:
    assert episode_slots(last, length, size).tolist() == slots


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


def test_returns_outlive_a_checkpoint() -> None:
    def make() -> tuple[Collector, MonteCarloReturns]:
        env, hook = make_env([3], [2]), MonteCarloReturns()
        return Collector(ScriptedPolicy(env), env, VectorReplayBuffer(8, 2), hooks=[hook]), hook

    collector, hook = make()
    collector.collect(n_step=8)
    other, other_hook = make()
    other.load_state_dict(collector.state_dict())
    np.testing.assert_array_equal(other_hook.returns, hook.returns)
