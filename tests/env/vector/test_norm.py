"""Normalised observations and rewards, by hand-computed numbers, and their saved statistics."""

import inspect

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces

from argosy.env import (
    DummyVectorEnv,
    VectorEnv,
    VectorEnvNormObs,
    VectorEnvNormReward,
    VectorEnvWrapper,
    make_vector_env,
)
from argosy.errors import ConfigError, EnvError, SpaceError


class Told(gym.Env):
    """Gives the observations and rewards that it was told; done at the end."""

    observation_space = spaces.Box(-np.inf, np.inf, (1,), np.float64)
    action_space = spaces.Discrete(2)

    def __init__(self, obs, rewards):
        self.told, self.rewards = obs, rewards

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.array([self.told[0]], np.float64), {}

    def step(self, action):
        self.t += 1
        last = self.t == len(self.told) - 1
        return np.array([self.told[self.t]], np.float64), self.rewards[self.t - 1], last, False, {}


def told(*streams, wait_num=None):
    return DummyVectorEnv([lambda s=s: Told(*s) for s in streams], wait_num=wait_num)


def test_observations():
    env = VectorEnvNormObs(told(([0, 4], [1]), ([2, 6], [1])))
    assert isinstance(env, VectorEnv)
    assert isinstance(env, VectorEnvWrapper)
    assert env.single_observation_space == spaces.Box(-10, 10, (1,), np.float32)
    obs, _ = env.reset()  # mean 1, std 1
    assert obs.dtype == np.float32
    assert np.allclose(obs, [[-1], [1]])
    obs, rew, terminated, *_ = env.step(np.zeros(2, int))  # 0 2 4 6: mean 3, variance 5
    assert np.allclose(obs, np.array([[1], [3]]) / np.sqrt(5))
    assert rew.tolist() == [1, 1]
    assert terminated.all()
    assert env.get_obs_rms().count == 4
    env.reset([1])  # 0 2 4 6 2
    assert np.allclose(env.obs_rms.mean, 14 / 5)


def test_test_envs_follow_the_training_envs():
    train = VectorEnvNormObs(told(([0, 4], [1]), ([2, 6], [1])))
    test = VectorEnvNormObs(told(([3, 3], [1])), update_obs_rms=False)
    test.set_obs_rms(train.get_obs_rms())
    train.reset()
    assert np.allclose(test.reset()[0], [[2]])
    assert train.get_obs_rms().count == 2
    train.step(np.zeros(2, int))
    assert np.allclose(test.reset()[0], [[0]])


def test_statistics_are_saved():
    env = VectorEnvNormObs(told(([0, 4], [1]), ([2, 6], [1])))
    env.reset()
    other = VectorEnvNormObs(told(([5, 5], [1])), update_obs_rms=False)
    other.load_state_dict(env.state_dict())
    assert np.allclose(other.reset()[0], [[4]])
    env.step(np.zeros(2, int))
    assert other.obs_rms.count == 2  # a copy


def test_rewards():
    # returns of env 0: 1, 1*0.5+2 = 2.5; of env 1: 3, 3*0.5+0 = 1.5
    env = VectorEnvNormReward(told(([0, 0, 0], [1, 2]), ([0, 0, 0], [3, 0])), gamma=0.5)
    env.reset()
    _, rew, *_ = env.step(np.zeros(2, int))  # returns 1, 3: std 1
    assert np.allclose(rew, [1, 3])
    assert rew.dtype == np.float32
    _, rew, terminated, *_ = env.step(np.zeros(2, int))  # returns 1, 3, 2.5, 1.5: std sqrt(0.625)
    assert np.allclose(rew, np.array([2, 0]) / np.sqrt(0.625))
    assert terminated.all()
    assert env.returns.tolist() == [0, 0]
    env.reset()
    env.step(np.zeros(1, int), [1])
    assert env.returns.tolist() == [0, 3]
    other = VectorEnvNormReward(told(([0, 0, 0], [1, 2]), ([0, 0, 0], [3, 0])), gamma=0.5)
    other.load_state_dict(env.state_dict())
    assert other.returns.tolist() == [0, 3]
    assert other.return_rms.count == 5
    env.reset([1])
    assert env.returns.tolist() == [0, 0]
    with pytest.raises(ConfigError, match="gamma is 2"):
        VectorEnvNormReward(told(([0, 0], [1])), gamma=2)


def test_asynchronously():
    plain = told(([0, 4], [1]), ([2, 6], [3]), wait_num=1)
    env = VectorEnvNormReward(VectorEnvNormObs(plain), gamma=0.0)
    assert isinstance(inspect.getattr_static(env, "is_async"), property)  # as isinstance looks from Python 3.12 on
    env.send_reset()
    seen = {}
    for _ in range(20):
        got = env.recv()
        for row, i in enumerate(got.env_id):
            assert got.obs[row].dtype == np.float32
            seen.setdefault((int(i), bool(got.is_reset[row])), float(got.rew[row]))
        done = got.env_id[got.terminated]
        going = got.env_id[~got.terminated]
        if len(done):
            env.send_reset(done)
        if len(going):
            env.send(np.zeros(len(going), int), going)
    assert seen[0, True] == seen[1, True] == 0
    assert seen[0, False] > 0


def test_not_a_number_is_named_by_env():
    env = VectorEnvNormObs(told(([0, 1], [1]), ([0, np.nan], [1])))
    env.reset()
    with pytest.raises(EnvError, match="env 1, obs: rows hold NaN"):
        env.step(np.zeros(2, int))
    rewards = VectorEnvNormReward(told(([0, 1], [1]), ([0, 1], [np.inf])))
    rewards.reset()
    with pytest.raises(EnvError, match="env 1, rew: rows hold NaN or infinite"):
        rewards.step(np.zeros(2, int))


def test_rewards_of_several_numbers_are_refused():
    env = VectorEnvNormReward(told(([0, 1], [np.array([1.0, 2.0])])))
    env.reset()
    with pytest.raises(EnvError, match=r"rewards of shape \(2,\) per env can't be normalised"):
        env.step(np.zeros(1, int))


class Parts(gym.Env):
    """A Tuple of a Dict (a vector that counts by tens, an image) and a mask."""

    observation_space = spaces.Tuple(
        (
            spaces.Dict(x=spaces.Box(-np.inf, np.inf, (1,)), image=spaces.Box(0, 255, (2, 2), np.uint8)),
            spaces.MultiBinary(2),
        )
    )
    action_space = spaces.Discrete(2)

    def __init__(self, start):
        self.start = start

    def _obs(self):
        x = np.array([self.start + 10 * self.t], np.float32)
        return {"x": x, "image": np.full((2, 2), self.t, np.uint8)}, np.array([1, 0], np.int8)

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return self._obs(), {}

    def step(self, action):
        self.t += 1
        return self._obs(), 0.0, False, False, {}


def test_parts_of_dicts_and_tuples():
    env = VectorEnvNormObs(DummyVectorEnv([lambda s=s: Parts(s) for s in (0, 2)]))
    box = spaces.Box(-10, 10, (1,), np.float32)
    assert env.single_observation_space["0"]["x"] == box
    assert env.single_observation_space["0"]["image"].dtype == np.uint8
    env.reset()  # 0 2: mean 1, std 1
    obs, *_ = env.step([0, 0])  # 0 2 10 12: mean 6, variance 26
    assert np.allclose(obs["0"]["x"], np.array([[4], [6]]) / np.sqrt(26))
    assert obs["0"]["image"].tolist() == [[[1, 1]] * 2] * 2
    assert obs["1"].tolist() == [[1, 0]] * 2
    assert list(env.get_obs_rms()) == ["0.x"]
    assert env.single_observation_space.contains({k: _row(v, 0) for k, v in obs.items()})

    other = VectorEnvNormObs(DummyVectorEnv([lambda: Parts(6)]), update_obs_rms=False)
    other.load_state_dict(env.state_dict())
    assert np.allclose(other.reset()[0]["0"]["x"], 0)
    other.obs_rms = env.get_obs_rms()
    assert other.get_obs_rms()["0.x"] is env.get_obs_rms()["0.x"]
    with pytest.raises(SpaceError, match=r"statistics of \[''\] given; this env normalises \['0.x'\]"):
        other.set_obs_rms(VectorEnvNormObs(told(([0, 1], [1]))).get_obs_rms())


def _row(obs, row):
    return {key: part[row] for key, part in obs.items()} if isinstance(obs, dict) else obs[row]


def test_part_that_is_not_a_number_is_named():
    env = VectorEnvNormObs(DummyVectorEnv([lambda s=s: Parts(s) for s in (0, 2)]))
    env.reset()
    env.set_env_attr("start", np.inf, id=1)
    with pytest.raises(EnvError, match=r"env 1, obs\.0\.x: rows hold NaN"):
        env.step([0, 0])


def test_masks_stay_as_they_are():
    class Masked(Told):
        observation_space = spaces.Dict(x=Told.observation_space, action_mask=spaces.Box(0, 1, (2,), np.float32))

        def reset(self, *, seed=None, options=None):
            return {"x": super().reset()[0], "action_mask": np.array([1, 0], np.float32)}, {}

    env = VectorEnvNormObs(DummyVectorEnv([lambda start=start: Masked([start], []) for start in (0, 2)]))
    obs, _ = env.reset()
    assert obs["action_mask"].tolist() == [[1, 0]] * 2
    assert list(env.get_obs_rms()) == ["x"]


def test_nothing_to_normalise():
    class Cards(Told):
        observation_space = spaces.Dict(card=spaces.Discrete(3))

    with pytest.raises(SpaceError, match="VectorEnvNormObs needs a Box"):
        VectorEnvNormObs(DummyVectorEnv([lambda: Cards([0], [])]))


def test_around_what_is_made_of_a_config():
    train = VectorEnvNormObs(make_vector_env("CartPole-v1", 2, seed=1))
    assert len(train) == 2
    assert train.env_num == 2  # what the wrapper leaves out is the inner env's
    train.reset()
    train.close()
    assert train.is_closed


@pytest.mark.parametrize("outer", [VectorEnvNormObs, VectorEnvNormReward])
def test_wrappers_within_wrappers_are_saved_too(outer):
    inner = VectorEnvNormReward if outer is VectorEnvNormObs else VectorEnvNormObs

    def make():
        return outer(inner(told(([1, 2, 3], [4.0, 5.0]), ([6, 7, 8], [9.0, 1.0]))))

    env, other = make(), make()
    env.reset()
    env.step(np.zeros(2, int))
    other.load_state_dict(env.state_dict())
    for one, two in ((env, other), (env.venv, other.venv)):
        rms, again = (getattr(e, "obs_rms", None) or e.return_rms for e in (one, two))
        assert rms.count == again.count > 0
        assert (rms.mean == again.mean).all()


def test_a_dict_that_envs_share_does_not_mix_them_up():
    told = {}

    class Shares(gym.Env):
        observation_space, action_space = spaces.Box(-1, 1, (1,), np.float32), spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            return np.zeros(1, np.float32), told

        def step(self, action):
            return np.zeros(1, np.float32), 1.0, False, False, told

    env = VectorEnvNormReward(DummyVectorEnv([Shares] * 3), gamma=1.0)
    env.reset()
    for _ in range(5):
        env.step(np.zeros(3, int))
    assert env.returns.tolist() == [5.0, 5.0, 5.0]
    assert told == {}
