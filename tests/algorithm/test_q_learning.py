"""What holds for every algorithm that learns action values with a target network."""

import pytest
import torch
from algorithm_checks import make_batch
from declared import declared
from stand_ins import NET, OBS, equal, parameters

from argosy.algorithm import ALGORITHMS, OptimConfig, Task, algorithm_class
from argosy.algorithm.q_learning import QLearningConfig
from argosy.policy import EpsilonConfig

VALUE_BASED = [name for name in ALGORITHMS if issubclass(algorithm_class(name).config_type, QLearningConfig)]
pytestmark = pytest.mark.parametrize("name", VALUE_BASED)


def make(name, **config):
    cls, (_, space) = algorithm_class(name), next(iter(declared(name, "CASES").values()))
    task = Task(observation_space=OBS, action_space=space, net=NET)
    return cls.make(cls.config_type(**config), task, seed=0)


def test_a_hard_target_is_copied_every_so_many_updates(name):
    algorithm = make(name, target_update_freq=3)
    copied = []
    for i in range(7):
        algorithm.update(make_batch(algorithm, i))
        copied.append(equal(parameters(algorithm.policy_target), parameters(algorithm.policy)))
    assert copied == [False, False, True, False, False, True, False]


def test_a_soft_target_moves_by_tau_after_every_update(name):
    algorithm = make(name, target_update_freq=1, tau=0.25)
    before = parameters(algorithm.policy_target)
    algorithm.update(make_batch(algorithm))
    now = parameters(algorithm.policy_target)
    for old, new, moved in zip(before, parameters(algorithm.policy), now, strict=True):
        torch.testing.assert_close(moved, 0.75 * old + 0.25 * new)


def test_schedule_of_exploration_and_learning_rate(name):
    algorithm = make(
        name,
        exploration=EpsilonConfig(eps_start=1.0, eps_end=0.2, eps_decay_steps=100, eps_test=0.01),
        optim=OptimConfig(lr=0.1, lr_schedule="linear"),
    )
    exploration = algorithm.policy.exploration
    assert (exploration.eps, exploration.eps_test) == (1.0, 0.01)
    found = []
    for env_step in (0, 50, 100, 500):
        algorithm.schedule(env_step, 1000)
        found += [exploration.eps, algorithm.optim.lr]
    assert found == pytest.approx([1.0, 0.1, 0.6, 0.095, 0.2, 0.09, 0.2, 0.05])


def test_the_gradient_s_norm_is_reported_where_it_is_clipped(name):
    for clip in (None, 1e-3):
        algorithm = make(name, optim=OptimConfig(max_grad_norm=clip))
        norm = algorithm.update(make_batch(algorithm)).grad_norm
        assert (norm is None) == (clip is None)
        assert norm is None or norm > clip


def test_sampling_asks_for_the_configured_returns(name):
    sampling = make(name, gamma=0.9, n_step=3).sampling
    assert (sampling.gamma, sampling.n_step) == (0.9, 3)
