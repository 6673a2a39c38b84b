"""Runs that learn from what an expert would have done."""

import shutil

import pytest
from short import QUICK, quick

import argosy
from argosy.distributed.specs import PolicySpec
from argosy.errors import CheckpointError, ConfigError, TrustError
from argosy.run.folder import RunFolder
from argosy.run.saved import load
from argosy.trainer.parts import make_buffer
from argosy.trainer.statefile import read_state

DAGGER = {"trainer": {**QUICK["trainer"], "start_steps": 0, "max_epoch": 2, "step_per_epoch": 100}}


def imitate(runs, expert, **changes):
    return quick(runs, "dagger", **{**DAGGER, "expert": str(expert), **changes})


def test_a_run_stores_what_the_expert_would_have_done(result, tmp_path, monkeypatch):
    run = RunFolder.find(result.run_dir).path
    monkeypatch.chdir(run.parent)
    done = imitate(tmp_path, run.name)
    assert argosy.Experiment.load(RunFolder.find(done.run_dir).config).expert == str(run)  # found from anywhere
    columns = read_state(RunFolder.find(done.run_dir).checkpoint, "checkpoint")["buffer"]["columns"]
    expert = load(run)
    acts, _ = expert.predict(columns["obs"])
    assert columns["act"].tolist() == acts.tolist()
    assert done.env_steps == 200


def test_it_resumes_exactly(result, tmp_path):
    whole = imitate(tmp_path, result.run_dir)
    half = imitate(tmp_path, result.run_dir, total_steps=100)
    argosy.resume(half.run_dir, total_steps=200, show_progress=False)
    states = [read_state(RunFolder.find(run).checkpoint, "checkpoint") for run in (whole.run_dir, half.run_dir)]
    for name, value in states[0]["algorithm"]["parts"]["policy"].items():
        assert value.equal(states[1]["algorithm"]["parts"]["policy"][name])


def test_a_run_that_is_made_longer_keeps_all_that_it_was_told(result, tmp_path):
    done = imitate(tmp_path, result.run_dir, buffer={"size": 50})
    file = RunFolder.find(done.run_dir).checkpoint
    before = read_state(file, "checkpoint")["buffer"]
    assert argosy.resume(done.run_dir, total_steps=300, show_progress=False).env_steps == 300
    after = read_state(file, "checkpoint")["buffer"]
    assert before["rings"]["count"].tolist() == [100, 100]
    assert after["rings"]["count"].tolist() == [150, 150]
    for name in ("obs", "act"):
        kept = after["columns"][name]
        assert (kept[:100] == before["columns"][name][:100]).all()
        assert (kept[150:250] == before["columns"][name][100:]).all()


def test_a_data_set_of_the_expert_comes_first(result, tmp_path):
    pytest.importorskip("h5py")
    argosy.collect_data(result.run_dir, tmp_path / "expert.hdf5", steps=60)
    phases = {**QUICK["trainer"], "start_steps": 0, "max_epoch": 1, "step_per_epoch": 100, "offline_updates": 40}
    done = imitate(tmp_path, result.run_dir, data=str(tmp_path / "expert.hdf5"), trainer=phases)
    assert done.env_steps == 60


def test_an_expert_of_another_env_is_refused_by_name(result, tmp_path):
    with pytest.raises(CheckpointError, match=r"expert is .*, which was trained on CartPole-v1; this run's task"):
        imitate(tmp_path, result.run_dir, task="Pendulum-v1")
    with pytest.raises(CheckpointError, match=r"expert is .*, made for observations of Box.*\(4,\).*this run has Box"):
        imitate(tmp_path, result.run_dir, env={**QUICK["env"], "wrappers": ("test_expert:Halved",)})


class Halved(argosy.env.wrappers.gym.ObservationWrapper):
    """Half of the observation."""

    def __init__(self, env):
        super().__init__(env)
        box = env.observation_space
        self.observation_space = type(box)(box.low[:2], box.high[:2], dtype=box.dtype)

    def observation(self, observation):
        return observation[:2]


def test_what_cannot_learn_from_it_says_so(result, tmp_path):
    with pytest.raises(ConfigError, match=r"dagger learns from what an expert would have done; which one\?"):
        argosy.train("dagger", "CartPole-v1", runs=tmp_path)
    with pytest.raises(ConfigError, match=r"dagger learns from what an expert would have done; which one\?"):
        argosy.train("dagger", "CartPole-v1", runs=tmp_path, data="a.hdf5")  # it would be behaviour cloning
    with pytest.raises(ConfigError, match=r"expert is ''; name a file or a folder, or leave it out"):
        argosy.preset("dagger", "CartPole-v1", expert="")
    with pytest.raises(ConfigError, match=r"expert is 'x', but dqn asks no expert; leave it out$"):
        argosy.preset("dqn", "CartPole-v1", expert="x")
    with pytest.raises(
        ConfigError, match=r"dagger collects nothing here; leave the data out, or go on in .* trainer.offline_updates=N"
    ):
        argosy.preset("dagger", "CartPole-v1", expert="x", data="a.hdf5")
    with pytest.raises(ConfigError, match=r"dagger learns from an expert here, a fleet from what its actors play"):
        PolicySpec(experiment=argosy.preset("dagger", "CartPole-v1", expert="x"))
    with pytest.raises(CheckpointError, match=r"nowhere"):
        imitate(tmp_path, tmp_path / "nowhere")
    processes = {"vector": "subproc", "wait_num": 1, "num_envs": 2}
    with pytest.raises(ConfigError, match=r"env.wait_num is 1, but an expert is asked in step"):
        argosy.build(argosy.preset("dagger", "CartPole-v1", expert=result.run_dir, env=processes))


def test_an_expert_s_own_code_is_not_imported_unasked(result, tmp_path):
    moved = shutil.copytree(result.run_dir, tmp_path / "expert")
    config = (moved / "config.json").read_text()
    (moved / "config.json").write_text(config.replace('"algorithm": "dqn"', '"algorithm": "evil_module:Algorithm"'))
    with pytest.raises(TrustError, match=r"evil_module:Algorithm"):
        imitate(tmp_path, moved)


@pytest.mark.parametrize("task", ["CartPole-v1", "FrozenLake-v1"])
def test_no_label_is_forgotten_however_long_the_run_is(task):
    experiment = argosy.preset("dagger", task, expert="x", trainer={"total_steps": 70_000})
    assert experiment.buffer.size < 70_000 <= make_buffer(experiment, 1, 0).maxsize
