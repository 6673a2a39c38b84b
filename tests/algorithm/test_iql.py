import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_CRITIC, Probed
from stand_ins import (
    BOX,
    NET,
    OBS,
    FixedCritic,
    Unscaled,
    batch,
    learn_two_of_three,
    learn_what_ends,
    parameters,
    recorded,
)

from argosy.algorithm import IQL, IQLConfig, OptimConfig, Task
from argosy.data import Batch

CASES = {
    "box": (IQLConfig(), BOX),
    "discrete": (IQLConfig(expectile=0.9, num_critics=1, popart=True), spaces.Discrete(3)),
}
LEARNS = ("policy", "critic", "value")
FOLLOWS = ("critic_target", "update_target")
RANGES = [
    ("n_step", 0),
    ("num_critics", 0),
    ("expectile", 1.0),
    ("temperature", 0.0),
    ("max_weight", 0.0),
    ("tau", 0.0),
]
FAST = {f"{part}_optim": OptimConfig(lr=0.003) for part in ("actor", "critic", "value")}
PROBED = {
    "plain": Probed(
        config=IQLConfig(**FAST_CRITIC, value_optim=OptimConfig(lr=0.01), tau=0.1, temperature=0.1, expectile=0.8),
        updates=200,
    )
}


def make(space=BOX, net=NET, obs=OBS, **config):
    return IQL.make(IQLConfig(**config), Task(observation_space=obs, action_space=space, net=net), seed=0)


class FixedValue(Unscaled):
    """V of a sample, and of its successors."""

    def __init__(self, now, after):
        self.now, self.after = now, after

    def value(self, sample):
        return torch.full((1, len(sample.rew)), self.now)

    def next_value(self, sample):
        return torch.full((1, len(sample.rew)), self.after)


@pytest.mark.parametrize(("value", "loss_value", "weight"), [(1.0, 0.7 * 4.0, math.e), (5.0, 0.3 * 4.0, 1 / math.e)])
def test_losses_by_hand(value, loss_value, weight):
    # the targets' minimum is 3: an advantage of 2 or -2, which the temperature makes 1 or -1; Q's target is 1 + 0.9 * 2
    algorithm = make(temperature=2.0)
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 2.0), FixedCritic(4.0, 3.0)
    algorithm.value = FixedValue(value, 2.0)
    algorithm.policy.analyze = lambda sample: Batch(logp=torch.linspace(-3.0, 1.0, 16))
    losses = recorded(algorithm, "value_optim", "critic_optim", "actor_optim")
    stats = algorithm.update(batch(rew=np.ones(16, np.float32)))
    assert [loss[0].item() for loss in losses] == pytest.approx([loss_value, 1.8**2 + 0.8**2, weight])
    assert (stats.weight_mean, stats.q_mean) == (pytest.approx(weight), 1.5)
    assert stats.priorities.tolist() == pytest.approx([1.3] * 16)


def test_a_row_counts_by_its_weight_and_no_more_than_the_bound():
    algorithm = make(temperature=0.01, max_weight=7.0)
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 1.0), FixedCritic(2.0, 2.0)
    algorithm.value = FixedValue(0.0, 0.0)
    algorithm.policy.analyze = lambda sample: Batch(logp=torch.tensor([-1.0, -2.0]))
    value, critic, actor = recorded(algorithm, "value_optim", "critic_optim", "actor_optim")
    algorithm.update(batch(2, rew=np.zeros(2, np.float32), weight=np.array([1.0, 0.5], np.float32)))
    assert value[0].item() == pytest.approx(0.7 * 4.0 * 0.75)
    assert critic[0].item() == pytest.approx(2 * 0.75)
    assert actor[0].item() == pytest.approx(7.0 * (1.0 + 0.5 * 2.0) / 2)


def test_no_action_is_asked_for_that_is_not_in_the_data():
    algorithm = make()
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 1.0), FixedCritic(2.0, 2.0)
    recorded(algorithm, "critic_optim")
    data = batch()
    algorithm.update(data)
    for asked in (*algorithm.critic.asked, *algorithm.critic_target.asked):
        assert np.array_equal(asked.numpy(), data.act)


def test_value_rises_with_the_expectile():
    """Half of the actions are worth 1, half -1."""
    values = []
    for expectile in (0.1, 0.5, 0.9):
        algorithm = make(expectile=expectile, tau=0.1, **FAST)
        for i in range(300):
            data = batch(64, seed=i, discount=np.zeros(64, np.float32))
            data.rew = np.sign(data.act[:, 0])
            algorithm.update(data)
        values.append(algorithm.value.value(Batch(obs=torch.from_numpy(batch(100).obs))).mean().item())
    assert values == pytest.approx([-0.8, 0.0, 0.8], abs=0.2)  # where the sums of the two sides' pulls are equal


def test_targets_of_the_critics_follow_softly():
    algorithm = make(tau=0.25)
    before = parameters(algorithm.critic_target)
    algorithm.update(batch())
    for old, new, moved in zip(before, parameters(algorithm.critic), parameters(algorithm.critic_target), strict=True):
        torch.testing.assert_close(moved, 0.75 * old + 0.25 * new)


def test_takes_the_best_actions_that_there_are_and_none_beyond():
    taken = learn_what_ends(make(temperature=0.1, tau=0.1, **FAST), 300)
    assert all(-0.05 < act < 0.25 for act in taken)


def test_takes_the_better_choice_and_not_the_unknown_one():
    assert learn_two_of_three(make(spaces.Discrete(3), temperature=0.2, tau=0.1, **FAST), 150)[0] > 0.95
