"""Studies: trials are runs, what is proposed and given up is Optuna's, and a study goes on where it was cut off."""

import itertools
import json
import os
import re
import signal
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from argosy import cli
from argosy.cli.tune import to_be_sure
from argosy.errors import ConfigError
from argosy.experiment import Experiment
from argosy.files import claimed
from argosy.presets import own_settings, preset
from argosy.presets.search import Range
from argosy.report import read_runs, read_studies, render
from argosy.run.many import Outcome
from argosy.run.tune import Study

SHORT = {
    "net.hidden_sizes": (16,), "env.num_envs": 2, "env.test_num_envs": 2, "trainer.max_epoch": 2,
    "trainer.step_per_epoch": 100, "trainer.step_per_collect": 4, "trainer.episode_per_test": 2,
    "trainer.start_steps": 20, "trainer.batch_size": 16, "stop.episodes": 2, "stop.test_return": None,
    "optim.lr": 5.0, "seed": 3, "threads": 1,
}  # fmt: skip
SPACE = {
    "optim.lr": Range(low=1e-4, high=1e-2, log=True),
    "net.hidden_sizes": Range(choices=((16,), (8, 8))),
    "n_step": Range(low=1, high=3),
}


def short(**changes):
    return preset("dqn", "CartPole-v1", **{**SHORT, **changes})


def test_the_command_ends_with_a_preset_that_a_run_takes(tmp_path, capsys):
    space = tmp_path / "space.toml"
    space.write_text("lr = { low = 1e-4, high = 1e-2, log = true }\nnet.hidden_sizes = { choices = [[8], [16]] }\n")
    given = {name: value for name, value in SHORT.items() if name not in ("net.hidden_sizes", "stop.test_return")}
    flags = [text for name, value in given.items() for text in (f"--{name}", str(value))]
    flags += ["--net.hidden_sizes", "16", "--space", str(space), "--runs", str(tmp_path), "--json"]
    assert cli.main(["tune", "dqn", "--task", "CartPole-v1", *flags, "--trials=2", "--jobs=2"]) == 0
    shown = capsys.readouterr()
    result = json.loads(shown.out.splitlines()[-1])
    folder = tmp_path / "tune" / "CartPole-v1" / "dqn" / "study"
    assert result["folder"] == str(folder)
    assert result["trials"] == 2
    assert result["settings"].keys() == {"optim.lr", "net.hidden_sizes"}
    assert "trial 0: return" in shown.err
    assert f"--preset {folder}/best.json" in shown.err
    assert not list(folder.rglob("checkpoint*"))  # those of trials that have ended

    seen = json.loads((folder / "study.json").read_text())
    first = next(trial for trial in seen["trials"] if trial["number"] == 0)
    assert first["settings"]["net.hidden_sizes"] == [16]  # the experiment's own; its lr lies outside
    assert result["score"] == max(trial["score"] for trial in seen["trials"])
    assert all(1e-4 <= trial["settings"]["optim.lr"] <= 1e-2 for trial in seen["trials"])

    best = folder / "best.json"
    settings = own_settings(best)
    assert settings["optim.lr"] == result["settings"]["optim.lr"]
    assert not {"seed", "threads", "task"} & settings.keys()
    args = ["--preset", str(best), "--runs", str(tmp_path / "runs"), "--n-step", "2", "--json", "--quiet"]
    assert cli.main(["train", "dqn", "--task", "CartPole-v1", *args]) == 0
    config = json.loads((tmp_path / json.loads(capsys.readouterr().out)["run_dir"] / "config.json").read_text())
    assert config["config"]["optim"]["lr"] == settings["optim.lr"]
    assert config["trainer"]["max_epoch"] == 2
    assert config["config"]["n_step"] == 2  # a flag changes what the file says

    assert cli.main(["tune", "dqn", "--task", "CartPole-v1", *flags, "--trials=2"]) == 0  # nothing is left to do
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == result
    studies, said = read_studies([tmp_path])
    assert said == []
    assert [one.number for one in studies[0].trials] == [trial["number"] for trial in seen["trials"]]
    assert [run.path.parts[-4] for run in read_runs([tmp_path])[0]] == ["runs"]  # no trials
    assert "Search: dqn on CartPole-v1" in render([], [], None, studies)


@pytest.fixture
def scripted(monkeypatch):
    """Runs that end as the test says, in their order: the rates and folders of those that ran, and their ends.

    An end is a score, a whole number as an exit code, or tests, the last of which is the score.
    """
    started, ends = [], {}

    def run_many(jobs, at_once, *, start, told, stops):
        for job in jobs:
            started.append((job.experiment.config.optim.lr, job.root.name))
            end, hopeless = ends.get(len(started), float(len(started))), False
            if isinstance(end, list):
                folder = job.root / "CartPole-v1" / "dqn" / "0-0-3"
                folder.mkdir(parents=True)
                rows = [{"env_step": 0, "test/return_mean": test} for test in end]
                (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
                hopeless = stops(job)
                end = 130 if hopeless else end[-1]
            code = end if isinstance(end, int) else 0
            told(Outcome(job, {"test_return_mean": end} if code == 0 else None, code, "" if code == 130 else "a\nboom"))
            if code == 130 and not hopeless:
                return

    monkeypatch.setattr("argosy.run.tune.run_many", run_many)
    return started, ends


def test_what_was_cut_off_is_the_next_trial_with_the_same_settings_and_folder(tmp_path, scripted):
    started, ends = scripted
    ends[2] = 130
    assert not Study(tmp_path, short(), SPACE).run(3, 1)
    study = Study(tmp_path, short(), SPACE)
    assert [trial.number for trial in study.trials] == [0]
    assert study.run(3, 1)
    assert started[1] == started[2]
    assert [trial.number for trial in study.trials] == [0, 1, 3]  # a number names a folder
    assert len({rate for rate, _ in started}) == 3
    assert study.best.score == 4.0
    assert json.loads(study.best_preset.read_text())["optim.lr"] == started[3][0]


def test_trials_that_fail_end_no_other_and_hopeless_ones_are_given_up(tmp_path, scripted):
    assert Study(tmp_path / "other", short(), SPACE).best is None
    scripted[1].update({1: 1, **{number: [90.0, 100.0] for number in range(2, 8)}, 8: [89.0], 9: [91.0, 101.0]})
    study, told = Study(tmp_path, short(), SPACE), []
    assert study.run(9, 1, told.append)
    assert (told[0].state, told[0].why, told[0].score) == ("failed", "boom", None)
    assert [(trial.state, trial.score) for trial in told[1:]] == [
        *[("complete", 100.0)] * 6, ("given up", 89.0), ("complete", 101.0),
    ]  # fmt: skip
    assert study.best.score == 101.0
    shown = " ".join(re.findall(">([^<]+)<", render([], [], None, read_studies([tmp_path])[0])))
    assert "7 complete, 1 given up, 1 failed" in shown
    assert "Importance" in shown


def test_the_first_third_of_the_tests_ends_no_trial(tmp_path, scripted):
    good, bad = [90.0] * 6, [10.0] * 6
    scripted[1].update({**dict.fromkeys(range(1, 7), good), 7: bad[:2], 8: bad[:3]})
    study = Study(tmp_path, short(**{"trainer.max_epoch": 6}), SPACE)
    assert study.run(8, 1)
    assert [trial.state for trial in study.trials[6:]] == ["complete", "given up"]


def test_settings_that_contradict_each_other_fail_without_a_run(tmp_path, scripted):
    space = {"buffer.device": Range(choices=("cpu",)), "buffer.storage_dir": Range(choices=("x",))}
    study, told = Study(tmp_path, short(), space), []
    assert study.run(1, 1, told.append)
    (trial,) = told
    assert study.trials == told
    assert [one["state"] for one in json.loads((tmp_path / "study.json").read_text())["trials"]] == ["failed"]
    assert trial.state == "failed"
    assert "choose one of them" in trial.why
    assert scripted[0] == []


def test_the_command_that_is_recommended_names_what_the_study_was_about():
    learns = preset("dagger", "CartPole-v1", expert="the best")
    assert to_be_sure(Path("best.json"), learns, trust=True) == (
        "argosy train dagger --task CartPole-v1 --preset best.json --expert 'the best' --trust --seeds 0-4"
    )
    assert "--data a.hdf5" in to_be_sure(Path("best.json"), preset("bc", "CartPole-v1", data="a.hdf5"), trust=False)


@pytest.mark.parametrize("name", ["", "../x", "a/b"])
def test_the_name_of_a_study_is_one_of_a_folder(name, tmp_path, capsys):
    assert cli.main(["tune", "dqn", "--task", "CartPole-v1", "--runs", str(tmp_path), "--name", name]) == 2
    assert "it must be a name for a folder" in capsys.readouterr().err


def test_a_study_s_data_are_found_from_another_folder(tmp_path, scripted, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bc, space = {"net.hidden_sizes": (16,), "seed": 3}, {"net.hidden_sizes": Range(choices=((16,), (8, 8)))}
    study = Study(tmp_path / "study", preset("bc", "CartPole-v1", data="a.hdf5", **bc), space)
    (job,) = itertools.islice(study._jobs(1, lambda trial: None), 1)
    assert Experiment.load(job.config).data == str(tmp_path / "a.hdf5")
    study._write()
    monkeypatch.chdir("/")
    Study(tmp_path / "study", preset("bc", "CartPole-v1", data=str(tmp_path / "a.hdf5"), **bc), space)
    with pytest.raises(ConfigError, match="give another --name"):  # this one is another file
        Study(tmp_path / "study", preset("bc", "CartPole-v1", data="a.hdf5", **bc), space)


def test_a_study_without_tests_is_refused(tmp_path):
    untested = preset("dqn", "CartPole-v1", data="a.hdf5", trainer={"episode_per_test": 0})
    with pytest.raises(ConfigError, match=r"episode_per_test is 0, but trials are judged by tests"):
        Study(tmp_path, untested, SPACE)


def test_a_folder_holds_one_study_of_one_process(tmp_path, scripted):
    study = Study(tmp_path, short(), SPACE)
    assert study.run(1, 1)
    for other in (short(seed=4), SPACE), (short(), {"n_step": Range(low=1, high=2)}):
        with pytest.raises(ConfigError, match="give another --name"):
            Study(tmp_path, *other)
    with claimed(tmp_path, ""), pytest.raises(ConfigError, match="in use"):
        study.run(2, 1)


@pytest.mark.slow
def test_ctrl_c_keeps_trials_that_go_on_later(tmp_path):
    long = short(**{"trainer.max_epoch": 100_000})
    study = Study(tmp_path, long, SPACE, sampler="random", pruner="none")

    def press():
        while not [file for file in tmp_path.rglob("metrics.jsonl") if b"test/return_mean" in file.read_bytes()]:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    assert not study.run(1, 1)
    assert study.trials == []
    (config,) = tmp_path.rglob("config.json")
    made = json.loads(config.read_text())
    made["trainer"]["max_epoch"] = 1 + len(config.with_name("metrics.jsonl").read_text().splitlines())
    config.write_text(json.dumps(made))

    later = Study(tmp_path, long, SPACE, sampler="random", pruner="none")
    assert later.run(1, 1)
    (trial,) = later.trials
    assert trial.state == "complete"
    assert trial.number == 0
    assert list(tmp_path.rglob("config.json")) == [config]  # the same run
    assert made["config"]["optim"]["lr"] == trial.settings["optim.lr"]


def test_a_score_of_0_is_a_score(tmp_path, scripted):
    scripted[1].update({1: [-5.0], 2: [0.0], 3: [-7.0]})
    study = Study(tmp_path, short(), SPACE)
    assert study.run(3, 1)
    assert study.best.score == 0.0


def test_the_best_preset_of_a_policy_with_memory_is_the_best_trial(tmp_path):
    """What it leaves out is what the preset with memory says, not the one without."""
    experiment = preset("dqn", "CartPole-v1", **{"net.memory": "gru"})
    study = Study(tmp_path, experiment, {"trainer.batch_size": Range(choices=(128,))})
    wanted = study.experiment.replaced({"trainer.batch_size": 128})
    trial = SimpleNamespace(settings={"trainer.batch_size": 128})
    assert preset("dqn", "CartPole-v1", **study._preset(trial)) == wanted
