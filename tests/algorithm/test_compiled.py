"""An update that torch compiles learns what the plain one learns, behind the same guards."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from test_recorded import CASES, DISCRETE, OBS, batch

from argosy.algorithm import DQN, GAIL, PSRL, DQNConfig, GAILConfig, PSRLConfig, Task
from argosy.algorithm.compiled import compile_update
from argosy.errors import ConfigError, DataError
from argosy.presets import preset
from argosy.trainer.parts import make_algorithm

TASK = Task(observation_space=OBS, action_space=DISCRETE)
BATCH = batch("offpolicy", DISCRETE, 0.99, 0)


@pytest.fixture
def uncompiled(monkeypatch):
    """Everything but torch's compilers; -> what they were asked to compile."""
    asked = []
    monkeypatch.setattr(torch, "compile", lambda function: asked.append(function) or function)
    monkeypatch.setattr(torch.compiler, "disable", lambda function: function)
    return asked


def test_guards_stand_before_what_is_compiled(uncompiled, capsys):
    algorithm = DQN.make(DQNConfig(), TASK, seed=0)
    before = algorithm.state_dict()["parts"].keys()
    compile_update(algorithm)
    assert not uncompiled  # nothing is, as long as nothing is learned
    bad = batch("offpolicy", DISCRETE, 0.99, 0)
    bad.obs_next[3, 1] = np.nan
    with pytest.raises(DataError, match=r"batch.obs_next holds 1 NaN .* at index \(3, 1\)"):
        algorithm.update(bad)
    assert algorithm.num_updates == 0
    assert capsys.readouterr().err == ""
    for seed in range(2):
        algorithm.update(batch("offpolicy", DISCRETE, 0.99, seed))
    assert algorithm.num_updates == 2
    assert len(uncompiled) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("compile: the first update of DQN took ")
    assert shown.count("\n") == 1
    with pytest.raises(DataError, match=r"batch.obs_next"):  # `prepare` is what it was for whoever else calls it
        algorithm.prepare(bad)
    assert algorithm.state_dict()["parts"].keys() == before


def test_what_cannot_be_compiled_is_refused_by_name(uncompiled, monkeypatch):
    tabular = Task(observation_space=spaces.Discrete(4), action_space=DISCRETE)
    for cls, config, task, why in (
        (PSRL, PSRLConfig(), tabular, "PSRL learns without gradients"),
        (GAIL, GAILConfig(), TASK, "GAIL learns from two batches at once"),
    ):
        with pytest.raises(ConfigError, match=why):
            compile_update(cls.make(config, task, seed=0))

    def fails(function):
        def call(batch):
            raise RuntimeError("no double backward")

        return call

    monkeypatch.setattr(torch, "compile", fails)
    algorithm = DQN.make(DQNConfig(), TASK, seed=0)
    compile_update(algorithm)
    with pytest.raises(ConfigError, match="torch cannot compile DQN: no double backward; leave it out"):
        algorithm.update(BATCH)


def test_an_experiment_asks_for_it(uncompiled):
    for asked in (None, "update"):
        make_algorithm(preset("dqn", "CartPole-v1", compile=asked), OBS, DISCRETE, 0).update(BATCH)
    assert len(uncompiled) == 1
    with pytest.raises(ConfigError, match=r"compile is 'all'"):
        preset("dqn", "CartPole-v1", compile="all")


@pytest.mark.slow  # half a minute of compiling for each
@pytest.mark.parametrize("name", ["dqn", "ppo", "sac"])
def test_compiled_losses_are_the_same_within_rounding(name):
    cls, config, space, net = CASES[name]
    stats = []
    for compiles in (False, True):
        algorithm = cls.make(config, Task(observation_space=OBS, action_space=space, net=net), seed=0)
        if compiles:
            compile_update(algorithm)
        stats.append([algorithm.update(batch(cls.kind, space, config.gamma, seed)) for seed in range(10)])
    for plain, compiled in zip(*stats, strict=True):
        assert compiled.metrics() == pytest.approx(plain.metrics(), rel=1e-4, abs=1e-5)
