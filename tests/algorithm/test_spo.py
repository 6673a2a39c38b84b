import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import GAMMA, of_both_spaces

from argosy.algorithm import SPO, OptimConfig, SPOConfig, Task
from argosy.errors import ConfigError

OBS = spaces.Box(-10, 10, (1,), np.float32)
CASES = {
    "discrete": (SPOConfig(repeat_per_collect=2, batch_size=16), spaces.Discrete(3)),
    "multi-discrete": (SPOConfig(repeat_per_collect=2, batch_size=None, popart=True), spaces.MultiDiscrete([2, 3])),
    "box": (SPOConfig(repeat_per_collect=2, value_clip=True), spaces.Box(-2.0, 2.0, (2,), np.float32)),
}
RANGES = [("clip_ratio", 0.0), ("batch_size", 0), ("repeat_per_collect", 0)]
RESUME = {"batch_size": 32, "repeat_per_collect": 3}
PROBED = of_both_spaces(
    SPOConfig(gamma=GAMMA, optim=OptimConfig(lr=0.02, max_grad_norm=0.5), repeat_per_collect=4, batch_size=32), 20
)


def make(**config):
    return SPO.make(SPOConfig(**config), Task(observation_space=OBS, action_space=spaces.Discrete(2)), seed=0)


def test_the_objective_by_hand():
    algorithm = make(clip_ratio=0.25)
    ratio, adv = torch.tensor([1.5, 0.5, 1.0]), torch.tensor([2.0, -4.0, 3.0])
    # -(1.5 * 2 - 2 / 0.5 * 0.25), -(0.5 * -4 - 4 / 0.5 * 0.25), -3
    assert algorithm._objective(ratio, adv).tolist() == [-2.0, 4.0, -3.0]


@pytest.mark.parametrize("adv", [3.0, -0.5])
def test_it_is_best_at_the_end_of_the_range_and_draws_back_from_beyond(adv):
    algorithm, best = make(clip_ratio=0.1), 1.0 + (0.1 if adv > 0.0 else -0.1)
    for ratio, sign in ((best, 0.0), (best + 0.05, 1.0), (best - 0.05, -1.0)):
        at = torch.tensor(ratio, dtype=torch.float64, requires_grad=True)
        (slope,) = torch.autograd.grad(algorithm._objective(at, torch.tensor(adv, dtype=torch.float64)), at)
        assert slope.item() == pytest.approx(abs(adv) / 0.1 * 0.05 * sign, abs=1e-6)


def test_a_dual_clip_is_refused():
    with pytest.raises(ConfigError, match=r"SPOConfig\.dual_clip is 3\.0, but SPO clips no objective; leave it out"):
        SPOConfig(dual_clip=3.0)
