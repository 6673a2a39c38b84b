"""PettingZoo games as envs: turns, rewards per agent, agents that leave."""

import numpy as np
import pytest
from gymnasium import spaces

from argosy.env import DummyVectorEnv, PettingZooEnv, PettingZooParallelEnv, ShmemVectorEnv, as_vector_env
from argosy.errors import SpaceError

tictactoe = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
rps = pytest.importorskip("pettingzoo.classic.rps_v2")


def test_tictactoe_move_by_move():
    env = PettingZooEnv(tictactoe.env())
    assert env.agents == ["player_1", "player_2"]
    obs, _ = env.reset(seed=1)
    assert env.observation_space.contains(obs)
    assert (obs["agent_id"], obs["action_mask"].tolist()) == (0, [1] * 9)
    for move, agent in ((0, 1), (3, 0), (1, 1), (4, 0)):
        obs, rew, terminated, truncated, _ = env.step(move)
        assert obs["agent_id"] == agent
        assert obs["action_mask"][move] == 0
        assert rew.tolist() == [0, 0]
        assert not terminated
        assert not truncated
    _, rew, terminated, truncated, info = env.step(2)  # the first player completes a row
    assert rew.tolist() == [1, -1]
    assert (terminated, truncated) == (True, False)
    assert info["terminated"] == [True, True]


def test_tictactoe_in_vector_envs():
    for kind in (DummyVectorEnv, ShmemVectorEnv):
        env = kind([lambda: PettingZooEnv(tictactoe.env())] * 3)
        env.reset()
        rng = np.random.default_rng(0)
        obs, rew, *_ = env.step(np.array([4, 0, 8]))
        assert obs["action_mask"].argmin(axis=1).tolist() == [4, 0, 8]
        assert rew.shape == (3, 2)
        ends = 0
        for _ in range(60):
            allowed = np.where(obs["action_mask"], rng.random((3, 9)), -1).argmax(axis=1)
            obs, rew, terminated, _, _ = env.step(allowed)
            assert (np.abs(rew.sum(axis=1)) < 1e-6).all()
            done = np.flatnonzero(terminated)
            ends += len(done)
            if len(done):
                first, _ = env.reset(done)
                obs["action_mask"][done] = first["action_mask"]
        assert ends > 10
        env.close()


def test_simultaneous_game():
    env = as_vector_env(rps.parallel_env(max_cycles=2))
    assert list(env.single_action_space.keys()) == ["player_0", "player_1"]
    obs, info = env.reset()
    assert obs["player_0"].tolist() == [3]  # nothing was played yet
    assert info[0]["alive"] == [True, True]
    obs, rew, terminated, truncated, _ = env.step({"player_0": np.array([0]), "player_1": np.array([1])})
    assert rew.tolist() == [[-1, 1]]  # paper beats rock
    assert (obs["player_0"].tolist(), obs["player_1"].tolist()) == ([1], [0])
    assert not truncated[0]
    _, rew, terminated, truncated, info = env.step({"player_0": np.array([0]), "player_1": np.array([2])})
    assert rew.tolist() == [[1, -1]]
    assert (terminated[0], truncated[0]) == (False, True)
    assert info[0]["alive"] == [False, False]
    assert env.reset()[1][0]["alive"] == [True, True]


class Leaving:
    """Agents act at once; agent "a" is terminated after the first step, "b" after the second."""

    possible_agents = ["a", "b"]  # noqa: RUF012

    def observation_space(self, agent):
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.t = ["a", "b"], 0
        return {n: np.zeros(1, np.float32) for n in self.agents}, {n: {} for n in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.t += 1
        names = self.agents
        over = {n: (n == "a") or self.t == 2 for n in names}
        self.agents = [n for n in names if not over[n]]
        obs = {n: np.full(1, self.t, np.float32) for n in names}
        return obs, dict.fromkeys(names, 1.0), over, dict.fromkeys(names, False), {n: {} for n in names}

    def close(self):
        pass


def test_agents_that_leave_early():
    env = PettingZooParallelEnv(Leaving())
    env.reset()
    obs, rew, terminated, _, info = env.step({"a": 0, "b": 0})
    assert rew.tolist() == [1, 1]
    assert not terminated
    assert info["alive"] == [False, True]
    assert info["terminated"] == [True, False]
    obs, rew, terminated, truncated, info = env.step({"a": 0, "b": 0})
    assert rew.tolist() == [0, 1]
    assert (obs["a"].tolist(), obs["b"].tolist()) == ([1], [2])  # the one who left keeps its last observation
    assert (terminated, truncated) == (True, False)


def test_agents_with_different_spaces_are_refused():
    class Unequal(Leaving):
        agent_selection = "a"

        def action_space(self, agent):
            return spaces.Discrete(2 if agent == "a" else 3)

    with pytest.raises(SpaceError, match="agents 'a' and 'b' have different spaces"):
        PettingZooEnv(Unequal())
