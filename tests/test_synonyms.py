"""Whoever comes from another library is told what a setting is called here."""

import pytest

import argosy
import argosy.cli
from argosy.algorithm import ALGORITHMS
from argosy.cli.train import Output
from argosy.config import replaced
from argosy.errors import ConfigError
from argosy.presets import preset
from argosy.synonyms import _WORDS, nearest_setting


@pytest.mark.parametrize(
    ("algorithm", "name", "offered"),
    [
        ("dqn", "learning_rate", "'lr'"),
        ("dqn", "total_timesteps", "'trainer.total_steps'"),
        ("ppo", "n_envs", "'env.num_envs'"),
        ("ppo", "env.n_envs", "'env.num_envs'"),
        ("ppo", "discount", "'gamma'"),
        ("ppo", "ent_coef", "'entropy_coef'"),
        ("sac", "ent_coef", "'alpha'"),
        ("ppo", "clip_range", "'clip_ratio'"),
        ("dqn", "buffer_size", "'buffer.size'"),
        ("dqn", "learning_starts", "'trainer.start_steps'"),
        ("dqn", "exploration_final_eps", "'eps_end'"),
        ("dqn", "n_steps", "'n_step'"),
        ("dqn", "minibatch_size", "'trainer.batch_size'"),
        ("ppo", "policy_kwargs", "'net.hidden_sizes'"),
        ("ppo", "tensorboard_log", "'logger.tensorboard'"),
        ("ppo", "clip_vloss", "'value_clip'"),
        ("ppo", "use_sde", "'gsde_steps'"),
        ("ppo", "reward_threshold", "'stop.test_return'"),
        ("sac", "critic_lr", "'critic_optim.lr'"),
        ("sac", "batch_sise", "'trainer.batch_size'"),
        ("sac", "learning_rate", "'actor_optim.lr' or 'alpha_optim.lr' or 'critic_optim.lr'"),
    ],
)
def test_settings(algorithm, name, offered):
    task = "Pendulum-v1" if algorithm == "sac" else "CartPole-v1"
    with pytest.raises(ConfigError) as error:
        argosy.preset(algorithm, task, **{name: 1})

    assert str(error.value).endswith(f"did you mean {offered}?")


@pytest.mark.parametrize(
    ("algorithm", "name"), [("dqn", "ent_coef"), ("dqn", "vf_coef"), ("ppo", "tau"), ("ppo", "exploration_final_eps")]
)
def test_nothing_is_offered_where_nothing_fits(algorithm, name):
    with pytest.raises(ConfigError, match="none is called like it; `argosy train ALGO --help` lists all"):
        argosy.preset(algorithm, "CartPole-v1", **{name: 1})


@pytest.mark.parametrize(
    ("flag", "offered"),
    [
        ("--n-envs=4", "--env.num-envs"),
        ("--learning_rate=1", "--lr"),
        ("--total-timesteps=1", "--trainer.total-steps"),
        ("--optimizer=sgd", "--optim.kind"),
        ("--prioritized=1", "--buffer.priority.alpha"),
    ],
)
def test_flags(flag, offered, capsys):
    assert argosy.cli.main(["train", "dqn", "--task=CartPole-v1", flag]) == 2
    assert f"unknown flag {flag.partition('=')[0]!r}: did you mean {offered!r}?" in capsys.readouterr().err


def test_a_section_is_no_flag(capsys):
    assert argosy.cli.main(["train", "dqn", "--task=CartPole-v1", "--stop=1"]) == 2
    assert "'--stop': it is a section of --stop.episodes, --stop.test-return\n" in capsys.readouterr().err


def test_keys_of_a_section():
    with pytest.raises(ConfigError, match=r"did you mean 'lr'\?"):
        replaced(argosy.DQNConfig().optim, {"learning_rate": 1e-3})


def test_what_is_offered_exists():
    known = set(vars(Output()))
    for name in ALGORITHMS:
        experiment = preset(name, "CartPole-v1" if name in ("dqn", "ppo", "qrdqn", "bc") else "Pendulum-v1")
        known |= {*experiment.setting_names(), *experiment.short_names()}
    for ours in _WORDS:
        assert ours in known or any(name.endswith(f".{ours}") for name in known), ours


def test_without_a_synonym_the_spelling_counts():
    assert nearest_setting("gama", ["gamma", "tau"]) == "did you mean 'gamma'?"
    assert nearest_setting("config.gamma", ["gamma", "tau"]) == "did you mean 'gamma'?"  # as it stands in config.json
    assert (
        nearest_setting("config.temperature", ["buffer.priority.alpha", "temperature"]) == "did you mean 'temperature'?"
    )
