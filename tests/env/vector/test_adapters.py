"""Foreign vector envs behind our contract: no resets by themselves, true last observations, some envs at a time."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AsyncVectorEnv, AutoresetMode, SyncVectorEnv

from argosy.collect import Collector
from argosy.data import Batch, VectorReplayBuffer
from argosy.env import DummyVectorEnv, GymVectorEnv, VectorEnv, as_vector_env, info_column
from argosy.errors import ConfigError, EnvError
from argosy.policy import ForwardPolicy
from argosy.policy.forward import RandomPolicy


class Count(gym.Env):
    """Observation (episode, step, index); env i has episodes of 3 + i steps; reward step."""

    observation_space = spaces.Box(-1, 1000, (3,), np.float32)
    action_space = spaces.Discrete(7)

    def __init__(self, index=0):
        self.index, self.episode = index, 0

    def obs(self):
        return np.array([self.episode, self.t, self.index], np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        self.episode += 1
        return self.obs(), {"draw": self.np_random.random()}

    def step(self, action):
        assert 0 <= action < 7
        self.t += 1
        return self.obs(), float(self.t), self.t == 3 + self.index, False, {"t": self.t}


def counts(n):
    return [lambda i=i: Count(i) for i in range(n)]


def foreign(mode, cls=SyncVectorEnv, n=2):
    return as_vector_env(cls(counts(n), autoreset_mode=mode))


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("cls", [SyncVectorEnv, AsyncVectorEnv])
def test_every_mode_gives_what_our_own_gives(mode, cls):
    env, ours = foreign(mode, cls, n=3), DummyVectorEnv(counts(3))
    assert isinstance(env, VectorEnv)
    assert isinstance(env, GymVectorEnv)
    assert env.single_observation_space == ours.single_observation_space
    seeds = ours.seed(5)
    assert env.seed(5) == seeds
    obs, info = env.reset()
    assert obs.tolist() == ours.reset()[0].tolist()
    assert info["env_id"].tolist() == [0, 1, 2]
    for _ in range(40):
        action = np.ones(3, int)
        a, b = env.step(action), ours.step(action)
        for x, y in zip(a[:4], b[:4], strict=True):
            assert np.array_equal(x, y)
            assert x.dtype == y.dtype
        done = np.flatnonzero(a[2])
        if len(done):
            assert env.reset(done)[0].tolist() == ours.reset(done)[0].tolist()
    env.close()


def test_an_env_that_is_reset_twice_is_refused():
    with pytest.raises(ConfigError, match=r"AsyncVectorEnv without shared memory resets .* shared_memory=True"):
        as_vector_env(AsyncVectorEnv(counts(2), shared_memory=False))


def test_wrappers_that_hide_what_is_needed_are_named():
    wrapped = as_vector_env(gym.wrappers.vector.NormalizeObservation(SyncVectorEnv(counts(2))))
    wrapped.reset()
    with pytest.raises(EnvError, match=r"<NormalizeObservation, .*> cannot begin episodes in some .* VectorEnvNormObs"):
        wrapped.reset([0])
    with pytest.raises(EnvError, match=r"<DictInfoToList, .*> gives its infos as a list; they have to be a dict"):
        as_vector_env(gym.wrappers.vector.DictInfoToList(SyncVectorEnv(counts(2)))).reset()


def test_a_wrapper_that_reads_the_mask_hides_no_env_that_does_not():
    env = gym.wrappers.vector.RecordEpisodeStatistics(gym.make_vec("CartPole-v1", num_envs=2))
    env = as_vector_env(env)
    env.reset(seed=0)
    env.step(np.array([0, 1]))
    with pytest.raises(EnvError, match=r"CartPoleVectorEnv takes no notice of options\['reset_mask'\]"):
        env.reset([0])


class Masked(gym.Env):
    """One choice is allowed at a time."""

    observation_space = gym.spaces.Dict(x=gym.spaces.Box(-1, 1), action_mask=gym.spaces.MultiBinary(5))
    action_space = gym.spaces.Discrete(5, start=2)

    def __init__(self, length):
        self.length = length

    def _see(self):
        self.allowed = int(self.np_random.integers(5))
        return {"x": np.zeros(1, np.float32), "action_mask": np.eye(5, dtype=np.int8)[self.allowed]}

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return self._see(), {}

    def step(self, action):
        assert action == 2 + self.allowed
        self.t += 1
        return self._see(), 1.0, self.t == self.length, False, {}


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_envs_that_rest_get_moves_that_are_allowed(mode):
    env = as_vector_env(SyncVectorEnv([lambda n=n: Masked(n) for n in (3, 20)], autoreset_mode=mode))
    policy = RandomPolicy(env.single_observation_space, env.single_action_space)
    assert Collector(policy, env, seed=0).collect(n_episode=2).lens.tolist() == [3, 20]


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_some_envs_at_a_time(mode):
    """Envs that rest have to be reset before they take part again."""
    env = foreign(mode)
    env.reset()
    for t in range(1, 4):
        obs, rew, terminated, *_, info = env.step(np.array([2]), [0])
        assert obs.tolist() == [[1, t, 0]]
        assert rew.tolist() == [t]
        assert info["env_id"].tolist() == [0]
    assert terminated.tolist() == [True]
    with pytest.raises(EnvError, match="episode of env 1 has ended or was never started; reset it"):
        env.step(np.zeros(1, int), [1])
    obs, _ = env.reset([1, 0])
    assert obs[:, [1, 2]].tolist() == [[0, 1], [0, 0]]
    for t in range(1, 6):  # env 1 plays on while env 0 has ended long ago
        ids = [1] if t > 3 else [1, 0]
        obs, _, terminated, *_ = env.step(np.zeros(len(ids), int), ids)
        assert obs[:, [1, 2]].tolist() == [[t, i] for i in ids]
        if t == 4:
            assert terminated.tolist() == [True]
            env.reset([1])
            break
    assert env.reset()[0][:, 1].tolist() == [0, 0]


def test_wrong_use():
    env = foreign(AutoresetMode.NEXT_STEP)
    with pytest.raises(EnvError, match="was never started"):
        env.step(np.zeros(2, int))
    with pytest.raises(EnvError, match="has to be of all envs"):
        env.reset([0])
    env.reset()
    with pytest.raises(EnvError, match=r"3 action\(s\) for 2 env"):
        env.step(np.zeros(3, int))
    for _ in range(3):
        env.step(np.zeros(2, int))
    with pytest.raises(EnvError, match="episode of env 0 has ended"):
        env.step(np.zeros(2, int))
    with pytest.raises(ConfigError, match="list of 1; 2 envs"):
        env.seed([1])


def test_seeds_repeat():
    env = foreign(AutoresetMode.NEXT_STEP)
    env.seed(3)
    _, first = env.reset()
    _, other = env.reset()
    env.seed(3)
    _, again = env.reset()
    assert first["draw"].tolist() == again["draw"].tolist() != other["draw"].tolist()
    assert env.reset(seed=3)[1]["draw"].tolist() == first["draw"].tolist()


def test_vector_envs_with_one_generator_for_all():
    env = as_vector_env(gym.make_vec("CartPole-v1", num_envs=3))
    assert type(env.env).__name__ == "CartPoleVectorEnv"
    firsts = []
    for seed in (3, 3, 4):
        env.seed(seed)
        firsts.append(env.reset()[0].tolist())
    assert firsts[0] == firsts[1] != firsts[2]
    env.step(np.ones(3, int))
    with pytest.raises(EnvError, match=r"CartPoleVectorEnv takes no notice of options\['reset_mask'\].*mode='sync'"):
        env.reset([1])
    env.close()


def test_nested_observations():
    class Nested(Count):
        observation_space = spaces.Tuple([spaces.Box(0, 9, (1,)), spaces.Dict(n=spaces.Discrete(9))])

        def obs(self):
            return np.array([self.t], np.float32), {"n": self.t}

    for mode in AutoresetMode:
        env = as_vector_env(SyncVectorEnv([Nested, Nested], autoreset_mode=mode))
        obs, _ = env.reset()
        assert set(env.single_observation_space.keys()) == {"0", "1"} == set(obs)
        for t in range(1, 4):
            obs, *_ = env.step(np.zeros(2, int))
            assert obs["0"].tolist() == [[t], [t]]
            assert obs["1"]["n"].tolist() == [t, t]
        assert env.reset([1])[0]["1"]["n"].tolist() == [0]


def test_what_as_vector_env_accepts():
    ours = DummyVectorEnv(counts(2))
    assert as_vector_env(ours) is ours
    for given, n in ((Count(), 1), (Count, 1), (counts(3), 3)):
        env = as_vector_env(given)
        assert (type(env), env.num_envs) == (DummyVectorEnv, n)
        assert env.reset()[0].shape == (n, 3)
    for wrong in (3, [], "CartPole-v1", [Count, 3]):
        with pytest.raises(ConfigError, match="is no environment that could be stepped"):
            as_vector_env(wrong)


def test_ale_vector_env():
    vector_env = pytest.importorskip("ale_py.vector_env")
    env = as_vector_env(vector_env.AtariVectorEnv("breakout", num_envs=2, noop_max=1))
    env.seed(1)
    first, info = env.reset()
    assert first.shape == (2, 4, 84, 84)
    assert info["lives"].tolist() == [5, 5]
    before, ends = first, 0
    for _ in range(260):
        obs, rew, terminated, truncated, info = env.step(np.ones(2, int))
        assert rew.dtype == np.float32
        # no reset hides in a step: the frames move on by one, also at an episode's end
        assert np.array_equal(obs[:, :3], before[:, 1:])
        done = np.flatnonzero(terminated | truncated)
        before = obs.copy()
        if len(done):
            ends += len(done)
            assert (info["lives"][done] == 0).all()
            before[done], again = env.reset(done)
            assert again["lives"].tolist() == [5] * len(done)
            assert again["env_id"].tolist() == done.tolist()
    assert ends > 0
    env.seed(1)
    assert np.array_equal(env.reset()[0], first)
    env.close()


def test_ale_with_a_game_per_life_is_warned_of():
    vector_env = pytest.importorskip("ale_py.vector_env")
    env = as_vector_env(vector_env.AtariVectorEnv("breakout", num_envs=1, noop_max=1, episodic_life=True))
    env.reset()
    terminated = [False]
    while not terminated[0]:
        _, _, terminated, *_ = env.step(np.ones(1, int))
    with pytest.warns(UserWarning, match="later lives are never played"):
        env.reset([0])


class Shared(Count):
    """Its observation may always be the same array, and its last info says how it went."""

    def __init__(self, index=0, reuses=True):
        super().__init__(index)
        self.reuses, self.array = reuses, np.zeros(3, np.float32)

    def obs(self):
        self.array[:] = super().obs()
        return self.array if self.reuses else self.array.copy()

    def step(self, action):
        obs, rew, terminated, truncated, info = super().step(action)
        return obs, rew, terminated, truncated, info | ({"is_success": self.index == 0} if terminated else {})


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_infos_within_infos_are_kept(mode):
    makers = [lambda i=i: gym.wrappers.RecordEpisodeStatistics(Count(i)) for i in range(2)]
    env = as_vector_env(SyncVectorEnv(makers, autoreset_mode=mode))
    env.reset()
    infos = [env.step(np.ones(2, int))[-1] for _ in range(3)]
    assert "episode" not in infos[1]
    assert (infos[2]["episode"]["r"].tolist(), infos[2]["_episode"].tolist()) == ([6.0, 0.0], [True, False])
    assert info_column(infos[2], "episode", [0])["l"].tolist() == [3]
    infos += [env.reset([0])[1], env.step(np.ones(1, int), [1])[-1]]
    assert (infos[4]["episode"]["r"].tolist(), infos[4]["episode"]["l"].tolist()) == ([10.0], [4])
    assert not any("final_info" in info for info in infos)


class Looks(ForwardPolicy):
    def forward(self, batch, state=None):
        return Batch(act=np.zeros(len(batch.obs), np.int64))


@pytest.mark.parametrize("mode", list(AutoresetMode))
@pytest.mark.parametrize("copy", [True, False])
def test_what_is_collected_is_what_our_own_envs_give(mode, copy):
    reuses = mode is not AutoresetMode.SAME_STEP  # there gymnasium itself keeps the array, and resets the env
    makers, found = [lambda i=i: Shared(i, reuses) for i in range(2)], []
    for env in (SyncVectorEnv(makers, copy=copy, autoreset_mode=mode), DummyVectorEnv(makers)):
        buffer = VectorReplayBuffer(200, 2, info_keys=("t",))
        collector = Collector(Looks(Count.observation_space, Count.action_space), env, buffer, seed=0)
        stats = [collector.collect(n_step=40), collector.collect(n_episode=1), collector.collect(n_step=20)]
        assert stats[0].success_rate == pytest.approx(6 / 11)
        rows = buffer.rollout() if buffer.buffer_num else None
        batch = buffer[:]
        found.append((batch.obs[:40], batch.obs_next[:40], batch.info.t[:40], batch.terminated[:40]))
        assert rows is not None
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one[:20], other[:20])


@pytest.mark.parametrize("mode", list(AutoresetMode))
def test_a_seed_gives_the_same_episodes_where_envs_have_rested(mode):
    found = []
    for _ in range(2):
        env = gym.make_vec("CartPole-v1", 3, vectorization_mode="sync", vector_kwargs={"autoreset_mode": mode})
        collector = Collector(Looks(env.single_observation_space, env.single_action_space), env, seed=0)
        for _ in range(12):
            collector.collect(n_episode=1)
        found.append([one.np_random.random() for one in env.envs])
    assert found[0] == found[1]


def test_masks_are_no_numbers_of_envs():
    env = DummyVectorEnv(counts(2))
    with pytest.raises(EnvError, match=r"id is a mask of bool; .* numpy.flatnonzero\(mask\)"):
        env.reset(np.array([True, False]))


def test_later_episodes_are_given_their_options_in_every_mode():
    class Placed(Count):
        def reset(self, *, seed=None, options=None):
            obs, info = super().reset(seed=seed)
            return obs + (options or {}).get("x", 0), info

    env = as_vector_env(SyncVectorEnv([Placed] * 2, autoreset_mode=AutoresetMode.SAME_STEP))
    env.reset()
    for _ in range(3):
        env.step(np.zeros(2, int))
    assert env.reset([0, 1], options={"x": 7})[0][:, 1].tolist() == [7, 7]
