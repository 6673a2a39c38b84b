"""Films of episodes: which ones are taken, how long they are, and what is refused."""

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from argosy.collect import Collector, VideoRecorder
from argosy.data import Batch
from argosy.env import DummyVectorEnv
from argosy.errors import ConfigError, EnvError
from argosy.policy import ForwardPolicy


class Brightening(gym.Env):
    """Each step is brighter; episodes of 4 steps."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  # as gymnasium declares it
    observation_space = gym.spaces.Box(0, 10, (1,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def __init__(self, draws=True):
        self.draws = draws

    def reset(self, *, seed=None, options=None):
        self.t = 0
        return np.zeros(1, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(1, np.float32), 0.0, self.t == 4, False, {}

    def render(self):
        return np.full((8, 8, 3), 60 * self.t, np.uint8) if self.draws else None


class Zero(ForwardPolicy):
    def forward(self, batch, state=None):
        return Batch(act=np.zeros(len(batch.obs), int))


def collector(hook, draws=True):
    env = DummyVectorEnv([lambda: Brightening(draws) for _ in range(2)])
    return Collector(Zero(action_space=env.single_action_space), env, hooks=[hook])


def test_every_other_episode_of_one_env(tmp_path):
    hook = VideoRecorder(tmp_path, every=2, env_id=1)
    collector(hook).collect(n_step=2 * 14)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["episode-000000.gif", "episode-000002.gif"]
    assert hook.episodes == 3
    with Image.open(tmp_path / "episode-000002.gif") as film:
        assert film.n_frames == 4
        assert film.info["duration"] == 100
        film.seek(3)
        assert abs(int(np.asarray(film.convert("RGB"))[0, 0, 0]) - 240) < 10
    other = VideoRecorder(tmp_path / "later", every=2, env_id=1)
    other.load_state_dict(hook.state_dict())
    collector(other).collect(n_episode=4)
    assert [path.name for path in (tmp_path / "later").iterdir()] == ["episode-000004.gif"]


def test_long_episodes_are_cut(tmp_path):
    collector(VideoRecorder(tmp_path, max_steps=2)).collect(n_episode=2)
    with Image.open(tmp_path / "episode-000000.gif") as film:
        assert film.n_frames == 2


def test_an_episode_that_a_reset_has_cut_is_in_no_film(tmp_path):
    films = collector(VideoRecorder(tmp_path, max_steps=4))
    for _ in range(2):
        films.collect(n_step=2 * 3)
        films.reset_env()
    films.collect(n_episode=2)
    with Image.open(tmp_path / "episode-000000.gif") as film:
        assert film.n_frames == 4
        assert abs(int(np.asarray(film.convert("RGB"))[0, 0, 0]) - 60) < 10


def test_what_cannot_be_filmed_is_refused(tmp_path):
    with pytest.raises(EnvError, match="gives no RGB pictures"):
        collector(VideoRecorder(tmp_path), draws=False).collect(n_episode=1)
    with pytest.raises(ConfigError, match=r"ends in '\.avi'"):
        VideoRecorder(tmp_path, suffix=".avi")
    with pytest.raises(ConfigError, match="every is 0"):
        VideoRecorder(tmp_path, every=0)
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match=r"no film can be written to '.*file': File exists"):
        VideoRecorder(tmp_path / "file")


def test_an_env_that_is_not_there_is_named(tmp_path):
    hook = VideoRecorder(tmp_path, env_id=7)
    with pytest.raises(ConfigError, match=r"env_id is 7; the envs are 0 to \d"):
        collector(hook).collect(n_step=4)
