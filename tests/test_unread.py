"""Settings that nothing reads are told by name."""

import warnings

import pytest

import argosy
from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.distributed import AgentSpec, Fleet, FleetRun, FleetStop, PolicySpec
from argosy.presets import preset
from argosy.unread import unread, warn_of_unread


def task_of(algorithm):
    return "Pendulum-v1" if algorithm in ("sac", "td3", "cql", "td3_bc") else "CartPole-v1"


@pytest.mark.parametrize(
    ("algorithm", "changes", "name"),
    [
        ("ppo", {"net.memory_size": 32}, "net.memory_size"),
        ("ppo", {"net.sequence_length": 8}, "net.sequence_length"),
        ("ppo", {"net.burn_in": 4}, "net.burn_in"),
        ("ppo", {"net.cnn_features": 32}, "net.cnn_features"),
        ("ppo", {"net.kind": "mlp"}, "net.kind"),
        ("dqn", {"net.shared_backbone": True}, "net.shared_backbone"),
        ("psrl", {"net.norm_obs": True}, "net.norm_obs"),
        ("dqn", {"net.encoder": "line:Line", "net.cnn_features": 32}, "net.cnn_features"),
        ("ppo", {"env.frame_stack": 2}, "env.frame_stack"),
        ("ppo", {"env.reward_clip": False}, "env.reward_clip"),
        ("ppo", {"env.full_action_space": True}, "env.full_action_space"),
        ("ppo", {"env.envs_per_worker": 2}, "env.envs_per_worker"),
        ("ppo", {"env.hang_timeout_s": 5.0}, "env.hang_timeout_s"),
        ("dqn", {"buffer.priority.beta": 0.7}, "buffer.priority.beta"),
        ("dqn", {"buffer.hindsight.horizon": 10}, "buffer.hindsight.horizon"),
        ("dqn", {"logger.wandb_project": "mine"}, "logger.wandb_project"),
        ("dqn", {"munchausen_tau": 0.1}, "munchausen_tau"),
        ("sac", {"auto_alpha": False, "alpha_optim.lr": 0.1}, "alpha_optim.lr"),
        ("dqn", {"munchausen_alpha": 0.9, "double": False}, "double"),
        ("cql", {"data": "x", "threshold": 1.0}, "threshold"),
        ("cql", {"data": "x", "multiplier_optim.lr": 0.1}, "multiplier_optim.lr"),
        ("cql", {"data": "x", "cloning_updates": 0, "cloning_optim.lr": 0.1}, "cloning_optim.lr"),
        ("sac", {"gsde_log_std_init": -1.0}, "gsde_log_std_init"),
        ("td3_bc", {"data": "x", "noise_std": 0.3}, "exploration.noise_std"),
        ("discrete_bcq", {"data": "x", "eps_start": 0.5}, "exploration.eps_start"),
        ("discrete_crr", {"data": "x", "improvement": "binary", "max_weight": 5.0}, "max_weight"),
        ("dqn", {"optim.kind": "sgd", "optim.betas": (0.8, 0.9)}, "optim.betas"),
        ("dqn", {"optim.kind": "sgd", "optim.eps": 1e-3}, "optim.eps"),
        ("td3", {"ou_theta": 0.3}, "exploration.ou_theta"),
        ("td3", {"noise_decay_steps": 5}, "exploration.noise_decay_steps"),
        ("td3", {"noise": "none", "noise_std": 0.3}, "exploration.noise_std"),
    ],
)
def test_a_setting_that_nothing_reads_is_told(algorithm, changes, name):
    experiment = preset(algorithm, task_of(algorithm), **changes)
    assert list(unread(experiment)) == [name]
    with pytest.warns(UserWarning, match=rf"{name} is .*, but nothing reads it: "):
        warn_of_unread(experiment)


def test_a_run_that_is_shorter_than_a_batch_is_told():
    experiment = preset("dqn", "CartPole-v1", trainer={"total_steps": 50, "start_steps": 0, "batch_size": 64})
    with pytest.warns(UserWarning, match="nothing will be learned: the run has 50 steps, and trainer.batch_size is 64"):
        warn_of_unread(experiment)


def test_an_epoch_that_is_shorter_than_a_rollout_is_told():
    with pytest.warns(UserWarning, match=r"the same policy will be tested several times: .* 512 steps .* 2,048"):
        warn_of_unread(preset("ppo", "CartPole-v1", trainer={"step_per_epoch": 512, "step_per_collect": 2048}))


def test_a_run_that_is_shorter_than_a_rollout_is_told():
    experiment = preset("ppo", "CartPole-v1", trainer={"total_steps": 300, "step_per_collect": 1024})
    with pytest.warns(UserWarning, match="300 steps, but a rollout, trainer.step_per_collect, 1,024"):
        warn_of_unread(experiment)


@pytest.mark.parametrize(
    ("trainer", "told"),
    [
        ({"max_epoch": 4}, "only imitate the data: cloning_updates is 20,000, the updates from the data are 20,000"),
        ({"offline_updates": 5_000}, "only imitate the data, and go on with it in the env: cloning_updates .* 5,000"),
    ],
)
def test_a_run_that_only_imitates_the_data_is_told(trainer, told):
    experiment = preset("cql", "Hopper-v5", data="x", trainer=trainer)
    with pytest.warns(UserWarning, match=told):
        warn_of_unread(experiment)


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("ppo", {"net.memory": "gru", "net.memory_size": 32, "net.sequence_length": 8}),
        ("ppo", {"net.shared_backbone": True}),
        ("ppo", {"env.vector": "shmem", "env.envs_per_worker": 2, "env.hang_timeout_s": 5.0}),
        ("dqn", {"buffer.priority.alpha": 0.6, "buffer.priority.beta": 0.7}),
        ("dqn", {"optim.kind": "rmsprop", "optim.eps": 1e-3}),
        ("td3", {"noise": "ou", "ou_theta": 0.3}),
        ("td3", {"data": "x", "noise_std": 0.3}),  # as presets say it
        ("td3_bc", {"data": "x", "trainer.offline_updates": 10, "noise_std": 0.3}),
        ("discrete_bcq", {"data": "x", "eps_test": 0.01}),
    ],
)
def test_what_is_read_is_not(algorithm, changes):
    assert unread(preset(algorithm, task_of(algorithm), **changes)) == {}


@pytest.mark.parametrize("name", ALGORITHMS)
def test_presets_say_nothing_in_vain(name):
    discrete = any(space.__name__ == "Discrete" for space in algorithm_class(name).action_spaces)
    for task in ["CartPole-v1", "Pong-v5"] if discrete else ["Pendulum-v1", "HalfCheetah-v5"]:
        assert unread(preset(name, task)) == {}


def test_runs_and_fleets_warn(tmp_path):
    changes = {
        "buffer": {"priority": {"beta": 0.7}},
        "trainer": {"max_epoch": 1, "step_per_epoch": 20, "start_steps": 5},
    }
    experiment = preset("dqn", "CartPole-v1", **changes, stop={"episodes": 1})
    with pytest.warns(UserWarning, match=r"buffer\.priority\.beta is 0\.7, but nothing reads it"):
        argosy.train(experiment, runs=tmp_path, show_progress=False)
    fleet = Fleet(
        name="f",
        policies={"p": PolicySpec(experiment=experiment)},
        agents=(AgentSpec(policy="p"),),
        stop=FleetStop(updates=1),
    )
    with pytest.warns(UserWarning, match=r"buffer\.priority\.beta is 0\.7, but nothing reads it"):
        FleetRun(fleet, tmp_path / "fleet").close()


def test_a_run_without_such_settings_is_silent(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warn_of_unread(preset("dqn", "CartPole-v1"))
        warn_of_unread(preset("cql", "Hopper-v5", data="x", trainer={"offline_updates": 20_001}))
