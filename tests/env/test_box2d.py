"""The Box2D family; skipped only where the package is not installed."""

import importlib.util

import pytest

import argosy
from argosy.presets import preset, tuned_families


@pytest.mark.parametrize("algorithm", ["ppo", "sac", "td3"])
def test_presets_of_the_walker(algorithm):
    experiment = preset(algorithm, "BipedalWalker-v3")
    assert "box2d" in tuned_families(algorithm)
    assert experiment.stop.test_return == 300.0
    assert experiment.threads == 0


@pytest.mark.skipif(importlib.util.find_spec("Box2D") is None, reason="the extra box2d")
def test_a_run_of_the_walker(tmp_path):
    sections = {"env": {"num_envs": 2, "test_num_envs": 1, "max_episode_steps": 32}, "net": {"hidden_sizes": (8,)}}
    loop = {"max_epoch": 1, "step_per_epoch": 64, "step_per_collect": 64, "episode_per_test": 1}
    run = argosy.train(
        "ppo",
        "BipedalWalker-v3",
        seed=0,
        runs=tmp_path,
        show_progress=False,
        trainer=loop,
        stop={"episodes": 1},
        **sections,
    )
    assert run.env_steps == 64
