import numpy as np
import pytest
import torch
from probes import BOX as PROBE_BOX
from probes import COOL, FAST_BANDIT, FAST_CRITIC, Probed
from stand_ins import BOX, NET, OBS, FixedCritic, batch, fixed_actor, recorded

from argosy.algorithm import REDQ, REDQConfig, Task
from argosy.data import Batch

CASES = {
    "plain": (REDQConfig(num_critics=3, policy_freq=1), BOX),
    "all": (REDQConfig(num_critics=2, subset_size=2, policy_freq=1, auto_alpha=False, popart=True), BOX),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("critic_target", "log_alpha", "update_target")
RANGES = [("subset_size", 0), ("subset_size", 11), ("num_critics", 0), ("policy_freq", 0)]
RESUME = {"policy_freq": 3, "num_critics": 4}
PROBED = {
    "plain": Probed(
        config=REDQConfig(**FAST_CRITIC, **COOL, tau=0.1, num_critics=4, policy_freq=1), space=PROBE_BOX, updates=300
    )
}
BANDIT = (REDQConfig(**FAST_BANDIT, policy_freq=1), 300)


def make(space=BOX, net=NET, obs=OBS, **config):
    return REDQ.make(REDQConfig(**config), Task(observation_space=obs, action_space=space, net=net), seed=0)


class Subset(FixedCritic):
    """Notes which members were asked, and asks no others."""

    def next_value(self, sample, act, members):
        self.asked.append(sorted(members.tolist()))
        return self.value(sample, act)[members]


def test_losses_by_hand():
    # Any two of the targets (4, 3, 3) have the minimum 3: target = 1 + 0.9 * (3 - 0.5 * 2) = 2.8
    algorithm = make(num_critics=3, alpha=0.5, auto_alpha=False, policy_freq=1)
    fixed_actor(algorithm, 0.0, 2.0)
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 2.0, 6.0), Subset(4.0, 3.0, 3.0)
    critic, actor = recorded(algorithm, "critic_optim", "actor_optim")
    algorithm.update(batch(rew=np.ones(16, np.float32)))
    assert critic[0].item() == pytest.approx(1.8**2 + 0.8**2 + 3.2**2)
    assert actor[0].item() == pytest.approx(0.5 * 2.0 - 3.0)  # alpha * log p - the mean of all


def test_each_update_asks_another_subset_of_the_targets():
    algorithm = make(num_critics=5, subset_size=2)
    algorithm.critic_target = Subset(*range(5))
    algorithm.update_target = lambda: None
    for i in range(60):
        algorithm.update(batch(seed=i))
    asked = [tuple(members) for members in algorithm.critic_target.asked if isinstance(members, list)]
    assert len(asked) == 60
    assert all(len(set(members)) == 2 for members in asked)
    assert len(set(asked)) == 10  # all pairs of five


def test_some_members_say_what_they_say_among_all():
    critic = make(num_critics=4).critic
    sample, act, members = Batch(obs_next=torch.randn(6, 3)), torch.randn(6, 2), torch.tensor([2, 0])
    torch.testing.assert_close(critic.next_value(sample, act, members), critic.next_value(sample, act)[members])
