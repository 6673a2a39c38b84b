import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import GAMMA, of_both_spaces

from argosy.algorithm import A2C, IMPALA, A2CConfig, IMPALAConfig, OptimConfig, Task
from argosy.data import Batch
from argosy.net import NetConfig

OBS = spaces.Box(-10, 10, (1,), np.float32)

CASES = {
    "discrete": (IMPALAConfig(), spaces.Discrete(3)),
    "multi-discrete": (IMPALAConfig(popart=True, rho_clip=math.inf, trace_lambda=0.9), spaces.MultiDiscrete([2, 3])),
    "box": (IMPALAConfig(return_scaling=True, trace_clip=0.5), spaces.Box(-2.0, 2.0, (2,), np.float32)),
}
RANGES = [
    ("trace_lambda", 1.5),
    ("rho_clip", 0.0),
    ("trace_clip", -1.0),
    ("value_coef", -1.0),
    ("entropy_coef", -0.1),
    ("entropy_coef_end", -0.1),
]
PROBED = of_both_spaces(IMPALAConfig(gamma=GAMMA, optim=OptimConfig(lr=0.02), entropy_coef=0.0), 80)


def make(algorithm=IMPALA, config=IMPALAConfig, **settings):
    task = Task(observation_space=OBS, action_space=spaces.Discrete(2), net=NetConfig(hidden_sizes=(8,)))
    made = algorithm.make(config(**settings), task, seed=0)
    made.optim = Gradients(made.policy)
    return made


class Gradients:
    """Stands for an optimiser: keeps the gradient, moves nothing."""

    def __init__(self, policy):
        self.parameters = list(policy.parameters())

    def step(self, loss):
        found = torch.autograd.grad(loss, self.parameters)
        self.gradient = torch.cat([g.flatten() for g in found])


def random_rollout(algorithm, T=6, B=3, seed=0, **changes):
    """Experience of the algorithm's own policy, as it is now."""
    rng = np.random.default_rng(seed)
    terminated = rng.random((T, B)) < 0.2
    cut = terminated | (rng.random((T, B)) < 0.2)
    cut[-1] = True
    obs, obs_next = rng.normal(size=(2, T, B, 1)).astype(np.float32)
    obs_next[:-1] = np.where(cut[:-1, :, None], obs_next[:-1], obs[1:])
    act = rng.integers(2, size=(T, B))
    batch = Batch(obs=obs, act=act, obs_next=obs_next, terminated=terminated, cut=cut)
    batch.rew = rng.normal(size=(T, B)).astype(np.float32)
    with torch.no_grad():
        logp = algorithm.policy.analyze(Batch(obs=torch.from_numpy(obs), act=torch.from_numpy(act))).logp
    batch.policy = Batch(logp=logp.numpy())
    return Batch({**vars(batch), **changes})


def test_of_fresh_experience_it_is_a2c():
    ours, a2c = make(gamma=0.9), make(A2C, A2CConfig, gamma=0.9)
    batch = random_rollout(ours)
    found, expected = ours.update(batch), a2c.update(batch)
    for name in ("loss", "loss_policy", "loss_value", "entropy"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-5)
    torch.testing.assert_close(ours.optim.gradient, a2c.optim.gradient, rtol=1e-4, atol=1e-6)
    assert found.importance == pytest.approx(1.0)


def one_step(mu, counts):
    """Episodes of one step at one observation: action i `counts[i]` times, taken with probability mu[i]."""
    act = np.repeat([0, 1], counts)[None]
    N = act.size
    ends = np.ones((1, N), bool)
    rew = np.where(act == 1, 2.0, -1.0).astype(np.float32)
    obs = np.ones((1, N, 1), np.float32)
    policy = Batch(logp=np.log(mu)[act].astype(np.float32))
    return Batch(obs=obs, obs_next=obs, act=act, rew=rew, terminated=ends, cut=ends, policy=policy)


def test_the_expected_gradient_from_old_experience_is_that_of_fresh_one():
    algorithm = make(rho_clip=math.inf, entropy_coef=0.0)
    with torch.no_grad():
        algorithm.policy.action_head.output.bias.copy_(torch.tensor([0.3, -0.4]))
        pi = algorithm.policy(Batch(obs=np.ones((1, 1), np.float32))).logits.exp()[0].numpy()
    mu = np.array([0.8, 0.2])
    gradients = {}
    for name, acted in (("old", mu), ("fresh", pi)):
        counts = np.round(acted * 10_000).astype(int)
        algorithm.update(one_step(acted, counts))
        gradients[name] = algorithm.optim.gradient
    uncorrected = one_step(mu, [8_000, 2_000])
    uncorrected.policy.logp = np.log(pi)[uncorrected.act].astype(np.float32)
    algorithm.update(uncorrected)
    torch.testing.assert_close(gradients["old"], gradients["fresh"], rtol=2e-3, atol=1e-4)
    assert (algorithm.optim.gradient - gradients["fresh"]).norm() > 0.3 * gradients["fresh"].norm()


def test_weights_are_bounded():
    algorithm = make()
    batch = random_rollout(algorithm)
    batch.policy.logp = batch.policy.logp - 1.0  # all actions are now more likely than they were
    assert algorithm.update(batch).importance == pytest.approx(1.0)
    batch.policy.logp = batch.policy.logp + 2.0
    assert algorithm.update(batch).importance == pytest.approx(math.exp(-1.0))


def test_masked_rows_are_looked_at_and_not_learned_from():
    algorithm = make()
    mask = np.ones((6, 3), bool)
    mask[0], mask[5] = False, False

    def learned(**changes):
        algorithm.update(random_rollout(algorithm, mask=mask, **changes))
        return algorithm.optim.gradient

    plain = random_rollout(algorithm)
    before, behind = plain.rew.copy(), plain.rew.copy()
    before[0] += 5.0
    behind[5] += 5.0
    whole = learned()
    assert torch.equal(whole, learned(rew=before))
    assert not torch.equal(whole, learned(rew=behind))


def test_schedule_of_the_entropy_bonus():
    algorithm = make(entropy_coef=0.1, entropy_coef_end=0.0)
    algorithm.schedule(500, 1000)
    assert algorithm.entropy_coef == pytest.approx(0.05)
    stats = algorithm.update(random_rollout(algorithm))
    assert stats.loss == pytest.approx(stats.loss_policy + 0.5 * stats.loss_value - 0.05 * stats.entropy)
