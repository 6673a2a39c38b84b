"""What an experiment says is obeyed by a fleet, or refused by name."""

import pytest
from bitflip import BitFlip
from bonus import CountBonus

from argosy.algorithm import register_algorithm_wrapper
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec
from argosy.env import register
from argosy.presets import preset

register("bits", BitFlip)
register_algorithm_wrapper("count-bonus", CountBonus)
SHORT = {"start_steps": 32, "update_per_step": 0.1, "batch_size": 16}


def fleet(experiment, **changes):
    settings = {
        "name": "test",
        "policies": {"p": PolicySpec(experiment=experiment)},
        "agents": (AgentSpec(policy="p", sample_steps=4),),
        "actors": ActorGroup(num_envs=4),
        "evaluation": EvalGroup(num_envs=2, episodes=2),
        "stop": FleetStop(updates=5, wall_s=30),
    }
    return Fleet(**settings | changes)


@pytest.mark.parametrize(
    "buffer", [{"hindsight": {"future_k": 4.0, "horizon": 6}}, {"device": "cpu"}, {"storage_dir": "disk"}]
)
def test_a_fleet_keeps_transitions_as_the_experiment_says(buffer, launcher, tmp_path):
    if "storage_dir" in buffer:
        buffer = {"storage_dir": str(tmp_path / "disk")}
    experiment = preset("dqn", "bits", seed=1, trainer=SHORT, buffer=buffer)
    run = FleetRun(fleet(experiment), tmp_path / "run", launcher, interval_s=0.1)
    folders, last = 0, None
    with run:
        for snapshot in run:
            folders, last = max(folders, len(list((tmp_path / "disk").glob("*")))), snapshot
    assert last.reason == "updates reached", run.supervisor.failures
    assert folders == ("storage_dir" in buffer)
    assert not run.supervisor.failures


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_wrapped_algorithm_learns_in_a_fleet(algorithm, launcher, tmp_path):
    trainer = SHORT if algorithm == "dqn" else {"step_per_collect": 64}
    wrap = ("count-bonus(scale=0.5)",)
    experiment = preset(algorithm, "CartPole-v1", seed=1, trainer=trainer, wrap=wrap)
    run = FleetRun(fleet(experiment), tmp_path / "run", launcher, interval_s=0.1)
    last = run.run()
    assert last.reason == "updates reached", run.supervisor.failures
    assert last.workers["trainer.p.0"]["stat/bonus_mean"] > 0
