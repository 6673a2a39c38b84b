"""The Python path gives the pixels, rewards and episode ends that EnvPool gives."""

import numpy as np
import pytest

from argosy.env import EnvConfig, info_column, make_vector_env
from argosy.env.atari import AtariPreprocessing, make_atari_env
from argosy.errors import SpaceError

pytest.importorskip("envpool")
pytest.importorskip("ale_py")

# with noop_max=1 no random number is drawn: the emulator starts every game alike
SAME = {"noop_max": 1, "num_envs": 2, "max_episode_steps": 90}


def pair(task, test, **settings):
    envs = []
    for vector in ("dummy", "envpool"):
        config = EnvConfig(vector=vector, **{**SAME, **settings})
        envs.append(make_vector_env(task, 2, seed=1, test=test, config=config))
    return envs


def assert_same(ours, theirs):
    for a, b in zip(ours[:-1], theirs[:-1], strict=True):
        assert a.dtype == b.dtype
        assert np.array_equal(a, b)
    for key in ("lives", "reward", "terminated", "elapsed_step", "env_id"):
        assert np.array_equal(info_column(ours[-1], key), info_column(theirs[-1], key)), key


@pytest.mark.parametrize(
    ("task", "test", "settings"),
    [
        ("Breakout", False, {}),
        ("Breakout", True, {}),
        ("MsPacman", False, {}),  # no FIRE
        ("Qbert", False, {"reward_clip": False, "full_action_space": True}),
        ("SpaceInvaders", False, {"frame_skip": 3, "frame_stack": 2, "image_size": 42, "max_episode_steps": 90}),
        ("Pong", False, {"frame_skip": 1, "fire_reset": False, "max_episode_steps": 60}),
    ],
)
def test_frame_by_frame_as_envpool(task, test, settings):
    ours, theirs = pair(task, test, **settings)
    assert ours.single_observation_space == theirs.single_observation_space
    assert ours.single_action_space == theirs.single_action_space
    assert_same(ours.reset(), theirs.reset())
    rng = np.random.default_rng(0)
    ends, lives_lost = 0, 0
    for _ in range(100):
        action = rng.integers(0, ours.single_action_space.n, 2)
        a, b = ours.step(action), theirs.step(action)
        assert_same(a, b)
        done = np.flatnonzero(a[2] | a[3])
        if len(done):
            ends += len(done)
            lives = info_column(a[4], "lives")[done]
            first = ours.reset(done)
            assert_same(first, theirs.reset(done))
            again = info_column(first[1], "lives")
            lives_lost += int((again == lives).sum()) if not test else 0
    assert ends > 0
    if task in ("Breakout", "MsPacman", "Qbert") and not test:
        assert lives_lost > 0  # the game went on after a lost life
    ours.close()
    theirs.close()


def test_training_and_testing_differ_in_rewards_and_lives():
    """Training: the sign of the reward, an episode per life. Testing: true rewards, the whole game."""
    for vector in ("dummy", "envpool"):
        config = EnvConfig(vector=vector, noop_max=1, image_size=21)
        for test, rewards, lives in ((False, {0.0, 1.0}, [2, 1, 0]), (True, {0.0, 10.0, 60.0}, [0])):
            env = make_vector_env("MsPacman", 1, seed=1, test=test, config=config)
            env.reset()
            rng = np.random.default_rng(0)
            seen, lives_at_end = set(), []
            while not (lives_at_end and lives_at_end[-1] == 0):
                _, rew, terminated, _, info = env.step(rng.integers(0, 9, 1))
                seen.add(float(rew[0]))
                if terminated[0]:
                    lives_at_end.append(int(info_column(info, "lives")[0]))
                    assert bool(info_column(info, "terminated")[0]) == (lives_at_end[-1] == 0)
                    env.reset([0])
            assert seen <= rewards | {50.0}
            assert len(seen) > 1
            assert lives_at_end == lives
            env.close()


def test_noops_are_random_and_seeded():
    config = EnvConfig(noop_max=30, vector="dummy")
    env = make_vector_env("Breakout", 3, seed=1, config=config)
    first, _ = env.reset()
    assert len({obs.tobytes() for obs in first}) > 1
    env.seed(1)
    assert np.array_equal(env.reset()[0], first)


def test_a_reset_in_the_middle_starts_a_new_game():
    env = make_atari_env("Breakout", EnvConfig(noop_max=1))
    first, _ = env.reset(seed=0)
    for _ in range(10):
        env.step(1)
    again, info = env.reset()
    assert np.array_equal(first, again)
    assert info["elapsed_step"] == 0
    assert (again == again[3]).all()  # the stack starts with one frame, repeated


def test_auto_takes_envpool_where_it_is_installed(monkeypatch):
    env = make_vector_env("Pong", 1)
    assert type(env).__name__ == "EnvPoolVectorEnv"
    env.close()
    monkeypatch.setattr("argosy.env.tasks.importlib.util.find_spec", lambda name: None if name == "envpool" else 1)
    env = make_vector_env("Pong", 1)
    assert type(env).__name__ == "DummyVectorEnv"
    assert isinstance(env.workers[0].group.envs[0], AtariPreprocessing)
    env.close()


def test_frames_of_the_wrong_kind_are_refused():
    import ale_py
    import gymnasium as gym

    gym.register_envs(ale_py)
    with pytest.raises(SpaceError, match=r'needs grey frames .* obs_type="grayscale", frameskip=1'):
        AtariPreprocessing(gym.make("ALE/Pong-v5"), EnvConfig())


def test_rendering():
    env = make_vector_env("Pong", 1, render_mode="rgb_array", config=EnvConfig(vector="dummy"))
    env.reset()
    assert env.render()[0].shape == (210, 160, 3)
    env.close()
