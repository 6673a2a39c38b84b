"""What an env gives is looked at before it is stored; most of it through collectors, in tests/collect."""

import numpy as np
import pytest
from gymnasium import spaces

from argosy.collect.player import Scores
from argosy.collect.seats import Stepped
from argosy.env.vector.border import ENDLESS, Border


@pytest.mark.parametrize("several", [False, True])
def test_an_episode_that_may_never_end_is_warned_of(several):
    border, scores, no = Border(spaces.Box(-1, 1, (1,)), spaces.Discrete(2)), Scores(2, quota=1), np.zeros(2, bool)
    rows, obs, rew, lens = np.arange(2), np.zeros((2, 1), np.float32), np.zeros(2, np.float32), np.array([3, ENDLESS])
    scores._lengths[:] = lens

    def step():
        if several:
            scores.add(Stepped(rows, obs, rew, no, no, {}))
        for _ in range(0 if several else 1000):
            border.check_step(obs, rew, no, no, rows, lens)

    with pytest.warns(UserWarning, match=r"30,000 steps of one episode.*set env.max_episode_steps"):
        step()
