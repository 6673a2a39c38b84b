"""From names to environments: families, nearest names, settings that reach the env."""

import sys
import textwrap

import gymnasium as gym
import numpy as np
import pytest

from argosy.env import (
    DummyVectorEnv,
    EnvConfig,
    Environment,
    ShmemVectorEnv,
    SubprocVectorEnv,
    make_vector_env,
    register,
    task_family,
    task_spaces,
)
from argosy.env.bitflip import BitFlip
from argosy.env.tasks import atari_game, goal_rules
from argosy.errors import ConfigError, EnvError, MissingExtraError
from argosy.presets import preset


class Sized(gym.Env):
    action_space = gym.spaces.Discrete(2)

    def __init__(self, size, start=0):
        self.observation_space, self.start = gym.spaces.Discrete(size), start

    def reset(self, *, seed=None, options=None):
        return self.start, {}

    def step(self, action):
        return self.start, 0.0, True, False, {}


@pytest.mark.parametrize(
    ("task", "family"),
    [
        ("CartPole-v1", "classic"),
        ("Pendulum-v1", "classic"),
        ("BipedalWalker-v3", "box2d"),
        ("HalfCheetah-v5", "mujoco"),
        ("FetchReach-v4", "fetch"),
        ("Pong", "atari"),
        ("Pong-v5", "atari"),
        ("ALE/Pong-v5", "atari"),
        ("PongNoFrameskip-v4", "atari"),
        ("SpaceInvadersNoFrameskip-v4", "atari"),
        ("FrozenLake-v1", "other"),
        ("some_module:Env", "other"),
    ],
)
def test_families(task, family):
    assert task_family(task) == family


def test_atari_names():
    names = ("Breakout", "Breakout-v5", "BreakoutNoFrameskip-v4", "ALE/Breakout-v5", "breakout")
    assert {atari_game(name) for name in names} == {"Breakout"}
    assert atari_game("MsPacman-v5") == "MsPacman"
    for name in ("CartPole-v1", "Pong-ram-v5", "Pong-v7", "NoSuchGame-v5"):
        assert atari_game(name) is None


@pytest.mark.parametrize(
    ("task", "nearest"),
    [
        ("CartPol-v1", "CartPole-v1"),
        ("cartpole-v1", "CartPole-v1"),
        ("Pongg-v5", "Pong-v5"),
        ("HalfChetah-v5", "HalfCheetah-v5"),
        ("gymnasium:CartPole-v9", "CartPole-v1"),
        ("Walker2d", "Walker2d-v5"),
    ],
)
def test_unknown_tasks(task, nearest):
    with pytest.raises(ConfigError, match=rf"unknown task .*; did you mean '{nearest}'\?"):
        make_vector_env(task, 2)
    if ":" not in task:
        with pytest.raises(ConfigError, match="did you mean"):
            task_family(task)


def test_without_an_emulator(monkeypatch):
    bare = {name: spec for name, spec in gym.registry.items() if "ale_py" not in str(spec.entry_point)}
    monkeypatch.setattr("gymnasium.registry", bare)
    monkeypatch.setattr("argosy.env.tasks._atari_games", dict)
    with pytest.raises(MissingExtraError, match=r"pip install 'argosy\[atari\]'"):
        make_vector_env("BreakoutNoFrameskip-v4", 1)
    with pytest.raises(ConfigError, match=r"unknown task 'Pong'; .*; for Atari's games: pip install 'argosy\[atari\]'"):
        make_vector_env("Pong", 1)
    with pytest.raises(ConfigError, match=r"unknown task 'lander'; known names: LunarLander-v3, LunarLanderContinuous"):
        make_vector_env("lander", 1)


def test_spaces_without_stepping():
    obs, act = task_spaces("CartPole-v1")
    assert obs.shape == (4,)
    assert act.n == 2
    obs, act = task_spaces("Pong", EnvConfig(frame_stack=2, image_size=42))
    assert (obs.shape, obs.dtype, act.n) == ((2, 42, 42), np.uint8, 6)
    assert task_spaces("HalfCheetah-v5")[0].shape == (17,)


@pytest.mark.parametrize(
    ("vector", "cls"),
    [("auto", DummyVectorEnv), ("dummy", DummyVectorEnv), ("subproc", SubprocVectorEnv), ("shmem", ShmemVectorEnv)],
)
def test_vector_kinds(vector, cls):
    env = make_vector_env("CartPole-v1", 3, seed=1, config=EnvConfig(vector=vector))
    assert type(env) is cls
    obs, _ = env.reset()
    twin = make_vector_env("CartPole-v1", 3, seed=1)
    assert np.array_equal(obs, twin.reset()[0])
    env.close()


def test_settings_reach_the_envs():
    env = make_vector_env("CartPole-v1", 4, config=EnvConfig(vector="shmem", envs_per_worker=1, max_episode_steps=2))
    assert len(env.workers) == 4
    env.reset()
    env.step(np.zeros(4, int))
    assert env.step(np.zeros(4, int))[3].all()
    env.close()
    config = EnvConfig(wait_num=2, num_envs=4)
    assert make_vector_env("CartPole-v1", 4, config=config).is_async
    assert not make_vector_env("CartPole-v1", 4, test=True, config=config).is_async


def test_arguments_are_checked_beside_those_that_the_id_brings():
    gym.register("Sized-v0", entry_point=Sized, kwargs={"size": 3})
    env = make_vector_env("Sized-v0", 1, config=EnvConfig(kwargs={"start": 2}))
    assert env.reset()[0].tolist() == [2]
    assert env.single_observation_space.n == 3
    with pytest.raises(ConfigError, match="did you mean 'start'"):
        make_vector_env("Sized-v0", 1, config=EnvConfig(kwargs={"strat": 2}))
    gym.registry.pop("Sized-v0")


def test_modules(tmp_path, monkeypatch):
    (tmp_path / "my_games.py").write_text(
        textwrap.dedent("""
            import gymnasium as gym

            class Mine(gym.Env):
                observation_space = gym.spaces.Discrete(3)
                action_space = gym.spaces.Discrete(2)
                def reset(self, *, seed=None, options=None):
                    return 1, {}
                def step(self, action):
                    return 2, 0.5, False, False, {}

            def make_mine():
                return Mine()

            gym.register("Registered-v0", entry_point=Mine)
        """)
    )
    monkeypatch.syspath_prepend(tmp_path)
    for task in ("my_games:Mine", "my_games:make_mine", "my_games:Registered-v0"):
        env = make_vector_env(task, 2, config=EnvConfig(max_episode_steps=2))
        assert env.reset()[0].tolist() == [1, 1]
        assert env.step(np.zeros(2, int))[1].tolist() == [0.5, 0.5]
        assert env.step(np.zeros(2, int))[3].tolist() == [True, True]
    for near, meant in (("Min", "Mine"), ("Registered-v1", "Registered-v0")):
        with pytest.raises(ConfigError, match=rf"unknown task {near!r}: my_games .*; did you mean {meant!r}\?"):
            make_vector_env(f"my_games:{near}", 1)
    with pytest.raises(ConfigError, match="module 'no_such_module' could not be imported"):
        make_vector_env("no_such_module:Mine", 1)
    gym.registry.pop("Registered-v0")
    sys.modules.pop("my_games")


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"num_envs": 0}, "num_envs is 0; it must be >= 1"),
        ({"vector": "threads"}, "vector is 'threads'; it must be one of 'auto'"),
        ({"frame_stack": 0}, "frame_stack is 0"),
        ({"noop_max": 0}, "noop_max is 0; it must be >= 1"),
        ({"repeat_action_probability": 1.5}, "repeat_action_probability is 1.5"),
        ({"wait_num": 9}, "wait_num is 9; it must be <= num_envs, 8"),
        ({"background": True}, "background is True, but the envs are stepped in step; set wait_num"),
        ({"hang_timeout_s": 0}, "hang_timeout_s is 0.0; it must be > 0"),
        ({"vector": "envpool", "envs_per_worker": 2}, "envs_per_worker is 2, but vector='envpool' has no workers"),
    ],
)
def test_settings_out_of_range(settings, says):
    with pytest.raises(ConfigError, match=says):
        EnvConfig(**settings)


def test_zero_envs():
    with pytest.raises(ConfigError, match="num_envs is 0; it must be >= 1"):
        make_vector_env("CartPole-v1", 0)


def test_rendering():
    env = make_vector_env("CartPole-v1", 2, render_mode="rgb_array")
    env.reset()
    assert [frame.shape[-1] for frame in env.render()] == [3, 3]
    env.close()


def test_registered_envs_and_games_are_tasks():
    register("swing", lambda: gym.make("Pendulum-v1"))
    register("atari pong", lambda: gym.make("CartPole-v1"))
    assert make_vector_env("swing", 2, config=EnvConfig(max_episode_steps=1)).reset()[0].shape == (2, 3)
    assert task_spaces("atari pong")[0].shape == (4,)
    with pytest.raises(ConfigError, match="did you mean 'swing'"):
        make_vector_env("swings", 1)

    class Pair(Environment):
        def reset(self):
            return []

        def step(self, actions):
            return []

    register("a pair", Pair)
    with pytest.raises(EnvError, match="Pair is an Environment of several agents; fleets play those"):
        make_vector_env("a pair", 1)
    pytest.importorskip("pettingzoo")
    env = make_vector_env("pettingzoo.classic.rps_v2:parallel_env", 3)
    env.reset()
    _, rew, *_ = env.step({"player_0": np.array([0, 0, 0]), "player_1": np.array([0, 1, 2])})
    assert rew.tolist() == [[0, 0], [-1, 1], [1, -1]]


def one_by_one(self, achieved, desired, info):
    """As some envs of Gymnasium-Robotics have it."""
    return bool(np.linalg.norm(achieved - desired) <= 1.0)


def one_by_one_or_error(self, achieved, desired, info):
    return bool(achieved[0] == desired[0] and info == {})


@pytest.mark.parametrize("compute", [one_by_one, one_by_one_or_error, BitFlip.compute_terminated])
def test_rules_of_goals_are_of_many_goals_at_once(compute, monkeypatch):
    monkeypatch.setattr(BitFlip, "compute_terminated", compute)
    monkeypatch.setattr(BitFlip, "compute_reward", lambda self, a, d, info: -1.0 * (a != d).any(axis=-1))
    rules = goal_rules("argosy.env.bitflip:BitFlip", EnvConfig())
    goals = np.array([[0, 0, 0], [0, 0, 0], [1, 1, 1]], np.float32)
    for many in (goals, goals[:1], goals[1:]):
        assert rules.reward(many, goals[:1]).tolist() == [-1.0 * (row != 0).any() for row in many]
        assert rules.terminated(many, np.zeros_like(many)).tolist() == [bool((row == 0).all()) for row in many]
    monkeypatch.setattr(BitFlip, "compute_reward", lambda self, a, d, info: -1.0 * abs(a[0] - d[0]))  # of one pair
    rules = goal_rules("argosy.env.bitflip:BitFlip", EnvConfig())
    for many in (goals, goals[1:]):  # as many as a goal has elements, and fewer
        assert rules.reward(many, np.zeros_like(many)).tolist() == (-many[:, 0]).tolist()
    monkeypatch.delattr(BitFlip, "compute_terminated")
    assert goal_rules("argosy.env.bitflip:BitFlip", EnvConfig()).terminated is None


@pytest.mark.parametrize("algorithm", ["ddpg", "td3", "sac"])
def test_fetch_tasks_have_goals_for_hindsight(algorithm):
    pytest.importorskip("gymnasium_robotics")
    config = preset(algorithm, "FetchReach-v4")
    assert config.buffer.hindsight.future_k == 4.0
    rules = goal_rules("FetchReach-v4", config.env)
    goals = np.array([[0, 0, 0], [0, 0, 0.1]])
    assert rules.reward(goals, goals[[0, 0]]).tolist() == [0.0, -1.0]
    assert not rules.terminated(goals, goals).any()
