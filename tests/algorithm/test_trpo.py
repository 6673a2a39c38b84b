import numpy as np
import pytest
import torch
from gymnasium import spaces
from natural_parts import flat, make, natural_gradient, rows_of
from probes import GAMMA, of_both_spaces

from argosy.algorithm import TRPO, OptimConfig, TRPOConfig
from argosy.data import Batch

FEW = {"critic_steps": 2, "cg_steps": 3}
CASES = {
    "discrete": (TRPOConfig(**FEW), spaces.Discrete(3)),
    "multi-discrete": (
        TRPOConfig(critic_steps=1, cg_steps=3, normalize_adv=False, popart=True),
        spaces.MultiDiscrete([2, 3]),
    ),
    "box": (TRPOConfig(**FEW, return_scaling=True), spaces.Box(-2.0, 2.0, (2,), np.float32)),
}
RANGES = [
    ("gae_lambda", 1.5),
    ("max_kl", 0.0),
    ("backtrack", 1.0),
    ("max_backtracks", 0),
    ("damping", 0.0),
    ("cg_steps", 0),
    ("critic_steps", 0),
]
PROBED = of_both_spaces(TRPOConfig(gamma=GAMMA, optim=OptimConfig(lr=0.02), max_kl=0.05), 40)


def test_the_step_is_as_long_as_the_divergence_allows_along_the_natural_gradient():
    algorithm = make(TRPO, max_kl=1e-4, cg_steps=30, damping=0.1)
    mb, parameters = rows_of(algorithm), algorithm.policy.actor_parameters()
    direction, matrix = natural_gradient(algorithm, mb)
    expected = (2e-4 / (direction @ matrix @ direction)).sqrt() * direction
    before = flat(parameters)
    metrics = algorithm._move_actor(mb)
    torch.testing.assert_close(flat(parameters) - before, metrics["step_share"] * expected, rtol=1e-3, atol=2e-6)
    assert metrics["loss_policy"].item() == pytest.approx(-mb.adv.mean().item(), rel=1e-5)  # all ratios are 1
    assert 0.0 < metrics["approx_kl"].item() <= 1e-4


def test_a_step_too_far_is_shortened_until_divergence_and_objective_are_right():
    algorithm = make(TRPO, spaces.Box(-1.0, 1.0, (1,)), max_kl=0.5, backtrack=0.5, damping=1e-4)
    mb = rows_of(algorithm)
    metrics = algorithm._move_actor(mb)
    assert metrics["step_share"].item() in (0.5, 0.25, 0.125, 0.0625)
    after = algorithm.policy.analyze(mb)
    assert metrics["approx_kl"].item() <= 0.5
    assert -((after.logp - mb.logp).exp() * mb.adv).mean() < metrics["loss_policy"]


def test_where_no_step_is_right_the_actor_stays_exactly():
    algorithm = make(TRPO, max_backtracks=3)
    mb, parameters = rows_of(algorithm), algorithm.policy.actor_parameters()
    before, analyze = flat(parameters), algorithm.policy.analyze

    def worse(sample):
        now = analyze(sample)
        return now if torch.is_grad_enabled() else Batch(logp=now.logp, kl_from=lambda old: torch.ones(40))

    algorithm.policy.analyze = worse
    metrics = algorithm._move_actor(mb)
    assert torch.equal(flat(parameters), before)
    assert (metrics["step_share"].item(), metrics["approx_kl"].item()) == (0.0, 0.0)
