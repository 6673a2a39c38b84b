"""What algorithms share, by numbers computed by hand: preparing a batch, means and priorities, schedules, sampling."""

import numpy as np
import pytest
import torch
from gymnasium import spaces

from argosy.algorithm import DQN, PPO, DQNConfig, OptimConfig, PPOConfig, Task
from argosy.algorithm.base import batch_mean, batch_priorities
from argosy.data import Batch
from argosy.errors import ConfigError, DataError
from argosy.net import NetConfig
from argosy.policy import EpsilonConfig

OBS = spaces.Box(-10, 10, (1,), np.float32)


def make(cls=DQN, config=None, **net):
    net = NetConfig(hidden_sizes=(4,), **net)
    return cls.make(config or cls.config_type(), Task(observation_space=OBS, action_space=spaces.Discrete(2), net=net))


def sequences(**changes):
    """Three rows of two columns; the first row warms up, the last row of the second column is padding."""
    mask = np.array([[False, False], [True, True], [True, False]])
    fields = {
        "obs": np.zeros((3, 2, 1), np.float32),
        "obs_next": np.zeros((3, 2, 1), np.float32),
        "act": np.zeros((3, 2), int),
        "rew": np.ones((3, 2), np.float32),
        "terminated": np.zeros((3, 2), bool),
        "cut": np.array([[False, True], [False, False], [True, True]]),
        "policy": Batch(),
        "mask": mask,
    }
    return Batch({**fields, **changes})


def test_means_are_of_the_rows_that_a_mask_leaves():
    x = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 60.0]])
    assert batch_mean(x[:, 0], Batch(obs=x)).item() == 3.0
    assert batch_mean(x, Batch(obs=x)).tolist() == [1.5, 3.5, 32.5]  # several terms of the same rows
    assert batch_mean(x, Batch(mask=torch.from_numpy(sequences().mask))).item() == 4.0


def test_priorities_are_errors_and_of_sequences_a_mixture_of_the_largest_and_the_mean():
    error = torch.tensor([1.0, -2.0], requires_grad=True)
    assert batch_priorities(error, Batch(obs=error)).tolist() == [1.0, 2.0]
    assert not batch_priorities(error, Batch(obs=error)).requires_grad
    batch = Batch(mask=torch.from_numpy(sequences().mask))
    found = batch_priorities(torch.tensor([[100.0, 100.0], [-1.0, -3.0], [2.0, 100.0]]), batch)
    assert found.tolist() == pytest.approx([0.9 * 2.0 + 0.1 * 1.5, 0.9 * 3.0 + 0.1 * 3.0])
    nothing = Batch(mask=torch.zeros(3, 2, dtype=torch.bool))
    assert batch_priorities(torch.ones(3, 2), nothing).tolist() == [0.0, 0.0]


def test_prepare_gives_tensors_and_leaves_the_callers_batch():
    batch = sequences()
    prepared = make().prepare(batch)
    assert isinstance(prepared.obs, torch.Tensor)
    assert isinstance(batch.obs, np.ndarray)
    assert "on_reset" not in prepared  # nobody needs it without memory


def test_prepare_makes_float32_of_what_numpy_made_float64_but_observations():
    batch = sequences(rew=np.ones((3, 2)), obs=np.zeros((3, 2, 1)), policy=Batch(logp=np.zeros((3, 2))))
    prepared = make().prepare(batch)
    assert prepared.rew.dtype is prepared.policy.logp.dtype is torch.float32
    assert prepared.obs.dtype is torch.float64
    assert batch.rew.dtype == batch.policy.logp.dtype == np.float64


@pytest.mark.parametrize("as_tensors", [False, True])
def test_with_memory_prepare_says_where_rows_begin(as_tensors):
    batch = sequences()
    if as_tensors:
        batch.to_torch()
    prepared = make(memory="gru").prepare(batch)
    assert prepared.on_reset.T.tolist() == [[True, False, False], [True, True, False]]
    assert "on_reset" not in batch
    given = np.zeros((3, 2), bool)
    assert not make(memory="gru").prepare(sequences(on_reset=given)).on_reset.any()


def test_rewards_of_several_agents_are_refused_by_name():
    with pytest.raises(
        DataError, match=r"batch\.rew has shape \(3, 2, 4\), batch\.terminated \(3, 2\); DQN learns from"
    ):
        make().update(sequences(rew=np.ones((3, 2, 4), np.float32)))
    sample = {"obs": np.zeros((4, 1), np.float32), "obs_next": np.zeros((4, 1), np.float32), "act": np.zeros(4, int)}
    weights = {"discount": np.ones(4, np.float32), "weight": np.ones(4, np.float32)}
    with pytest.raises(DataError, match=r"batch\.rew has shape \(4, 1\), batch\.discount \(4,\); DQN learns from"):
        make().update(Batch(**sample, **weights, rew=np.ones((4, 1), np.float32)))


@pytest.mark.parametrize("field", ["obs", "rew", "obs_next"])
def test_what_is_not_finite_is_refused_by_name(field):
    batch = sequences()
    batch[field].reshape(-1)[3] = np.inf
    with pytest.raises(
        DataError, match=rf"batch\.{field} holds 1 NaN or infinite value\(s\), the first one inf at index"
    ):
        make().prepare(batch)


def test_samples_are_sequences_where_the_policy_has_memory():
    plain = make(config=DQNConfig(gamma=0.9, n_step=3)).sampling
    assert (plain.gamma, plain.n_step, plain.sequence_length) == (0.9, 3, type(plain)().sequence_length)
    sampling = make(config=DQNConfig(gamma=0.9, n_step=3), memory="lstm", sequence_length=5, burn_in=2).sampling
    assert (sampling.gamma, sampling.n_step, sampling.sequence_length, sampling.burn_in) == (0.9, 3, 5, 2)


def test_schedules_of_exploration_and_learning_rates():
    config = DQNConfig(
        exploration=EpsilonConfig(eps_start=1.0, eps_end=0.0, eps_decay_steps=10),
        optim=OptimConfig(lr=0.1, lr_schedule="linear"),
    )
    algorithm = make(config=config)
    algorithm.schedule(5, 100)
    assert (algorithm.policy.exploration.eps, algorithm.optim.lr) == pytest.approx((0.5, 0.095))
    algorithm.schedule(120, 100)  # the last collect may overshoot
    assert (algorithm.policy.exploration.eps, algorithm.optim.lr) == (0.0, 0.0)


def test_observations_are_taken_in_only_where_statistics_are_kept():
    make().take_in(np.ones((2, 1)))  # nothing to do
    algorithm = make(norm_obs=True)
    algorithm.take_in(np.ones((2, 1)))
    assert algorithm.policy.normaliser.parts[0].waiting_count == 2


def test_equal_seeds_make_equal_algorithms_and_leave_torchs_generator():
    task = Task(observation_space=OBS, action_space=spaces.Discrete(2))
    before = torch.get_rng_state()
    first, second, other = (PPO.make(PPOConfig(), task, seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    pairs = list(zip(first.policy.parameters(), second.policy.parameters(), strict=True))
    assert all(torch.equal(a, b) for a, b in pairs)
    assert not torch.equal(next(first.policy.parameters()), next(other.policy.parameters()))
    assert first.rng.torch.initial_seed() != first.policy.rng.torch.initial_seed()


def test_discount_factors_are_checked():
    with pytest.raises(ConfigError, match=r"DQNConfig\.gamma is -0\.5; it must be >= 0\.0 and <= 1\.0"):
        DQNConfig(gamma=-0.5)


def test_a_task_of_several_agents_is_refused_by_an_algorithm_that_learns_for_one():
    task = Task(observation_space=spaces.Box(-1, 1, (2,)), action_space=spaces.Discrete(2), num_agents=3)
    with pytest.raises(ConfigError, match="DQN learns for one agent, the task has 3"):
        DQN.make(DQNConfig(), task)
