"""Wrappers around one env, by value."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from argosy.env import (
    ActionMaskFromInfo,
    ContinuousToDiscrete,
    DummyVectorEnv,
    EnvConfig,
    FlatAction,
    FrameStack,
    MultiDiscreteToDiscrete,
    ShmemVectorEnv,
    SubprocVectorEnv,
    TruncatedAsTerminated,
    make_vector_env,
    register_wrapper,
    task_spaces,
)
from argosy.env.tasks import env_factory
from argosy.errors import ConfigError, EnvError, SpaceError


class Echo(gym.Env):
    """The observation counts the steps; the info repeats the action; truncated at the third step."""

    def __init__(self, action_space, observation_space=None):
        self.action_space = action_space
        self.observation_space = observation_space or spaces.Box(0, 100, (2,), np.float32)

    def _obs(self):
        if isinstance(self.observation_space, spaces.Dict):
            return {"x": np.array([self.t], np.float32)}
        return np.array([self.t, 10 + self.t], np.float32)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self._obs(), {"mask": [1, 0, 1]}

    def step(self, action):
        self.t += 1
        info = {"action": action if isinstance(action, dict | tuple) else np.asarray(action)}
        if self.t < 3:
            info["mask"] = np.array([False, True, self.t == 1])
        return self._obs(), 1.0, False, self.t == 3, info


def test_continuous_to_discrete():
    box = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 3], np.float32))
    env = ContinuousToDiscrete(Echo(box), [3, 4])
    assert env.action_space == spaces.MultiDiscrete([3, 4])
    env.reset()
    for index, value in (([0, 0], [-1, 0]), ([1, 1], [0, 1]), ([2, 3], [1, 3])):
        action = env.step(np.array(index))[4]["action"]
        assert action.tolist() == value
        assert action.dtype == np.float32
        assert box.contains(action)
    assert ContinuousToDiscrete(Echo(box), 5).action_space == spaces.MultiDiscrete([5, 5])
    with pytest.raises(ConfigError, match=r"action_per_dim is \[3\]; give 2 whole"):
        ContinuousToDiscrete(Echo(box), [3])
    with pytest.raises(ConfigError, match="action_per_dim is 1"):
        ContinuousToDiscrete(Echo(box), 1)
    for wrong in (spaces.Discrete(2), spaces.Box(-np.inf, np.inf, (2,)), spaces.Box(0, 1, (2, 2))):
        with pytest.raises(SpaceError, match="needs a bounded Box action space of one axis"):
            ContinuousToDiscrete(Echo(wrong), 3)


def test_multidiscrete_to_discrete():
    env = MultiDiscreteToDiscrete(Echo(spaces.MultiDiscrete([2, 3])))
    assert env.action_space == spaces.Discrete(6)
    env.reset()
    seen = [tuple(env.step(np.int64(i))[4]["action"].tolist()) for i in range(6)]
    assert seen == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]
    shifted = MultiDiscreteToDiscrete(Echo(spaces.MultiDiscrete([2, 2], start=[5, -1])))
    shifted.reset()
    assert shifted.step(3)[4]["action"].tolist() == [6, 0]
    with pytest.raises(SpaceError, match="needs a MultiDiscrete"):
        MultiDiscreteToDiscrete(Echo(spaces.Discrete(2)))


def test_flat_action_of_choices():
    flags = spaces.MultiBinary((2, 2))
    inner = spaces.Tuple((flags, spaces.MultiDiscrete([2, 5], start=[0, -2])))
    space = spaces.Dict(a=inner, b=spaces.Discrete(3, start=4))
    env = FlatAction(Echo(space))
    assert env.action_space == spaces.MultiDiscrete([2] * 4 + [2, 5] + [3])
    env.reset()
    action = env.step(np.array([1, 0, 0, 1, 1, 4, 2]))[4]["action"]
    assert space.contains(action)
    assert action["b"] == 6
    assert action["a"][0].tolist() == [[1, 0], [0, 1]]
    assert action["a"][1].tolist() == [1, 2]
    with pytest.raises(SpaceError, match=r"FlatAction needs a Tuple or Dict action space of .*, got Discrete"):
        FlatAction(Echo(spaces.Discrete(2)))
    with pytest.raises(SpaceError, match="FlatAction needs a Tuple or Dict"):
        FlatAction(Echo(spaces.Tuple([spaces.Text(3)])))


def test_flat_action_of_choices_and_numbers():
    steer = spaces.Box(np.array([[-1.0], [0.0]], np.float32), np.array([[1.0], [np.inf]], np.float32))
    space = spaces.Tuple(
        (
            spaces.Discrete(3),
            steer,
            spaces.Box(-5, 5, (1,), np.int64),
            spaces.MultiDiscrete([2, 2]),
            spaces.MultiBinary(1),
        )
    )
    env = FlatAction(Echo(space))
    assert env.action_space.low.tolist() == [-1] * 3 + [-1, 0] + [-5.5] + [-1] * 6
    assert env.action_space.high.tolist() == [1] * 3 + [1, np.inf] + [5.5] + [1] * 6
    env.reset()
    act = np.array([0.1, 0.3, -1, 0.5, 7, -2.6, -0.1, 0.2, 0.9, 0.8, -0.2, -0.1], np.float32)
    gear, steered, whole, multi, flag = action = env.step(act)[4]["action"]
    assert space.contains(action)
    assert gear == 1
    assert steered.tolist() == [[0.5], [7]]
    assert whole.tolist() == [-3]
    assert multi.tolist() == [1, 0]
    assert flag.tolist() == [1]
    for number, taken in ((-5.5, -5), (-4.6, -5), (-4.4, -4), (5.5, 5), (300, 5)):
        act[5] = number
        assert env.action(act)[2].tolist() == [taken]


def test_wrappers_combine_in_a_vector_env():
    box = spaces.Box(-1, 1, (2,), np.float32)
    env = DummyVectorEnv([lambda: MultiDiscreteToDiscrete(ContinuousToDiscrete(Echo(box), 3))] * 2)
    env.reset()
    info = env.step(np.array([0, 5]))[4]
    assert [one["action"].tolist() for one in info] == [[-1, -1], [0, 1]]


def test_many_actions_at_once():
    box = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 3], np.float32))
    env = ContinuousToDiscrete(Echo(box), [3, 4])
    assert env.action([[0, 3], [2, 1], [1, 0]]).tolist() == [[-1, 3], [1, 1], [0, 0]]
    combined = MultiDiscreteToDiscrete(env)
    assert combined.action([[0, 5], [11, 4]]).tolist() == [[[0, 0], [1, 1]], [[2, 3], [1, 0]]]


def test_truncated_as_terminated():
    env = TruncatedAsTerminated(Echo(spaces.Discrete(2)))
    env.reset()
    flags = [env.step(0)[2:4] for _ in range(3)]
    assert flags == [(False, False), (False, False), (True, True)]


def test_frame_stack():
    env = FrameStack(Echo(spaces.Discrete(2)), 3)
    assert env.observation_space == spaces.Box(0, 100, (3, 2), np.float32)
    obs, _ = env.reset()
    assert obs.tolist() == [[0, 10]] * 3
    env.step(0)
    second = env.step(0)[0]
    assert second.tolist() == [[0, 10], [1, 11], [2, 12]]
    assert env.step(0)[0].tolist() == [[1, 11], [2, 12], [3, 13]]
    assert second.tolist() == [[0, 10], [1, 11], [2, 12]]
    assert env.reset()[0].tolist() == [[0, 10]] * 3
    with pytest.raises(SpaceError, match="needs a Box"):
        FrameStack(Echo(spaces.Discrete(2), spaces.Discrete(3)), 3)
    with pytest.raises(ConfigError, match="num_stack is 0"):
        FrameStack(Echo(spaces.Discrete(2)), 0)


def test_frames_of_an_env_that_uses_its_array_again():
    class Reusing(gym.Env):
        observation_space, action_space = spaces.Box(0, 9, (1,), np.float32), spaces.Discrete(2)
        array = np.zeros(1, np.float32)

        def reset(self, *, seed=None, options=None):
            self.array[:] = 0
            return self.array, {}

        def step(self, action):
            self.array += 1
            return self.array, 0.0, False, False, {}

    env = FrameStack(Reusing(), 3)
    assert env.reset()[0].ravel().tolist() == [0, 0, 0]
    assert env.step(0)[0].ravel().tolist() == [0, 0, 1]
    assert env.step(0)[0].ravel().tolist() == [0, 1, 2]


def test_action_masks_of_infos_reach_the_observation():
    env = DummyVectorEnv([lambda: ActionMaskFromInfo(Echo(spaces.Discrete(3)), "mask")] * 2)
    assert set(env.single_observation_space.keys()) == {"obs", "action_mask"}
    obs, _ = env.reset()
    assert obs["action_mask"].tolist() == [[1, 0, 1]] * 2
    assert obs["obs"].tolist() == [[0, 10]] * 2
    assert env.step(np.zeros(2, int))[0]["action_mask"].tolist() == [[0, 1, 1]] * 2
    assert env.step(np.zeros(2, int))[0]["action_mask"].tolist() == [[0, 1, 0]] * 2
    assert env.step(np.zeros(2, int))[0]["action_mask"].tolist() == [[1, 1, 1]] * 2  # no mask: all allowed
    # a Dict observation keeps its keys; MultiDiscrete actions have a flag per value of each dimension
    nested = Echo(spaces.MultiDiscrete([2, 1]), spaces.Dict(x=spaces.Box(0, 9, (1,))))
    wrapped = ActionMaskFromInfo(nested, "mask")
    obs, _ = wrapped.reset()
    assert set(obs) == {"x", "action_mask"}
    assert wrapped.observation_space.contains(obs)
    with pytest.raises(SpaceError, match="has 3 elements; the actions need 4"):
        ActionMaskFromInfo(Echo(spaces.Discrete(4)), "mask").reset()
    with pytest.raises(SpaceError, match="needs a Discrete or MultiDiscrete"):
        ActionMaskFromInfo(Echo(spaces.Box(0, 1, (1,))))
    with pytest.raises(SpaceError, match="has an entry 'action_mask' already"):
        ActionMaskFromInfo(wrapped)


def plus_one(env):
    return gym.wrappers.TransformObservation(env, lambda obs: obs + 1, spaces.Box(-99, 99, env.observation_space.shape))


def doubled(env):
    return gym.wrappers.TransformObservation(env, lambda obs: 2 * obs, spaces.Box(-99, 99, env.observation_space.shape))


register_wrapper("plus one", plus_one)
register_wrapper("doubled", doubled)
register_wrapper("flat", "FlattenObservation", module="gymnasium.wrappers")
register_wrapper("nothing", lambda env: None)


@pytest.mark.parametrize("vector", ["dummy", "subproc", "shmem"])
def test_wrappers_by_name_in_their_order(vector):
    wrappers = ("plus one", "doubled", "FrameStack(num_stack=3)", "gymnasium.wrappers:FlattenObservation")
    plain = make_vector_env("Pendulum-v1", 3, seed=1).reset()[0]
    config = EnvConfig(vector=vector, wrappers=wrappers)
    env = make_vector_env("Pendulum-v1", 3, seed=1, config=config)
    assert env.single_observation_space.shape == task_spaces("Pendulum-v1", config)[0].shape == (9,)
    np.testing.assert_array_equal(env.reset()[0], np.tile(2 * (plain + 1), 3))
    env.close()


def test_registered_wrappers_reach_processes_that_do_not_know_them():
    make = env_factory("Pendulum-v1", EnvConfig(wrappers=("doubled", "FrameStack(num_stack=2)", "flat")))
    env = SubprocVectorEnv([make] * 2, context="spawn")
    assert env.reset()[0].shape == (2, 6)
    env.close()


def test_time_limits_are_inside():
    config = EnvConfig(max_episode_steps=2, wrappers=("TruncatedAsTerminated",))
    env = make_vector_env("Pendulum-v1", 1, config=config)
    env.reset()
    assert [env.step(np.zeros((1, 1)))[2].tolist() for _ in range(2)] == [[False], [True]]


def test_atari_with_wrappers_is_stepped_in_python():
    pytest.importorskip("ale_py")
    config = EnvConfig(frame_stack=2, wrappers=("gymnasium.wrappers:FlattenObservation",))
    assert task_spaces("Pong", config)[0].shape == (2 * 84 * 84,)
    env = make_vector_env("Pong", 2, config=config)
    assert type(env) is ShmemVectorEnv
    env.close()
    with pytest.raises(ConfigError, match=r"EnvConfig\.wrappers is \('flat',\), but EnvPool's envs"):
        EnvConfig(vector="envpool", wrappers=("flat",))


@pytest.mark.parametrize(
    ("wrapper", "says"),
    [
        ("FrameStak", "unknown wrapper 'FrameStak'; did you mean 'FrameStack'"),
        ("no_such_module:Wrapper", "wrapper 'no_such_module:Wrapper': 'Wrapper' could not be imported"),
        ("gymnasium.wrappers:Nothing", "'Nothing' could not be imported from 'gymnasium.wrappers'"),
        ("FrameStack", r"wrapper 'FrameStack' lacks num_stack"),
        ("FrameStack(num=3)", r"wrapper 'FrameStack\(num=3\)' holds 'num', .* did you mean 'num_stack'"),
        ("FrameStack(num_stack='3')", r"\['num_stack'\] is '3'; it must be int"),
        ("FrameStack(3)", r"keyword arguments with plain values, as in 'FrameStack\(size=4\)'"),
        ("FrameStack(num_stack=open('x'))", "keyword arguments with plain values"),
        ("FrameStack(num_stack=3", "keyword arguments with plain values"),
        ("FrameStack(num_stack=3).close()", "keyword arguments with plain values"),
    ],
)
def test_wrappers_that_cannot_be_are_named(wrapper, says):
    with pytest.raises(ConfigError, match=says):
        make_vector_env("Pendulum-v1", 1, config=EnvConfig(wrappers=(wrapper,)))


@pytest.mark.parametrize("vector", ["dummy", "subproc"])
def test_wrappers_that_do_not_fit_are_named(vector):
    for wrapper, says in {
        "MultiDiscreteToDiscrete": "wrapper 'MultiDiscreteToDiscrete' does not fit .*Pendulum.*: SpaceError: Multi",
        "nothing": "wrapper 'nothing' returned a NoneType; it must return a gymnasium.Env",
    }.items():
        with pytest.raises(EnvError, match=says):
            make_vector_env("Pendulum-v1", 1, config=EnvConfig(vector=vector, wrappers=(wrapper,)))
    with pytest.raises(ConfigError, match=r"it must be a tuple: \('flat',\)"):
        EnvConfig(wrappers="flat")
    with pytest.raises(ConfigError, match="wrapper 'flat' is registered already"):
        register_wrapper("flat", plus_one)
