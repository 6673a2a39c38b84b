import numpy as np
import pytest
import torch
from gymnasium import spaces
from natural_parts import flat, make, natural_gradient, rows_of
from probes import GAMMA, of_both_spaces

from argosy.algorithm import NPG, NPGConfig, OptimConfig
from argosy.data import Batch

FEW = {"critic_steps": 2, "cg_steps": 3}
CASES = {
    "discrete": (NPGConfig(**FEW), spaces.Discrete(3)),
    "multi-discrete": (
        NPGConfig(critic_steps=1, cg_steps=3, normalize_adv=False, popart=True),
        spaces.MultiDiscrete([2, 3]),
    ),
    "box": (NPGConfig(**FEW, return_scaling=True), spaces.Box(-2.0, 2.0, (2,), np.float32)),
}
RANGES = [
    ("gae_lambda", 1.5),
    ("step_size", 0.0),
    ("damping", 0.0),
    ("cg_steps", 0),
    ("critic_steps", 0),
]
PROBED = of_both_spaces(NPGConfig(gamma=GAMMA, optim=OptimConfig(lr=0.02), step_size=0.3), 40)


def test_the_actor_moves_along_the_natural_gradient_of_the_explicit_fisher_matrix():
    algorithm = make(NPG, step_size=0.5, cg_steps=30, damping=0.1)
    mb, parameters = rows_of(algorithm), algorithm.policy.actor_parameters()
    expected, _ = natural_gradient(algorithm, mb)
    before = flat(parameters)
    loss = -(algorithm.policy.analyze(mb).logp * mb.adv).mean().item()
    metrics = algorithm._move_actor(mb)
    torch.testing.assert_close(flat(parameters) - before, 0.5 * expected, rtol=1e-3, atol=1e-5)
    assert metrics["loss_policy"].item() == pytest.approx(loss)


def test_the_divergence_is_that_of_the_step():
    algorithm = make(NPG, spaces.Box(-1.0, 1.0, (1,)), step_size=0.2)
    mb = rows_of(algorithm)
    mean = algorithm.policy(Batch(obs=mb.obs)).logits
    std = algorithm.policy.action_head.log_std.exp().item()
    metrics = algorithm._move_actor(mb)
    new_mean, new_std = algorithm.policy(Batch(obs=mb.obs)).logits, algorithm.policy.action_head.log_std.exp().item()
    kl = np.log(new_std / std) + (std**2 + (mean - new_mean).square()) / (2 * new_std**2) - 0.5
    assert metrics["approx_kl"].item() == pytest.approx(kl.mean().item(), rel=1e-4) != 0.0
