"""One algorithm object learns from a data set first, and from what it collects afterwards."""

import numpy as np
import pytest
from gymnasium import spaces
from parts import Corridor

from argosy.algorithm import AWAC, CQL, IQL, AWACConfig, CQLConfig, IQLConfig, ReBRAC, ReBRACConfig, Task
from argosy.collect import Collector
from argosy.data import ReplayBuffer
from argosy.env import DummyVectorEnv
from argosy.net import NetConfig
from argosy.trainer import OfflineTrainer, OffpolicyTrainer

QUIET = {"max_epoch": 1, "batch_size": 8, "verbose": False, "show_progress": False}


class Slope(Corridor):
    """Its actions are one number."""

    def __init__(self):
        super().__init__()
        self.action_space = spaces.Box(-2.0, 2.0, (1,), np.float32)


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
    env = DummyVectorEnv([Slope])
    net = NetConfig(hidden_sizes=(8,), memory=memory, memory_size=4, sequence_length=4)
    task = Task(observation_space=env.single_observation_space, action_space=env.single_action_space, net=net)
    algorithm = cls.make(config, task, seed=0)
    data, buffer = ReplayBuffer(40, seed=0), ReplayBuffer(100, seed=0)
    Collector(algorithm.policy, env, data, exploration_noise=True, seed=0).collect(n_step=40)
    OfflineTrainer(algorithm=algorithm, buffer=data, update_per_epoch=5, **QUIET).run()
    assert (algorithm.num_updates, len(data)) == (5, 40)
    buffer.update(data)
    collector = Collector(algorithm.policy, env, buffer, exploration_noise=True, seed=1)
    OffpolicyTrainer(algorithm=algorithm, train_collector=collector, step_per_epoch=20, **QUIET).run()
    assert (algorithm.num_updates, algorithm.policy.version, len(buffer)) == (25, 24, 60)
    sampled, _ = buffer.sample(0, algorithm.sampling)
    if "returns" in algorithm.sampling.fields:  # the episodes have 5 steps of reward 1
        left = np.array([sum(config.gamma**k for k in range(5 - t)) for t in range(5)])
        found = np.asarray(sampled.returns).reshape(-1, 1)
        assert np.abs(found - left).min(axis=1).max() < 1e-5
