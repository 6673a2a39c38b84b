import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_VALUES, Probed
from stand_ins import NET, OBS, Recorder, batch, learn_two_of_three

from argosy.algorithm import DiscreteCQL, DiscreteCQLConfig, OptimConfig, Task
from argosy.ops.quantiles import quantile_huber_loss
from argosy.policy.quantile import QuantileAnalysis

SPACE = spaces.Discrete(3)
CASES = {"plain": (DiscreteCQLConfig(num_quantiles=4, target_update_freq=1), SPACE)}
FOLLOWS = ("policy_target", "update_target")
RANGES = [("conservative_weight", -1.0), ("num_quantiles", 0), ("kappa", 0.0), ("tau", 0.0)]
PROBED = {
    "plain": Probed(config=DiscreteCQLConfig(**FAST_VALUES, num_quantiles=2, conservative_weight=0.01), updates=250)
}


def make(space=SPACE, net=NET, obs=OBS, **config):
    config = {"num_quantiles": 2, **config}
    task = Task(observation_space=obs, action_space=space, net=net)
    return DiscreteCQL.make(DiscreteCQLConfig(**config), task, seed=0)


@pytest.mark.parametrize(("mask", "others"), [(None, (1.0, 2.0, 4.0)), ([True, False, True], (1.0, 4.0))])
def test_loss_by_hand(mask, others):
    """Values of 1, 2 and 4; the stored action is the first. The target is 3 of each quantile."""
    algorithm = make(conservative_weight=2.0)
    quantiles = torch.tensor([[0.0, 2.0], [1.0, 3.0], [2.0, 6.0]]).expand(8, -1, -1)
    allowed = None if mask is None else torch.tensor(mask).expand(8, -1)
    act = torch.zeros(8, dtype=torch.int64)
    algorithm.policy.analyze = lambda sample: QuantileAnalysis(quantiles.mean(-1), allowed, act, quantiles=quantiles)
    algorithm._target = lambda sample: torch.full((8, 2), 3.0)
    algorithm.optim = Recorder()
    stats = algorithm.update(batch(8, act=np.zeros(8, np.int64)))
    quantile = quantile_huber_loss(torch.tensor([0.0, 2.0]), torch.tensor([3.0, 3.0])).item()
    gap = math.log(sum(math.exp(value) for value in others)) - 1.0
    assert algorithm.optim.losses[0].item() == pytest.approx(quantile + 2.0 * gap, rel=1e-5)
    assert (stats.loss_quantile, stats.gap) == (pytest.approx(quantile), pytest.approx(gap, rel=1e-5))
    assert stats.priorities.tolist() == pytest.approx([2.0] * 8)


def test_takes_the_better_choice_and_not_the_unknown_one():
    fast = {"optim": OptimConfig(lr=0.003)}
    assert learn_two_of_three(make(conservative_weight=0.0, **fast), 150)[2] > 0.95
    assert learn_two_of_three(make(conservative_weight=0.1, **fast), 150)[0] > 0.95
