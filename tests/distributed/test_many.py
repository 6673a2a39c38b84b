"""Runs side by side on the machines of a cluster: as on one, with what can go wrong on the way."""

import json
import os
import signal
import threading
import time

import pytest

from argosy.cli import main
from argosy.distributed.many import RayMachines
from argosy.presets import preset
from argosy.run.many import make_group, run_many

QUICK = {
    "net": {"hidden_sizes": (16,)},
    "env": {"num_envs": 2, "test_num_envs": 2},
    "trainer": {"max_epoch": 2, "step_per_epoch": 200, "start_steps": 50, "batch_size": 16, "step_per_collect": 4,
                "episode_per_test": 2},
    "stop": {"test_return": None, "episodes": 3},
    "threads": 1,
}  # fmt: skip


pytestmark = pytest.mark.timeout(600)  # Ray takes its time on a busy machine, and runs what it starts behind all else


def quick(seed, **changes):
    return preset("dqn", "CartPole-v1", **{**QUICK, "seed": seed, **changes})


@pytest.mark.slow
def test_one_that_fails_ends_no_other(ray_launcher, tmp_path):
    bad = quick(2, env={**QUICK["env"], "wrappers": ("nowhere:Wrapper",)})
    jobs = make_group(tmp_path, [quick(1), bad])
    with RayMachines(None) as machines:
        assert machines.room > 1
        outcomes = {one.job.experiment.seed: one for one in run_many(jobs, 2, start=machines.start)}
    assert (outcomes[1].code, outcomes[1].result["env_steps"]) == (0, 400)
    assert outcomes[2].code == 2
    assert "nowhere" in outcomes[2].said.splitlines()[-1]


def test_a_machine_without_the_folder_is_named(ray_launcher, tmp_path, monkeypatch):
    (job,) = make_group(tmp_path / "runs", [quick(1)])
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    monkeypatch.setattr("os.getcwd", lambda: str(folder))
    with RayMachines(None) as machines:
        (outcome,) = run_many([job], 1, start=machines.start)
    assert outcome.code == 1
    assert f"has no folder {str(folder)!r}; all machines must share" in outcome.said.splitlines()[-1]


@pytest.mark.slow
def test_ctrl_c_ends_what_runs_and_what_waits_and_each_goes_on(ray_launcher, tmp_path):
    long = {**QUICK["trainer"], "max_epoch": 100_000}
    jobs = make_group(tmp_path, [quick(1, trainer=long), quick(2, threads=1000)])  # no machine has so many cores

    def press():
        while jobs[0].position <= 400:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with RayMachines(None) as machines:
        outcomes = run_many(jobs, 2, start=machines.start)
        assert [one.code for one in outcomes] == [130, 130]
        assert jobs[1].folder() is None
        config = jobs[0].folder().config
        made = json.loads(config.read_text())
        made["trainer"]["max_epoch"] = jobs[0].position // 200 + 2
        config.write_text(json.dumps(made))
        (again,) = run_many(jobs[:1], 1, start=machines.start)
    assert again.code == 0
    assert again.result["env_steps"] == made["trainer"]["max_epoch"] * 200


def test_an_address_is_for_many_runs_and_must_be_one(tmp_path, capsys):
    train = ["train", "dqn", "--task", "CartPole-v1", "--runs", str(tmp_path), "--address", "nowhere:1"]
    assert main([*train, "--quiet"]) == 2
    assert "--address is for several runs" in capsys.readouterr().err
    make_group(tmp_path / "one", [])
    (tmp_path / "one" / "config.json").write_text("{}")
    assert main(["resume", str(tmp_path / "one"), "--address", "auto"]) == 2
    assert "--address is for a folder of many runs" in capsys.readouterr().err
