import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import FAST_CRITIC, Probed
from stand_ins import NET, OBS, FixedValues, batch, learn_two_of_three, parameters, recorded

from argosy.algorithm import DiscreteCRR, DiscreteCRRConfig, OptimConfig, Task
from argosy.data import Batch

SPACE = spaces.Discrete(3)
CASES = {
    "exp": (DiscreteCRRConfig(target_update_freq=1), SPACE),
    "with the gap": (
        DiscreteCRRConfig(
            improvement="all", conservative_weight=1.0, num_critics=2, target_update_freq=1, tau=0.1, popart=True
        ),
        SPACE,
    ),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("policy_target", "critic_target", "update_policy_target", "update_critic_target")
RANGES = [
    ("n_step", 0),
    ("num_critics", 0),
    ("target_update_freq", 0),
    ("improvement", "max"),
    ("temperature", 0.0),
    ("max_weight", 0.0),
    ("conservative_weight", -1.0),
    ("tau", 0.0),
]
PROBED = {
    "plain": Probed(
        config=DiscreteCRRConfig(**FAST_CRITIC, target_update_freq=1, tau=0.1, temperature=0.1), updates=300
    )
}
MASKED = spaces.Dict({"obs": OBS, "action_mask": spaces.MultiBinary(3)})


def make(space=SPACE, net=NET, obs=OBS, **config):
    task = Task(observation_space=obs, action_space=space, net=net)
    return DiscreteCRR.make(DiscreteCRRConfig(**config), task, seed=0)


class FixedActor:
    """A policy's analysis with these probabilities of all choices everywhere."""

    def __init__(self, *probabilities):
        self.log_probs = torch.tensor(probabilities).log()

    def __call__(self, sample):
        params = self.log_probs.expand(len(sample.weight), -1)
        return Batch(params=params, logp=params.gather(-1, sample.act.unsqueeze(-1)).squeeze(-1))


@pytest.mark.parametrize(
    ("improvement", "weights"),
    [("exp", (math.exp(-0.5), math.exp(-0.25), math.exp(0.75))), ("binary", (0, 0, 1)), ("all", (1, 1, 1))],
)
@pytest.mark.parametrize("act", [0, 1, 2])
def test_losses_by_hand(improvement, weights, act):
    # the policy's value is 1 / 2 + 1.5 / 4 + 3.5 / 4 - that of the actions: -0.75, -0.25, 1.75 of Q = 1, 1.5, 3.5
    algorithm = make(improvement=improvement, temperature=2.0, conservative_weight=0.5, num_critics=2)
    algorithm.policy.analyze = FixedActor(0.5, 0.25, 0.25)
    algorithm.policy_target.analyze_next = FixedActor(0.25, 0.25, 0.5)
    algorithm.critic = FixedValues((1.0, 1.5, 3.5), (2.0, 2.5, 4.5))
    algorithm.critic_target = FixedValues((4.0, 8.0, 2.0), (5.0, 9.0, 1.0))
    critic, actor = recorded(algorithm, "critic_optim", "actor_optim")
    stats = algorithm.update(batch(act=np.full(16, act), rew=np.ones(16, np.float32)))
    target = 1.0 + 0.9 * (0.25 * 4.0 + 0.25 * 8.0 + 0.5 * 1.0)
    q = (1.0, 1.5, 3.5)[act]
    gap = math.log(math.exp(1.0) + math.exp(1.5) + math.exp(3.5)) - q
    adv = q - (0.5 * 1.0 + 0.25 * 1.5 + 0.25 * 3.5)
    weight = math.exp(adv / 2.0) if improvement == "exp" else weights[act]
    assert critic[0].item() == pytest.approx((q - target) ** 2 + (q + 1 - target) ** 2 + 2 * 0.5 * gap, rel=1e-5)
    assert actor[0].item() == pytest.approx(-weight * math.log((0.5, 0.25, 0.25)[act]), rel=1e-5, abs=1e-6)
    assert (stats.gap, stats.weight_mean) == (pytest.approx(gap, rel=1e-5), pytest.approx(weight, rel=1e-5))


def test_a_row_counts_by_its_weight_and_no_more_than_the_bound():
    algorithm = make(temperature=0.001, max_weight=7.0)
    algorithm.policy.analyze = FixedActor(0.5, 0.25, 0.25)
    algorithm.critic = FixedValues((2.0, 0.0, 0.0))
    critic, actor = recorded(algorithm, "critic_optim", "actor_optim")
    fields = {"rew": np.zeros(2, np.float32), "discount": np.zeros(2, np.float32)}
    algorithm.update(batch(2, act=np.zeros(2, np.int64), weight=np.array([1.0, 0.5], np.float32), **fields))
    assert critic[0].item() == pytest.approx(4.0 * 0.75)
    assert actor[0].item() == pytest.approx(7.0 * math.log(2.0) * 0.75)


def test_forbidden_actions_count_in_no_sum():
    algorithm = make(obs=MASKED, conservative_weight=1.0)
    algorithm.critic = algorithm.critic_target = FixedValues((1e6, 1.0, 1.0))
    critic, _ = recorded(algorithm, "critic_optim", "actor_optim")
    data = batch(act=np.ones(16, np.int64), rew=np.zeros(16, np.float32))
    mask = np.tile(np.array([0, 1, 1], np.int8), (16, 1))
    data.obs, data.obs_next = ({"obs": data[key], "action_mask": mask} for key in ("obs", "obs_next"))
    stats = algorithm.update(data)
    assert stats.gap == pytest.approx(math.log(2.0), rel=1e-4)
    assert critic[0].item() == pytest.approx((1.0 - 0.9) ** 2 + math.log(2.0), rel=1e-3)


def test_targets_are_copied_once_in_so_many_updates():
    algorithm = make(target_update_freq=2)
    for i in range(4):
        algorithm.update(batch(act=np.zeros(16, np.int64), seed=i))
        online = parameters(algorithm.policy, algorithm.critic)
        targets = parameters(algorithm.policy_target, algorithm.critic_target)
        assert all(torch.equal(a, b) for a, b in zip(online, targets, strict=True)) == (i % 2 == 1)


@pytest.mark.parametrize("improvement", ["exp", "binary"])
def test_takes_the_better_choice_and_not_the_unknown_one(improvement):
    fast = {"actor_optim": OptimConfig(lr=0.003), "critic_optim": OptimConfig(lr=0.003)}
    algorithm = make(improvement=improvement, temperature=0.2, conservative_weight=0.1, **fast)
    assert learn_two_of_three(algorithm, 200)[0] > 0.95


def test_an_allowed_action_of_no_probability_counts_in_the_gap():
    algorithm = make(conservative_weight=1.0)
    algorithm.critic = algorithm.critic_target = FixedValues((0.0, 1.0, 2.0))
    recorded(algorithm, "critic_optim", "actor_optim")
    with torch.no_grad():
        algorithm.policy.action_head.output.bias[0] = 200.0
    stats = algorithm.update(batch(act=np.full(16, 2)))
    assert stats.gap == pytest.approx(math.log(math.exp(-2.0) + math.exp(-1.0) + 1.0), rel=1e-4)
