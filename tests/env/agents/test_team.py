"""A game of several agents as one task: `Team`."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

import argosy
from argosy.env import EnvConfig, PettingZooParallelEnv, Team, make_vector_env
from argosy.errors import EnvError, SpaceError


class Game:
    """A parallel game of PettingZoo's kind: agent "b" leaves after the first step; who is there is paid its choice."""

    possible_agents = ("a", "b")
    masked = told = False

    def observation_space(self, name):
        box = spaces.Box(-9, 9, (2,), np.float32)
        return spaces.Dict(observation=box, action_mask=spaces.MultiBinary(3)) if self.masked else box

    def action_space(self, name):
        return spaces.Discrete(3)

    def _see(self, agents):
        def seen(name):
            box = np.full(2, self.t + (name == "b") / 2, np.float32)
            return {"observation": box, "action_mask": np.array([0, 1, 1], np.int8)} if self.masked else box

        return {name: seen(name) for name in agents}

    def reset(self, seed=None, options=None):
        self.t, self.agents = 0, ["a", "b"]
        return self._see(self.agents), {name: {} for name in self.agents}

    def step(self, actions):
        assert set(actions) == set(self.agents)
        self.t += 1
        before, ends = self.agents, {"a": self.t == 3, "b": self.t == 1}
        self.agents = [name for name in before if not ends[name]]
        no = dict.fromkeys(before, False)
        paid = {name: float(actions[name]) for name in before}
        return self._see(before), paid, {name: ends[name] for name in before}, no, {name: {} for name in before}

    def state(self):
        return np.array([self.t, len(self.agents)], np.float32)

    def close(self):
        pass


class Masked(Game):
    masked = True


class Told(Game):
    state_space = spaces.Box(0, 9, (2,), np.float32)


def team(game):
    return Team(PettingZooParallelEnv(game()))


def test_what_all_see_and_do_is_one():
    env = team(Game)
    assert env.action_space == spaces.MultiDiscrete([3, 3])
    assert env.observation_space == spaces.Dict(
        agents=spaces.Box(-9, 9, (2, 2), np.float32), alive=spaces.MultiBinary(2)
    )
    obs, _ = env.reset(seed=0)
    assert obs["agents"].tolist() == [[0, 0], [0.5, 0.5]]
    assert obs["alive"].tolist() == [1, 1]
    obs, rew, terminated, truncated, _ = env.step(np.array([2, 1]))
    assert obs["agents"].tolist() == [[1, 1], [0, 0]]  # who has left sees zeros
    assert obs["alive"].tolist() == [1, 0]
    assert (rew, terminated, truncated) == (1.5, False, False)
    _, rew, *_ = env.step(np.array([2, 1]))
    assert rew == 2.0  # what the other one chose is not passed on, and its pay is none of the mean
    obs, _, terminated, _, _ = env.step([0, 0])
    assert terminated
    assert obs["alive"].tolist() == [0, 0]
    assert obs["agents"].tolist() == [[0, 0], [0, 0]]
    env.close()


def test_masks_lie_in_a_row_and_who_has_left_has_its_first_choice():
    env = team(Masked)
    obs, _ = env.reset()
    assert env.observation_space["action_mask"] == spaces.MultiBinary(6)
    assert obs["action_mask"].tolist() == [0, 1, 1, 0, 1, 1]
    obs, *_ = env.step([1, 1])
    assert obs["action_mask"].tolist() == [0, 1, 1, 1, 0, 0]
    assert env.observation_space.contains(obs)


def test_a_game_that_tells_its_state_is_asked():
    env = team(Told)
    obs, _ = env.reset()
    assert env.observation_space["state"] == Told.state_space
    assert obs["state"].tolist() == [0, 2]
    assert env.step([0, 0])[0]["state"].tolist() == [1, 1]


class Cut(Game):
    """A time limit ends it."""

    def step(self, actions):
        obs, paid, ends, no, infos = super().step(actions)
        return obs, paid, {**ends, "a": False}, {**no, "a": self.t == 3}, infos


def test_who_is_cut_off_has_not_left():
    """Else its last moment, from which learning bootstraps, would be one that no step is ever learned from."""
    env = team(Cut)
    env.reset()
    for _ in range(2):
        obs, *_ = env.step([2, 2])
        assert obs["alive"].tolist() == [1, 0]
    obs, _, terminated, truncated, _ = env.step([2, 2])
    assert (terminated, truncated) == (False, True)  # "b", whom the rules have ended, was gone before
    assert obs["alive"].tolist() == [1, 0]
    assert obs["agents"].tolist() == [[3, 3], [0, 0]]


class Short(Cut):
    """Agent "b" is cut off after the first step, the other goes on."""

    def step(self, actions):
        obs, paid, ends, cut, infos = super().step(actions)
        return obs, paid, {**ends, "b": False}, {**cut, "b": self.t == 1}, infos


def test_who_is_cut_off_before_the_others_has_left():
    """It does nothing more, so that there is nothing to be learned of what it would be worth."""
    env = team(Short)
    env.reset()
    obs, _, terminated, truncated, _ = env.step([2, 2])
    assert (obs["alive"].tolist(), terminated, truncated) == ([1, 0], False, False)


class Endless(Game):
    """Nobody ever leaves."""

    def step(self, actions):
        obs, paid, _, no, infos = super().step(actions)
        self.agents = ["a", "b"]
        return obs, paid, no, no, infos


@pytest.mark.parametrize("game", [Endless, Game])
def test_a_limit_of_the_env_s_settings_cuts_off(game):
    config = EnvConfig(vector="dummy", wrappers=("Team",), max_episode_steps=2)
    env = make_vector_env(game, 1, config=config)
    env.reset(seed=0)
    for step in (1, 2):
        *_, terminated, truncated, _ = env.step(np.array([[1, 1]]))
        assert (terminated.tolist(), truncated.tolist()) == ([False], [step == 2])
    env.close()


class Late(Game):
    """Agent "b" is not there when it begins."""

    def reset(self, seed=None, options=None):
        super().reset()
        self.agents = ["a"]
        return self._see(self.agents), {"a": {}}


def test_who_never_came_is_seen_as_zeros():
    env = team(Late)
    obs, _ = env.reset()
    assert (obs["alive"].tolist(), obs["agents"].tolist()) == ([1, 0], [[0, 0], [0, 0]])
    for step in range(3):
        obs, rew, terminated, *_ = env.step([2, 2])
        assert (rew, terminated) == (2.0, step == 2)
    assert env.observation_space.contains(obs)


def test_who_never_came_is_not_seen_as_in_the_game_before():
    env = PettingZooParallelEnv(Late())
    assert env.reset()[0]["b"].tolist() == [0, 0]
    env._last["b"] = np.ones(2, np.float32)  # as if it had come late
    assert env.reset()[0]["b"].tolist() == [0, 0]


class Uneven(Game):
    def action_space(self, name):
        return spaces.Discrete(2 + (name == "b"))


def test_what_is_no_team_is_named():
    with pytest.raises(SpaceError, match="games of PettingZoo in which all agents act at once"):
        Team(gym.make("CartPole-v1"))
    with pytest.raises(SpaceError, match=r"as many choices.*pad_action_space"):
        team(Uneven)
    with pytest.raises(EnvError, match="wrapper 'Team' does not fit"):
        make_vector_env("CartPole-v1", 1, config=EnvConfig(vector="dummy", wrappers=("Team",)))


@pytest.mark.parametrize("game", [Game, Masked, Told])
def test_qmix_learns_it(game, tmp_path):
    """The best is to choose 2 in each of three steps."""
    trainer = {"total_steps": 1500, "step_per_epoch": 1500, "episode_per_test": 4, "start_steps": 100}
    result = argosy.train(
        "qmix",
        game,
        env={"wrappers": ("Team",), "num_envs": 2, "test_num_envs": 2},
        lr=3e-3,
        eps_decay_steps=1000,
        net={"hidden_sizes": (32,)},
        trainer=trainer,
        stop={"episodes": 4},
        runs=tmp_path,
        show_progress=False,
    )
    assert result.test_return_mean == 6.0
