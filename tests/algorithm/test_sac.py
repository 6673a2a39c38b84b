import math

import numpy as np
import pytest
from gymnasium import spaces
from probes import BOX as PROBE_BOX
from probes import COOL, FAST_BANDIT, FAST_CRITIC, Probed
from stand_ins import BOX, NET, OBS, FixedCritic, Recorder, batch, fixed_actor, recorded, two_rows

from argosy.algorithm import SAC, OptimConfig, SACConfig, Task

OPTIMS = ("critic_optim", "actor_optim", "alpha_optim")
CASES = {
    "plain": (SACConfig(), BOX),
    "fixed": (SACConfig(auto_alpha=False, num_critics=3, popart=True), BOX),
    "gsde": (SACConfig(gsde_steps=3), BOX),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("critic_target", "log_alpha", "update_target")
RANGES = [("alpha", 0.0), ("num_critics", 0), ("n_step", 0), ("tau", 1.5), ("policy_freq", 0)]
RANGES += [("gsde_steps", 0), ("gsde_log_std_init", 3.0)]
PROBED = {
    "fixed": Probed(config=SACConfig(**FAST_CRITIC, **COOL, tau=0.1), space=PROBE_BOX, updates=300),
    "learned": Probed(
        config=SACConfig(**FAST_CRITIC, alpha=0.01, alpha_optim=OptimConfig(lr=1e-4), tau=0.1),
        space=PROBE_BOX,
        updates=300,
        probes=["both"],
    ),
}
BANDIT = (SACConfig(**FAST_BANDIT), 300)


def make(space=BOX, **config):
    return SAC.make(SACConfig(**config), Task(observation_space=OBS, action_space=space, net=NET), seed=0)


def test_critic_loss_by_hand():
    # target = 1 + 0.9 * (min(4, 3) - 0.5 * 2) = 2.8; errors 1 - 2.8 and 2 - 2.8
    algorithm = make(alpha=0.5, auto_alpha=False)
    fixed_actor(algorithm, 0.0, 2.0)
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 2.0), FixedCritic(4.0, 3.0)
    critic, actor, _ = recorded(algorithm, *OPTIMS)
    stats = algorithm.update(batch(rew=np.ones(16, np.float32)))
    assert critic[0].item() == pytest.approx(1.8**2 + 0.8**2)
    assert stats.priorities.tolist() == pytest.approx([1.3] * 16)
    # actor: alpha * log p - min(1, 2)
    assert actor[0].item() == pytest.approx(0.5 * 2.0 - 1.0)
    assert (stats.entropy, stats.q_mean, stats.loss_alpha) == (-2.0, 1.5, None)
    assert stats.alpha == pytest.approx(0.5)


def test_weights_and_discount_enter_the_critic_loss():
    algorithm = make(alpha=0.5, auto_alpha=False)
    fixed_actor(algorithm, 0.0, 0.0)
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 1.0), FixedCritic(4.0, 4.0)
    critic, _, _ = recorded(algorithm, *OPTIMS)
    algorithm.update(two_rows())  # errors 1 and -1
    assert critic[0].item() == pytest.approx(2 * (1.0 + 0.5) / 2)


@pytest.mark.parametrize(("logp", "direction"), [(5.0, 1), (-5.0, -1)])
def test_temperature_rises_when_the_entropy_is_too_low(logp, direction):
    algorithm = make(alpha=0.3, alpha_optim=OptimConfig(lr=0.01), target_entropy=-2.0)
    fixed_actor(algorithm, 0.0, logp)
    algorithm.actor_optim = Recorder()
    before = algorithm.log_alpha.item()
    stats = algorithm.update(batch())
    # the first step of Adam has the length of the learning rate
    assert algorithm.log_alpha.item() - before == pytest.approx(direction * 0.01, rel=1e-3)
    assert stats.loss_alpha == pytest.approx(math.log(0.3) * (-logp + 2.0), rel=1e-5)
    assert stats.alpha == pytest.approx(0.3)


def test_target_entropy_is_minus_the_actions_dimension_by_default():
    assert make().target_entropy == -2.0
    assert make(spaces.Box(-1, 1, (2, 3), np.float32)).target_entropy == -6.0
    assert make(target_entropy=-0.5).target_entropy == -0.5


def test_a_fixed_temperature_stays():
    algorithm, other = make(auto_alpha=False, alpha=0.7), make(alpha=0.1)
    algorithm.update(batch())
    assert algorithm.log_alpha.item() == pytest.approx(math.log(0.7))
    algorithm.load_state_dict(other.state_dict())  # of a run with other settings
    algorithm.schedule(1, 10)
    assert algorithm.log_alpha.item() == pytest.approx(math.log(0.7))
