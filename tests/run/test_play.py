"""Acting with what a run has learned: evaluation and films."""

import importlib
import re
import shutil
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch
from short import quick

import argosy
from argosy.cli import main
from argosy.errors import ConfigError, EnvError
from argosy.report import read_runs
from argosy.run.folder import RunFolder
from argosy.run.play import film


def test_evaluation_plays_the_best_policy_again(result):
    stats = argosy.evaluate(result.run_dir, episodes=5, seed=1)
    again = argosy.evaluate(result.run_dir, episodes=5, seed=1)
    assert stats.n_collected_episodes == 5
    np.testing.assert_array_equal(stats.returns, again.returns)
    for wrong in ({"episodes": 0}, {"episodes": 2.5}, {"seed": 1.5}):
        with pytest.raises(ConfigError, match=r"(episodes|seed) is .*; it must be a whole number >= [01]"):
            argosy.evaluate(result.run_dir, **wrong)
    with pytest.raises(ConfigError, match=r"QPolicy was given for a run; .*Collector\(policy, env\).collect"):
        argosy.evaluate(result.policy)


def test_a_result_stands_for_its_run(result, tmp_path):
    stats = argosy.evaluate(result, episodes=5, seed=1)
    np.testing.assert_array_equal(stats.returns, argosy.evaluate(result.run_dir, episodes=5, seed=1).returns)
    assert argosy.load(result, tag="latest").version > 0
    with pytest.raises(ConfigError, match="has finished"):
        argosy.resume(result)
    assert [str(run.path) for run in read_runs([result])[0]] == [str(Path(result.run_dir).resolve())]
    begun = quick(tmp_path, init=result, total_steps=60)
    assert argosy.Experiment.load(f"{begun.run_dir}/config.json").init == str(Path(result.run_dir).resolve())


def test_a_film_has_a_frame_per_step(result, tmp_path):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("pygame")
    stats = film(result.run_dir, tmp_path / "new" / "film.gif", episodes=1, seed=3)
    with image.open(tmp_path / "new" / "film.gif") as gif:
        durations = []
        for frame in range(gif.n_frames):
            gif.seek(frame)
            durations.append(gif.info["duration"])
        assert gif.size == (600, 400)
    assert sum(durations) == 20 * stats.lens[0]  # 50 frames per second; equal frames are merged


@pytest.mark.skipif(torch.cuda.is_available(), reason="the device is there")
def test_what_learned_on_a_device_that_is_not_here_acts_on_the_cpu(result, tmp_path):
    run = tmp_path / "run"
    shutil.copytree(result.run_dir, run)
    for path in run.glob("*.json"):
        path.write_text(path.read_text().replace('"device": "cpu"', '"device": "cuda"'))
    assert '"cuda"' in (run / "config.json").read_text()
    assert argosy.evaluate(run, episodes=2).n_collected_episodes == 2
    argosy.collect_data(run, tmp_path / "a.hdf5", steps=20)
    argosy.pack(run, tmp_path / "a.zip", episodes=2, video=False)
    with pytest.raises(ConfigError, match=r"device is 'cuda', which cannot be used here .*; give another \(--device\)"):
        argosy.resume(run, total_steps=600, show_progress=False)
    assert argosy.resume(run, total_steps=600, device="cpu", show_progress=False).env_steps == 600


def test_a_film_ends_with_its_steps(result, tmp_path):
    ffmpeg = pytest.importorskip("imageio_ffmpeg")
    pytest.importorskip("pygame")
    film(result.run_dir, tmp_path / "film.mp4", max_steps=6)
    reader = ffmpeg.read_frames(str(tmp_path / "film.mp4"))
    assert next(reader)["size"] == (600, 400)
    assert sum(1 for _ in reader) == 6


def test_a_film_of_an_unknown_kind_is_refused_before_anything_is_played(result, tmp_path):
    with pytest.raises(ConfigError, match=r"ends in '.avi'; it must be one of .gif, .mp4"):
        film(result.run_dir, tmp_path / "film.avi")


BARE = """
import gymnasium as gym
import numpy as np
from gymnasium import spaces

class Bare(gym.Env):
    observation_space, action_space = spaces.Box(-1, 1, (2,)), spaces.Discrete(2)
    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.left = 5
        return np.zeros(2, np.float32), {}
    def step(self, action):
        self.left -= 1
        return np.zeros(2, np.float32), 1.0, self.left == 0, False, {}

class Silent(Bare):
    def __init__(self, render_mode=None):
        pass
"""


@pytest.fixture
def bare(tmp_path, monkeypatch):
    """The name of a module with environments that draw nothing."""
    name = f"bare_{tmp_path.name}".replace("-", "_")
    (tmp_path / f"{name}.py").write_text(BARE)
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("env", "message"),
    [
        ("Bare", r"constructor take render_mode=None, and its render\(\) return an array \[height, width, 3\]"),
        ("Silent", r'its render\(\) is not written; made with render_mode="rgb_array", it is to return an array'),
    ],
)
def test_an_env_that_cannot_be_filmed_says_what_it_needs(env, message, bare, tmp_path):
    pytest.importorskip("PIL.Image")
    result = quick(tmp_path / "runs", task=f"{bare}:{env}")
    with pytest.raises(EnvError, match=message):
        film(result.run_dir, tmp_path / "film.gif")


def test_an_env_whose_module_is_not_found_says_what_to_do(bare, tmp_path, monkeypatch, capsys):
    result = quick(tmp_path / "runs", task=f"{bare}:Bare")
    sys.modules.pop(bare)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(tmp_path)])
    importlib.invalidate_caches()
    assert main(["eval", result.run_dir, "--trust"]) == 2
    said = capsys.readouterr().err
    assert f"the environment of the run {result.run_dir!r} cannot be made here: module {bare!r}" in said
    assert "in the folder that the run was started in, or with that on PYTHONPATH" in said
    assert argosy.load(result.run_dir).predict([0.0, 0.5])[0] in (0, 1)


@pytest.mark.timeout(300)
def test_the_readme_s_lines_are_right_for_a_policy_that_normalises(tmp_path, monkeypatch):
    """Its own snippet, on a task whose preset normalises observations, for a short time."""
    pytest.importorskip("mujoco")
    monkeypatch.chdir(tmp_path)
    readme = (Path(argosy.__file__).parents[1] / "README.md").read_text(encoding="utf-8")
    [snippet] = [text for text in re.findall(r"^```python\n(.*?)^```", readme, re.M | re.S) if "result.policy" in text]
    short = {"max_epoch": 1, "step_per_epoch": 8192, "episode_per_test": 4}
    monkeypatch.setattr(
        argosy, "train", partial(argosy.train, trainer=short, stop={"episodes": 4}, show_progress=False)
    )
    said = {}
    exec(snippet.replace('"dqn"', '"ppo"').replace("CartPole-v1", "InvertedPendulum-v5"), said)
    assert said["result"].policy.normaliser is not None
    assert said["episodes"].returns.mean() == pytest.approx(said["again"].returns.mean(), rel=0.4)
    assert said["again"].returns.mean() > 45  # without the statistics: 29

    config = RunFolder.find(said["result"].run_dir).experiment().env
    env = argosy.make_vector_env("InvertedPendulum-v5", 4, test=True, config=config)
    for policy in (said["result"].policy, argosy.load(said["result"].run_dir)):
        collected = argosy.Collector(policy, env, seed=3).collect(n_episode=4)
        evaluated = argosy.evaluate(said["result"].run_dir, episodes=4, seed=3)
        np.testing.assert_array_equal(collected.returns, evaluated.returns)
    said["env"].close()
    env.close()


@pytest.mark.parametrize("use", [argosy.evaluate, argosy.load, argosy.export, film])
def test_a_misspelt_argument_is_refused(use, result, tmp_path):
    with pytest.raises(TypeError, match="vresion"):
        use(result.run_dir, *([tmp_path / "made.pt"] if use in (argosy.export, film) else []), vresion=3)


def test_episodes_that_ended_before_the_film_was_full_count(result, tmp_path):
    pytest.importorskip("pygame")
    whole = film(result.run_dir, tmp_path / "a.gif", episodes=2)
    stats = film(result.run_dir, tmp_path / "b.gif", episodes=2, max_steps=int(whole.lens[0]) + 3)
    assert stats.lens.tolist() == whole.lens[:1].tolist()
