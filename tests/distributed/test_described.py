"""What an experiment says is obeyed by a fleet, or refused by name."""

import json
import os
import socket
import tempfile
import warnings
from dataclasses import replace

import pytest
import torch
from bitflip import BitFlip
from bonus import CountBonus, SeesThreads

import argosy
from argosy.algorithm import register_algorithm_wrapper
from argosy.cli import main
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec, Snapshot
from argosy.distributed.folder import FolderClaim
from argosy.distributed.roles import Plan
from argosy.distributed.snapshot import Rates
from argosy.env import register
from argosy.errors import ConfigError
from argosy.logger import read_jsonl
from argosy.presets import preset
from argosy.process import num_cores

register("bits", BitFlip)
register_algorithm_wrapper("count-bonus", CountBonus)
register_algorithm_wrapper("sees-threads", SeesThreads)
BUFFERS = [{"hindsight": {"future_k": 4.0, "horizon": 6}}, {"device": "cpu"}, {"storage_dir": "disk"}]
TINY = {"start_steps": 16, "step_per_epoch": 64, "step_per_collect": 4, "batch_size": 16, "episode_per_test": 1}
SHORT = {"start_steps": 32, "update_per_step": 0.1, "batch_size": 16}


def fleet(experiment, **changes):
    settings = {
        "name": "test",
        "policies": {"p": PolicySpec(experiment=experiment)},
        "agents": (AgentSpec(policy="p", sample_steps=4),),
        "actors": ActorGroup(num_envs=4),
        "evaluation": EvalGroup(num_envs=2, episodes=2),
        "stop": FleetStop(updates=5, wall_s=90),
    }
    return Fleet(**settings | changes)


def both_launchers(name, values):
    """Each value in threads and on Ray, where those after the first take too long for every day."""
    rare = [pytest.param(value, "ray", marks=pytest.mark.slow) for value in values[1:]]
    cases = [*((value, "threads") for value in values), (values[0], "ray"), *rare]
    return pytest.mark.parametrize((name, "launcher"), cases, indirect=["launcher"])


@both_launchers("buffer", BUFFERS)
def test_a_fleet_keeps_transitions_as_the_experiment_says(buffer, launcher, tmp_path):
    if "storage_dir" in buffer:
        buffer = {"storage_dir": str(tmp_path / "disk")}
    experiment = preset("dqn", "bits", seed=1, trainer=SHORT, buffer=buffer)
    run = FleetRun(fleet(experiment), tmp_path / "run", launcher, interval_s=0.1)
    assert run.run().reason == "updates reached", run.supervisor.failures
    assert (tmp_path / "disk").exists() == ("storage_dir" in buffer)
    assert not run.supervisor.failures


def test_an_own_task_with_arguments_and_a_wrapper_plays_in_a_fleet(launcher, tmp_path):
    env = {"kwargs": {"bits": 3}, "wrappers": ("gymnasium.wrappers:RecordEpisodeStatistics",)}
    experiment = preset("dqn", "bitflip:BitFlip", seed=1, trainer=SHORT, env=env)
    run = FleetRun(fleet(experiment, stop=FleetStop(updates=1, wall_s=90)), tmp_path / "run", launcher, interval_s=0.1)
    assert run.run().reason == "updates reached", run.supervisor.failures
    assert not run.supervisor.failures
    policy = argosy.load(tmp_path / "run", trust=True)
    assert policy.observation_space["observation"].shape == (3,)


class Wanders(BitFlip):
    """Changes the working directory when it is made."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        os.chdir(tempfile.gettempdir())


def test_an_env_may_change_the_working_directory_of_a_fleet(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    argosy.train("dqn", "bits", runs="runs", show_progress=False, trainer=TINY, stop={"episodes": 1}, total_steps=64)
    (begun,) = (tmp_path / "runs").glob("*/dqn/*")
    experiment = preset("dqn", Wanders, seed=1, trainer=SHORT, init=str(begun.relative_to(tmp_path)))
    run = FleetRun(fleet(experiment), "fleet", interval_s=0.1)
    assert run.run().reason == "updates reached", run.supervisor.failures
    names = {file.name for file in (tmp_path / "fleet").iterdir()}
    assert {"fleet.json", "status.json", "agents.json", "parameters", "trainer.p.0.safetensors"} < names
    monkeypatch.chdir(tmp_path)
    assert argosy.load("fleet", trust=True).action_space.n == 6


@both_launchers("algorithm", ["dqn", "ppo"])
def test_a_wrapped_algorithm_learns_in_a_fleet(algorithm, launcher, tmp_path):
    trainer = SHORT if algorithm == "dqn" else {"step_per_collect": 64}
    wrap = ("count-bonus(scale=0.5)",)
    experiment = preset(algorithm, "CartPole-v1", seed=1, trainer=trainer, wrap=wrap)
    run = FleetRun(fleet(experiment), tmp_path / "run", launcher, interval_s=0.1)
    last = run.run()
    assert last.reason == "updates reached", run.supervisor.failures
    assert last.workers["trainer.p.0"]["stat/bonus_mean"] > 0


def test_several_trainers_are_curious_together(launcher, tmp_path):
    """Gradients of the wrapper's networks are averaged, its statistics pooled: nobody waits for ever."""
    wrap = ("rnd(batch_size=8)",)
    experiment = preset("ppo", "CartPole-v1", seed=1, trainer={"step_per_collect": 64}, wrap=wrap)
    policies = {"p": PolicySpec(experiment=experiment, trainers=2)}
    run = FleetRun(fleet(experiment, policies=policies), tmp_path / "run", launcher, interval_s=0.1)
    last = run.run()
    assert last.reason == "updates reached", run.supervisor.failures
    assert not run.supervisor.failures
    assert all(last.workers[f"trainer.p.{rank}"]["stat/bonus_mean"] > 0 for rank in range(2))


PPO = preset("ppo", "CartPole-v1", seed=1, env={"num_envs": 4}, trainer={"step_per_collect": 64})
HERE = {"interval_s": 0.1}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"callbacks": ("x:Y",)}, r"callbacks is \('x:Y',\), which a fleet does not know; .* yields a Snapshot"),
        ({"env.wait_num": 2}, r"env.wait_num is 2, which a fleet does not know; .*ActorGroup\(ring"),
        ({"trainer.checkpoint_epochs": 5}, r"trainer.checkpoint_epochs is 5, .* PolicySpec.save_updates"),
    ],
)
def test_what_only_a_local_run_can_do_is_refused_by_name(changes, message):
    with pytest.raises(ConfigError, match=message):
        PolicySpec(experiment=PPO.replaced(changes))


def test_a_rate_that_falls_to_0_before_the_fleet_ends_is_told_of(tmp_path):
    policies = {"p": PolicySpec(experiment=PPO.replaced({"optim.lr_schedule": "linear", "trainer.total_steps": 5000}))}
    goal = FleetStop(return_mean={"p": 475.0})
    with pytest.warns(
        UserWarning, match=r"optim.lr_schedule of policy 'p' .* trainer.length=5000 steps.*stop.env_steps"
    ):
        Plan.make(Fleet(name="f", policies=policies, stop=goal), tmp_path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Plan.make(Fleet(name="f", policies=policies, stop=replace(goal, env_steps=5000)), tmp_path)
        Plan.make(Fleet(name="f", policies={"p": PolicySpec(experiment=PPO)}, stop=goal), tmp_path)


def test_an_experiment_in_place_of_a_policy_spec_is_named():
    with pytest.raises(ConfigError, match=r"Fleet.policies\['p'\] is of the type Experiment; make it PolicySpec"):
        Fleet(name="f", policies={"p": PPO})


def test_workers_compute_with_as_many_threads_as_the_experiment_says(launcher, tmp_path):
    before = torch.get_num_threads()
    experiment = PPO.replaced({"wrap": ("sees-threads",), "threads": before + 1})  # which nothing else would choose
    last = FleetRun(fleet(experiment), tmp_path / "run", launcher, **HERE).run()
    assert last.workers["trainer.p.0"]["stat/threads"] == before + 1
    assert torch.get_num_threads() == before


def test_a_fleet_is_as_long_as_its_experiment(tmp_path):
    settings = PPO.replaced({"trainer.total_steps": 200, "stop.test_return": None})
    last = FleetRun(fleet(settings, stop=None), tmp_path / "run", **HERE).run()
    assert last.reason == "env_steps reached"
    assert 200 <= last.env_steps["p"] < 10_000  # the preset says 153,600


def test_the_experiment_s_return_ends_a_fleet_once_enough_episodes_confirm_it(tmp_path):
    settings = PPO.replaced({"stop.test_return": 5.0, "stop.episodes": 7})
    run = FleetRun(fleet(settings, stop=FleetStop(wall_s=60)), tmp_path / "run", **HERE)
    assert run.run().reason == "return reached"
    first, confirmed = run.results[:2]
    assert (first.episodes, confirmed.episodes) == (2, 8)  # every env plays equally many
    assert first.version == confirmed.version


def test_returns_that_are_not_confirmed_end_nothing():
    described = fleet(PPO.replaced({"stop.test_return": 5.0, "stop.episodes": 7}))
    assert not described.is_reached("p", 6.0, 2)
    assert described.is_reached("p", 6.0, 7)
    own = fleet(PPO.replaced({"stop.test_return": 5.0}), stop=FleetStop(return_mean={"p": 4.0}))
    assert own.is_reached("p", 4.5, 1)
    assert not fleet(PPO, evaluation=EvalGroup(count=0)).wanted


def test_evaluations_are_as_long_as_the_experiment_s_tests():
    settings = PPO.replaced({"trainer.episode_per_test": 6, "env.test_num_envs": 3})
    described = fleet(settings, evaluation=EvalGroup())
    assert (described.eval_envs, described.eval_episodes) == (3, 6)


def test_evaluation_takes_no_more_than_its_share(tmp_path):
    """A worker rests until it was busy for no more than its part of the time, but for the last evaluation."""
    settings = PPO.replaced({"task": "MountainCar-v0"})  # as far as it gets here, all episodes last equally long
    busy = {}
    for share in (0.02, 1.0):
        group = EvalGroup(num_envs=2, episodes=10, share=share)
        run = FleetRun(fleet(settings, evaluation=group, stop=FleetStop(wall_s=4)), tmp_path / str(share), **HERE)
        last = run.run()
        worker = last.workers["eval.0"]
        each = worker["busy_s"] / max(worker["evaluations"], 1.0)
        busy[share] = worker["busy_s"] / last.wall_s
        if share < 1.0:
            assert worker["busy_s"] <= share * num_cores() * last.wall_s + 2 * each + 0.1
    assert busy[0.02] < busy[1.0] / 2


def test_loggers_of_fleets_are_those_of_runs(tmp_path):
    pytest.importorskip("wandb")
    accumulator = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    settings = PPO.replaced({"logger": {"tensorboard": True, "wandb": "offline"}})
    folder = tmp_path / "run"
    for resume in (False, True):
        stop = FleetStop(updates=6 if resume else 3, wall_s=60)
        FleetRun(fleet(settings, stop=stop), folder, resume=resume, **HERE).run()
    steps = [row["env_step"] for row in read_jsonl(folder / "metrics.jsonl")]
    assert steps == sorted(steps)
    seen = accumulator.EventAccumulator(str(folder / "tensorboard"))
    seen.Reload()
    events = [event.step for event in seen.Scalars("trainer.p.0/updates")]
    assert events == sorted(events)
    assert events[-1] == steps[-1] >= 6 * 64
    assert list((folder / "wandb").glob("offline-run-*"))


FILE = """
from argosy.distributed import *
from argosy.presets import preset
settings = preset("ppo", "CartPole-v1", trainer={"step_per_collect": 128})
names = POLICIES
fleet = Fleet(
    name="mine",
    policies={name: PolicySpec(experiment=settings) for name in names},
    agents=tuple(AgentSpec(policy=name, sample_steps=16) for name in names),
    evaluation=EvalGroup(num_envs=2, episodes=2),
    stop=FleetStop(updates=2, wall_s=60),
)
"""


def launched(tmp_path, *flags, policies='("p",)', capsys=None):
    file = tmp_path / "mine.py"
    file.write_text(FILE.replace("POLICIES", policies))
    code = main(["launch", str(file), "--runs", str(tmp_path / "runs"), *flags])
    return code, capsys.readouterr()


@pytest.fixture
def _no_signals(monkeypatch):
    monkeypatch.setattr("signal.signal", lambda *_: None)


@pytest.mark.usefixtures("_no_signals")
def test_one_policy_closes_with_the_keys_of_a_local_run(tmp_path, capsys):
    code, told = launched(tmp_path, "--in-threads", "--json", capsys=capsys)
    assert code == 0
    closing = json.loads(told.out.splitlines()[-1])
    local = argosy.train(
        "ppo", "CartPole-v1", runs=tmp_path, show_progress=False, stop={"episodes": 2}, env={"num_envs": 2},
        trainer={"total_steps": 64, "step_per_collect": 64, "episode_per_test": 2},
    )  # fmt: skip
    expected = json.loads(local.to_json())
    assert list(closing)[: len(expected)] == list(expected)
    for key, value in expected.items():
        assert isinstance(closing[key], type(value)), key


@pytest.mark.usefixtures("_no_signals")
def test_a_second_launch_under_one_name_is_refused_before_ray_starts(tmp_path, capsys, monkeypatch):
    assert launched(tmp_path, "--in-threads", "--json", capsys=capsys)[0] == 0

    def starts(*args, **kwargs):
        raise AssertionError("Ray was started")

    monkeypatch.setattr("argosy.distributed.host.ray.RayLauncher", starts)
    code, told = launched(tmp_path, capsys=capsys)
    assert code == 2
    assert "holds a fleet already" in told.err
    claim = FolderClaim(tmp_path / "runs" / "mine", "mine", resume=True)
    try:
        code, told = launched(tmp_path, "--resume", capsys=capsys)
        assert code == 2
        assert "is in use by process" in told.err
    finally:
        claim.release()
    code, told = launched(tmp_path, "--resume", "--name", "other", capsys=capsys)
    assert code == 2
    assert "no fleet to resume" in told.err


def test_a_fleet_whose_driver_died_at_once_is_not_starting(tmp_path, capsys):
    (tmp_path / "gone").mkdir()
    info = {"pid": 2**22 + 1, "host": socket.gethostname()}
    (tmp_path / "gone" / "fleet.json").write_text(json.dumps(info))
    assert main(["fleet", "status", "gone", "--runs", str(tmp_path)]) == 0
    assert capsys.readouterr().out == "gone: its driver is gone\n"


@pytest.mark.usefixtures("_no_signals")
def test_status_lists_all_fleets(tmp_path, capsys):
    runs = str(tmp_path / "runs")
    assert main(["fleet", "status", "--runs", runs]) == 0
    assert "there is no fleet" in capsys.readouterr().out
    for name in ("one", "two"):
        assert launched(tmp_path, "--in-threads", "--name", name, capsys=capsys)[0] == 0
    assert main(["fleet", "status", "--runs", runs]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split() == ["fleet", "steps", "updates", "evaluated", "state"]
    assert {row.split()[0] for row in rows} == {"one", "two"}
    assert all(row.endswith("done (updates reached)") for row in rows)
    assert main(["fleet", "stop", "--runs", runs]) == 2
    assert "which fleet?" in capsys.readouterr().err


def test_a_resumed_fleet_shows_its_true_counts_from_the_first_moment(tmp_path):
    spec = {"p": PolicySpec(experiment=PPO, save_updates=1)}
    first = FleetRun(fleet(PPO, policies=spec), tmp_path / "run", **HERE).run()
    longer = fleet(PPO, policies=spec, stop=FleetStop(updates=9, wall_s=60))
    second = FleetRun(longer, tmp_path / "run", resume=True, **HERE)
    snapshots = list(second)
    second.close()
    assert snapshots[0].updates["p"] >= first.updates["p"] >= 5
    assert snapshots[0].env_steps["p"] >= first.env_steps["p"]
    assert snapshots[0].before_s == pytest.approx(first.wall_s)
    assert snapshots[-1].total_wall_s == pytest.approx(first.wall_s + snapshots[-1].wall_s)


def test_rates_are_of_the_last_ten_seconds():
    def at(second, steps, updates):
        none = {key: {} for key in ("env_steps", "gradient_steps", "evaluations")}
        workers = {"actor.0": {"steps": float(steps)}}
        counts = {"wall_s": float(second), "steps_per_s": 0.0, "updates_per_s": 0.0}
        return Snapshot(**counts, updates={"p": updates}, workers=workers, **none)

    rates = Rates()
    assert rates.of(at(1, 50, 100)) == (50.0, 0.0)  # the updates may be those of an earlier driver
    for second in range(1, 31):  # a rollout of 1000 steps arrives every five seconds
        rates.add(at(second, 1000 * (second // 5), second // 5))
    assert rates.of(at(30, 6000, 6)) == (pytest.approx(200.0), pytest.approx(0.2))
