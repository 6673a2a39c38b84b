"""PettingZoo games, agent by agent and as one env: turns, rewards per agent, agents that come and leave."""

import numpy as np
import pytest
from gymnasium import spaces

from argosy.env import DummyVectorEnv, PettingZoo, PettingZooEnv, PettingZooParallelEnv, ShmemVectorEnv, as_vector_env
from argosy.errors import SpaceError

tictactoe = pytest.importorskip("pettingzoo.classic.tictactoe_v3")
rps = pytest.importorskip("pettingzoo.classic.rps_v2")


def test_tictactoe_agent_by_agent():
    env = PettingZoo(tictactoe.env)
    first, second = env.reset()
    assert second is None
    assert first.obs["action_mask"].tolist() == [1] * 9
    # X takes the top row (cells 0, 3, 6 are one line), O answers beside it
    for agent, cell in enumerate([0, 1, 3, 4, 6]):
        results = env.step([cell, None] if agent % 2 == 0 else [None, cell])
    assert (results[0].reward, results[1].reward) == (1.0, -1.0)
    assert results[0].terminated
    assert results[1].terminated
    assert env.reset()[0].reward == 0.0


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


def test_agents_that_leave_and_come_are_heard_one_by_one():
    class Coming(Leaving):
        """Agent "b" comes after the first step, as "a" leaves."""

        def reset(self, seed=None, options=None):
            obs, info = super().reset()
            self.agents = ["a"]
            return {"a": obs["a"]}, {"a": info["a"]}

        def step(self, actions):
            obs, rew, terminated, truncated, info = super().step(actions)
            if self.t == 1:
                self.agents = ["b"]
                obs["b"], info["b"] = np.full(1, 1, np.float32), {}
                rew["b"], terminated["b"], truncated["b"] = 0.0, False, False
            return obs, rew, terminated, truncated, info

    env = PettingZoo(Coming)
    first, nobody = env.reset()
    assert nobody is None
    assert first.obs.tolist() == [0]
    left, came = env.step([0, None])
    assert (left.reward, left.terminated, came.terminated) == (1.0, True, False)
    gone, last = env.step([None, 2])
    assert gone is None
    assert (last.obs.tolist(), last.terminated) == ([2], True)


class Paying:
    """Two agents in turn, four moves; each move pays 1 to whoever moves and 10 to the other one."""

    possible_agents = ["a", "b"]  # noqa: RUF012

    def observation_space(self, agent):
        return spaces.Box(0, 9, (1,), np.float32)

    def action_space(self, agent):
        return spaces.Discrete(3)

    def reset(self, seed=None, options=None):
        self.agents, self.agent_selection, self.t = ["a", "b"], "a", 0
        self.rewards = {"a": 0.0, "b": 0.0}

    def last(self):
        return np.full(1, self.t, np.float32), 0.0, self.t == 4, False, {}

    def step(self, action):
        mover, other = self.agent_selection, "ab".replace(self.agent_selection, "")
        self.agent_selection = other
        if action is None:
            self.agents.remove(mover)
        else:
            self.t += 1
            self.rewards = {mover: 1.0, other: 10.0}


def test_rewards_reach_an_agent_at_its_turn_and_an_env_of_all_at_once():
    env = PettingZoo(Paying())
    env.reset()
    told = [[None if result is None else result.reward for result in env.step([0, 0])] for _ in range(4)]
    assert told == [[None, 10], [11, None], [None, 11], [11, 1]]
    assert env.reset()[0].reward == 0
    joint = PettingZooEnv(Paying())
    joint.reset()
    steps = [joint.step(0) for _ in range(4)]
    assert [rew.tolist() for _, rew, *_ in steps] == [[1, 10], [10, 1], [1, 10], [10, 1]]
    assert [obs["agent_id"] for obs, *_ in steps[:3]] == [1, 0, 1]
    assert steps[-1][2:4] == (True, False)


def test_agents_with_different_spaces_are_refused():
    class Unequal(Leaving):
        agent_selection = "a"

        def action_space(self, agent):
            return spaces.Discrete(2 if agent == "a" else 3)

    with pytest.raises(SpaceError, match="agents 'a' and 'b' have different spaces"):
        PettingZooEnv(Unequal())
