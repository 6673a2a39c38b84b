"""A run in which nothing moves says so, with what it is in, who waits for whom, and where its processes are."""

import functools
import importlib
import itertools
import re
import threading
import time
from types import SimpleNamespace

import gymnasium as gym
import numpy as np
import pytest

import argosy
from argosy.algorithm.optim import Optim
from argosy.env import register
from argosy.errors import ConfigError
from argosy.presets import preset
from argosy.run import standstill
from argosy.run.callbacks import FQE
from argosy.run.standstill import PHASES, Watch

SHORT = {"step_per_epoch": 40, "step_per_collect": 10, "episode_per_test": 2, "start_steps": 10, "batch_size": 8}


class Sleepy(gym.Env):
    """Sleeps once, in step 15 of its life."""

    observation_space = gym.spaces.Box(-1, 1, (3,), np.float32)
    action_space = gym.spaces.Discrete(2)
    steps = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(3, np.float32), {}

    def step(self, action):
        self.steps += 1
        if self.steps == 15:
            self.sleep()
        return np.zeros(3, np.float32), 0.0, False, self.steps % 5 == 0, {}

    def sleep(self):
        time.sleep(1.2)


register("sleepy", Sleepy)


def experiment(standstill_s, **changes):
    settings = {"env": {"num_envs": 2, "test_num_envs": 2, "vector": "dummy"}, "stop": {"episodes": 2}, **changes}
    trainer = {**SHORT, "total_steps": 80, "standstill_s": standstill_s}
    return preset("dqn", "sleepy", net={"hidden_sizes": (8,)}, trainer=trainer, **settings)


@pytest.mark.parametrize("vector", ["dummy", "subproc", "shmem"])
def test_an_env_that_hangs_is_told_of_with_its_stack(vector, tmp_path, capsys):
    env = {"num_envs": 2, "test_num_envs": 2, "vector": vector}
    result = argosy.train(experiment(0.5, env=env), runs=tmp_path, show_progress=False)
    said = capsys.readouterr().err
    assert re.search(
        r"argosy: no step and no update for [12] s \(trainer.standstill_s\); the run is in .*environments", said
    )
    assert "test_standstill.py" in said
    assert "in sleep" in said
    if vector != "dummy":
        assert re.search(r"waiting for env [01] \(pid \d+, busy with env [01]\)", said)
        assert re.search(r"-- .*env 1 \(pid \d+, busy with env 1\):", said)
    assert "argosy: the run goes on, after" in said
    log = (tmp_path / "sleepy" / "dqn").glob(f"*/{standstill.FILE}")
    assert "in sleep" in next(log).read_text()
    assert result.env_steps == 80


class Slow:
    """A callback that takes its time in an update."""

    def on_update(self, trainer, stats):
        if trainer.state.update_step == 5:
            time.sleep(1.2)


def test_an_update_that_does_not_end_is_told_of(tmp_path, capsys):
    changed = experiment(0.5, env={"num_envs": 1, "test_num_envs": 1, "vector": "dummy"}).replaced(
        {"task": "CartPole-v1"}
    )
    argosy.train(changed, runs=tmp_path, show_progress=False, callbacks=[Slow()])
    said = capsys.readouterr().err
    assert "the run is in an update, in a callback." in said
    assert "in on_update" in said


class Long(Sleepy):
    """Each step takes a moment; an episode takes longer than a run that watches it has patience."""

    def step(self, action):
        self.steps += 1
        time.sleep(0.02)
        return np.zeros(3, np.float32), 0.0, False, self.steps % 60 == 0, {}


register("long", Long)


def test_a_test_that_is_long_counts_as_moving(tmp_path, capsys):
    changed = experiment(None, env={"num_envs": 1, "test_num_envs": 1, "vector": "dummy"}).replaced({"task": "long"})
    trainer = argosy.build(changed)
    try:
        with Watch(1.0, tmp_path) as watch:
            watch.follow(trainer, lambda: 0)
            assert next(trainer).test_collect_stat.n_collected_steps == 120
    finally:
        trainer.train_collector.env.close()
        trainer.test_collector.env.close()
    assert capsys.readouterr().err == ""
    assert not list(tmp_path.iterdir())


def test_a_long_fitted_q_evaluation_counts_as_moving(tmp_path, capsys, monkeypatch):
    data = tmp_path / "data.hdf5"
    argosy.collect_data(argosy.train(experiment(None), runs=tmp_path, show_progress=False).run_dir, data, steps=40)
    capsys.readouterr()
    changes = {"data": str(data), "gamma": 0.5}
    trainer = argosy.build(experiment(None).replaced(changes), callbacks=[FQE(updates=100)])
    step = Optim.step
    monkeypatch.setattr(Optim, "step", lambda self, loss: (time.sleep(0.015), step(self, loss))[1])
    try:
        with Watch(1.0, tmp_path / "watched") as watch:
            watch.follow(trainer, lambda: 0)
            next(trainer)
    finally:
        trainer.test_collector.env.close()
    assert capsys.readouterr().err == ""


def test_a_compilation_is_named(tmp_path, capsys):
    """Its functions are found by their module, as a phase of the update that they are in."""
    compiler = SimpleNamespace(__name__="torch._dynamo.convert_frame")
    exec("import time\ndef compile_it():\n    time.sleep(0.8)\n", vars(compiler))
    with Watch(0.3, tmp_path):
        compiler.compile_it()
    assert "the run is in a compilation (torch.compile)." in capsys.readouterr().err


def test_one_that_was_stopped_for_long_has_not_stood_still(tmp_path, capsys, monkeypatch):
    """An hour passes between any two looks of a process that a shell has stopped, or that sleeps with its machine."""
    hours = (3600.0 * i for i in itertools.count())
    monkeypatch.setattr(standstill, "_TICK_S", 0.1)
    with Watch(60.0, tmp_path):
        monkeypatch.setattr(standstill, "time", SimpleNamespace(monotonic=lambda: next(hours)))
        threading.Event().wait(1.0)
    assert next(hours) > 3600.0
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("name", PHASES)
def test_every_phase_is_a_function(name):
    module, *path = re.fullmatch(r"([a-z_.]+)\.((?:[A-Z]\w*\.)?\w+)", name).groups()
    found = functools.reduce(getattr, path[0].split("."), importlib.import_module(module))
    assert f"{found.__module__}.{found.__code__.co_qualname}" == name


def test_patience_is_positive_and_may_be_endless():
    assert experiment(None).trainer.standstill_s is None
    with pytest.raises(ConfigError, match="standstill_s"):
        experiment(0.0)
