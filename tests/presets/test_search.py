"""Spaces of searches: every algorithm has one, and a file's ranges are what its settings can hold."""

import numpy as np
import pytest

from argosy import cli
from argosy.algorithm import ALGORITHMS
from argosy.errors import ConfigError, TrustError
from argosy.presets import own_settings, preset, read_sections
from argosy.presets.search import Range, search_space


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_algorithm_has_a_space_whose_ends_it_accepts(algorithm):
    experiment = preset(algorithm, "Taxi-v4")
    space = search_space(experiment)
    rates = [name for name in experiment.settings() if name.rpartition(".")[2] == "lr"]
    assert set(rates) <= space.keys()
    assert ("gamma" in space) == (algorithm != "decision_transformer")  # which knows undiscounted returns only
    for name, where in space.items():
        for value in where.choices or (where.low, where.high):
            experiment.replaced({name: value})


def test_every_shared_range_is_some_algorithm_s():
    used = {name for algorithm in ALGORITHMS for name in search_space(preset(algorithm, "Taxi-v4"))}
    last = {name.rpartition(".")[2] for name in used}
    assert set(read_sections("search.toml")) - {"trainer"} <= last
    assert "trainer.batch_size" in used


def test_target_networks_are_searched_as_they_are_updated():
    copied, soft = (search_space(preset("dqn", task)) for task in ("Taxi-v4", "CartPole-v1"))
    assert "target_update_freq" in copied
    assert "tau" not in copied
    assert "target_update_freq" not in soft
    assert "tau" in soft


def test_a_range_of_whole_numbers_for_a_real_setting_is_one_of_real_numbers():
    space = search_space(
        preset("dqn", "CartPole-v1"), {"gamma": {"low": 0, "high": 1}, "n_step": {"low": 1, "high": 3}}
    )
    assert isinstance(space["gamma"].low, float)
    assert isinstance(space["n_step"].low, int)
    assert 0.5 in space["gamma"]
    assert 2 in space["n_step"]
    assert 2.5 not in space["n_step"]


def test_a_range_of_real_numbers_for_a_whole_setting_is_one_of_whole_numbers():
    own = {"trainer.batch_size": {"low": 32, "high": 1e2, "log": True}, "buffer.size": {"low": 1e4, "high": 1e5}}
    experiment = preset("dqn", "CartPole-v1")
    space = search_space(experiment, own)
    rng = np.random.default_rng(0)
    for name, where in space.items():
        for _ in range(20):
            experiment.replaced({name: where.draw(rng)})
        assert isinstance(where.draw(rng), int)


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"lr": 3}, "the range of lr: a range is { low = 1e-5, high = 1e-2, log = true } or { choices"),
        ({"lr": {"low": 1.0}}, "low = 1e-5"),
        ({"lr": {"low": 1.0, "high": 1.0}}, "low must be < high"),
        ({"lr": {"low": 0.0, "high": 1.0, "log": True}}, "log is for numbers"),
        ({"lr": {"low": 1.0, "high": 2.0, "choices": [1]}}, "or { choices"),
        ({"lr": {"low": 1.0, "hihg": 2.0}}, "hihg"),
        ({"lrr": {"low": 1.0, "high": 2.0}}, "did you mean"),
        ({"lr": {"low": -1.0, "high": 2.0}}, "the range of optim.lr: OptimConfig.lr is -1.0; it must be > 0"),
        ({"trainer": {"batch_size": {"choices": [0]}}}, "must be >= 1"),
    ],
)
def test_what_is_no_range_is_refused(own, said):
    with pytest.raises(ConfigError) as error:
        search_space(preset("dqn", "CartPole-v1"), own)
    assert said in str(error.value)


def test_files_of_ones_own(tmp_path, capsys):
    file = tmp_path / "mine.toml"
    file.write_text("n_step = 2\noptim.lr = 0.5\n[env]\nnum_envs = 3\n")
    experiment = preset("dqn", "CartPole-v1", **own_settings(file))
    assert (experiment.config.n_step, experiment.config.optim.lr, experiment.env.num_envs) == (2, 0.5, 3)
    assert cli.main(["train", "dqn", "--task", "CartPole-v1", "--preset", str(file), "--help"]) == 0
    assert f"and {file}" in capsys.readouterr().out
    file.write_text('net.encoder = "evil:Code"\n')
    with pytest.raises(TrustError, match="'evil:Code'"):
        own_settings(file)
    assert cli.main(["train", "dqn", "--task", "CartPole-v1", "--preset", str(file)]) == 2
    file.write_text('task = "Pendulum-v1"\n')
    with pytest.raises(ConfigError, match="holds task; it can hold settings only"):
        own_settings(file)
    (tmp_path / "x.json").write_text("[1]")
    with pytest.raises(ConfigError, match="settings are an object"):
        own_settings(tmp_path / "x.json")
    with pytest.raises(ConfigError, match="is not a readable TOML file"):
        own_settings(tmp_path / "none")


def test_a_range_holds_choices():
    assert 3 in Range(choices=(3, 4))
    assert 5 not in Range(choices=(3, 4))
