"""The folder of a run: its name, how it is found, the picture in it."""

import json
import os
import tempfile
import time
import warnings
from pathlib import Path

import gymnasium as gym
import numpy as np
import pytest
from short import quick

import argosy
from argosy.errors import CheckpointError, ConfigError, MissingExtraError
from argosy.files import claim, write_atomically
from argosy.run.folder import RunFolder, draw_curve, resume_command


@pytest.mark.parametrize("call", [argosy.resume, argosy.evaluate])
def test_a_missing_run_is_named(call, tmp_path):
    with pytest.raises(CheckpointError, match="there is no run"):
        call(tmp_path / "nowhere")
    with pytest.raises(CheckpointError, match=r"is not the folder of a run: it has no config.json"):
        call(tmp_path)


def test_the_folder_above_a_run_names_the_newest_one(result):
    folder = RunFolder.find(result.run_dir).path
    with pytest.raises(CheckpointError, match=rf"the newest run below it is .*{folder.name}"):
        argosy.resume(folder.parent)


@pytest.mark.parametrize(
    ("task", "line"),
    [
        ("CartPole-v1", "argosy resume '{}' --total-steps N"),
        ("ALE/Pong-v5", "argosy resume '{}' --total-steps N"),
        ("my_games:Chase", "argosy resume '{}' --total-steps N --trust"),
    ],
)
def test_the_command_that_goes_on_can_be_pasted_into_a_shell(tmp_path, task, line):
    path = tmp_path / "my runs" / "one"
    path.mkdir(parents=True)
    (path / "config.json").write_text(json.dumps({"task": task, "data": "C:/rows.npz"}))
    assert resume_command(path, "--total-steps", "N") == line.format(path)
    assert resume_command(path.parent, "--total-steps", "N") == line.format(path.parent)


def test_a_fleet_is_gone_on_with_by_its_own_command(tmp_path):
    (tmp_path / "fleet.json").write_text("{}")
    with pytest.raises(
        CheckpointError, match=r"is the folder of a fleet, no local run; .* argosy launch FILE --resume"
    ):
        argosy.resume(tmp_path)


def test_without_matplotlib_a_warning_names_the_extra(result, monkeypatch):
    def missing(module, extra):
        raise MissingExtraError(f"{module}: pip install 'argosy[{extra}]'")

    monkeypatch.setattr("argosy.run.folder.require", missing)
    with pytest.warns(UserWarning, match=r"no picture .*argosy\[plot\]"):
        assert draw_curve(RunFolder.find(result.run_dir), "title") is None


def test_the_picture_says_what_time_is_counted_in(result, monkeypatch):
    axes = pytest.importorskip("matplotlib.axes")
    said = []
    monkeypatch.setattr(axes.Axes, "set", lambda self, **properties: said.append(properties["xlabel"]))
    for unit in ("environment steps", "updates"):
        assert draw_curve(RunFolder.find(result.run_dir), "title", unit) is not None
    assert said == ["environment steps", "updates"]


def test_nothing_logged_gives_no_picture(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert draw_curve(RunFolder(tmp_path), "title") is None


def test_two_runs_of_one_second_get_two_folders(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "strftime", lambda form: "20260101-000000")
    folders = [RunFolder.create(tmp_path, "ALE/Pong-v5", "ppo", 1).path for _ in range(3)]
    assert [folder.name for folder in folders] == ["20260101-000000-1", "20260101-000000-1-1", "20260101-000000-1-2"]
    assert folders[0].parent == tmp_path / "ALE-Pong-v5" / "ppo"


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ConfigError, match=r"the folder '.*' cannot be made or used: .*Not a directory"):
        argosy.train("dqn", "CartPole-v1", runs=file, show_progress=False)
    with pytest.raises(CheckpointError, match=r"'.*/result\.json' cannot be written: .*Not a directory"):
        write_atomically(file / "result.json", b"{}")
    with pytest.raises(ConfigError, match=r"nothing can be written in '.*/file': .*Not a directory"):
        claim(file, "wait")


def test_a_picture_that_cannot_be_written_is_a_warning(result, tmp_path):
    folder = RunFolder(tmp_path)
    folder.metrics.write_bytes(RunFolder.find(result.run_dir).metrics.read_bytes())
    folder.curve.mkdir()
    with pytest.warns(UserWarning, match="no picture of the learning curve: .*Is a directory"):
        assert draw_curve(folder, "title") is None


class Wanders(gym.Env):
    """Changes the working directory whenever an episode begins."""

    observation_space, action_space = gym.spaces.Box(0, 1, (2,)), gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        os.chdir(tempfile.gettempdir())
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.t += 1
        return np.zeros(2, np.float32), 1.0, self.t == 10, False, {}


def test_an_env_may_change_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    result = quick("runs", task=Wanders, callbacks=["keep_checkpoints(every=100)"])
    assert Path(result.run_dir).is_relative_to(tmp_path / "runs")
    names = {file.name for file in Path(result.run_dir).iterdir()}
    assert {"config.json", "metrics.jsonl", "checkpoint.safetensors", "policy.safetensors", "curve.png"} < names
    assert {"result.json", "machine.json", "step-300.safetensors", "step-400.safetensors"} < names
    assert argosy.resume(result, total_steps=600, show_progress=False).env_steps == 600
    assert argosy.evaluate(result, episodes=2).returns.tolist() == [10.0, 10.0]
