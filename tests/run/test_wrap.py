"""Runs of a wrapped algorithm: they train, go on exactly, and are played."""

import json

import pytest
import torch
from bonus import CountBonus
from short import QUICK, quick

import argosy
from argosy.logger import read_jsonl
from argosy.run.folder import RunFolder
from argosy.trainer.checkpoint import load_checkpoint, save_checkpoint

WRAP = ("bonus:CountBonus(scale=0.5)",)


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_wrapped_run_goes_on_exactly(algorithm, tmp_path):
    trainer = (
        QUICK["trainer"] if algorithm == "dqn" else {"max_epoch": 2, "step_per_epoch": 128, "step_per_collect": 64}
    )
    experiment = argosy.preset(algorithm, "CartPole-v1", **{**QUICK, "trainer": trainer, "wrap": WRAP, "seed": 5})
    whole, half = argosy.build(experiment), argosy.build(experiment)
    for one, name in ((whole, "whole"), (half, "half")):
        next(one)
        save_checkpoint(tmp_path / name, one)
    resumed = argosy.build(experiment)
    load_checkpoint(tmp_path / "half", resumed)
    next(whole)
    next(resumed)
    assert isinstance(whole.algorithm, CountBonus)
    assert whole.algorithm.counts.equal(resumed.algorithm.counts)
    assert whole.algorithm.counts.sum() > 0
    for one, other in zip(whole.algorithm.policy.parameters(), resumed.algorithm.policy.parameters(), strict=True):
        assert torch.equal(one, other)


def test_a_wrapped_run_trains_logs_and_is_evaluated(tmp_path):
    done = quick(tmp_path, wrap=WRAP)
    plain = quick(tmp_path)
    assert done.gradient_steps == plain.gradient_steps
    assert any(not torch.equal(a, b) for a, b in zip(done.policy.parameters(), plain.policy.parameters(), strict=True))
    folder = RunFolder.find(done.run_dir)
    assert json.loads(folder.config.read_text())["wrap"] == list(WRAP)
    argosy.evaluate(done.run_dir, episodes=2)
    long = quick(tmp_path, wrap=WRAP, trainer={**QUICK["trainer"], "step_per_epoch": 1000})
    assert any("stat/bonus_mean" in row for row in read_jsonl(RunFolder.find(long.run_dir).metrics))
