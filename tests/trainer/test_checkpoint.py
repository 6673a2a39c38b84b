"""2N steps equal N steps, a checkpoint, a fresh process's worth of new objects, and N steps: bit for bit."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import IO, Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from declared import declared
from gymnasium import spaces
from parts import MemoryLogger, counting, envs, parts

import argosy
from argosy.algorithm import ALGORITHMS, Task, algorithm_class
from argosy.collect import Collector
from argosy.data import Priority, ReplayBuffer, VectorReplayBuffer
from argosy.env import ContinuousToDiscrete, DummyVectorEnv, VectorEnvNormObs
from argosy.errors import CheckpointError
from argosy.policy import RandomPolicy
from argosy.trainer import (
    BaseTrainer,
    OfflineTrainer,
    OffpolicyTrainer,
    OnpolicyTrainer,
    load_checkpoint,
    save_checkpoint,
    statefile,
)

ONLINE = [name for name in ALGORITHMS if algorithm_class(name).kind != "offline"]


def make_trainer(name: str, seed: int = 1, norm: bool = False, max_epoch: int = 4, **buffer: Any) -> BaseTrainer[Any]:
    cls = algorithm_class(name)
    task = "CartPole-v1" if spaces.Discrete in cls.action_spaces else "Pendulum-v1"
    if spaces.Discrete in cls.observation_spaces:
        task = "FrozenLake-v1"

    def make_one() -> Any:
        env = gym.make(task)
        fits = isinstance(env.action_space, cls.action_spaces)
        return env if fits else ContinuousToDiscrete(env, 3)  # a choice of several parts, here of one

    def make_env(count: int) -> Any:
        env = DummyVectorEnv([make_one] * count)
        return VectorEnvNormObs(env) if norm else env

    env, test_env = make_env(3), make_env(2)
    if norm:
        test_env.update_obs_rms = False
    config = cls.config_type(**declared(name, "RESUME"))
    spaces_of = Task(observation_space=env.single_observation_space, action_space=env.single_action_space)
    algorithm = cls.make(config, spaces_of, seed=seed)
    replay = VectorReplayBuffer(180, 3, seed=seed, **buffer)  # small enough to go round within the run
    common: dict[str, Any] = {
        "algorithm": algorithm,
        "train_collector": Collector(algorithm.policy, env, replay, exploration_noise=True, seed=seed),
        "test_collector": Collector(algorithm.policy, test_env, seed=seed + 1),
        "max_epoch": max_epoch,
        "step_per_epoch": 120,
        "episode_per_test": 2,
        "verbose": False,
        "show_progress": False,
    }
    if cls.kind == "onpolicy":
        data = expert_rows(make_env(1)) if cls.expert_rows else None
        return OnpolicyTrainer(step_per_collect=60, data=data, **common)
    return OffpolicyTrainer(step_per_collect=6, update_per_step=0.3, batch_size=16, start_steps=60, **common)


def expert_rows(env: Any) -> ReplayBuffer:
    policy, data = RandomPolicy(env.single_observation_space, env.single_action_space), ReplayBuffer(40, seed=0)
    policy.seed(0)
    Collector(policy, env, data, seed=0).collect(n_step=40)
    return data


def everything(trainer: BaseTrainer[Any]) -> dict[str, Any]:
    """All numbers that a run has come to, but the clock's."""
    flat: dict[str, Any] = {}

    def walk(value: Any, at: str) -> None:
        if isinstance(value, dict):
            for key, item in value.items():
                walk(item, f"{at}.{key}")
        elif isinstance(value, list | tuple):
            for i, item in enumerate(value):
                walk(item, f"{at}.{i}")
        elif isinstance(value, torch.Tensor):
            flat[at] = value.tolist()
        elif isinstance(value, np.ndarray):
            flat[at] = (str(value.dtype), value.tolist())
        else:
            flat[at] = value

    walk(trainer.algorithm.state_dict(), "algorithm")
    walk({key: value for key, value in vars(trainer.state).items() if not key.endswith("_time")}, "state")
    walk(trainer.train_collector.buffer.state_dict(), "buffer")
    for collector in (trainer.train_collector, trainer.test_collector):
        state = dict(collector.state_dict())
        del state["counters"]["time"]
        walk(state, "collector")
    return flat


def check_resume(tmp_path: Path, **how: Any) -> None:
    path = tmp_path / "checkpoint"
    on = make_trainer(**how)
    start = everything(on)
    next(on)
    next(on)
    save_checkpoint(path, on)
    on.run()

    resumed = make_trainer(**{"seed": 77, **how})
    load_checkpoint(path, resumed)
    assert resumed.state.epoch == 2
    resumed.run()
    assert everything(resumed) == everything(on)
    assert everything(resumed) != start
    assert resumed.info().train_step == 480


@pytest.mark.parametrize(
    ("norm", "name"),
    [
        pytest.param(norm, name, id=f"{'normalised' if norm else 'plain'}-{name}")
        for norm in (False, True)
        for name in ONLINE
        if not norm or spaces.Discrete not in algorithm_class(name).observation_spaces  # numbers are not normalised
    ],
)
def test_resuming_equals_going_on(tmp_path: Path, name: str, norm: bool) -> None:
    check_resume(tmp_path, name=name, norm=norm)


def test_resuming_equals_going_on_with_a_buffer_that_looks_successors_up(tmp_path: Path) -> None:
    check_resume(tmp_path, name="dqn", ignore_obs_next=True)


@pytest.mark.parametrize("name", [name for name in ONLINE if algorithm_class(name).kind == "offpolicy"])
def test_resuming_equals_going_on_with_prioritised_replay(tmp_path: Path, name: str) -> None:
    check_resume(tmp_path, name=name, priority=Priority(beta_final=1.0, beta_samples=50))


def test_a_checkpoint_in_the_middle_of_an_epoch(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint"
    on = make_trainer("dqn")
    on.train_fn = lambda epoch, step: on.interrupt() if step == 150 else None
    assert len(list(on)) == 1
    on.train_fn = None
    save_checkpoint(path, on)
    rest = list(on)
    resumed = make_trainer("dqn", seed=9)
    load_checkpoint(path, resumed)
    assert [stats.epoch for stats in resumed] == [stats.epoch for stats in rest] == [2, 3, 4]
    assert everything(resumed) == everything(on)


def test_saving_in_the_callback_equals_saving_between_epochs(tmp_path: Path) -> None:
    trainer = make_trainer("dqn")
    trainer.save_checkpoint_fn = lambda epoch, *_: save_checkpoint(tmp_path / str(epoch), trainer)
    trainer.run()
    resumed = make_trainer("dqn", seed=5)
    resumed.save_checkpoint_fn = lambda epoch, *_: save_checkpoint(tmp_path / f"again{epoch}", resumed)
    load_checkpoint(tmp_path / "1", resumed)
    resumed.run()
    assert everything(resumed) == everything(trainer)


def test_a_longer_run_can_be_made_of_a_finished_one(tmp_path: Path) -> None:
    trainer = make_trainer("dqn", max_epoch=1)
    trainer.run()
    save_checkpoint(tmp_path / "checkpoint", trainer)
    longer = make_trainer("dqn", max_epoch=2)
    load_checkpoint(tmp_path / "checkpoint", longer)
    assert longer.run().train_step == 240


def test_offline_training_goes_on_with_the_same_samples(tmp_path: Path) -> None:
    def make() -> OfflineTrainer[Any]:
        algorithm = counting()
        buffer = VectorReplayBuffer(100, 2, seed=0)
        Collector(algorithm.policy, envs(2), buffer, exploration_noise=True, seed=0).collect(n_step=50)
        settings: dict[str, Any] = {"update_per_epoch": 5, "batch_size": 4, "verbose": False, "show_progress": False}
        return OfflineTrainer(algorithm=algorithm, buffer=buffer, max_epoch=2, **settings)

    on = make()
    next(on)
    save_checkpoint(tmp_path / "checkpoint", on)
    assert (tmp_path / "checkpoint").stat().st_size < 60_000
    on.run()
    resumed = make()
    load_checkpoint(tmp_path / "checkpoint", resumed)
    resumed.run()
    drawn = [batch.indices.tolist() for batch in on.algorithm.batches]
    assert [batch.indices.tolist() for batch in resumed.algorithm.batches] == drawn[5:]


@pytest.mark.parametrize("name", ONLINE)
def test_records_count_what_was_before_a_checkpoint_too(tmp_path: Path, name: str) -> None:
    def make() -> BaseTrainer[Any]:
        trainer = make_trainer(name)  # epochs of 120 steps
        trainer.logger, trainer.log_interval_steps = MemoryLogger(), 180
        return trainer

    def records(trainer: BaseTrainer[Any]) -> list[tuple[Any, ...]]:
        trained = [record for record in trainer.logger.records if "time/steps_per_s" in record[2]]
        steps = np.diff([step for step, *_ in trained], prepend=0)
        speeds = [metrics.pop("time/steps_per_s") for _, _, metrics in trained]
        assert sum(steps / speeds) == pytest.approx(trainer.state.logged_time)
        return trained

    on = make()
    next(on)
    save_checkpoint(tmp_path / "checkpoint", on)
    on.run()
    resumed = make()
    load_checkpoint(tmp_path / "checkpoint", resumed)
    resumed.run()
    whole = records(on)
    assert [step for step, *_ in whole] == [180, 360, 480]
    assert records(resumed) == whole


def test_the_global_generators_go_on(tmp_path: Path) -> None:
    def draw() -> list[float]:
        return [random.random(), float(np.random.rand()), float(torch.rand(1))]  # noqa: NPY002

    trainer = OffpolicyTrainer(**parts())
    save_checkpoint(tmp_path / "checkpoint", trainer)
    drawn = draw()
    assert draw() != drawn
    load_checkpoint(tmp_path / "checkpoint", trainer)
    assert draw() == drawn


# what is refused, by name


def saved(tmp_path: Path) -> Path:
    trainer = make_trainer("dqn", max_epoch=1)
    trainer.run()
    save_checkpoint(tmp_path / "run.checkpoint", trainer)
    return tmp_path / "run.checkpoint"


def test_another_algorithms_checkpoint_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"run\.checkpoint.*OffpolicyTrainer.*OnpolicyTrainer"):
        load_checkpoint(saved(tmp_path), make_trainer("ppo"))
    with pytest.raises(CheckpointError, match=r"run\.checkpoint.*DQN.*SAC"):
        load_checkpoint(tmp_path / "run.checkpoint", make_trainer("sac"))


def test_a_buffer_of_another_size_is_refused(tmp_path: Path) -> None:
    path = saved(tmp_path)
    trainer = make_trainer("dqn")
    trainer.train_collector.buffer = VectorReplayBuffer(90, 3)
    with pytest.raises(CheckpointError, match=r"run\.checkpoint.*does not fit the buffer"):
        load_checkpoint(path, trainer)
    assert trainer.algorithm.num_updates == 0


def test_a_torn_checkpoint_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    path = saved(tmp_path)
    path.write_bytes(path.read_bytes()[:-100])
    trainer = make_trainer("dqn", seed=5)
    before = everything(trainer)
    with pytest.raises(CheckpointError, match=r"run\.checkpoint.*torn"):
        load_checkpoint(path, trainer)
    assert everything(trainer) == before


def test_a_failed_save_leaves_the_previous_checkpoint_usable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path)

    def dies(file: IO[bytes], tensors: object, metadata: object) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(statefile, "_write_tensors", dies)
    with pytest.raises(KeyboardInterrupt):
        save_checkpoint(path, make_trainer("dqn", seed=3))
    trainer = make_trainer("dqn")
    load_checkpoint(path, trainer)
    assert trainer.state.env_step == 120
    assert os.listdir(tmp_path) == ["run.checkpoint"]


@pytest.mark.parametrize(
    ("name", "task", "before", "after", "in_force"),
    [
        ("dqn", "CartPole-v1", {}, {"optim": {"lr": 1e-5}}, lambda dqn: dqn.optim.lr == 1e-5),
        ("a2c", "CartPole-v1", {}, {"entropy_coef": 0.5}, lambda a2c: a2c.entropy_coef == 0.5),
        ("ppo", "CartPole-v1", {}, {"value_coef": 3.0}, lambda ppo: ppo.term_weights[1] == 3.0),
        ("ppo", "CartPole-v1", {}, {"entropy_coef": 0.5}, lambda ppo: ppo.term_weights[2] == -0.5),
        ("sac", "Pendulum-v1", {}, {"target_entropy": -7.0}, lambda sac: sac.target_entropy == -7.0),
    ],
)
def test_settings_are_those_in_force_not_those_of_the_file(
    tmp_path: Path, name: str, task: str, before: dict[str, Any], after: dict[str, Any], in_force: Any
) -> None:
    replayed = {"batch_size": 16, "start_steps": 16} if algorithm_class(name).kind == "offpolicy" else {}
    small = {"max_epoch": 3, "step_per_epoch": 64 if replayed else 2048, "episode_per_test": 1, **replayed}
    one, other = (argosy.build(argosy.preset(name, task, trainer=small, **given)) for given in (before, after))
    next(one)
    save_checkpoint(tmp_path / "checkpoint", one)
    load_checkpoint(tmp_path / "checkpoint", other)
    next(other)
    assert in_force(other.algorithm)
    assert not in_force(one.algorithm)
