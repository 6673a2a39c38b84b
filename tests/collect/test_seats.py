import dataclasses

import numpy as np
import pytest
from games import Turns
from gymnasium import spaces

from argosy.collect.player import Inline, Player, play_out
from argosy.collect.seats import AgentArena, StackedArena, VectorArena
from argosy.collect.source import Agents, EnvSource
from argosy.env import DummyVectorEnv, EnvConfig, Environment, FrameStack, StepResult
from argosy.env.wrappers import gym
from argosy.errors import ConfigError, EnvError
from argosy.policy import RandomPolicy


class Count(gym.Env):
    """Shows the number of steps so far; ends after three."""

    observation_space = spaces.Box(0, 100, (1,), np.float32)
    action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.full(1, self.t, np.float32), 0.0, self.t == 3, False, {"t": self.t}


def test_stacks_are_those_of_the_wrapper():
    ours = StackedArena(VectorArena(DummyVectorEnv([Count])), [3])
    theirs = VectorArena(DummyVectorEnv([lambda: FrameStack(Count(), 3)]))
    for arena in (ours, theirs):
        arena.reset()
    for _ in range(8):
        (a,), (b,) = ours.seats, theirs.seats
        np.testing.assert_array_equal(a.obs, b.obs)
        assert a.on_reset.tolist() == b.on_reset.tolist()
        (a,), (b,) = ours.step([np.zeros(1, int)]), theirs.step([np.zeros(1, int)])
        np.testing.assert_array_equal(a.obs_next, b.obs_next)
        assert [entry["t"] for entry in a.info] == [entry["t"] for entry in b.info]


def test_agents_that_act_in_turn_have_stacks_of_their_own():
    class Clock(Turns):
        """Shows the time."""

        def _look(self):
            self.right = [0, 0]
            return [np.full(1, self.t, np.float32)] * 2

    games = [Clock()]
    games[0].observation_spaces = [spaces.Box(0, 8, (1,))] * 2
    arena = StackedArena(AgentArena(games, [0, 1]), [1, 2])
    arena.reset()
    plain, stacked = arena.seats
    looks = []
    for _ in range(9):
        looks.append([stacked.obs[0].ravel().tolist() if stacked.acting[0] else None, float(plain.obs[0, 0])])
        arena.step([np.zeros(np.count_nonzero(seat.acting), int) for seat in arena.seats])
    stacks = [stack for stack, _ in looks if stack is not None]
    assert stacks == [[1, 1], [1, 3], [3, 5], [5, 7]]  # agent 1 acts in odd steps
    assert looks[8][1] == 0  # the next episode


def test_a_step_leaves_the_observations_before_it_as_they_were():
    """Whoever has acted stores them when the step has been made."""

    class Named(Staged):
        """Shows the number of steps so far, beside which actions there are."""

        observation_spaces = (spaces.Dict({"t": spaces.Box(0, 9, (1,)), "action_mask": spaces.MultiBinary(2)}),)

        def _named(self, results):
            mask = np.ones(2, np.int8)
            return [
                dataclasses.replace(result, obs={"t": np.full(1, self.t, np.float32), "action_mask": mask})
                for result in results
            ]

        def reset(self):
            return self._named(super().reset())

        def step(self, actions):
            return self._named(super().step(actions))

    arena = AgentArena([Named(), Named()], [0])
    arena.reset()
    (seat,) = arena.seats
    for t in (0, 1, 0):
        before = seat.obs
        (stepped,) = arena.step([np.zeros(2, int)])
        assert before["t"].tolist() == [[t], [t]]
        assert stepped.obs_next["t"].tolist() == [[t + 1], [t + 1]]


def test_only_boxes_are_stacked():
    every = Agents(".*", frame_stack=2)
    assert EnvSource("CartPole-v1", None, {}, EnvConfig(), (every,)).spaces()[0][0].shape == (2, 4)
    with pytest.raises(ConfigError, match="needs a Box"):
        EnvSource("FrozenLake-v1", None, {}, EnvConfig(), (every,)).spaces()


class Staged(Environment):
    """Pays what its stage is worth; ends after two steps."""

    agent_count = 1
    observation_spaces = (spaces.Box(-1, 1, (1,)),)
    action_spaces = (spaces.Discrete(2),)
    pay = wanted = 0.0

    def set_curriculum_stage(self, name):
        self.wanted = float(name)

    def reset(self):
        self.t, self.pay = 0, self.wanted
        return [StepResult(np.zeros(1, np.float32))]

    def step(self, actions):
        self.t += 1
        return [StepResult(np.zeros(1, np.float32), self.pay, self.t == 2)]


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("step", None, "env 0 failed in step: it returned a NoneType; return a list of 1"),
        ("step", [], "env 0 failed in step: it returned 0 values; return a list of 1"),
        ("step", [None], r"env 0: no agent is to act, but agents \[0\] are not done"),
        ("reset", [None, None], "env 0 failed in reset: it returned 2 values"),
        ("reset", [None], "env 0: no agent is to act, and its reset has given none anything to see"),
    ],
)
def test_results_after_which_nobody_would_act_are_refused(method, given, message):
    arena = AgentArena([type("Odd", (Staged,), {method: lambda self, *actions: given})()], [0])
    if method == "step":
        arena.reset()
    with pytest.raises(EnvError, match=message):
        arena.step([np.zeros(1, int)]) if method == "step" else arena.reset()


def test_a_curriculum_stage_reaches_every_env():
    arena = AgentArena([Staged(), Staged()], [0])
    arena.reset()
    arena.set_curriculum_stage("5")
    pays = [arena.step([np.zeros(2, int)])[0].rew.tolist() for _ in range(4)]
    assert pays == [[0, 0], [0, 0], [5, 5], [5, 5]]
    with pytest.raises(EnvError, match="no curriculum stages"):
        VectorArena(DummyVectorEnv([Count])).set_curriculum_stage("5")


def test_rewards_of_several_agents_in_one_row_are_refused():
    class Pair(Count):
        def step(self, action):
            obs, _, *rest = super().step(action)
            return obs, np.ones(2), *rest

    arena = VectorArena(DummyVectorEnv([Pair]))
    arena.reset()
    with pytest.raises(EnvError, match=r"2 rewards at once.*argosy\.env\.register"):
        arena.step([np.zeros(1, int)])


class Reusing(Environment):
    """One agent; observations 1, 2, 3 (the last one) in an array that is used again."""

    observation_spaces = (spaces.Box(-1, 10, (1,), np.float32),)
    action_spaces = (spaces.Discrete(2),)

    def __init__(self):
        self.array = np.zeros(1, np.float32)

    def reset(self):
        self.array[:] = 0
        return [StepResult(self.array)]

    def step(self, actions):
        self.array += 1
        return [StepResult(self.array, truncated=bool(self.array[0] == 3))]


def test_last_observations_are_not_those_of_the_next_episode():
    arena = AgentArena([Reusing()], [0])
    arena.reset()
    seen = [arena.step([np.zeros(1, int)])[0].obs_next.ravel().tolist() for _ in range(4)]
    assert seen == [[1.0], [2.0], [3.0], [1.0]]


class Absent(Environment):
    """Of three agents the last one is told nothing, or comes when the first step is made."""

    agent_count = 3
    observation_spaces = (spaces.Box(-1, 1, (1,)),) * 3
    action_spaces = (spaces.Discrete(2),) * 3
    comes = False

    def reset(self):
        self.t = 0
        return [StepResult(np.zeros(1, np.float32)), StepResult(np.zeros(1, np.float32)), None]

    def step(self, actions):
        self.t += 1
        told = StepResult(np.zeros(1, np.float32), 1.0, self.t == 3)
        return [told, told, told if self.comes else None]


@pytest.mark.parametrize("comes", [False, True])
def test_who_is_not_in_the_game_keeps_no_episode_from_its_end(comes):
    arena = AgentArena([type("Game", (Absent,), {"comes": comes})()], [0, 0, 0])
    arena.reset()
    ended = []
    for _ in range(6):
        stepped = arena.step([np.zeros(int(arena.seats[0].acting.sum()), int)])[0]
        ended.append(stepped.rows[stepped.terminated].tolist())
    assert ended == [[], [], [0, 1, 2] if comes else [0, 1]] * 2


def test_a_test_of_an_agent_that_never_comes_is_an_error():
    arena = AgentArena([Absent(), Absent()], [0, 0, 0])
    policy = RandomPolicy(Absent.observation_spaces[0], Absent.action_spaces[0])
    with pytest.raises(EnvError, match=r"spec 0, rows \[2, 5\] have made no step, while others .* 300 episodes"):
        play_out(arena, [Player(arena.seats[0], policy, Inline(policy))], 3)


def test_rewards_beyond_what_is_stored_are_refused():
    arena = AgentArena([Staged()], [0])
    arena.set_curriculum_stage("1e39")
    arena.reset()
    with pytest.raises(EnvError, match=r"agent 0 was given the reward 1e\+39; it has to be a finite number"):
        arena.step([np.zeros(1, int)])


def test_masks_that_no_policy_sees_are_refused():
    class Told(Staged):
        def reset(self):
            (first,) = super().reset()
            return [dataclasses.replace(first, info={"action_mask": np.ones(2, np.int8)})]

    with pytest.raises(EnvError, match=r"agent 0 is told in its info which actions are allowed .*put it into the obs"):
        AgentArena([Told()], [0]).reset()

    class Seen(Told):  # by the other name that policies know
        observation_spaces = (spaces.Dict(x=spaces.Box(-1, 1, (1,)), mask=spaces.MultiBinary(2)),)

        def reset(self):
            (first,) = super().reset()
            return [dataclasses.replace(first, obs={"x": first.obs, "mask": first.info["action_mask"]})]

    AgentArena([Seen()], [0]).reset()

    class Moved(Told):  # of numbers there is no mask
        action_spaces = (spaces.Box(-1, 1, (1,)),)

    AgentArena([Moved()], [0]).reset()
