"""The commands on a real, small run: train, resume, eval, watch; Ctrl-C in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import argosy
from argosy import cli
from argosy.experiment import Experiment

SMALL = [
    "--net.hidden-sizes=16", "--env.num-envs=2", "--env.test-num-envs=2", "--trainer.max-epoch=2",
    "--trainer.step-per-epoch=200", "--trainer.start-steps=50", "--trainer.batch-size=16",
    "--trainer.episode-per-test=2", "--stop.episodes=3",
]  # fmt: skip
KEYS = [
    "algorithm", "task", "seed", "env_steps", "gradient_steps", "wall_s", "steps_per_s", "test_return_mean",
    "test_return_std", "run_dir",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A run by the command; its exit code, output lines and result."""
    runs = tmp_path_factory.mktemp("runs")
    command = ["train", "dqn", "--task=CartPole-v1", "--seed=4", "--lr=0.002", "--json", f"--runs={runs}", *SMALL]
    done = subprocess.run([sys.executable, "-c", RUN, *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done, json.loads(done.stdout.splitlines()[-1])


RUN = "import sys; from argosy.cli import main; sys.exit(main())"


def test_train_prints_one_line_of_json_last(trained):
    done, result = trained
    assert list(result) == KEYS
    assert len(done.stdout.splitlines()) == 1
    assert (result["algorithm"], result["task"], result["seed"]) == ("dqn", "CartPole-v1", 4)
    assert result["env_steps"] == 400
    assert result["steps_per_s"] == pytest.approx(400 / result["wall_s"], rel=0.01)


def test_train_reports_preset_epochs_table_and_places(trained):
    done, result = trained
    assert "dqn on CartPole-v1, seed 4   (preset: dqn on classic tasks)" in done.stderr
    assert "lr 0.002" in done.stderr
    assert "epoch 2, 400 steps" in done.stderr
    for name in ("return", "steps", "seconds", "steps/s", "files", "picture"):
        assert f"\n  {name} " in done.stderr
    assert result["run_dir"] in done.stderr
    assert Path(result["run_dir"], "curve.png").is_file()


def test_flags_reach_the_experiment(trained):
    experiment = Experiment.load(Path(trained[1]["run_dir"], "config.json"))
    assert experiment.config.optim.lr == 0.002
    assert experiment.net.hidden_sizes == (16,)
    assert (experiment.env.num_envs, experiment.trainer.batch_size, experiment.stop.episodes) == (2, 16, 3)


def test_python_does_what_the_command_does(trained, tmp_path):
    result = trained[1]
    trainer = {"max_epoch": 2, "step_per_epoch": 200, "start_steps": 50, "batch_size": 16, "episode_per_test": 2}
    same = argosy.train(
        "dqn", "CartPole-v1", seed=4, lr=0.002, runs=tmp_path, show_progress=False, net={"hidden_sizes": (16,)},
        env={"num_envs": 2, "test_num_envs": 2}, trainer=trainer, stop={"episodes": 3},
    )  # fmt: skip
    mine = json.loads(same.to_json())
    for key in ("env_steps", "gradient_steps", "test_return_mean", "test_return_std"):
        assert mine[key] == result[key], key


def test_a_config_file_makes_the_same_run_again(trained, tmp_path, capsys):
    result = trained[1]
    config = str(Path(result["run_dir"], "config.json"))
    assert cli.main(["train", "--config", config, "--runs", str(tmp_path), "--json", "--quiet"]) == 0
    captured = capsys.readouterr()
    again = json.loads(captured.out)
    assert captured.err == ""
    assert (again["seed"], again["test_return_mean"]) == (4, result["test_return_mean"])
    assert again["run_dir"].startswith(str(tmp_path))


def test_a_config_file_of_another_algorithm_is_refused(trained, capsys):
    config = str(Path(trained[1]["run_dir"], "config.json"))
    assert cli.main(["train", "ppo", "--config", config]) == 2
    assert "is about 'dqn', not about 'ppo'" in capsys.readouterr().err


def test_eval_says_how_good_the_policy_is(trained, capsys):
    run_dir = trained[1]["run_dir"]
    assert cli.main(["eval", run_dir, "--episodes", "4", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert (numbers["episodes"], numbers["run_dir"]) == (4, run_dir)
    assert cli.main(["eval", run_dir, "--episodes", "4"]) == 0
    assert (
        f"return   {numbers['return_mean']:.1f} ± {numbers['return_std']:.1f} over 4 episodes"
        in capsys.readouterr().out
    )


def test_watch_makes_a_film(trained, tmp_path, capsys):
    image = pytest.importorskip("PIL.Image")
    pytest.importorskip("pygame")
    path = tmp_path / "film.gif"
    assert cli.main(["watch", trained[1]["run_dir"], "--video", str(path), "--max-steps", "5"]) == 0
    assert str(path) in capsys.readouterr().out
    with image.open(path) as gif:
        assert gif.n_frames > 1


def test_resume_of_a_finished_run_says_so(trained, capsys):
    assert cli.main(["resume", trained[1]["run_dir"], "--json", "--quiet"]) == 2
    assert "has finished" in capsys.readouterr().err


@pytest.mark.parametrize("vector", ["dummy", "subproc"])
def test_ctrl_c_saves_says_how_to_resume_and_leaves_no_process(tmp_path, vector):
    psutil = pytest.importorskip("psutil")
    small = [flag for flag in SMALL if "max-epoch" not in flag]
    flags = [*small, "--trainer.max-epoch", "100000", "--env.vector", vector]
    command = ["train", "dqn", "--task", "CartPole-v1", "--runs", str(tmp_path), "--json", *flags]
    # A new session, as on a terminal of its own: Ctrl-C then reaches all of its processes
    process = subprocess.Popen(
        [sys.executable, "-c", RUN, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        while not list(tmp_path.rglob("checkpoint.safetensors")):  # after the first epoch
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)
        children = psutil.Process(process.pid).children(recursive=True)
        os.killpg(process.pid, signal.SIGINT)
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130, err
    result = json.loads(out.splitlines()[-1])
    assert list(result) == KEYS
    assert f"Go on with: argosy resume {result['run_dir']}" in err
    assert "Traceback" not in err
    assert psutil.wait_procs(children, timeout=10)[1] == []


def test_collect_writes_a_data_set_and_reports(trained, tmp_path, capsys):
    pytest.importorskip("h5py")
    run = trained[1]["run_dir"]
    assert cli.main(["collect", run, "--steps", "200", "-o", str(tmp_path / "a.hdf5"), "--eps", "0.5"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["return", "steps", "file"]
    assert lines[1].split()[1] == "200"
    assert len(argosy.ReplayBuffer.load_hdf5(tmp_path / "a.hdf5")) == 200
    assert cli.main(["collect", run, "--steps=200", f"--output={tmp_path / 'b.hdf5'}", "--quiet"]) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("command", ["collect", "convert"])
def test_sigterm_leaves_no_half_written_file(command, trained, tmp_path, monkeypatch):
    pytest.importorskip("h5py")
    from argosy.data.datasets import DatasetWriter

    def killed(writer, *args):
        assert list(tmp_path.glob("*.part"))
        signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)  # one of Ray's may be there
    monkeypatch.setattr(DatasetWriter, "write", killed)
    file, end = tmp_path / "a.hdf5", np.arange(20) % 5 == 4
    zero = np.zeros((20, 3))
    np.savez(tmp_path / "a.npz", obs=zero, act=zero, rew=np.zeros(20), terminals=end, timeouts=end & False)
    made = ["collect", trained[1]["run_dir"], "--steps=100", "-o", file]
    converted = ["data", "convert", tmp_path / "a.npz", file]
    try:
        with pytest.raises(SystemExit) as ended:
            cli.main([*map(str, made if command == "collect" else converted), "--quiet"])
        assert ended.value.code == 143
        assert [path.name for path in tmp_path.iterdir()] == ["a.npz"]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


def test_data_shows_a_card_and_draws_the_returns(trained, tmp_path, capsys):
    pytest.importorskip("h5py")
    file = tmp_path / "a.hdf5"
    argosy.collect_data(trained[1]["run_dir"], file, steps=300)
    picture = tmp_path / "a.png"
    assert cli.main(["data", str(file), "-o", str(picture), "--task", "CartPole-v1"]) == 0
    out = capsys.readouterr().out
    assert f"data     {file} (argosy, " in out
    assert "rows     300 transitions" in out
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert cli.main(["data", str(file), "--task", "Pendulum-v1"]) == 1
    assert "wrong    data is" in capsys.readouterr().out
    assert cli.main(["data", str(file), "-o", str(tmp_path / "nowhere" / "a.png")]) == 1
    shown = capsys.readouterr()
    assert "nowhere/a.png' cannot be written" in shown.err
    assert "rows     300 transitions" in shown.out
    assert cli.main(["data", str(tmp_path / "nothing")]) == 1
    assert "there is no file" in capsys.readouterr().err


def test_data_says_why_there_is_nothing_to_draw(tmp_path, capsys):
    zero, ends = np.zeros((20, 3)), np.arange(20) % 5 == 4
    rows = {"obs": zero, "act": zero, "rew": np.full(20, np.nan), "timeouts": ends & False}
    np.savez(tmp_path / "a.npz", **rows, terminals=ends)
    picture = str(tmp_path / "a.png")
    assert cli.main(["data", str(tmp_path / "a.npz"), "-o", picture]) == 1
    assert "nothing to draw: no return of 4 episodes is a finite number in" in capsys.readouterr().err
    assert cli.main(["data", str(tmp_path / "a.npz")]) == 1
    assert "rows     20 transitions, 4 episodes" in capsys.readouterr().out
    np.savez(tmp_path / "b.npz", **rows, terminals=ends & False)
    assert cli.main(["data", str(tmp_path / "b.npz"), "-o", picture]) == 1
    assert "nothing to draw: no episode is whole in" in capsys.readouterr().err


def test_data_convert_checks_and_clips(tmp_path, capsys):
    pytest.importorskip("h5py")
    zero, ends = np.zeros((20, 3)), np.arange(20) % 5 == 4
    act = np.where(np.arange(20)[:, None] == 7, 2.5, 0.5)
    np.savez(tmp_path / "a.npz", obs=zero, act=act, rew=np.ones(20), terminals=ends, timeouts=ends & False)
    source, file = str(tmp_path / "a.npz"), tmp_path / "a.hdf5"
    assert cli.main(["data", "convert", source, str(file), "--task", "Pendulum-v1"]) == 1
    assert "the action in row 7 is out of bounds: [2.5]" in capsys.readouterr().err
    assert not file.exists()
    assert cli.main(["data", "convert", source, str(file), "--task", "Pendulum-v1", "--clip"]) == 0
    assert capsys.readouterr().out.splitlines() == ["rows     20 transitions (npz)", f"file     {file}"]
    data = argosy.ReplayBuffer.load_hdf5(file)
    assert data.act.max() == 2.0
    assert data.obs.dtype == np.float32
    assert cli.main(["data", "convert", source, str(tmp_path / "b.hdf5"), "--best", "0.5"]) == 0
    assert "rows     10 transitions (npz)\nnote     the best 2 of 4 episodes" in capsys.readouterr().out
    assert cli.main(["data", "convert", source, str(file), "--clip"]) == 2
    assert "--clip needs --task" in capsys.readouterr().err
    np.savez(tmp_path / "empty.npz", obs=zero[:0], act=act[:0], rew=np.ones(0), terminals=ends[:0], timeouts=ends[:0])
    assert cli.main(["data", "convert", str(tmp_path / "empty.npz"), str(file), "--task", "Pendulum-v1"]) == 1
    assert "holds no transitions" in capsys.readouterr().err
    argosy.ReplayBuffer.load_hdf5(file).save_hdf5(tmp_path / "own.hdf5")  # says nothing of a scale: the policy's
    own = ["data", "convert", str(tmp_path / "own.hdf5"), str(tmp_path / "c.hdf5"), "--task", "Pendulum-v1", "--clip"]
    assert cli.main(own) == 1
    assert "actions are in the policy's scale, where the task has no bounds to cut them to" in capsys.readouterr().err
    result = argosy.train(
        "td3_bc", "Pendulum-v1", data=str(file), runs=tmp_path, show_progress=False, stop={"episodes": 1},
        trainer={"max_epoch": 1, "step_per_epoch": 3, "batch_size": 4, "episode_per_test": 1},
    )  # fmt: skip
    assert result.gradient_steps > 0


def test_a_wrapper_of_one_s_own(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import gymnasium as gym\n"
        "def scaled(env, by):\n"
        "    return gym.wrappers.TransformReward(env, lambda rew: by * rew)\n"
    )
    wrapper = "mine:scaled(by=-1.0)"
    command = ["train", "dqn", "--task=CartPole-v1", "--json", "--quiet", "--env.wrappers", wrapper, *SMALL]
    environ = {**os.environ, "PYTHONPATH": str(Path(argosy.__file__).parents[1])}

    def argosy_command(*args):
        command = [sys.executable, "-c", RUN, *args]
        return subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=environ)

    done = argosy_command(*command)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["test_return_mean"] < 0
    asked = argosy_command("eval", result["run_dir"], "--episodes=2")
    assert asked.returncode == 2
    assert f"env.wrappers {wrapper!r}" in asked.stderr
    assert argosy_command("eval", result["run_dir"], "--episodes=2", "--trust").returncode == 0


def test_train_learns_from_a_data_set(trained, tmp_path, capsys):
    pytest.importorskip("h5py")
    file = tmp_path / "a.hdf5"
    argosy.collect_data(trained[1]["run_dir"], file, steps=100)
    small = [flag for flag in SMALL if "start-steps" not in flag and "num-envs" not in flag]
    command = ["train", "dqn", "--task=CartPole-v1", "--data", str(file), "--json", f"--runs={tmp_path}", *small]
    assert cli.main(command) == 0
    captured = capsys.readouterr()
    result = json.loads(captured.out)
    assert (result["env_steps"], result["gradient_steps"]) == (0, 400)
    assert f"  data     {file}\n" in captured.err
    assert "epoch 2, 400 updates" in captured.err
    assert cli.main([*command, "--trainer.start-steps=50"]) == 2
    assert "trainer.start_steps is 50, but dqn learns from a data set here" in capsys.readouterr().err
    assert cli.main(["train", "ppo", "--task=CartPole-v1", f"--data={file}"]) == 2
    assert "ppo learns on-policy" in capsys.readouterr().err
