"""One algorithm object learns from a data set first, and goes on with what it collects."""

import numpy as np
import pytest
import torch
from gymnasium import spaces
from parts import Corridor, counting, envs

from argosy.algorithm import AWAC, CQL, IQL, AWACConfig, CQLConfig, IQLConfig, ReBRAC, ReBRACConfig, Task
from argosy.collect import Collector
from argosy.data import Batch, Priority, ReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.errors import CheckpointError, ConfigError
from argosy.net import NetConfig
from argosy.trainer import OfflineToOnlineTrainer, OfflineTrainer, load_checkpoint, save_checkpoint

QUIET = {"batch_size": 8, "verbose": False, "show_progress": False}


class Slope(Corridor):
    """Its actions are one number."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)


def corridors(count, act):
    """Transitions of whole episodes of 5 steps, as a file holds them: nothing that a policy stored."""
    t = np.arange(count) % 5
    flags = {"terminated": t == 4, "truncated": np.zeros(count, bool), "done": t == 4}
    obs, obs_next = (np.stack([when, np.full(count, 9.0)], 1).astype(np.float32) for when in (t, t + 1))
    return ReplayBuffer.from_data(obs=obs, act=act, rew=np.ones(count, np.float32), obs_next=obs_next, **flags)


def make(cls=IQL, config=None, memory=None, normalises=False, **settings):
    env = DummyVectorEnv([Slope])
    net = NetConfig(hidden_sizes=(8,), memory=memory, memory_size=4, sequence_length=4, norm_obs=normalises)
    task = Task(observation_space=env.single_observation_space, action_space=env.single_action_space, net=net)
    algorithm = cls.make(config or cls.config_type(), task, seed=0)
    data = corridors(40, np.linspace(-1, 1, 40, dtype=np.float32)[:, None])
    data.seed(0)
    collector = Collector(algorithm.policy, env, ReplayBuffer(100, seed=0), exploration_noise=True, seed=1)
    parts = {"algorithm": algorithm, "train_collector": collector, "data": data}
    run = {"offline_updates": 5, "step_per_epoch": 4, "total_steps": 25, "step_per_collect": 2}
    return OfflineToOnlineTrainer(**{**QUIET, **parts, **run, **settings})


@pytest.mark.parametrize(
    ("cls", "config"),
    [
        (IQL, IQLConfig()),
        (AWAC, AWACConfig()),
        (CQL, CQLConfig(calibrated=True, num_draws=1)),
        (ReBRAC, ReBRACConfig(n_step=2)),
    ],
)
@pytest.mark.parametrize("memory", [None, "gru"])
def test_an_algorithm_goes_on_with_what_it_collects(cls, config, memory):
    trainer = make(cls, config, memory, step_per_collect=10, data_share=0.5)
    algorithm, buffer = trainer.algorithm, trainer.train_collector.buffer
    info = trainer.run()
    assert (info.train_step, trainer.position, len(buffer), len(trainer.data)) == (20, 25, 20, 40)
    assert (algorithm.num_updates, algorithm.policy.version) == (25, 24)
    sampled, _ = trainer._sample(buffer)
    lead = (4, 8) if memory else (8,)
    assert tuple(sampled.rew.shape) == lead
    if "returns" in algorithm.sampling.fields:  # the episodes have 5 steps of reward 1
        left = np.array([sum(config.gamma**k for k in range(5 - t)) for t in range(5)])
        assert np.abs(np.asarray(sampled.returns).reshape(-1, 1) - left).min(axis=1).max() < 1e-5
    if memory:  # the data set holds no states: zeros; what was collected has its own
        state = sampled.policy.state
        assert (state[:, :4] == 0).all()
        assert (state[:, 4:] != 0).any()


def from_data(trainer):
    """Of each batch since the offline updates, how many rows are the data set's: their second number is 9."""
    return [int((np.asarray(batch.obs)[:, 1] == 9.0).sum()) for batch in trainer.algorithm.batches]


def counted(**settings):
    algorithm = counting()
    collector = Collector(algorithm.policy, envs(1), ReplayBuffer(400, seed=0), exploration_noise=True, seed=1)
    data = corridors(40, np.zeros(40, np.int64))
    run = {"offline_updates": 10, "step_per_epoch": 50, "total_steps": 370, "step_per_collect": 10}
    parts = {"algorithm": algorithm, "train_collector": collector, "data": data}
    return OfflineToOnlineTrainer(**{**QUIET, **parts, **run, **settings})


def test_batches_hold_the_share_of_the_data_set_that_is_asked_for():
    trainer = counted(data_share=0.25)
    trainer.run()
    assert from_data(trainer) == [8] * 10 + [2] * 360


def test_without_a_share_rows_are_drawn_as_if_from_one_buffer():
    trainer = counted()
    trainer.run()
    found = from_data(trainer)
    assert found[:10] == [8] * 10
    collected = np.arange(10, 361, 10).repeat(10)  # before each update
    expected = 8 * 40 / (40 + collected)
    assert np.mean(found[10:]) == pytest.approx(expected.mean(), abs=0.08)
    assert np.mean(found[-100:]) == pytest.approx(expected[-100:].mean(), abs=0.15)
    assert max(np.abs(found[10:] - expected)) < 1.0


def test_time_is_updates_first_and_steps_afterwards():
    trainer = counted(step_per_epoch=25, total_steps=60)
    seen = [(stats.info_stat.train_step, trainer.position, trainer.state.update_step) for stats in trainer]
    assert seen == [(20, 30, 30), (40, 50, 50), (50, 60, 60)]
    assert list(trainer.algorithm.scheduled) == [*((i, 60) for i in range(10)), *((i, 60) for i in range(10, 60, 10))]


def test_statistics_of_observations_begin_with_the_data_set_and_go_on():
    trainer = make(normalises=True)
    (statistics,) = trainer.algorithm.policy.normaliser.parts
    assert statistics.count == 40
    trainer.run()
    assert statistics.count == 60


def equal(one, other):
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(equal, one, other))
    return torch.equal(one, other) if isinstance(one, torch.Tensor) else np.array_equal(one, other)


@pytest.mark.parametrize("position", [3, 5, 11])  # among the offline updates, between the two, in the env
@pytest.mark.parametrize("share", [None, 0.5])
def test_a_resumed_run_is_the_run_that_was_not_interrupted(position, share, tmp_path):
    class Stop:
        def on_step(self, trainer):
            if trainer.position == position:
                trainer.interrupt()

    on = make(data_share=share, callbacks=[Stop()])
    for _ in on:
        pass
    assert on.position == position
    save_checkpoint(tmp_path / "checkpoint", on)
    on.run()
    resumed = make(data_share=share)
    load_checkpoint(tmp_path / "checkpoint", resumed)
    assert resumed.position == position
    resumed.run()
    assert on.position == resumed.position == 25
    assert equal(on.algorithm.state_dict(), resumed.algorithm.state_dict())
    assert equal(on.train_collector.buffer.state_dict(), resumed.train_collector.buffer.state_dict())


def test_a_checkpoint_of_another_data_set_is_refused(tmp_path):
    trainer = make()
    save_checkpoint(tmp_path / "checkpoint", trainer)
    other = make(data=corridors(20, np.zeros((20, 1), np.float32)))
    with pytest.raises(CheckpointError, match=r"training from 40 transitions, the data set has 20"):
        load_checkpoint(tmp_path / "checkpoint", other)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"offline_updates": 0}, r"offline_updates is 0; it must be >= 1"),
        ({"data_share": 1.5}, r"data_share is 1.5"),
        ({"batch_size": 41}, r"batch_size is 41, but the buffer holds 40 transitions"),
    ],
)
def test_settings_are_checked(settings, message):
    with pytest.raises(ConfigError, match=message):
        make(**settings)


def test_a_buffer_that_draws_by_priority_is_refused():
    trainer = make()
    trainer.train_collector.buffer = ReplayBuffer(100, priority=Priority(alpha=0.5))
    with pytest.raises(ConfigError, match=r"buffer draws by priority, which a data set beside it does not"):
        make(algorithm=trainer.algorithm, train_collector=trainer.train_collector)


def test_a_data_set_that_draws_by_priority_is_refused():
    trainer = make()
    data = ReplayBuffer(100, priority=Priority(alpha=0.5))
    for i in range(50):
        row = {"obs": np.zeros(3, np.float32), "act": 0, "rew": 0.0, "terminated": i % 5 == 4, "truncated": False}
        data.add(Batch({**row, "obs_next": row["obs"]}))
    message = r"the data set draws by priority, which data sets do not"
    with pytest.raises(ConfigError, match=message):
        OfflineTrainer(algorithm=trainer.algorithm, buffer=data, batch_size=8)
    with pytest.raises(ConfigError, match=message):
        make(algorithm=trainer.algorithm, data=data)
