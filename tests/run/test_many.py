import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import psutil
import pytest
from gymnasium.envs.classic_control import CartPoleEnv
from short import QUICK

import argosy
from argosy.cli import main
from argosy.cli.many import line, summary
from argosy.errors import ConfigError
from argosy.presets import preset
from argosy.run.many import Job, Outcome, arguments, find_group, make_group, new_group, read_seeds, run_many


def quick(seed, task="CartPole-v1", **changes):
    return preset("dqn", task, **{**QUICK, "seed": seed, "threads": 1, **changes})


@pytest.mark.parametrize(("text", "seeds"), [("0-3", [0, 1, 2, 3]), ("7", [7]), ("1,3,5-6", [1, 3, 5, 6])])
def test_seeds_are_read(text, seeds):
    assert read_seeds(text) == seeds


@pytest.mark.parametrize("text", ["", "x", "1-", "-1", "4-2", "1,1", "0-3,2"])
def test_seeds_that_make_no_sense_are_refused(text):
    with pytest.raises(ConfigError, match=r"write 0-4 for five of them, or 1,3,5"):
        read_seeds(text)


def test_a_group_is_found_again(tmp_path):
    assert find_group(tmp_path) == []
    jobs = make_group(tmp_path / "g", [quick(3), quick(4), quick(3, "Acrobot-v1")])
    assert sorted(job.name for job in find_group(tmp_path / "g")) == sorted(job.name for job in jobs)
    assert {job.experiment.seed for job in find_group(tmp_path / "g")} == {3, 4}
    assert [job.folder() for job in jobs] == [None] * 3
    assert [job.position for job in jobs] == [0] * 3


def test_groups_that_begin_in_the_same_second_are_two(tmp_path, monkeypatch):
    monkeypatch.setattr("time.strftime", lambda form: "20260101-120000")
    first, second = new_group(quick(1), "1", str(tmp_path)), new_group(quick(1, lr=0.5), "1", str(tmp_path))
    assert first[0].root != second[0].root
    assert find_group(first[0].root) == first


def test_a_group_that_cannot_begin_leaves_nothing(tmp_path):
    with pytest.raises(ConfigError, match="iql learns from a data set; which"):
        new_group(preset("iql", "CartPole-v1"), "0-1", tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_group_warns_of_what_nothing_reads(tmp_path):
    with pytest.warns(UserWarning, match=r"buffer\.priority\.beta is 0\.5, but nothing reads it"):
        new_group(quick(1, **{"buffer.priority.beta": 0.5}), "1", tmp_path)


def test_a_run_goes_on_from_whatever_a_kill_has_left_and_says_where_it_is_now(tmp_path):
    (job,) = make_group(tmp_path / "g", [quick(1)])
    run = tmp_path / "g" / "CartPole-v1" / "dqn" / "20260101-120000-1"
    run.mkdir(parents=True)
    assert arguments(job)[0] == "train"
    shutil.copy(job.config, run / "config.json")
    (run / "checkpoint-new.safetensors").touch()
    assert arguments(job)[:2] == ["resume", str(run)]
    (run / "result.json").write_text('{"test_return_mean": 1.0, "env_steps": 1, "wall_s": 1.0, "run_dir": "/gone"}')
    assert job.result()["run_dir"] == str(run)


def test_what_a_group_reads_is_found_from_anywhere(tmp_path, monkeypatch):
    """Whatever folder `argosy resume` is called from."""
    monkeypatch.chdir(tmp_path)
    data = preset("bc", "CartPole-v1", data="a.hdf5", init="before")
    expert = preset("dagger", "CartPole-v1", expert="runs/best")
    make_group(tmp_path / "g", [data, expert, quick(1)])
    found = {job.experiment.algorithm: job.experiment for job in find_group(tmp_path / "g")}
    assert (found["bc"].data, found["bc"].init) == (str(tmp_path / "a.hdf5"), str(tmp_path / "before"))
    assert found["dagger"].expert == str(tmp_path / "runs" / "best")
    assert found["dqn"] == quick(1)


def test_one_that_fails_ends_no_other_and_what_has_ended_is_not_made_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.path.dirname(__file__))
    bad = quick(2, "line:Line", env={**QUICK["env"], "kwargs": {"length": "x"}})
    jobs = make_group(tmp_path, [quick(1), bad])
    told = []
    outcomes = {outcome.job.experiment.seed: outcome for outcome in run_many(jobs, 2, told=told.append)}
    assert len(told) == 2
    assert outcomes[1].result["env_steps"] == 400
    assert outcomes[1].code == 0
    assert jobs[0].position == 400
    assert outcomes[2].result is None
    assert outcomes[2].code != 0
    assert outcomes[2].said
    before = jobs[0].folder().result.stat().st_mtime_ns
    (again,) = run_many(jobs[:1], 1)
    assert again.result == outcomes[1].result
    assert jobs[0].folder().result.stat().st_mtime_ns == before


def test_ctrl_c_ends_all_and_each_goes_on(tmp_path, capsys):
    long = {**QUICK["trainer"], "max_epoch": 100_000}
    jobs = make_group(tmp_path, [quick(seed, trainer=long) for seed in (1, 2, 3)])

    def press():
        while not all(job.position > 400 for job in jobs[:2]):
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    outcomes = run_many(jobs, 2)
    assert [outcome.code for outcome in outcomes] == [130, 130]
    assert jobs[2].position == 0
    assert not any(job.result() for job in jobs)

    jobs.pop().config.unlink()
    epochs = {job.experiment.seed: job.position // 200 + 2 for job in jobs}
    for job, max_epoch in zip(jobs, epochs.values(), strict=True):
        config = json.loads(job.folder().config.read_text())
        config["trainer"]["max_epoch"] = max_epoch
        job.folder().config.write_text(json.dumps(config))
    assert main(["resume", str(tmp_path), "--jobs", "2", "--quiet", "--json"]) == 0
    out = json.loads(capsys.readouterr().out)
    assert {run["seed"]: run["env_steps"] // 200 for run in out["runs"]} == epochs


def test_what_a_second_ctrl_c_kills_was_stopped_and_has_not_failed(tmp_path):
    class Deaf:
        code = None

        def poll(self):
            return self.code

        def interrupt(self):
            os.kill(os.getpid(), signal.SIGINT)

        def kill(self):
            self.code = -signal.SIGKILL

        def said(self):
            return ""

    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM)).start()
    outcomes = run_many(make_group(tmp_path, [quick(1)]), 1, start=lambda job, slot, slots: Deaf())
    assert [outcome.code for outcome in outcomes] == [130]


@pytest.mark.slow
def test_runs_end_with_who_has_started_them(tmp_path):
    flags = ["--seeds", "0-1", "--jobs", "2", "--trainer.max-epoch", "100000", "--runs", str(tmp_path), "--quiet"]
    command = "import sys; from argosy.cli import main; sys.exit(main(sys.argv[1:]))"
    args = [sys.executable, "-c", command, "train", "dqn", "--task", "CartPole-v1", *flags]
    owner = psutil.Popen(args, stdout=subprocess.DEVNULL)
    while len(list(tmp_path.rglob("metrics.jsonl"))) < 2:
        time.sleep(0.1)
    runs = owner.children(recursive=True)
    assert len(runs) >= 2
    owner.kill()
    owner.wait()
    assert psutil.wait_procs(runs, 10.0)[1] == []


def test_the_summary_says_what_is_missing(tmp_path):
    job = Job(quick(1), tmp_path)
    good = [Outcome(job, {"test_return_mean": value, "env_steps": 10, "wall_s": 1.0}) for value in (1.0, 2.0, 3.0)]
    failed = Outcome(job, None, 1, "Traceback\nargosy: error: no such file")
    assert line(good[0]) == "dqn on CartPole-v1, seed 1: return 1.0 after 10 steps, 1 s"
    assert line(failed) == "dqn on CartPole-v1, seed 1: FAILED (argosy: error: no such file)"
    for said in (
        "argosy: error: no such file\nthe training so far is saved",
        "ValueError: 3\nsaved",
        "x.y.ZError\nsaved",
    ):
        assert Outcome(job, None, 1, said).why == said.splitlines()[0]
    assert Outcome(job, None, -9).why == "exit code -9, and not a word"
    assert Outcome(job, None, 1, "a\nb").why == "b"
    assert line(Outcome(job, None, 130)) == "dqn on CartPole-v1, seed 1: stopped"
    said = summary([*good, failed])
    assert "interquartile mean of the return 2.0, 95 % interval" in said
    assert "(3 of 4 seeds)" in said
    assert "no return (0 of 1 seeds)" in summary([failed])


def test_seeds_from_the_command(tmp_path, capsys):
    args = ["train", "dqn", "--task", "CartPole-v1", "--runs", str(tmp_path), "--seeds", "2", "--jobs", "1", "--json"]
    args += ["--trainer.total-steps", "100", "--trainer.start-steps", "50", "--stop.episodes", "1"]
    assert main(args) == 0
    said, shown = capsys.readouterr()
    assert shown.startswith("argosy: dqn on CartPole-v1, seeds 2 ")
    out = json.loads(said)
    assert [run["seed"] for run in out["runs"]] == [2]
    assert main(["resume", out["folder"], "--total-steps", "9"]) == 2
    assert "holds many runs" in capsys.readouterr().err


def test_seeds_from_python(tmp_path):
    short = {**QUICK, "trainer": {**QUICK["trainer"], "total_steps": 100}, "runs": tmp_path, "show_progress": False}
    (done,) = argosy.train_seeds("dqn", "CartPole-v1", seeds=[2], jobs=1, **short)
    assert (done.seed, done.env_steps, done.test_episodes) == (2, 100, 3)
    assert done.policy.version > 0
    assert argosy.load(done).version > 0


def test_seeds_from_python_are_refused_before_anything_is_begun(tmp_path):
    class Mine(CartPoleEnv):
        pass

    with pytest.raises(ConfigError, match=r"which cannot find .*<locals>.Mine'; .*move it to a module"):
        argosy.train_seeds("dqn", Mine, runs=tmp_path)
    with pytest.raises(ConfigError, match=r"seeds is 5; give '0-4', or numbers"):
        argosy.train_seeds("dqn", "CartPole-v1", seeds=5, runs=tmp_path)
    with pytest.raises(ConfigError, match="each once"):
        argosy.train_seeds("dqn", "CartPole-v1", seeds=[1, 1], runs=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_one_is_stopped_while_the_others_come_to_their_end(tmp_path):
    long = quick(1, trainer={**QUICK["trainer"], "max_epoch": 100_000})
    jobs = make_group(tmp_path, [long, quick(2)])
    outcomes = run_many(iter(jobs), 2, stops=lambda job: job.experiment.seed == 1 and job.position > 400)
    assert {outcome.job.experiment.seed: outcome.code for outcome in outcomes} == {1: 130, 2: 0}
    stopped = json.loads(jobs[0].folder().result.read_text())
    assert stopped["interrupted"]
    assert stopped["env_steps"] > 400
