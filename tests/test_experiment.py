"""Experiments: written, read, changed by name, refused by name."""

import json
import typing

import pytest

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.data import Priority
from argosy.env import EnvConfig
from argosy.errors import ConfigError
from argosy.experiment import BufferConfig, Experiment, StopConfig, TrainerConfig
from argosy.presets import preset


def test_a_saved_experiment_is_loaded_equal(tmp_path):
    experiment = preset("dqn", "CartPole-v1", seed=3, lr=5e-4, net={"hidden_sizes": (32, 16)})
    experiment.save(tmp_path / "config.json")
    assert Experiment.load(tmp_path / "config.json") == experiment
    assert json.loads((tmp_path / "config.json").read_text())["config"]["optim"]["lr"] == 5e-4


def test_settings_are_named_as_flags_are():
    experiment = preset("dqn", "CartPole-v1")
    changed = experiment.replaced({"lr": 1, "env": {"num_envs": 3}, "trainer.max_epoch": 2, "seed": 7})
    assert changed.config.optim.lr == 1.0
    assert (changed.env.num_envs, changed.trainer.max_epoch, changed.seed) == (3, 2, 7)
    assert changed.env.test_num_envs == experiment.env.test_num_envs
    assert experiment.replaced({"env": EnvConfig(num_envs=2)}).env == EnvConfig(num_envs=2)


def test_settings_need_no_section_where_only_one_has_them():
    dqn = preset("dqn", "CartPole-v1", lr=2e-3, eps_end=0.5)
    assert (dqn.config.optim.lr, dqn.config.exploration.eps_end) == (2e-3, 0.5)
    assert dqn == preset("dqn", "CartPole-v1", **{"optim.lr": 2e-3}, exploration={"eps_end": 0.5})
    with pytest.raises(
        ConfigError, match=r"'lr' of sac may be actor_optim.lr or critic_optim.lr or alpha_optim.lr; say"
    ):
        preset("sac", "Pendulum-v1", lr=1e-3)
    assert preset("sac", "Pendulum-v1", **{"actor_optim.lr": 2e-3}).config.actor_optim.lr == 2e-3


def test_replay_by_priority_is_a_setting():
    """Uniform unless alpha is set; the whole of it is written and read with the experiment."""
    experiment = preset("dqn", "CartPole-v1")
    assert experiment.buffer.make(2, seed=0).priorities is None
    changed = experiment.replaced({"buffer": {"priority": {"alpha": 0.7, "beta_final": 1.0}}})
    assert Experiment.from_dict(changed.to_dict()) == changed
    assert changed.buffer.make(2, seed=0).priorities.config == Priority(alpha=0.7, beta_final=1.0)
    with pytest.raises(ConfigError, match=r"buffer.size is 3, less than one transition for each of 4 envs"):
        BufferConfig(size=3).make(4, seed=0)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"lrr": 1}, r"unknown setting 'lrr' for dqn: did you mean 'lr'\?"),
        ({"num_envs": 1}, r"unknown setting 'num_envs' for dqn: did you mean 'env.num_envs'\?"),
        ({"env": {"nmu_envs": 1}}, r"did you mean 'env.num_envs'\?"),
        ({"env.num_envs": 0}, r"EnvConfig.num_envs is 0; it must be >= 1"),
        ({"buffer": {"size": 0}}, r"BufferConfig.size is 0; it must be >= 1"),
        ({"stop.test_return": float("nan")}, r"StopConfig.test_return is nan; it must be a number"),
        ({"algorithm": "ppo"}, r"unknown setting 'algorithm'"),
        ({"lr": "fast"}, r"lr is 'fast'; it must be float"),
        ({"optim.lrr": 1}, r"unknown setting 'optim.lrr' of OptimConfig: did you mean 'optim.lr'"),
        ({"optim.lr": 1e-3, "lr": 1e-2}, r"optim\.lr is given twice, by different names"),
        ({"total_steps": 9, "trainer.total_steps": 8}, r"trainer\.total_steps is given twice"),
    ],
)
def test_unknown_and_bad_settings_are_refused_by_name(changes, message):
    with pytest.raises(ConfigError, match=message):
        preset("dqn", "CartPole-v1").replaced(changes)


def test_names_of_one_setting_go_before_those_of_its_section():
    for changes in ({"lr": 1e-3, "optim": {"lr": 1e-2, "eps": 0.1}}, {"optim": {"lr": 1e-2, "eps": 0.1}, "lr": 1e-3}):
        config = preset("dqn", "CartPole-v1", **changes).config
        assert (config.optim.lr, config.optim.eps) == (1e-3, 0.1)


def test_unknown_algorithm_and_task_offer_the_nearest():
    with pytest.raises(ConfigError, match=r"unknown algorithm 'dqm': did you mean 'dqn'\?"):
        preset("dqm", "CartPole-v1")
    with pytest.raises(ConfigError, match=r"unknown task 'CartPol-v1'; did you mean 'CartPole-v1'\?"):
        preset("dqn", "CartPol-v1")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "is not a readable JSON file"),
        ("[1]", "an experiment is a JSON object"),
        ('{"task": "CartPole-v1"}', "algorithm is None"),
        ('{"algorithm": "dqn"}', "lacks task"),
        (
            '{"task": "CartPole-v1", "algorithm": "dqn", "sed": 1}',
            r"unknown key 'sed' of Experiment: did you mean 'seed'",
        ),
        (
            '{"task": "CartPole-v1", "algorithm": "dqn", "config": {"optim": {"lrr": 1}}}',
            r"unknown key 'config.optim.lrr' of OptimConfig: did you mean 'lr'",
        ),
        ('{"task": "CartPole-v1", "algorithm": "dqn", "format": 99}', "format 99"),
    ],
)
def test_a_bad_config_file_is_refused_by_name(tmp_path, text, message):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(ConfigError, match=message):
        Experiment.load(tmp_path / "config.json")


def test_a_missing_config_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="there is no file"):
        Experiment.load(tmp_path / "config.json")


def test_a_foreign_config_is_refused():
    with pytest.raises(ConfigError, match=r"Experiment.config is a StopConfig; dqn takes a DQNConfig"):
        Experiment(task="CartPole-v1", algorithm="dqn", config=StopConfig())


@pytest.mark.parametrize("field", ["max_epoch", "step_per_epoch", "step_per_collect", "batch_size"])
def test_counts_of_the_loop_are_positive(field):
    with pytest.raises(ConfigError, match=rf"TrainerConfig.{field} is 0; it must be >= 1"):
        TrainerConfig(**{field: 0})


def test_a_run_must_be_longer_than_its_warm_up():
    with pytest.raises(ConfigError, match=r"start_steps is 1000, but the run has only 2 x 500 steps"):
        TrainerConfig(max_epoch=2, step_per_epoch=500, start_steps=1000)


@pytest.mark.parametrize("change", [{"trainer.batch_size": 64}, {"trainer.update_per_step": 1.0}])
def test_settings_that_an_on_policy_algorithm_would_ignore_are_refused(change):
    with pytest.raises(ConfigError, match=r"but ppo learns on-policy"):
        preset("ppo", "CartPole-v1", **change)


def test_a_buffer_holds_something():
    with pytest.raises(ConfigError, match=r"BufferConfig.size is 0"):
        BufferConfig(size=0)


def test_no_setting_of_an_algorithm_hides_one_of_the_experiment():
    own = set(Experiment.__dataclass_fields__) | {"json", "quiet", "debug", "runs"}
    for name in ALGORITHMS:
        assert not own & set(algorithm_class(name).config_type.__dataclass_fields__)


def test_a_device_with_a_number_is_no_code(tmp_path):
    saved = preset("dqn", "CartPole-v1", device="cuda:1", buffer={"device": "cuda:1"})
    (tmp_path / "config.json").write_text(json.dumps(saved.to_dict()))
    assert Experiment.load(tmp_path / "config.json") == saved


def test_the_algorithm_may_be_a_class_and_its_type_says_so():
    from argosy.algorithm import DQN, Algorithm

    experiment = Experiment(task="CartPole-v1", algorithm=DQN, config=DQN.config_type())
    assert experiment == Experiment(task="CartPole-v1", algorithm="dqn", config=DQN.config_type())
    allowed = typing.get_type_hints(Experiment)["algorithm"]
    assert {typing.get_origin(part) or part for part in typing.get_args(allowed)} == {str, type}
    assert type[Algorithm[typing.Any, typing.Any]] in typing.get_args(allowed)
