import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import GAMMA, of_both_spaces

from argosy.algorithm import REINFORCE, OptimConfig, REINFORCEConfig, Task
from argosy.data import Batch

OBS = spaces.Box(-10, 10, (1,), np.float32)

CASES = {
    "discrete": (REINFORCEConfig(), spaces.Discrete(3)),
    "multi-discrete": (REINFORCEConfig(normalize_returns=False), spaces.MultiDiscrete([2, 3])),
    "box": (REINFORCEConfig(optim=OptimConfig(max_grad_norm=0.5)), spaces.Box(-2.0, 2.0, (2,), np.float32)),
}
BOOTSTRAPS = False
RANGES = [("gamma", 1.5), ("action_bound_method", "cut"), ("log_std_init", 3.0)]
PROBED = of_both_spaces(
    REINFORCEConfig(gamma=GAMMA, optim=OptimConfig(lr=0.02)), 100, probes=("act", "both"), value=None
)


def make(**config):
    task = Task(observation_space=OBS, action_space=spaces.Discrete(2))
    return REINFORCE.make(REINFORCEConfig(gamma=0.5, **config), task, seed=0)


def rollout(rew, terminated, cut, **changes):
    """One env."""
    T = len(rew)
    columns = {
        "rew": np.float32(rew),
        "terminated": np.array(terminated),
        "cut": np.array(cut),
        "act": np.zeros(T, int),
    }
    obs = np.arange(T, dtype=np.float32)[:, None, None]
    return Batch({"obs": obs, "policy": Batch(), **{name: x[:, None] for name, x in columns.items()}, **changes})


def returns_of(algorithm, data):
    return algorithm._returns(algorithm.prepare(data)).flatten().tolist()


def test_returns_by_hand():
    data = rollout([1, 2, 4, 8], [False, True, False, False], [False, True, False, True])
    assert returns_of(make(), data) == pytest.approx([1 + 0.5 * 2, 2, 4 + 0.5 * 8, 8])


def test_what_is_cut_off_counts_as_the_running_mean_and_after_a_terminated_row_comes_nothing():
    algorithm = make()
    algorithm.return_stat.update(np.array([10.0, 30.0]))  # mean 20, deviation 10
    data = rollout([1, 2, 4], [False, True, False], [True, True, True])
    assert returns_of(algorithm, data) == pytest.approx([1 + 0.5 * 20, 2, 4 + 0.5 * 20])


@pytest.mark.parametrize("normalizes", [True, False])
def test_loss_by_hand(normalizes):
    algorithm = make(normalize_returns=normalizes)
    algorithm.optim = Batch(step=lambda loss: None)
    logp = torch.tensor([-1.0, -2.0, -3.0])
    algorithm.policy.analyze = lambda mb: Batch(logp=logp[mb.obs[:, 0].long()], entropy=torch.full((3,), 0.5))
    stats = algorithm.update(rollout([4, 2, 0], [True] * 3, [True] * 3))
    returns = np.array([4.0, 2.0, 0.0])
    if normalizes:
        returns = (returns - 2.0) / np.std([4.0, 2.0, 0.0])
    assert stats.loss == pytest.approx(np.mean([1.0, 2.0, 3.0] * returns), rel=1e-5)
    assert (stats.entropy, stats.return_mean, stats.grad_norm) == (pytest.approx(0.5), pytest.approx(2.0), None)


def test_masked_rows_count_nowhere():
    def learned(rew):
        algorithm = make()
        mask = np.array([[False], [True], [True]])
        algorithm.update(rollout(rew, [True] * 3, [True] * 3, mask=mask))
        return algorithm.return_stat.mean, torch.cat([p.detach().flatten() for p in algorithm.policy.parameters()])

    first, other = learned([5.0, 1.0, 2.0]), learned([-9.0, 1.0, 2.0])
    assert first[0] == other[0] == 1.5
    assert torch.equal(first[1], other[1])


def test_there_is_no_critic():
    assert not any("critic" in name or "value" in name for name, _ in make().policy.named_parameters())
