"""How long runs are: a number of steps beside epochs, runs that have finished and say so, runs that get longer."""

import json
import subprocess
import sys

import pytest
import torch
from short import QUICK, quick

import argosy
from argosy.cli import main
from argosy.errors import CallbackError, ConfigError
from argosy.logger import read_jsonl
from argosy.run.folder import RunFolder
from argosy.run.many import Job, arguments

LOOP = QUICK["trainer"]


def test_a_run_that_made_no_update_says_so(tmp_path):
    with pytest.warns(UserWarning, match="nothing was learned: the run ended after 100 steps, before its first update"):
        result = quick(tmp_path, trainer={**LOOP, "max_epoch": 1, "step_per_epoch": 100, "update_per_step": 0.01})
    assert result.gradient_steps == 0


class Stops:
    """Raises at the third update, unless told not to."""

    raises = True

    def on_update(self, trainer, stats):
        if Stops.raises and trainer.state.update_step == 3:
            raise KeyError("broken")


def test_a_run_may_be_given_its_steps_instead_of_epochs(tmp_path):
    done = quick(tmp_path, total_steps=300)
    assert done.env_steps == 300
    rows = read_jsonl(RunFolder.find(done.run_dir).metrics)
    assert [row["env_step"] for row in rows if "test/return_mean" in row] == [200, 300]
    with pytest.raises(ConfigError, match="start_steps is 50, but the run has only 40 steps"):
        quick(tmp_path, total_steps=40)


@pytest.mark.parametrize("stop", [None, 1.0])
def test_a_finished_run_says_so_and_goes_on_with_more_steps(stop, tmp_path):
    done = quick(tmp_path, total_steps=300, stop={"test_return": stop, "episodes": 2})
    steps = 300 if stop is None else 200
    why = "300 steps" if stop is None else "a test or a callback ended it"
    with pytest.raises(ConfigError, match=rf"has finished \({why}\).*resume .* --total-steps N"):
        argosy.resume(done.run_dir, show_progress=False)
    with pytest.raises(ConfigError, match=rf"total_steps is 100, but the run has made {steps} steps already"):
        argosy.resume(done.run_dir, total_steps=100)
    with pytest.raises(ConfigError, match=rf"total_steps is 20, but the run has made {steps} steps already"):
        argosy.resume(done.run_dir, total_steps=20)  # fewer than start_steps, too
    longer = argosy.resume(done.run_dir, total_steps=600, show_progress=False)
    assert longer.env_steps == 600
    rows = read_jsonl(RunFolder.find(done.run_dir).metrics)
    tests = [row["env_step"] for row in rows if "test/return_mean" in row]
    assert tests == ([200, 300, 400, 600] if stop is None else [200, 400, 600])


def test_a_run_that_got_longer_is_the_run_that_was_so_long(tmp_path):
    short = quick(tmp_path, total_steps=200)
    argosy.resume(short.run_dir, total_steps=400, show_progress=False)
    whole = quick(tmp_path)
    longer = RunFolder.find(short.run_dir)
    assert longer.experiment().trainer.length == 400
    for one, other in zip(argosy.load(longer.path).parameters(), argosy.load(whole.run_dir).parameters(), strict=True):
        assert torch.equal(one, other)


DIES = """
import os, sys
import argosy

class Dies:
    def on_step(self, trainer):
        if trainer.position >= int(sys.argv[2]):
            os._exit(9)  # without a word, as a kill does

argosy.resume(sys.argv[1], total_steps=600, show_progress=False, callbacks=[Dies()])
"""


@pytest.mark.parametrize("dies_at", [0, 500], ids=["at once", "later"])
@pytest.mark.parametrize(
    ("length", "target", "tests"),
    [(200, None, [200, 400, 600]), (300, None, [200, 300, 400, 600]), (400, 1.0, [200, 400, 600])],
    ids=["whole epochs", "a short last epoch", "a target reached"],
)
def test_a_run_that_dies_while_it_gets_longer_has_not_ended(length, target, tests, dies_at, tmp_path):
    short = quick(tmp_path, total_steps=length, stop={"test_return": target, "episodes": 2})
    folder = RunFolder.find(short.run_dir)
    job = Job(folder.experiment(), tmp_path, total_steps=600)
    assert job.result() is None
    assert arguments(job)[2:4] == ["--total-steps", "600"]
    assert subprocess.run([sys.executable, "-c", DIES, short.run_dir, str(dies_at)], check=False).returncode == 9
    assert not folder.result.exists()
    assert job.result() is None
    assert "--total-steps" not in arguments(job)
    assert argosy.resume(short.run_dir, show_progress=False).env_steps == 600
    assert job.result()["env_steps"] == 600
    assert [row["env_step"] for row in read_jsonl(folder.metrics) if "test/return_mean" in row] == tests


def test_the_command_takes_the_steps_of_a_run(tmp_path, capsys):
    flags = ["--trainer.step-per-epoch", "150", "--trainer.start-steps", "50", "--stop.episodes", "2", "--quiet"]
    assert (
        main(
            ["train", "dqn", "--task", "CartPole-v1", "--total-steps", "200", *flags, "--runs", str(tmp_path), "--json"]
        )
        == 0
    )
    result = json.loads(capsys.readouterr().out)
    assert result["env_steps"] == 200
    assert main(["resume", result["run_dir"]]) == 2
    assert "has finished (200 steps)" in capsys.readouterr().err
    assert main(["resume", result["run_dir"], "--total-steps", "300", "--quiet", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["env_steps"] == 304  # 8 at a time


def test_a_callback_that_raises_leaves_a_run_to_go_on_from(tmp_path):
    Stops.raises = True
    with pytest.raises(
        CallbackError, match=r"on_update of Stops raised KeyError(.|\n)*go on with: argosy resume"
    ) as raised:
        quick(tmp_path, callbacks=["test_length:Stops"])
    *_, run, trust = raised.value.__notes__[0].split()
    assert trust == "--trust"
    assert RunFolder.find(run).experiment().callbacks == ("test_length:Stops",)
    Stops.raises = False
    heard = []

    class Hears:
        def on_epoch(self, trainer, stats):
            heard.append(stats.epoch)

    assert argosy.resume(run, show_progress=False, callbacks=[Hears()]).env_steps == 400
    assert heard == [1, 2]


def test_offline_runs_have_a_length_too(tmp_path):
    pytest.importorskip("h5py")
    done = quick(tmp_path)
    argosy.collect_data(done.run_dir, tmp_path / "data.hdf5", steps=200)
    learned = argosy.train(
        "bc", "CartPole-v1", data=str(tmp_path / "data.hdf5"), total_steps=70, runs=tmp_path, show_progress=False,
        trainer={"step_per_epoch": 50, "episode_per_test": 2}, stop={"test_return": None, "episodes": 2},
    )  # fmt: skip
    assert learned.gradient_steps == 70
