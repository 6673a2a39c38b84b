"""Runs in this process: what a run leaves behind, going on, what can go wrong."""

import json
import random
import shutil
import signal
from types import SimpleNamespace
from unittest import mock

import gymnasium as gym
import numpy as np
import pytest
import torch
from short import QUICK, quick

import argosy
from argosy.cli.show import table
from argosy.data import CollectStats
from argosy.env import register
from argosy.errors import CheckpointError, ConfigError, EnvError, SpaceError
from argosy.experiment import Experiment, LoggerConfig
from argosy.logger import JSONLLogger, read_jsonl
from argosy.run.folder import RunFolder
from argosy.run.loggers import make_loggers
from argosy.run.result import BestPolicy
from argosy.run.train import _ctrl_c
from argosy.trainer.statefile import read_state


@pytest.fixture
def run(result, tmp_path):
    """A copy of a finished run, to do harm to."""
    return RunFolder(shutil.copytree(result.run_dir, tmp_path / "run"))


def parameters(folder):
    return read_state(RunFolder.find(folder).checkpoint, "checkpoint")["algorithm"]


def test_a_run_leaves_config_metrics_checkpoint_policy_result_and_picture(result):
    folder = RunFolder.find(result.run_dir)
    assert {file.name for file in folder.path.iterdir()} == {
        "config.json", "policy.json", "metrics.jsonl", "checkpoint.safetensors", "policy.safetensors", "result.json",
        "curve.png", "checkpoint-1.safetensors", "lock", "machine.json",
    }  # fmt: skip
    assert folder.path.parts[-3:-1] == ("CartPole-v1", "dqn")
    assert folder.path.name.endswith("-5")
    assert Experiment.load(folder.config) == argosy.preset("dqn", "CartPole-v1", seed=5, **QUICK)
    assert [row["env_step"] for row in read_jsonl(folder.metrics) if "test/return_mean" in row] == [200, 400]
    assert folder.curve.read_bytes().startswith(b"\x89PNG")
    assert json.loads(folder.result.read_text())["env_steps"] == 400


def test_the_result_counts(result):
    assert (result.algorithm, result.task, result.seed) == ("dqn", "CartPole-v1", 5)
    assert result.env_steps == 400
    assert result.gradient_steps == 87  # 0.25 for each of the 400 steps but 52 of warm-up
    assert result.test_episodes == 3
    assert 8 <= result.test_return_mean <= 500
    assert not result.interrupted
    assert list(json.loads(result.to_json())) == [
        "algorithm", "task", "seed", "env_steps", "gradient_steps", "wall_s", "steps_per_s", "test_return_mean",
        "test_return_std", "run_dir",
    ]  # fmt: skip


def test_the_result_s_policy_acts(result):
    batch = argosy.Batch(obs=np.zeros((3, 4), np.float32))
    assert result.policy(batch).act.shape == (3,)


def test_equal_seeds_give_equal_runs(result, tmp_path):
    again = quick(tmp_path)
    assert (again.test_return_mean, again.gradient_steps) == (result.test_return_mean, result.gradient_steps)
    for key, value in again.policy.state_dict().items():
        assert torch.equal(value, result.policy.state_dict()[key]), key


def test_a_resumed_run_is_the_run_that_was_not_interrupted(result, tmp_path):
    half = quick(tmp_path, trainer={**QUICK["trainer"], "max_epoch": 1})
    folder = RunFolder(half_path := RunFolder.find(half.run_dir).path)
    data = json.loads(folder.config.read_text())
    data["trainer"]["max_epoch"] = 2
    folder.config.write_text(json.dumps(data))
    whole = argosy.resume(half_path, show_progress=False)
    assert whole.env_steps == 400
    one, other = parameters(result.run_dir), parameters(half_path)
    assert one["parts"]["num_updates"] == other["parts"]["num_updates"] == result.gradient_steps
    for part in ("policy", "policy_target"):
        for key, value in one["parts"][part].items():
            assert torch.equal(value, other["parts"][part][key]), key
    assert [row["env_step"] for row in read_jsonl(folder.metrics) if "test/return_mean" in row] == [200, 400]


def test_ctrl_c_saves_and_resume_goes_on(tmp_path, monkeypatch):
    write, calls = JSONLLogger._write, []

    def press(self, metrics, env_step, gradient_step):
        write(self, metrics, env_step, gradient_step)
        calls.append(env_step)
        if len(calls) == 2:
            signal.raise_signal(signal.SIGINT)

    before = signal.getsignal(signal.SIGINT)
    monkeypatch.setattr(JSONLLogger, "_write", press)
    stopped = quick(tmp_path, trainer={**QUICK["trainer"], "max_epoch": 20})
    assert signal.getsignal(signal.SIGINT) is before
    assert stopped.interrupted
    assert stopped.env_steps < 20 * 200
    assert stopped.env_steps in (calls[1], calls[1] + 4)
    monkeypatch.setattr(JSONLLogger, "_write", write)
    folder = RunFolder.find(stopped.run_dir)
    data = json.loads(folder.config.read_text())
    data["trainer"]["max_epoch"] = -(-stopped.env_steps // 200) + 1
    folder.config.write_text(json.dumps(data))
    whole = argosy.resume(stopped.run_dir, show_progress=False)
    assert not whole.interrupted
    assert whole.env_steps == data["trainer"]["max_epoch"] * 200
    assert whole.run_dir == stopped.run_dir


class Endless(gym.Env):
    """Has no end; somebody presses Ctrl-C in its first test."""

    observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 50:
            signal.raise_signal(signal.SIGINT)
        return np.zeros(2, np.float32), 1.0, False, False, {}


def test_ctrl_c_ends_a_test_that_never_ends(tmp_path):
    trainer = {**QUICK["trainer"], "step_per_epoch": 40, "start_steps": 20}
    stopped = quick(tmp_path, task=Endless, trainer=trainer, env={"num_envs": 2, "test_num_envs": 1})
    assert (stopped.interrupted, stopped.env_steps) == (True, 40)
    again = argosy.resume(stopped.run_dir, show_progress=False)  # plays that test
    assert (again.interrupted, again.env_steps, again.gradient_steps) == (True, 40, stopped.gradient_steps)


def test_ctrl_c_cuts_no_training_step_in_two():
    class Trainer:
        test_collector = SimpleNamespace(see=None)

        def interrupt(self):
            pass

        def _training_step(self):
            signal.raise_signal(signal.SIGINT)  # maybe in the test that a good training return asks for

    for press, ends_the_test in (
        (Trainer._training_step, False),
        (lambda trainer: signal.raise_signal(signal.SIGINT), True),
    ):
        with _ctrl_c(trainer := Trainer()) as pressed:
            press(trainer)
        assert pressed.is_set()
        assert (trainer.test_collector.see is not None) == ends_the_test


@pytest.fixture
def nobody_s_sigterm():
    """No handler of SIGTERM, as one of Ray's may be there."""
    before = signal.signal(signal.SIGTERM, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@pytest.mark.usefixtures("nobody_s_sigterm")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_result_before_the_first_test_is_null_in_json(number, tmp_path, monkeypatch):
    def press(self, metrics, env_step, gradient_step):
        signal.raise_signal(number)

    monkeypatch.setattr(JSONLLogger, "_write", press)
    stopped = quick(tmp_path, trainer={**QUICK["trainer"], "step_per_epoch": 5000})
    assert stopped.interrupted
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert json.loads(stopped.to_json())["test_return_mean"] is None


@pytest.mark.parametrize(("start_steps", "steps"), [(50, 200), (250, 400)], ids=["at once", "not before an update"])
def test_a_reached_target_is_confirmed_and_stops(start_steps, steps, tmp_path):
    trainer = {**QUICK["trainer"], "max_epoch": 30, "start_steps": start_steps}
    done = quick(tmp_path, trainer=trainer, stop={"test_return": 8.0, "episodes": 4})
    assert done.env_steps == steps
    assert done.gradient_steps > 0
    assert done.test_episodes == 4
    assert done.test_return_mean >= 8.0
    assert json.loads(done.to_json())["reason"] == "test return 8 was reached (stop.test-return)"
    assert "\n  ended    early: test return 8 was reached (stop.test-return)\n" in table(done)


def test_a_target_that_more_episodes_do_not_confirm_does_not_stop(tmp_path, monkeypatch):
    played = CollectStats(n_collected_episodes=1, returns=np.array([7.0]), lens=np.array([7]), collect_time=50.0)
    monkeypatch.setattr(BestPolicy, "_evaluate", lambda self, policy: played)
    done = quick(tmp_path, stop={"test_return": 8.0, "episodes": 4})
    assert done.env_steps == 400
    assert done.test_return_mean == 7.0
    state = read_state(RunFolder.find(done.run_dir).checkpoint, "checkpoint")["trainer"]
    assert state["test_time"] > 100.0  # so that it is no time of training


def test_damaged_runs_are_refused_by_name(run):
    whole = run.checkpoint.read_bytes()
    run.checkpoint.write_bytes(whole[: len(whole) // 2])
    (run.path / "checkpoint-1.safetensors").write_bytes(b"foreign")
    with pytest.raises(CheckpointError, match=r"checkpoint.safetensors.*(torn|damaged)"):
        argosy.resume(run.path)
    run.checkpoint.unlink()
    (run.path / "checkpoint-1.safetensors").unlink()
    with pytest.raises(CheckpointError, match="has no checkpoint to go on from"):
        argosy.resume(run.path)
    run.best_policy.write_bytes(b"foreign")
    with pytest.raises(CheckpointError, match=r"policy.safetensors"):
        argosy.evaluate(run.path)
    run.best_policy.unlink()
    with pytest.raises(CheckpointError, match="has no policy yet"):
        argosy.evaluate(run.path)
    run.config.write_text("{")
    with pytest.raises(CheckpointError, match=r"is damaged: .*config.json"):
        argosy.resume(run.path)


def test_a_failed_start_leaves_no_folder(tmp_path):
    with pytest.raises(SpaceError, match="DQN needs a Discrete action space"):
        argosy.train("dqn", "Pendulum-v1", runs=tmp_path)
    with pytest.raises(ConfigError, match=r"batch_size is 64, but the buffer holds at most"):
        quick(tmp_path, buffer={"size": 32}, trainer={**QUICK["trainer"], "batch_size": 64})
    assert list(tmp_path.iterdir()) == []


def test_an_unknown_device_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"device is 'gpu'"):
        quick(tmp_path, device="gpu")


ENV = """
import gymnasium as gym
import numpy as np

class Nan(gym.Env):
    observation_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def reset(self, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(2, np.float32), {}

    def step(self, action):
        Nan.steps += 1
        reward = float("nan") if Nan.steps == 251 else 1.0
        return np.zeros(2, np.float32), reward, Nan.steps % 10 == 0, False, {}
"""


def test_a_nan_reward_names_env_step_and_field_and_keeps_the_training(tmp_path, monkeypatch):
    (tmp_path / "nan_env.py").write_text(ENV)
    monkeypatch.syspath_prepend(tmp_path)
    trainer = {**QUICK["trainer"], "max_epoch": 3}
    settings = {**QUICK, "env": {"num_envs": 1, "test_num_envs": 1}, "trainer": trainer}
    with pytest.raises(EnvError, match=r"(?s)env 0 gave rew = nan in step 1 of.*go on with: argosy resume") as error:
        argosy.train("dqn", "nan_env:Nan", runs=tmp_path / "runs", show_progress=False, **settings)
    folder = error.value.__notes__[0].split()[-2]  # before --trust, as the env is code of one's own
    assert RunFolder.find(folder).path.parts[-3] == "nan_env-Nan"
    whole = argosy.resume(folder, show_progress=False)
    assert whole.env_steps == 600


def test_a_failure_before_the_first_step_saves_nothing_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setattr(Endless, "reset", lambda self, **how: 1 / 0)
    with pytest.raises(EnvError, match=r"(?s)failed in reset.*nothing was trained yet, so nothing is saved"):
        quick(tmp_path, task=Endless)


def test_loggers_of_the_experiment_write_beside_the_metrics(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard")
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_SILENT", "true")
    trainer = {**QUICK["trainer"], "max_epoch": 1}
    done = quick(tmp_path, trainer=trainer, logger={"tensorboard": True, "wandb": "offline"})
    folder = RunFolder.find(done.run_dir).path
    assert list((folder / "tensorboard").glob("events.*"))
    assert list(folder.glob("wandb/offline-run-*/run-*.wandb"))


def test_runs_of_a_seed_that_begin_in_the_same_second_have_names_of_their_own(tmp_path, monkeypatch):
    made = mock.MagicMock()
    monkeypatch.setattr("argosy.run.loggers.WandbLogger", made)
    for root in ("trials/0", "trials/1", "lr: 3"):
        make_loggers(LoggerConfig(wandb="offline"), tmp_path / root / "CartPole-v1" / "dqn" / "20260101-120000-0", {})
    ids = [call.kwargs["run_id"].removesuffix("-CartPole-v1-dqn-20260101-120000-0") for call in made.call_args_list]
    assert ids == ["0", "1", "lr--3"]


@pytest.mark.parametrize(
    ("algorithm", "task"), [("ppo", "CartPole-v1"), ("ppo", "Pendulum-v1"), ("sac", "Pendulum-v1")]
)
def test_other_algorithms_run_too(tmp_path, algorithm, task):
    trainer = {"max_epoch": 1, "step_per_epoch": 80, "step_per_collect": 40, "episode_per_test": 2}
    if algorithm == "sac":
        trainer |= {"start_steps": 40, "batch_size": 8}
    settings = {**QUICK, "net": {**QUICK["net"], "norm_obs": True}, "trainer": trainer}
    done = argosy.train(algorithm, task, runs=tmp_path, show_progress=False, **settings)
    assert done.env_steps == 80
    assert done.gradient_steps > 0
    stats = argosy.evaluate(done.run_dir, episodes=2)
    assert stats.n_collected_episodes == 2


def test_an_experiment_trains_as_it_says_but_for_changes(tmp_path):
    experiment = argosy.preset("dqn", "CartPole-v1", seed=5, **QUICK)
    done = argosy.train(experiment, seed=6, runs=tmp_path, show_progress=False)
    assert Experiment.load(RunFolder.find(done.run_dir).config) == experiment.replaced({"seed": 6})


def test_an_algorithm_s_name_needs_a_task(tmp_path):
    with pytest.raises(ConfigError, match=r"which task\? argosy.train\('dqn', task\)"):
        argosy.train("dqn", runs=tmp_path)


def test_a_registered_env_is_a_task(tmp_path):
    register("cart", lambda: gym.make("CartPole-v1"))
    result = argosy.train("dqn", "cart", seed=5, runs=tmp_path, show_progress=False, **QUICK)
    assert result.env_steps == 400
    assert argosy.evaluate(result.run_dir, episodes=2).n_collected_episodes == 2


def test_what_wrappers_change_is_seen_by_whatever_plays(tmp_path):
    env = {**QUICK["env"], "wrappers": ["FrameStack(num_stack=3)", "gymnasium.wrappers:FlattenObservation"]}
    result = quick(tmp_path, env=env)
    assert Experiment.load(RunFolder.find(result.run_dir).config).env.wrappers == tuple(env["wrappers"])
    shapes = [value.shape for value in flat(parameters(result.run_dir)) if getattr(value, "ndim", 0) == 2]
    assert any(12 in shape for shape in shapes)
    assert argosy.evaluate(result.run_dir, episodes=2).n_collected_episodes == 2


def flat(state):
    for value in state.values() if isinstance(state, dict) else state:
        yield from flat(value) if isinstance(value, dict | list) else [value]


def draws():
    """Draw from the generators of Python, numpy and torch, as code of one's own may."""
    return random.random(), np.random.random(), torch.rand(()).item()  # noqa: NPY002  # the global ones are meant


def test_what_own_code_draws_is_the_seed_s_and_no_trace_of_it_is_left(tmp_path):
    drawn = []
    for seed in (1, 1, 2):
        before = torch.get_rng_state()
        after = draws()
        torch.set_rng_state(before)
        drawn.append([])
        callback = SimpleNamespace(on_step=lambda trainer: drawn[-1].append(draws()))
        settings = {**QUICK, "seed": seed, "callbacks": [callback]}
        argosy.train("dqn", "CartPole-v1", runs=tmp_path, show_progress=False, **settings)
        assert torch.rand(()).item() == after[-1]
    assert drawn[0] == drawn[1]
    assert not {*drawn[0]} & {*drawn[2]}
