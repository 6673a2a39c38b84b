"""Warm starts: what is taken of another run, what is new, and what is refused."""

import shutil

import numpy as np
import pytest
import torch
from short import QUICK, quick

import argosy
from argosy.cli import main
from argosy.data.datasets import DatasetWriter  # noqa: F401  # the format of the data set below
from argosy.errors import CheckpointError
from argosy.run.folder import RunFolder
from argosy.run.saved import read_file
from argosy.run.warm import warm_start
from argosy.trainer.checkpoint import collectors_of

SHORT = {"max_epoch": 1, "step_per_epoch": 128, "episode_per_test": 2}
ON = {**SHORT, "step_per_collect": 64}
OFF = {**SHORT, "start_steps": 50, "batch_size": 16, "step_per_collect": 4}
RUNS = {
    "ppo": {
        "task": "Pendulum-v1",
        "trainer": ON,
        "net": {"norm_obs": True, "hidden_sizes": (16,)},
        "return_scaling": True,
    },
    "dqn": {"task": "CartPole-v1", "trainer": OFF},
    "sac": {"task": "Pendulum-v1", "trainer": OFF},
    "td3": {"task": "Pendulum-v1", "trainer": OFF},
}  # fmt: skip


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder of a short run of each algorithm; made when it is asked for."""
    made = {}

    def run_of(name):
        if name not in made:
            made[name] = RunFolder.find(quick(tmp_path_factory.mktemp("runs"), name, **RUNS[name]).run_dir)
        return made[name]

    return run_of


def fresh(name, **changes):
    """The algorithm of a new run, with another seed."""
    settings = {**QUICK, **RUNS[name], **changes}
    trainer = argosy.build(argosy.preset(name, settings.pop("task"), seed=77, **settings))
    for collector in collectors_of(trainer).values():
        collector.env.close()
    return trainer.algorithm


def same(module, saved):
    """Whether a network has saved numbers, but for its exploration."""
    own = {key: value for key, value in module.state_dict().items() if "exploration" not in key}
    return bool(own) and all(value.equal(saved[key]) for key, value in own.items())


@pytest.mark.parametrize(
    ("name", "networks", "beside"),
    [
        ("ppo", [], []),
        ("dqn", ["policy_target"], []),
        ("sac", ["critic", "critic_target"], ["log_alpha"]),
        ("td3", ["policy_target", "critic", "critic_target"], []),
    ],
)
def test_a_run_s_checkpoint_gives_the_policy_and_what_of_the_algorithm_fits(name, networks, beside, runs):
    saved = read_file(runs(name).checkpoint).algorithm
    before = fresh(name)
    assert not same(before.policy, saved["policy"])
    algorithm = fresh(name, init=str(runs(name).path))
    for network in ("policy", *networks):
        assert same(getattr(algorithm, network), saved[network]), network
    if name == "ppo":
        assert algorithm.policy.value_head.statistics.mean != 0.0
    if "log_alpha" in beside:
        assert algorithm.log_alpha.item() == saved["log_alpha"].item() != before.log_alpha.item()
    assert (algorithm.policy.version, algorithm.num_updates) == (-1, 0)
    # New are optimisers and exploration: as in a run that begins with nothing
    for part, state in before.parts().items():
        if "optim" in part:
            assert str(algorithm.parts()[part].state_dict()) == str(state.state_dict())
    if algorithm.policy.exploration is not None:
        extra = algorithm.policy.exploration.get_extra_state()
        assert extra.equal(before.policy.exploration.get_extra_state())


@pytest.mark.parametrize(("name", "targets"), [("dqn", ["policy_target"]), ("td3", ["policy_target"]), ("sac", [])])
def test_a_policy_s_file_gives_the_policy_and_its_targets(name, targets, runs):
    algorithm = fresh(name)
    before = {key: value.clone() for key, value in algorithm.critic.state_dict().items()} if name != "dqn" else {}
    report = warm_start(algorithm, runs(name).best_policy)
    saved = read_file(runs(name).best_policy).checkpoint["state_dict"]
    for network in ("policy", *targets):
        assert same(getattr(algorithm, network), saved)
    assert set(targets) <= set(report.taken)
    if before:  # critics begin anew, and their targets with them
        assert same(algorithm.critic, before)
        assert same(algorithm.critic_target, before)
        assert {"critic", "critic_target"} <= set(report.new)
    assert str(report).endswith("optimisers")


def test_after_imitation_the_value_function_is_new(runs, tmp_path):
    pytest.importorskip("h5py")
    argosy.collect_data(runs("ppo").path, tmp_path / "data.hdf5", steps=100)
    net = {"norm_obs": True, "hidden_sizes": (16,), "activation": "tanh"}
    imitator = quick(tmp_path, "bc", "Pendulum-v1", data=str(tmp_path / "data.hdf5"), net=net, env={}, trainer={
        "max_epoch": 1, "step_per_epoch": 20, "batch_size": 16, "episode_per_test": 1,
    })  # fmt: skip
    algorithm = fresh("ppo", net=net)
    report = warm_start(algorithm, imitator.run_dir)
    assert report.taken[:3] == ["policy.normaliser", "policy.actor", "policy.action_head"]
    assert {"policy.critic", "policy.value_head"} <= set(report.new)
    obs = np.random.default_rng(0).uniform(-1, 1, (9, 3)).astype(np.float32)
    latest = argosy.load(imitator.run_dir, tag="latest")
    np.testing.assert_allclose(algorithm.policy.predict(obs)[0], latest.predict(obs)[0], rtol=1e-6)


def test_a_run_that_begins_so_goes_on_without_the_other(runs, tmp_path, capsys):
    other = RunFolder(shutil.copytree(runs("dqn").path, tmp_path / "other"))
    result = quick(tmp_path / "runs", **RUNS["dqn"], init=other.path)
    folder = RunFolder.find(result.run_dir)
    assert folder.experiment().init == str(other.path)
    shutil.rmtree(other.path)
    assert argosy.resume(result.run_dir, show_progress=False, total_steps=192).env_steps == 192
    with pytest.raises(CheckpointError, match="there is no run"):
        quick(tmp_path / "runs", **RUNS["dqn"], init=other.path)


def test_a_wrapped_algorithm_is_looked_into_on_both_sides(tmp_path):
    result = quick(tmp_path, wrap=("bonus:CountBonus(scale=0.5)",))
    latest = argosy.load(result.run_dir, tag="latest")
    algorithm = fresh("dqn", wrap=("bonus:CountBonus",), init=result.run_dir)
    assert same(algorithm.policy, latest.state_dict())
    saved = read_file(RunFolder.find(result.run_dir).checkpoint).algorithm
    assert same(algorithm.inner.policy_target, saved["policy_target"])
    assert algorithm.counts.sum() == 0


def test_the_command_says_what_is_taken(runs, tmp_path, capsys):
    flags = ["--net.hidden-sizes=16", "--env.num-envs=2", "--trainer.max-epoch=1", "--trainer.step-per-epoch=128",
             "--trainer.start-steps=50", "--stop.episodes=2", f"--runs={tmp_path}"]  # fmt: skip
    command = ["train", "dqn", "--task=CartPole-v1", f"--init={runs('dqn').path}", *flags]
    assert main(command) == 0
    printed = capsys.readouterr()
    assert f"  init     {runs('dqn').path}\n" in printed.out
    taken = "init: policy.backbone, policy.head, policy_target from"
    assert f"{taken} {runs('dqn').checkpoint}; new: optimisers\n" in printed.err
    assert main([flag.replace("sizes=16", "sizes=24") for flag in command]) == 2
    assert "give both runs the same network (net)" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "changes", "source", "message"),
    [
        ("dqn", {"net": {"hidden_sizes": (24,)}}, "dqn", r"policy\.backbone: backbone\.\S+ has shape \(4, 16\) there"),
        ("dqn", {"net": {"hidden_sizes": (16,), "memory": "gru", "norm_obs": False}}, "dqn",
         r"another policy\.backbone: .* is only here"),
        ("dqn", {"net": {"hidden_sizes": (16,), "activation": "tanh"}}, "dqn",
         r"another policy\.backbone: ReLU there, Tanh here; give both runs the same network"),
        ("dqn", {"dueling": True}, "dqn", r"another policy\.(head|backbone): .* is only"),
        ("dqn", {"task": "Acrobot-v1"}, "dqn", r"was trained on observations of Box.*, this run's are of Box"),
        ("dqn", {"task": "MountainCar-v0"}, "dqn", "was trained on observations of"),
        ("ppo", {"net": {"hidden_sizes": (16,)}}, "ppo",
         r"normalises observations, this one does not; set net\.norm_obs"),
        ("ppo", {"task": "CartPole-v1", "net": {"hidden_sizes": (16,)}}, "dqn",
         r"nothing of the policy in init .* fits: it has backbone, head"),
        ("td3", {"task": "MountainCarContinuous-v0"}, "sac", "was trained on observations of"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused_by_name(name, changes, source, message, runs):
    with pytest.raises(CheckpointError, match=message):
        fresh(name, **changes, init=str(runs(source).path))


def test_a_policy_that_acts_otherwise_by_the_same_numbers_is_told(tmp_path, recwarn):
    pytest.importorskip("h5py")
    net, trainer = {"hidden_sizes": (16,)}, {"max_epoch": 1, "step_per_epoch": 20, "episode_per_test": 1}
    argosy.collect_data(quick(tmp_path, "sac", **RUNS["sac"]).run_dir, tmp_path / "data.hdf5", steps=300)
    settings = {"data": str(tmp_path / "data.hdf5"), "net": net, "env": {}, "trainer": trainer}
    clone = quick(tmp_path, "bc", "Pendulum-v1", **settings)
    recwarn.clear()
    quick(tmp_path, "bc", "Pendulum-v1", **settings, init=clone.run_dir)
    assert not recwarn.list
    quick(tmp_path, "iql", "Pendulum-v1", **settings, init=clone.run_dir)  # bounds its mean
    (told,) = recwarn.list
    assert "acts otherwise here, though its numbers were taken" in str(told.message)


def test_actions_must_mean_the_same(runs, tmp_path):
    algorithm = fresh("sac")
    algorithm.policy.action_space = type(algorithm.policy.action_space)(-1, 1, (1,))
    before = algorithm.policy.state_dict()["head.weight"].clone()
    with pytest.raises(CheckpointError, match=r"was trained to act in Box\(-2.0, 2.0, .*, this run acts in Box\(-1"):
        warm_start(algorithm, runs("sac").path)
    assert algorithm.policy.state_dict()["head.weight"].equal(before)
    assert torch.is_grad_enabled()
