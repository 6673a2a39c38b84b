import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import COOL, FAST_CRITIC, Probed
from stand_ins import NET, OBS, FixedValues, Recorder, recorded
from stand_ins import batch as continuous

from argosy.algorithm import DiscreteSAC, DiscreteSACConfig, OptimConfig, Task
from argosy.data import Batch

SPACE = spaces.Discrete(3)
CASES = {
    "plain": (DiscreteSACConfig(), SPACE),
    "fixed": (DiscreteSACConfig(auto_alpha=False, num_critics=3, n_step=2, popart=True), spaces.Discrete(3, start=1)),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("critic_target", "log_alpha", "update_target")
RANGES = [("alpha", 0.0), ("num_critics", 0), ("n_step", 0), ("tau", 1.5)]
OPTIMS = ("critic_optim", "actor_optim", "alpha_optim")
MASKED = spaces.Dict({"obs": OBS, "action_mask": spaces.MultiBinary(3)})


def expected_value(algorithm, obs):
    sample = Batch(obs=obs)
    return (algorithm.policy.analyze(sample).params.exp() * algorithm.critic.value(sample).amin(dim=0)).sum(-1)


PROBED = {"plain": Probed(config=DiscreteSACConfig(**FAST_CRITIC, **COOL, tau=0.1), updates=200, value=expected_value)}


def make(space=SPACE, net=NET, obs=OBS, **config):
    return DiscreteSAC.make(
        DiscreteSACConfig(**config), Task(observation_space=obs, action_space=space, net=net), seed=0
    )


def batch(count=16, seed=0, **changes):
    changes.setdefault("act", np.random.default_rng(seed).integers(3, size=count))
    return continuous(count, seed, **changes)


class FixedActor:
    """A policy's analysis with these probabilities of the three actions everywhere."""

    def __init__(self, *probabilities):
        self.logits = torch.tensor(probabilities).log().requires_grad_()

    def __call__(self, sample):
        self.params = self.logits.expand(len(sample.obs), -1)
        return self


def fixed(algorithm, probabilities, values, target):
    algorithm.policy.analyze = algorithm.policy.analyze_next = FixedActor(*probabilities)
    algorithm.critic, algorithm.critic_target = FixedValues(*values), FixedValues(*target)
    return recorded(algorithm, *OPTIMS)


def test_losses_by_hand():
    # entropy of (1/2, 1/4, 1/4): 3/2 log 2. min over critics at successors (4, 2, 2): V = 3 + 0.5 * 3/2 log 2
    algorithm = make(alpha=0.5, auto_alpha=False)
    values = [[1.0, 2.0, 3.0], [2.0, 2.0, 1.0]]
    critic, actor, _ = fixed(algorithm, (0.5, 0.25, 0.25), values, [[4.0, 3.0, 2.0], [5.0, 2.0, 2.0]])
    stats = algorithm.update(batch(act=np.full(16, 2), rew=np.ones(16, np.float32)))
    entropy = 1.5 * math.log(2.0)
    target = 1.0 + 0.9 * (3.0 + 0.5 * entropy)
    assert critic[0].item() == pytest.approx((3.0 - target) ** 2 + (1.0 - target) ** 2)
    # the actor's sum: the minima (1, 2, 1) weighted by the probabilities are 1.25
    assert actor[0].item() == pytest.approx(-(0.5 * entropy + 1.25))
    assert stats.entropy == pytest.approx(entropy)
    assert (stats.q_mean, stats.loss_alpha) == (2.0, None)
    assert stats.priorities.tolist() == pytest.approx([abs(2.0 - target)] * 16)


def test_weights_and_discount_enter_the_critic_loss():
    algorithm = make(alpha=1e-6, auto_alpha=False)
    critic, _, _ = fixed(algorithm, (1.0 - 2e-9, 1e-9, 1e-9), [[1.0] * 3] * 2, [[4.0] * 3] * 2)
    # rows: terminated (target 0, error 1), bootstrapped (target 2, error -1, weight 0.5)
    discount, weight = np.array([0.0, 0.5], np.float32), np.array([1.0, 0.5], np.float32)
    algorithm.update(batch(2, rew=np.zeros(2, np.float32), discount=discount, weight=weight))
    assert critic[0].item() == pytest.approx(2 * (1.0 + 0.5) / 2, rel=1e-4)


@pytest.mark.parametrize(("target_entropy", "direction"), [(1.0, 1), (0.1, -1)])
def test_temperature_rises_when_the_entropy_is_too_low(target_entropy, direction):
    algorithm = make(alpha=0.3, alpha_optim=OptimConfig(lr=0.01), target_entropy=target_entropy)
    algorithm.policy.analyze = FixedActor(0.8, 0.1, 0.1)  # 0.64 nats
    algorithm.actor_optim = Recorder()
    before = algorithm.log_alpha.item()
    algorithm.update(batch())
    assert algorithm.log_alpha.item() - before == pytest.approx(direction * 0.01, rel=1e-3)


def test_target_entropy_is_nearly_that_of_the_uniform_policy_by_default():
    assert make().target_entropy == pytest.approx(0.98 * math.log(3.0))
    assert make(target_entropy=0.5).target_entropy == 0.5


def test_forbidden_actions_count_not_in_what_the_temperature_aims_at():
    # 2 and 1 of the three actions are allowed: the mean of 0.98 * log 2 and 0
    algorithm = make(obs=MASKED, alpha=0.5)
    data = batch(2)
    mask = np.array([[0, 1, 1], [0, 0, 1]], np.int8)
    data.obs, data.obs_next = ({"obs": data[key], "action_mask": mask} for key in ("obs", "obs_next"))
    stats = algorithm.update(data)
    assert stats.loss_alpha == pytest.approx(math.log(0.5) * (stats.entropy - 0.98 * math.log(2.0) / 2), rel=1e-5)
    fixed = make(obs=MASKED, alpha=0.5, target_entropy=0.4).update(data)
    assert fixed.loss_alpha == pytest.approx(math.log(0.5) * (fixed.entropy - 0.4), rel=1e-5)


def test_forbidden_actions_count_in_no_sum():
    algorithm = make(obs=MASKED, alpha=0.5, auto_alpha=False)
    algorithm.critic_target = FixedValues([1e6, 1.0, 1.0], [1e6, 1.0, 1.0])
    critic, actor = recorded(algorithm, "critic_optim", "actor_optim")
    mask = np.tile(np.array([0, 1, 1], np.int8), (16, 1))
    data = batch(rew=np.zeros(16, np.float32))
    data.obs, data.obs_next = ({"obs": data[key], "action_mask": mask} for key in ("obs", "obs_next"))
    stats = algorithm.update(data)
    assert stats.entropy == pytest.approx(math.log(2.0), abs=1e-3)  # nearly uniform at first
    assert stats.loss_critic < 2 * (1.0 + 0.5 * math.log(2.0) + 1.0) ** 2
    assert all(math.isfinite(loss[0].item()) for loss in (critic, actor))
    gradients = torch.autograd.grad(actor[0], list(algorithm.policy.parameters()))
    assert all(torch.isfinite(gradient).all() for gradient in gradients)


def test_critics_do_not_see_the_mask():
    algorithm = make(obs=MASKED)
    seen = {"obs": torch.ones(2, 3), "action_mask": torch.tensor([[0, 1, 1], [1, 1, 0]])}
    q = algorithm.critic.value(Batch(obs=seen))
    assert torch.equal(q[:, 0], q[:, 1])
    assert q.shape == (2, 2, 3)
