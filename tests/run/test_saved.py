"""Policies from the files of a run."""

import gc
import json
import shutil
import sys

import numpy as np
import pytest
from gymnasium import spaces
from short import quick

import argosy
from argosy import named
from argosy.algorithm.optim import Optim
from argosy.env.plain import space_from_plain
from argosy.errors import CheckpointError, TrustError
from argosy.run.folder import RunFolder
from argosy.run.saved import Own, read_saved, write_description
from argosy.trainer.statefile import read_state

OBS = np.random.default_rng(0).uniform(-1, 1, (50, 4)).astype(np.float32)


@pytest.fixture
def run(result, tmp_path):
    """A copy of a finished run, to be changed."""
    return RunFolder(shutil.copytree(result.run_dir, tmp_path / "run"))


def test_a_folder_and_its_files_give_the_policy_without_env_and_optimisers(result, monkeypatch):
    def forbidden(*args, **kwargs):
        raise AssertionError("an environment was made")

    monkeypatch.setattr("gymnasium.make", forbidden)
    folder = RunFolder.find(result.run_dir)
    gc.collect()
    optimisers = sum(isinstance(thing, Optim) for thing in gc.get_objects())
    expected, _ = result.policy.predict(OBS)
    for path in (result.run_dir, folder.path, folder.best_policy):
        policy = argosy.load(path)
        np.testing.assert_array_equal(policy.predict(OBS)[0], expected)
        assert not policy.training
    latest = argosy.load(folder.checkpoint)
    assert latest.version == argosy.load(folder.path, tag="latest").version > policy.version
    saved = read_state(folder.checkpoint, "checkpoint")["algorithm"]["parts"]["policy"]
    assert all(value.equal(saved[name]) for name, value in latest.state_dict().items())
    gc.collect()
    assert sum(isinstance(thing, Optim) for thing in gc.get_objects()) == optimisers


def test_two_files_are_enough_elsewhere(run, tmp_path):
    there = tmp_path / "elsewhere"
    there.mkdir()
    shutil.copy(run.best_policy, there / "cartpole.safetensors")
    with pytest.raises(CheckpointError, match=r"there is no config\.json, which says how the policy is made"):
        argosy.load(there / "cartpole.safetensors")
    shutil.copy(run.config, there)
    shutil.copy(run.path / "policy.json", there)
    assert argosy.load(there / "cartpole.safetensors").version == argosy.load(run.path).version


def test_the_folder_says_the_spaces(run):
    file = run.path / "policy.json"
    data = json.loads(file.read_text())
    assert space_from_plain(data["action_space"]) == spaces.Discrete(2)
    assert argosy.load(run.path).observation_space == space_from_plain(data["observation_space"])
    file.unlink()
    with pytest.raises(CheckpointError, match=r"policy\.json' cannot be read"):
        argosy.load(run.path)
    file.write_text("{")
    with pytest.raises(CheckpointError, match=r"policy\.json' is damaged"):
        argosy.load(run.path)


def test_before_the_first_test_there_is_the_latest_policy(run):
    run.best_policy.unlink()
    assert argosy.load(run.path).version == argosy.load(run.checkpoint).version
    with pytest.raises(CheckpointError, match="has no policy 'best'; it has latest"):
        argosy.load(run.path, tag="best")
    run.checkpoint.unlink()
    with pytest.raises(CheckpointError, match="has no policy yet"):
        argosy.load(run.path)


@pytest.mark.parametrize(
    ("choice", "message"),
    [
        ({"version": 3}, "a local run, which keeps no versions; choose by tag, best or latest"),
        ({"tag": "bset"}, "has no policy 'bset'; it has best, latest"),
        ({"policy": "p"}, "the run of one policy, so there is no policy 'p'"),
    ],
)
def test_what_a_local_run_has_not_is_refused(result, choice, message):
    for use in (argosy.load, argosy.evaluate):
        with pytest.raises(CheckpointError, match=message):
            use(result.run_dir, **choice)
    with pytest.raises(CheckpointError, match=r"is one file, so \w+ .* has nothing to choose from"):
        argosy.load(RunFolder.find(result.run_dir).best_policy, **choice)


def test_a_missing_or_damaged_file_is_named(run, tmp_path):
    with pytest.raises(CheckpointError, match="there is no run"):
        argosy.load(tmp_path / "nowhere")
    run.best_policy.write_bytes(b"torn")
    with pytest.raises(CheckpointError, match=r"policy\.safetensors' is torn"):
        argosy.load(run.path)


@pytest.mark.parametrize("file", ["config.json", "policy.json"])
def test_nothing_is_imported_that_only_the_folder_names(file, run, monkeypatch):
    path = run.path / file
    data = json.loads(path.read_text())
    change = {"algorithm": "this:Poem"} if file == "config.json" else {"own": {"policy": "this:Poem"}}
    path.write_text(json.dumps(data | change))
    with pytest.raises(TrustError, match="'this:Poem'"):
        argosy.load(run.path)
    assert "this" not in sys.modules


def test_code_of_one_s_own_is_trusted_where_it_was_written_down(run, monkeypatch):
    class Mine(argosy.Policy):
        pass

    own = Own.of(Mine, {"depth": 2}, None)
    assert own.policy.endswith(":test_code_of_one_s_own_is_trusted_where_it_was_written_down.<locals>.Mine")
    write_description(run.path, spaces.Discrete(2), spaces.Discrete(2), own)
    assert read_saved(run.best_policy).own == own
    monkeypatch.setattr(named, "_TRUSTED", set())
    with pytest.raises(TrustError):
        read_saved(run.best_policy)
    assert read_saved(run.best_policy, trust=True).own == own
    assert Own.of(Mine, {"depth": object()}, None).args is None


def test_what_a_policy_normalises_it_normalises_when_loaded(tmp_path):
    trainer = {"max_epoch": 1, "step_per_epoch": 256, "step_per_collect": 128}
    result = quick(tmp_path, "ppo", "Pendulum-v1", net={"norm_obs": True}, trainer=trainer)
    policy = argosy.load(result.run_dir)
    obs = OBS[:, :3]
    act, _ = policy.predict(obs)
    assert act.dtype == np.float32
    np.testing.assert_array_equal(act, result.policy.predict(obs)[0])
    policy.normaliser = None
    assert not np.allclose(policy.predict(obs)[0], act)
