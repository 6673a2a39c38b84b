"""One definition runs at all scales: in one process, in threads and on Ray the losses are the same numbers."""

import functools

import pytest

from argosy.distributed.fleet import Fleet
from argosy.distributed.host.base import Resources, ThreadLauncher
from argosy.distributed.run import FleetRun
from argosy.distributed.specs import AgentSpec, EvalGroup, FleetStop, PolicySpec
from argosy.presets import preset
from argosy.run.build import build
from argosy.trainer.base import EpochRecord

UPDATES = 20
EXPERIMENTS = {
    "ppo": preset("ppo", "CartPole-v1", seed=3, env={"num_envs": 4}, trainer={"step_per_collect": 128}),
    "dqn": preset(
        "dqn",
        "CartPole-v1",
        seed=3,
        trainer={"start_steps": 128, "step_per_collect": 64, "update_per_step": 0.1},
    ),
    "sac": preset(
        "sac",
        "Pendulum-v1",
        seed=3,
        env={"num_envs": 2},
        trainer={"start_steps": 64, "step_per_collect": 32, "update_per_step": 0.1},
    ),
}
EXPERIMENTS |= {f"{name}-norm_obs": one.replaced({"net.norm_obs": True}) for name, one in EXPERIMENTS.items()}
EXPERIMENTS |= {
    f"{name}-memory": EXPERIMENTS[name].replaced(
        {"net": {"memory": "gru", "memory_size": 8, "sequence_length": 8, "burn_in": 4}, "net.norm_obs": True}
    )
    for name in ("ppo", "dqn", "sac")
}


@functools.cache
def local_losses(name):
    trainer = build(EXPERIMENTS[name])
    losses = []
    update = trainer.algorithm.update

    def recorded(batch):
        stats = update(batch)
        losses.append(stats.metrics())
        return stats

    trainer.algorithm.update = recorded
    while len(losses) < UPDATES:
        trainer._training_step(EpochRecord(1))
    trainer.train_collector.env.close()
    trainer.test_collector.env.close()
    return losses[:UPDATES]


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_threads_give_the_local_trainers_losses(name, tmp_path):
    check(name, ThreadLauncher(), tmp_path / "run")


@pytest.mark.parametrize(
    "name", [name if name == "ppo" else pytest.param(name, marks=pytest.mark.slow) for name in EXPERIMENTS]
)
def test_ray_gives_the_local_trainers_losses(name, ray_launcher, tmp_path):
    check(name, ray_launcher, tmp_path / "run")


def check(name, launcher, folder):
    experiment = EXPERIMENTS[name]
    fleet = Fleet(
        name="sync",
        policies={"p": PolicySpec(experiment=experiment, trainer_resources=Resources(num_cpus=0.1))},
        agents=(AgentSpec(policy="p", sample_steps=experiment.trainer.step_per_collect // experiment.env.num_envs),),
        evaluation=EvalGroup(count=0),
        sync=True,
        stop=FleetStop(updates=UPDATES, wall_s=60),
    )
    with FleetRun(fleet, folder, launcher, interval_s=0.2) as run:
        *_, last = run
        assert last.reason == "updates reached", run.supervisor.failures
        history = launcher.connect("trainer.p.0").call("history").result(10)
    for expected, got in zip(local_losses(name), history, strict=False):
        assert got == pytest.approx(expected, abs=1e-6, rel=1e-6)
    assert len(history) >= UPDATES
