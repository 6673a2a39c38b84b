import dataclasses
import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import BOX as PROBE_BOX
from probes import COOL, FAST_CRITIC, Probed
from stand_ins import BOX, NET, OBS, FixedCritic, batch, fixed_actor, learn_what_ends, recorded

from argosy.algorithm import CQL, CQLConfig, OptimConfig, Task

CASES = {
    "plain": (CQLConfig(num_draws=2), BOX),
    "scalar": (
        CQLConfig(num_draws=1, lagrange=True, calibrated=True, popart=True),
        spaces.Box(-1.0, 1.0, (), np.float32),
    ),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("critic_target", "update_target", "log_alpha", "log_multiplier")
RANGES = [("conservative_weight", -1.0), ("num_draws", 0), ("tau", 0.0), ("policy_freq", 0)]
FIXED = {"alpha": 1e-6, "auto_alpha": False}
PROBED = {
    "plain": Probed(
        config=CQLConfig(**FAST_CRITIC, **COOL, tau=0.1, conservative_weight=0.01), space=PROBE_BOX, updates=200
    )
}


def make(space=BOX, net=NET, obs=OBS, **config):
    return CQL.make(CQLConfig(**config), Task(observation_space=obs, action_space=space, net=net), seed=0)


class WideCritic(FixedCritic):
    """Knows several actions of each observation, too."""

    def value(self, sample, act):
        if act.dim() == 2:
            return super().value(sample, act)
        return torch.stack([FixedCritic.value(self, sample, one) for one in act], dim=1)


def learned(algorithm, **changes):
    """Of an actor that draws (0.5, 0.5) with log-density 0.3; the critics say 1 and 2 beside the sum of the action."""
    algorithm.critic, algorithm.critic_target = WideCritic(1.0, 2.0, slope=1.0), FixedCritic(0.0, 0.0)
    fixed_actor(algorithm, 0.5, 0.3)
    losses = recorded(algorithm, "critic_optim", "actor_optim", "multiplier_optim")
    fields = {
        "rew": np.zeros(16, np.float32),
        "act": np.zeros((16, 2), np.float32),
    }
    stats = algorithm.update(batch(**{**fields, **changes}))
    uniform = algorithm.critic.asked[1 : 1 + algorithm.config.num_draws]
    return stats, losses, torch.stack(uniform)


def gap_by_hand(uniform, low=-math.inf):
    """Of the first critic: 3 uniform actions of density 1/4, 6 of the policy's, the stored one's value is 1."""
    drawn = [math.log(6.0) + max(2.0, low) - 0.3] * 16
    others = (1.0 + uniform.sum(-1) + math.log(4.0)).logsumexp(0)
    return float(torch.tensor(drawn).logaddexp(others).mean()) - 1.0


def test_the_gap_by_hand():
    stats, (critic, _, multiplier), uniform = learned(make(num_draws=3, conservative_weight=2.0, **FIXED))
    gap = gap_by_hand(uniform)  # the second critic says 1 more of everything: the same gap
    assert stats.gap == pytest.approx(gap, rel=1e-5)
    assert (stats.loss_conservative, stats.multiplier) == (pytest.approx(2 * 2.0 * gap, rel=1e-5), 1.0)
    assert critic[0].item() == pytest.approx(1.0 + 4.0 + 4.0 * gap, rel=1e-5)  # squared errors and gaps
    assert multiplier == []
    assert uniform.abs().amax() <= 1.0
    assert uniform.std().item() == pytest.approx(1 / math.sqrt(3), rel=0.2)


@pytest.mark.parametrize("entropy_in_target", [False, True])
def test_targets_hold_the_entropy_where_they_are_told_to(entropy_in_target):
    fixed = {"conservative_weight": 0.0, "alpha": 0.5, "auto_alpha": False}
    _, (critic, _, _), _ = learned(make(entropy_in_target=entropy_in_target, **fixed))
    below = float(batch().discount[0]) * 0.5 * 0.3 if entropy_in_target else 0.0  # the actor's log-density is 0.3
    assert critic[0].item() == pytest.approx((1.0 + below) ** 2 + (2.0 + below) ** 2, rel=1e-5)


def test_the_multiplier_is_pulled_by_what_the_gap_is_above_the_threshold():
    algorithm = make(num_draws=3, conservative_weight=2.0, lagrange=True, threshold=1.5, **FIXED)
    with torch.no_grad():
        algorithm.log_multiplier.fill_(math.log(3.0))
    stats, (critic, _, multiplier), uniform = learned(algorithm)
    above = 2.0 * gap_by_hand(uniform) - 1.5
    assert multiplier[0].item() == pytest.approx(-3.0 * above, rel=1e-5)
    assert critic[0].item() == pytest.approx(5.0 + 3.0 * 2 * above, rel=1e-5)
    assert stats.multiplier == pytest.approx(3.0)


@pytest.mark.parametrize(("threshold", "rises"), [(-100.0, True), (100.0, False)])
def test_the_multiplier_rises_while_the_gap_is_too_wide(threshold, rises):
    algorithm = make(lagrange=True, threshold=threshold)
    algorithm.update(batch())
    assert (algorithm.log_multiplier.item() > 0.0) == rises


def test_the_multiplier_is_bounded():
    algorithm = make(lagrange=True)
    with torch.no_grad():
        algorithm.log_multiplier.fill_(math.log(2e6))
    algorithm.update(batch())
    assert algorithm.update(batch()).multiplier == pytest.approx(1e6)
    algorithm.config = dataclasses.replace(algorithm.config, threshold=1e9)
    for _ in range(3):
        last = algorithm.update(batch()).multiplier
    assert last < 1e6  # and comes back from there


def test_of_a_terminated_row_the_successors_actions_do_not_count():
    stats, _, uniform = learned(make(num_draws=3, **FIXED), discount=np.zeros(16, np.float32))
    others = (1.0 + uniform.sum(-1) + math.log(4.0)).logsumexp(0)
    drawn = torch.full((16,), math.log(3.0) + 1.7)
    assert stats.gap == pytest.approx(drawn.logaddexp(others).mean().item() - 1.0, rel=1e-5)


def test_calibrated_the_policys_actions_are_not_pushed_below_the_return():
    stats, _, uniform = learned(make(num_draws=3, calibrated=True, **FIXED), returns=np.full(16, 5.0, np.float32))
    first, second = gap_by_hand(uniform, 5.0), gap_by_hand(uniform, 4.0)  # the second says 1 more of everything
    assert stats.gap == pytest.approx((first + second) / 2, rel=1e-5)


def test_a_row_counts_by_its_weight():
    weight = np.arange(16, dtype=np.float32) / 15.0
    even, _, _ = learned(make(num_draws=1, **FIXED))
    weighted, _, uniform = learned(make(num_draws=1, **FIXED), weight=weight)
    rows = torch.full((16,), math.log(2.0) + 1.7).logaddexp((1.0 + uniform.sum(-1) + math.log(4.0)).logsumexp(0)) - 1.0
    assert even.gap == pytest.approx(rows.mean().item(), rel=1e-5)
    assert weighted.gap == pytest.approx((torch.from_numpy(weight) * rows).mean().item(), rel=1e-5)


def test_returns_are_asked_for_where_they_count():
    assert make().sampling.fields == ()
    assert make(calibrated=True, n_step=3).sampling.fields == ("returns",)
    assert make(calibrated=True, n_step=3).sampling.n_step == 3


def test_the_policy_learns_nothing_from_the_gap():
    algorithm = make(conservative_weight=100.0)
    recorded(algorithm, "actor_optim")
    algorithm.update(batch())
    assert all(parameter.grad is None for parameter in algorithm.policy.parameters())


def test_takes_the_best_actions_that_there_are_and_none_beyond():
    fast = {"actor_optim": OptimConfig(lr=0.003), "critic_optim": OptimConfig(lr=0.003)}
    config = {"alpha": 0.01, "auto_alpha": False, **fast}
    assert all(act > 0.7 for act in learn_what_ends(make(conservative_weight=0.0, **config), 300))
    taken = learn_what_ends(make(conservative_weight=2.0, **config), 300)
    assert all(-0.2 < act < 0.35 for act in taken)


def test_at_first_the_actor_imitates_the_data_whatever_the_critics_say():
    actor = {"cloning_optim": OptimConfig(lr=0.003)}
    cloned = learn_what_ends(make(conservative_weight=0.0, cloning_updates=300, **actor), 300)
    assert cloned == pytest.approx([-0.2, -0.2], abs=0.1)  # the middle of the data, of which the largest are best
    algorithm, data = make(cloning_updates=1), batch()
    logp = algorithm.policy.analyze(algorithm.prepare(data)).log_prob(torch.from_numpy(data.act))
    first, then = algorithm.update(data), algorithm.update(data)
    assert (first.loss_actor, first.loss_alpha) == (pytest.approx(-logp.mean().item(), rel=1e-5), None)
    assert (first.alpha, then.alpha) == (pytest.approx(0.2), pytest.approx(0.2))  # the temperature learns from now on
    assert then.loss_alpha is not None
    recorded(algorithm, "critic_optim", "actor_optim")
    algorithm.critic, algorithm.critic_target = WideCritic(1.0, 2.0), FixedCritic(0.0, 0.0)
    fixed_actor(algorithm, 0.5, 0.3)
    assert algorithm.update(data).loss_actor == pytest.approx(then.alpha * 0.3 - 1.0, rel=1e-2)  # and climbs values


def test_entropy_that_is_aimed_at_is_no_more_than_that_of_the_cloned_data():
    narrow, wide = np.full((16, 2), 0.1, np.float32), np.linspace(-0.9, 0.9, 32, dtype=np.float32).reshape(16, 2)
    how = {"cloning_updates": 100, "cloning_optim": OptimConfig(lr=0.02)}
    for acts, config, aimed in ((narrow, {}, None), (wide, {}, -2.0), (narrow, {"target_entropy": -1.0}, -1.0)):
        algorithm = make(**how, **config)
        for seed in range(100):
            stats = algorithm.update(batch(seed=seed, act=acts))
        assert (stats.entropy < -2.0) == (acts is narrow)
        assert algorithm.target_entropy == (stats.entropy if aimed is None else aimed)
        assert algorithm.update(batch(act=acts)).loss_alpha is not None
        continued = make(**how, **config)
        continued.load_state_dict(algorithm.state_dict())
        assert continued.target_entropy == algorithm.target_entropy
