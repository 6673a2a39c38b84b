"""Policies with a state: the fleet carries it, checked by value, and a GRU learns what needs memory."""

import dataclasses
import functools

import pytest
import torch
from memory import CheckSums, Memory, Recall, addends_game, recall_game
from policies import SumPolicy

from argosy.algorithm import PPO, PPOConfig
from argosy.collect import Collector
from argosy.data import VectorReplayBuffer
from argosy.distributed import (
    ActorGroup,
    AgentSpec,
    EvalGroup,
    Fleet,
    FleetRun,
    FleetStop,
    PolicySpec,
    Resources,
    RestartConfig,
)
from argosy.env import DummyVectorEnv, register, registered_environments
from argosy.presets import preset
from argosy.trainer import OnpolicyTrainer

for game, make in {"recall": recall_game, "addends": addends_game}.items():
    if game not in registered_environments():
        register(game, make)

LITTLE = Resources(num_cpus=0.1)
KINDS = ["inline", "shared", "ray"]
SETTINGS = {"lr": 1e-2, "entropy_coef": 0.01, "batch_size": 128, "repeat_per_collect": 4, "gamma": 0.9}


def fleet(task, policy, stop, *, inference, steps, num_envs, algorithm=None, args=None, env_args=None, episodes=0):
    experiment = preset("ppo", "CartPole-v1", seed=1, trainer={"step_per_collect": steps * num_envs}, **SETTINGS)
    spec = PolicySpec(
        experiment=dataclasses.replace(experiment, task=task),
        policy=policy,
        args=args or {},
        algorithm=algorithm,
        workers=int(inference != "inline"),
        trainer_resources=LITTLE,
        worker_resources=LITTLE,
    )
    return Fleet(
        name="memory",
        policies={"p": spec},
        env_args=env_args or {},
        agents=(AgentSpec(policy="p", sample_steps=steps, inference=inference),),
        actors=ActorGroup(num_envs=num_envs, resources=LITTLE),
        evaluation=EvalGroup(num_envs=20, episodes=max(episodes, 1), resources=LITTLE, count=int(episodes > 0)),
        restart=RestartConfig(budget=0),
        stop=stop,
    )


def carry_state(inference, folder, launcher=None):
    stop = FleetStop(updates=20, wall_s=60)
    description = fleet("addends", SumPolicy, stop, algorithm=CheckSums, inference=inference, steps=16, num_envs=4)
    with FleetRun(description, folder, launcher, interval_s=0.1) as run:
        *_, last = run
    assert last.reason == "updates reached", run.supervisor.failures
    assert not run.supervisor.failures


@pytest.mark.parametrize("inference", KINDS)
def test_state_is_what_it_must_be(inference, tmp_path):
    """In 1,280 steps every stored state, and every action made of it, is the sum of what the episode has shown."""
    carry_state(inference, tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("inference", KINDS)
def test_state_is_what_it_must_be_between_processes(inference, ray_launcher, tmp_path):
    carry_state(inference, tmp_path / "run", ray_launcher)


class Still(PPO):
    """Learns so slowly that its parameters stay as they are, of a policy to which its memory matters."""

    stats = None

    def __init__(self, config, policy):
        super().__init__(config, policy)
        with torch.no_grad():
            policy.action_head.output.weight.mul_(300.0)

    def update(self, batch):
        stats = super().update(batch)
        Still.stats.append(stats)
        return stats


@pytest.mark.parametrize("done", [False, True], ids=["", "send_after_done"])
@pytest.mark.parametrize("burn_in", [0, 4])
@pytest.mark.parametrize("kind", ["gru", "lstm"])
def test_states_are_made_of_observations_that_there_were(kind, burn_in, done, tmp_path):
    """Right after acting, with the same parameters, every stored action is as likely as it was."""
    Still.stats = []
    net = {"memory": kind, "memory_size": 8, "sequence_length": 5, "burn_in": burn_in, "norm_obs": False}
    experiment = preset(
        "ppo", "CartPole-v1", seed=1, trainer={"step_per_collect": 128}, net=net,
        lr=1e-30, batch_size=64, repeat_per_collect=1,
    )  # fmt: skip
    spec = PolicySpec(experiment=dataclasses.replace(experiment, task="recall"), algorithm=Still)
    agent = AgentSpec(policy="p", sample_steps=16, burn_in_steps=burn_in, send_after_done=done)
    description = Fleet(
        name="still",
        policies={"p": spec},
        agents=(agent,),
        env_args={"steps": 21},
        actors=ActorGroup(num_envs=4),
        evaluation=EvalGroup(count=0),
        stop=FleetStop(updates=6, wall_s=40),
    )
    with FleetRun(description, tmp_path / "run", interval_s=0.1) as run:
        *_, last = run
    assert last.reason == "updates reached", run.supervisor.failures
    assert len(Still.stats) >= 6
    for stats in Still.stats:
        assert abs(stats.approx_kl) < 5e-8  # what rounding leaves of 0
        assert stats.clip_fraction == 0


def local_return(seed, steps, **lengths):
    train_env, test_env = (DummyVectorEnv([functools.partial(Recall, steps)] * n) for n in (16, 20))
    torch.manual_seed(seed)
    policy = Memory(train_env.single_observation_space, train_env.single_action_space, **lengths)
    algorithm = PPO(PPOConfig(**SETTINGS), policy)
    algorithm.seed(seed)
    trainer = OnpolicyTrainer(
        algorithm=algorithm,
        train_collector=Collector(policy, train_env, VectorReplayBuffer(512, 16), exploration_noise=True, seed=seed),
        test_collector=Collector(policy, test_env, seed=seed + 1),
        max_epoch=60,
        step_per_epoch=1024,
        step_per_collect=512,
        episode_per_test=100,
        stop_fn=lambda mean: mean >= 0.95,
        verbose=False,
        show_progress=False,
    )
    return trainer.run().best_reward


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize(("length", "burn_in"), [(32, 0), (8, 8)])
def test_a_gru_learns_to_remember_for_20_steps(seed, length, burn_in):
    assert local_return(seed, 20, sequence_length=length, burn_in=burn_in) >= 0.95


@pytest.mark.slow
def test_that_takes_gradients_through_time():
    assert local_return(0, 20, sequence_length=1) < 0.8


def learn(inference, folder, launcher=None):
    description = fleet(
        "recall",
        Memory,
        FleetStop(return_mean={"p": 0.95}, wall_s=100),
        inference=inference,
        steps=32,
        num_envs=16,
        args={"sequence_length": 16, "burn_in": 8},
        env_args={"steps": 12},
        episodes=100,
    )
    with FleetRun(description, folder, launcher, interval_s=0.2) as run:
        *_, last = run
    print(inference, last.wall_s, dict(last.updates))
    assert last.reason == "return reached", (last.evaluations, run.supervisor.failures)


@pytest.mark.slow
@pytest.mark.parametrize("inference", KINDS)
def test_a_fleet_learns_to_remember(inference, tmp_path):
    learn(inference, tmp_path / "run")


@pytest.mark.slow
def test_a_fleet_of_processes_learns_to_remember(ray_launcher, tmp_path):
    learn("shared", tmp_path / "run", ray_launcher)
