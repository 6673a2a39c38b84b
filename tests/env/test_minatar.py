"""MinAtar's games by their gymnasium ids; skipped only where the package is not installed."""

import importlib.util
import sys

import numpy as np
import pytest

from argosy.env import EnvConfig, make_vector_env, task_family, task_spaces
from argosy.errors import ConfigError, MissingExtraError
from argosy.net import Backbone, GridCNN, NetConfig
from argosy.presets import preset, tuned_families

GAMES = {"Asterix": (4, 5), "Breakout": (4, 3), "Freeway": (7, 3), "Seaquest": (10, 6), "SpaceInvaders": (6, 4)}
"""Channels and actions."""
TUNED = ("dqn", "c51", "rainbow", "qrdqn", "iqn", "fqf", "ppo", "a2c", "discrete_sac")

installed = pytest.mark.skipif(importlib.util.find_spec("minatar") is None, reason="the extra minatar")


@installed
@pytest.mark.parametrize("game", GAMES)
def test_games_are_grids_that_a_small_cnn_reads(game):
    channels, actions = GAMES[game]
    observation_space, action_space = task_spaces(f"MinAtar/{game}-v1")
    assert (observation_space.shape, observation_space.dtype) == ((10, 10, channels), np.bool_)
    assert action_space.n == actions
    backbone = Backbone(observation_space, NetConfig(cnn_features=128))
    (cnn,) = backbone.encoder.leaves
    assert isinstance(cnn, GridCNN)
    assert cnn.image == (channels, 10, 10)
    assert backbone.out_features == 128


@installed
def test_all_six_actions_and_the_family():
    assert task_spaces("MinAtar/Breakout-v0")[1].n == 6
    assert task_family("MinAtar/Breakout-v1") == "minatar"
    with pytest.raises(ConfigError, match=r"did you mean 'MinAtar/Breakout-v1'\?"):
        task_family("MinAtar/Brekout-v1")


@installed
def test_actions_stick_and_a_seeded_game_knows_nothing_of_the_one_before():
    """The first action of a game may be replaced by the last one: at first that must be none at all."""

    def game(before):
        env = make_vector_env("MinAtar/Breakout-v1", 1, config=EnvConfig(kwargs={"sticky_action_prob": 0.9}))
        env.reset()
        env.step(np.array([before]))
        env.seed(3)
        obs = [env.reset()[0], *(env.step(np.array([1]))[0] for _ in range(4))]
        env.close()
        return np.stack(obs)

    after_nothing, after_right = game(0), game(2)
    assert np.array_equal(after_nothing, after_right)
    paddle = after_right[:, 0, 9, :, 0].argmax(axis=-1)
    assert (np.diff(paddle) == 0).any()  # one of the steps to the left did nothing: the one before it was repeated


@installed
def test_pictures():
    env = make_vector_env("MinAtar/Asterix-v1", 1, seed=0, render_mode="rgb_array")
    env.reset()
    (frame,) = env.render()
    assert (frame.shape, frame.dtype) == ((160, 160, 3), np.uint8)
    assert 0 < (frame > 0).mean() < 1
    env.close()


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "argosy.env.minatar", None)
    monkeypatch.setattr("gymnasium.registry", {})
    with pytest.raises(MissingExtraError, match=r"pip install 'argosy\[minatar\]'"):
        make_vector_env("MinAtar/Breakout-v1", 1)


@pytest.mark.parametrize("algorithm", TUNED)
def test_presets_of_the_games(algorithm):
    """One update per four steps, 500,000 frames; a layer of 128 behind the convolution."""
    experiment = preset(algorithm, "MinAtar/Freeway-v1")
    assert "minatar" in tuned_families(algorithm)
    assert experiment.net.cnn_features == 128
    loop = experiment.trainer
    assert loop.max_epoch * loop.step_per_epoch == 500_000
    if loop.update_per_step is not None:
        assert (loop.update_per_step, experiment.buffer.size) == (0.25, 100_000)
