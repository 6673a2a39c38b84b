import pytest
import torch
from probes import BOX as PROBE_BOX
from probes import COOL, FAST_BANDIT, FAST_CRITIC, Probed
from stand_ins import BOX, NET, OBS, Unscaled, batch, fixed_actor, recorded, two_rows

from argosy.algorithm import TQC, Task, TQCConfig
from argosy.data import Batch

CASES = {
    "plain": (TQCConfig(num_critics=2, num_quantiles=5), BOX),
    "fixed": (TQCConfig(num_critics=1, num_quantiles=3, num_dropped=0, auto_alpha=False, popart=True), BOX),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("critic_target", "log_alpha", "update_target")
RANGES = [("num_critics", 0), ("num_quantiles", 1), ("num_dropped", -1), ("num_dropped", 25), ("alpha", 0.0)]
PROBED = {
    "plain": Probed(
        config=TQCConfig(**FAST_CRITIC, **COOL, tau=0.1, num_critics=2, num_quantiles=8, num_dropped=1),
        space=PROBE_BOX,
        updates=300,
    )
}
BANDIT = (TQCConfig(**FAST_BANDIT, num_critics=2, num_quantiles=5, num_dropped=1), 300)


def make(space=BOX, net=NET, obs=OBS, **config):
    return TQC.make(TQCConfig(**config), Task(observation_space=obs, action_space=space, net=net), seed=0)


class FixedQuantiles(Unscaled):
    """An ensemble of which each member says the same quantiles of everything."""

    def __init__(self, quantiles):
        self.quantiles = torch.tensor(quantiles)

    def value(self, sample, act):
        return self.quantiles.unsqueeze(1).expand(-1, len(act), -1) + 0.0 * act.sum(-1, keepdim=True)

    next_value = value


def test_losses_by_hand():
    # Of the pooled (1, 2, 3, 4, 5, 60) one per critic is left out: (1, 2, 3, 4). The target is
    # 1 + 0.5 * (these - 0.5 * 2) = (1, 1.5, 2, 2.5); the critics' quantiles, tau = (1/6, 1/2, 5/6), are 2 and 1.
    algorithm = make(num_critics=2, num_quantiles=3, num_dropped=1, alpha=0.5, auto_alpha=False)
    fixed_actor(algorithm, 0.0, 2.0)
    algorithm.critic_target = FixedQuantiles([[1.0, 3.0, 5.0], [60.0, 2.0, 4.0]])
    algorithm.critic = FixedQuantiles([[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]])
    critic, actor = recorded(algorithm, "critic_optim", "actor_optim")
    data = batch(rew=torch.ones(16).numpy(), discount=torch.full((16,), 0.5).numpy())
    stats = algorithm.update(data)
    # differences from 2: (-1, -1/2, 0, 1/2); from 1: (0, 1/2, 1, 3/2); Huber halves squares, and of 3/2 makes 1
    below, above = (0.5 + 0.125) / 4, 0.125 / 4
    first = sum((1 - tau) * below + tau * above for tau in (1 / 6, 1 / 2, 5 / 6)) / 3
    second = sum(tau * (0.125 + 0.5 + 1.0) / 4 for tau in (1 / 6, 1 / 2, 5 / 6)) / 3
    assert critic[0].item() == stats.loss_critic == pytest.approx(first + second)
    assert actor[0].item() == pytest.approx(0.5 * 2.0 - 1.5)  # alpha * log p - the mean over all quantiles
    assert stats.q_mean == pytest.approx(1.5)
    assert stats.priorities.tolist() == pytest.approx([0.25] * 16)  # means 1.5 and 1.75


def test_weights_and_discount_enter_the_critic_loss():
    algorithm = make(num_critics=1, num_quantiles=2, num_dropped=0, alpha=0.5, auto_alpha=False)
    fixed_actor(algorithm, 0.0, 0.0)
    algorithm.critic, algorithm.critic_target = FixedQuantiles([[1.0, 1.0]]), FixedQuantiles([[4.0, 4.0]])
    critic, _ = recorded(algorithm, "critic_optim", "actor_optim")
    algorithm.update(two_rows())  # differences -1 and 1, whose Huber is 1/2; tau and 1 - tau are 1/2 on the average
    assert critic[0].item() == pytest.approx((0.25 + 0.5 * 0.25) / 2)


def test_it_has_quantiles_of_five_critics_by_default():
    value = make().critic.value(Batch(obs=torch.zeros(7, 3)), torch.zeros(7, 2))
    assert value.shape == (5, 7, 25)


def test_what_is_dropped_keeps_values_low():
    """With noise as reward the mean of the quantiles that are left is below the mean of all."""
    values = []
    for dropped in (0, 4):
        algorithm = make(num_critics=2, num_quantiles=8, num_dropped=dropped, alpha=1e-3, auto_alpha=False, tau=0.1)
        for i in range(100):
            stats = algorithm.update(batch(64, seed=i))
        values.append(stats.q_mean)
    assert values[1] < values[0] - 0.05
