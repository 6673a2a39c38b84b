"""What all agents see at once, for critics: `CentralState`."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from argosy.env import CentralState, Environment, StepResult, make_environment, register
from argosy.errors import ConfigError, EnvError, SpaceError


class Turns(Environment):
    """Two agents in turn: one sees a number, the other a dict; what they see is written into one array."""

    agent_count = 2
    observation_spaces = (
        spaces.Box(-9, 9, (1,), np.float32),
        spaces.Dict(a=spaces.Discrete(5), action_mask=spaces.MultiBinary(2)),
    )
    action_spaces = (spaces.Discrete(2),) * 2

    def __init__(self):
        self.number, self.seeds, self.stage, self.closed = np.zeros(1, np.float32), [], "", False

    def reset(self):
        self.t = 0
        self.number[:] = 1.0
        return [StepResult(self.number), None]

    def step(self, actions):
        self.t += 1
        self.number[:] += 1.0
        if self.t % 2:
            return [None, StepResult({"a": self.t, "action_mask": np.ones(2, np.int8)}, 1.0, info={"t": self.t})]
        return [StepResult(self.number, 2.0, self.t == 4), None]

    def seed(self, seed):
        self.seeds.append(seed)

    def set_curriculum_stage(self, name):
        self.stage = name

    def render(self):
        return "picture"

    def close(self):
        self.closed = True


class Told(Turns):
    state_space = spaces.Box(0, 9, (2,), np.float32)

    def state(self):
        return np.array([self.t, 7], np.float32)


register("central turns", Turns)


def test_the_state_is_what_all_saw_last_and_zeros_before():
    env = make_environment("central turns", wrappers=("CentralState",))
    first, second = env.observation_spaces
    assert list(first.spaces) == ["obs", "state"]
    assert list(second.spaces) == ["a", "action_mask", "state"]
    assert (
        first["state"]
        == second["state"]
        == spaces.Dict({"0": Turns.observation_spaces[0], "1": Turns.observation_spaces[1]})
    )
    one, none = env.reset()
    assert none is None
    assert one.obs["obs"].tolist() == one.obs["state"]["0"].tolist() == [1.0]
    assert one.obs["state"]["1"]["a"] == 0
    assert one.obs["state"]["1"]["action_mask"].tolist() == [0, 0]
    none, two = env.step([0, None])
    assert none is None
    assert (two.obs["a"], two.reward, two.terminated, two.info) == (1, 1.0, False, {"t": 1})
    assert two.obs["state"]["0"].tolist() == [1.0]  # not what the game has written since
    assert two.obs["state"]["1"]["a"] == 1
    one, _ = env.step([None, 0])
    assert one.obs["state"]["0"].tolist() == [3.0]
    assert one.obs["state"]["1"]["a"] == 1
    assert env.reset()[0].obs["state"]["1"]["a"] == 0  # nothing of the episode before


def test_a_game_that_tells_its_state_is_asked():
    env = CentralState(Told())
    assert env.observation_spaces[0]["state"] == Told.state_space
    assert env.reset()[0].obs["state"].tolist() == [0.0, 7.0]
    assert env.step([0, None])[1].obs["state"].tolist() == [1.0, 7.0]


def test_all_else_is_passed_on():
    game = Turns()
    env = CentralState(game)
    env.seed(3)
    env.set_curriculum_stage("hard")
    assert env.render() == "picture"
    env.close()
    assert (game.seeds, game.stage, game.closed) == ([3], "hard", True)


def test_what_it_does_not_fit_is_named():
    with pytest.raises(SpaceError, match="games of several agents, which CartPoleEnv is not"):
        CentralState(gym.make("CartPole-v1").unwrapped)

    class Double(Turns):
        observation_spaces = (spaces.Dict(state=spaces.Discrete(2)),) * 2

    register("central double", Double)
    with pytest.raises(SpaceError, match="have an entry 'state' already"):
        CentralState(Double())
    with pytest.raises(ConfigError, match=r"'FlatAction' goes around gymnasium envs, not around one of several agents"):
        make_environment("central turns", wrappers=("FlatAction",))
    with pytest.raises(EnvError, match=r"wrapper 'CentralState' does not fit .*'state' already"):
        make_environment("central double", wrappers=("CentralState",))


def test_games_of_pettingzoo_tell_theirs():
    pytest.importorskip("pettingzoo")
    from pettingzoo.butterfly import knights_archers_zombies_v11
    from pettingzoo.classic import tictactoe_v3

    register("tictactoe with state", lambda: tictactoe_v3.env())
    env = make_environment("tictactoe with state", wrappers=("CentralState",))
    obs = env.reset()[0].obs
    assert set(obs) == {"observation", "action_mask", "state"}
    assert obs["state"]["0"]["observation"].shape == obs["observation"].shape
    env.close()
    register("zombies with state", lambda: knights_archers_zombies_v11.parallel_env())
    env = make_environment("zombies with state", wrappers=("CentralState",))
    space = env.observation_spaces[0]["state"]
    assert space == env.env.env.state_space
    assert np.asarray(env.reset()[0].obs["state"]).shape == space.shape
    env.close()


def test_what_nobody_has_seen_yet_is_within_its_space():
    class Counted(Turns):
        observation_spaces = (
            spaces.Box(-9, 9, (1,), np.float32),
            spaces.Dict(
                a=spaces.Discrete(5, start=1),
                b=spaces.MultiDiscrete([2, 3], start=[0, 4]),
                c=spaces.Box(2, 3, (2,), np.float32),
                d=spaces.MultiBinary(2),
            ),
        )

    env = CentralState(Counted())
    first, _ = env.reset()
    assert env.observation_spaces[0].contains(first.obs)
    assert {key: part.tolist() for key, part in first.obs["state"]["1"].items()} == {
        "a": 1,
        "b": [0, 4],
        "c": [2, 2],
        "d": [0, 0],
    }
