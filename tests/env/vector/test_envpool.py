"""EnvPool behind our contract, by value: it never resets by itself, and the last observation is the true one."""

import os

import numpy as np
import pytest

from argosy.env import EnvConfig, EnvPoolVectorEnv, VectorEnv, as_vector_env, info_column, make_vector_env
from argosy.env.tasks import is_dm_control
from argosy.errors import ConfigError, EnvError

envpool = pytest.importorskip("envpool")


def cartpole(n, wait_num=None, seed=0, **settings):
    config = EnvConfig(vector="envpool", num_envs=n, wait_num=wait_num, **settings)
    return make_vector_env("CartPole-v1", n, seed=seed, config=config)


def failed(obs):
    return (np.abs(obs[:, 0]) > 2.4) | (np.abs(obs[:, 2]) > 12 * 2 * np.pi / 360)


def test_cartpole_never_shows_a_reset_transition():
    env = cartpole(4)
    assert isinstance(env, EnvPoolVectorEnv)
    assert isinstance(env, VectorEnv)
    rng = np.random.default_rng(0)
    obs, info = env.reset()
    assert obs.shape == (4, 4)
    assert (np.abs(obs) <= 0.05).all()
    lengths, episodes = np.zeros(4, int), 0
    for _ in range(300):
        before = obs
        action = rng.integers(0, 2, 4)
        obs, rew, terminated, truncated, info = env.step(action)
        lengths += 1
        # a reset transition would have reward 0 and an observation near 0 that the dynamics cannot reach
        assert rew.tolist() == [1] * 4
        assert np.allclose(obs[:, 0], before[:, 0] + 0.02 * before[:, 1], atol=1e-5)
        assert info["env_id"].tolist() == [0, 1, 2, 3]
        assert np.array_equal(info["elapsed_step"], lengths)
        assert np.array_equal(terminated, failed(obs))
        done = np.flatnonzero(terminated | truncated)
        if len(done):
            episodes += len(done)
            first, first_info = env.reset(done)
            assert (np.abs(first) <= 0.05).all()
            assert first_info["env_id"].tolist() == done.tolist()
            obs = obs.copy()
            obs[done] = first
            lengths[done] = 0
    assert episodes > 20
    env.close()


def test_truncation_keeps_the_last_observation():
    env = cartpole(2, max_episode_steps=3)
    before, _ = env.reset()
    for t in range(3):
        obs, _, terminated, truncated, _ = env.step(np.array([t % 2, t % 2]))
        assert truncated.tolist() == [t == 2] * 2
        assert not terminated.any()
        assert np.allclose(obs[:, 0], before[:, 0] + 0.02 * before[:, 1], atol=1e-5)
        before = obs
    env.close()


def test_some_envs_in_any_order():
    env, twin = cartpole(4), cartpole(4)
    env.reset()
    twin.reset()
    all_obs, *_ = twin.step(np.array([0, 1, 0, 1]))
    obs, rew, *_, info = env.step(np.array([1, 0]), [3, 0])
    assert np.array_equal(obs, all_obs[[3, 0]])
    assert info_column(info, "env_id").tolist() == [3, 0]
    obs, *_ = env.step(np.array([0, 1]), [2, 1])
    assert np.array_equal(obs, all_obs[[2, 1]])
    assert len(rew) == 2


def test_reset_of_running_and_done_envs_together():
    env = cartpole(3, max_episode_steps=4)
    env.reset()
    for _ in range(2):
        env.step(np.zeros(3, int))
    env.reset([1])  # in the middle of its episode
    for _ in range(2):
        _, _, _, truncated, info = env.step(np.ones(3, int))
    assert truncated.tolist() == [True, False, True]
    assert info["elapsed_step"].tolist() == [4, 2, 4]
    obs, info = env.reset([2, 1, 0])
    assert info["env_id"].tolist() == [2, 1, 0]
    assert info["elapsed_step"].tolist() == [0, 0, 0]
    assert (np.abs(obs) <= 0.05).all()
    again, _ = env.reset()
    assert not np.array_equal(again, obs[::-1])


def test_stepping_a_done_env_is_an_error():
    env = cartpole(2, max_episode_steps=1)
    with pytest.raises(EnvError, match="call reset first"):
        env.step(np.zeros(2, int))
    env.reset()
    env.step(np.zeros(2, int))
    with pytest.raises(EnvError, match="episode of env 1 has ended; reset it first"):
        env.step(np.zeros(1, int), [1])
    env.reset([0])
    assert env.step(np.zeros(1, int), [0])[3].tolist() == [True]
    env.reset()
    with pytest.raises(EnvError, match=r"actions of shape \(3,\) for 2 env"):
        env.step(np.zeros(3, int))


def test_seed_starts_everything_anew():
    env = cartpole(3, seed=7)
    first, _ = env.reset()
    env.step(np.zeros(3, int))
    other, _ = env.reset()
    assert not np.array_equal(first, other)
    env.seed(7)
    assert np.array_equal(env.reset()[0], first)
    assert np.array_equal(env.reset()[0], other)
    assert np.array_equal(env.reset(seed=7)[0], first)
    env.seed(8)
    assert not np.array_equal(env.reset()[0], first)
    env.seed(7)
    with pytest.raises(EnvError, match="reset all 3 envs together"):
        env.reset([0])
    with pytest.raises(ConfigError, match="list of 2; 3 envs"):
        env.seed([1, 2])
    with pytest.raises(EnvError, match="EnvPool takes no options"):
        env.reset(options={})
    env.close()
    env.close()
    with pytest.raises(EnvError, match="closed"):
        env.reset()


def run_alone(seed, steps):
    """Observations and flags of each env in step, with actions that depend on env and step of the episode."""
    env = cartpole(4, seed=seed)
    obs, _ = env.reset()
    streams = [[("reset", *row)] for row in obs.tolist()]
    t = np.zeros(4, int)
    while min(map(len, streams)) < steps:
        obs, rew, terminated, _, _ = env.step((t + np.arange(4)) % 2)
        t += 1
        for i in range(4):
            streams[i].append((bool(terminated[i]), rew[i], *obs[i].tolist()))
        done = np.flatnonzero(terminated)
        if len(done):
            t[done] = 0
            for i, row in zip(done, env.reset(done)[0].tolist(), strict=True):
                streams[i].append(("reset", *row))
    env.close()
    return streams


def test_asynchronous_gives_every_env_the_same_stream():
    expected = run_alone(seed=3, steps=60)
    env = cartpole(4, wait_num=2, seed=3)
    assert env.is_async
    env.send_reset()
    streams = [[] for _ in range(4)]
    t = np.zeros(4, int)
    for _ in range(200):
        got = env.recv()
        assert len(got.env_id) == 2
        assert np.array_equal(got.info["env_id"], got.env_id)
        for row, i in enumerate(got.env_id):
            obs = got.obs[row].tolist()
            streams[i].append(("reset", *obs) if got.is_reset[row] else (got.terminated[row], got.rew[row], *obs))
        t[got.env_id] += 1
        t[got.env_id[got.is_reset]] = 0
        over = got.env_id[got.terminated]
        going = got.env_id[~got.terminated]
        if len(over):
            env.send_reset(over)
        if len(going):
            env.send((t[going] + going) % 2, going)
    for i in range(4):
        length = min(len(streams[i]), len(expected[i]))
        assert length > 50
        assert streams[i][:length] == expected[i][:length]
    obs, info = env.reset(seed=3)  # all anew, whatever is under way
    assert [("reset", *row) for row in obs.tolist()] == [stream[0] for stream in expected]
    assert info["env_id"].tolist() == [0, 1, 2, 3]
    env.close()


def test_asynchronous_refuses_what_would_block_or_mislead():
    env = cartpole(4, wait_num=2)
    with pytest.raises(EnvError, match="EnvPool hands out 2 together"):
        env.recv()
    obs, _ = env.reset()
    assert obs.shape == (4, 4)
    env.send(np.zeros(2, int), [0, 1])
    with pytest.raises(EnvError, match="env 1 is still at work"):
        env.send(np.zeros(2, int), [2, 1])
    with pytest.raises(EnvError, match="env 3 is in the middle of an episode"):
        env.send_reset([3])
    with pytest.raises(EnvError, match="reset all 4 envs together"):
        env.reset([3])
    _, rew, _, _, info = env.step(np.zeros(2, int), [2, 3])  # starts two and returns two
    assert rew.tolist() == [1, 1]
    assert len(set(info["env_id"].tolist())) == 2
    env.close()
    with pytest.raises(ConfigError, match="5 envs are no multiple of the batch size 2"):
        cartpole(5, wait_num=2)


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="only Linux has it")
def test_in_the_background_only_the_pools_threads_yield():
    def threads():
        return {int(thread) for thread in os.listdir("/proc/self/task")}

    before = threads()
    env = cartpole(4, wait_num=2, background=True)
    env.reset()
    env.seed(1)
    env.reset()  # in a new pool
    assert env.step(np.zeros(2, int), [0, 1])[1].tolist() == [1, 1]
    started = {os.sched_getscheduler(thread) for thread in threads() - before}
    assert started == {os.SCHED_IDLE}
    assert os.sched_getscheduler(0) == os.SCHED_OTHER
    env.close()
    with pytest.raises(ConfigError, match="in vector='dummy'; only 'envpool' has it"):
        make_vector_env("CartPole-v1", 4, config=EnvConfig(wait_num=2, background=True))


def test_a_users_own_pool():
    env = as_vector_env(envpool.make_gymnasium("CartPole-v1", num_envs=3, seed=5))
    assert isinstance(env, EnvPoolVectorEnv)
    assert env.num_envs == 3
    obs, _ = env.reset()
    env.step(np.zeros(3, int))
    env.seed([5, 6, 7])  # what EnvPool makes of seed=5
    assert np.array_equal(env.reset()[0], obs)
    env.close()
    with pytest.raises(ConfigError, match="make_gymnasium"):
        as_vector_env(envpool.make_dm("CartPole-v1", num_envs=2))


def test_the_control_suite_is_envpools():
    env = make_vector_env("CheetahRun-v1", 2, seed=1, config=EnvConfig(max_episode_steps=3))
    assert isinstance(env, EnvPoolVectorEnv)
    spaces, actions = env.single_observation_space, env.single_action_space
    obs, _ = env.reset()
    assert {name: part.shape for name, part in obs.items()} == {"position": (2, 8), "velocity": (2, 9)}
    assert (obs["velocity"] < 0).any()  # EnvPool itself says that all are positive
    assert all(np.isneginf(part.low).all() and np.isposinf(part.high).all() for part in spaces.values())
    for _ in range(3):
        *_, truncated, _ = env.step(np.zeros((2, *actions.shape)))
    assert truncated.all()
    env.close()


@pytest.mark.parametrize("settings", [{"vector": "dummy"}, {"wrappers": ("flat",), "vector": "shmem"}])
def test_the_control_suite_runs_in_nothing_else(settings):
    with pytest.raises(ConfigError, match=r"task 'CheetahRun-v1' is EnvPool's alone; leave env.vector at 'auto'"):
        make_vector_env("CheetahRun-v1", 2, config=EnvConfig(**settings))


@pytest.mark.parametrize(
    ("task", "is_one"), [("StackerStack2-v1", True), ("CartPole-v1", False), ("FishSwim-v2", False)]
)
def test_its_tasks_are_known_by_their_names(task, is_one):
    assert is_dm_control(task) == is_one


def test_near_names_of_the_control_suite_are_offered():
    with pytest.raises(ConfigError, match="did you mean 'CheetahRun-v1'"):
        make_vector_env("CheetaRun-v1", 1)


def test_unknown_task_for_envpool():
    with pytest.raises(ConfigError, match=r"EnvPool has no task .*did you mean"):
        make_vector_env("gymnasium:CartPole-v1", 2, config=EnvConfig(vector="envpool"))


def test_rendering():
    env = make_vector_env("Pong", 2, render_mode="rgb_array", config=EnvConfig(vector="envpool"))
    env.reset()
    frames = env.render()
    assert [frame.shape for frame in frames] == [(210, 160, 3)] * 2
    env.close()
