import math

import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import BOX as PROBE_BOX
from probes import FAST_CRITIC, Probed
from stand_ins import BOX, NET, OBS, FixedCritic, batch, learn_what_ends, recorded

from argosy.algorithm import AWAC, IQL, AWACConfig, OptimConfig, Task
from argosy.policy import RolloutRequest

CASES = {
    "plain": (AWACConfig(), BOX),
    "scalar": (AWACConfig(num_critics=3, popart=True), spaces.Box(-1.0, 1.0, (), np.float32)),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("critic_target", "update_target")
RANGES = [("n_step", 0), ("num_critics", 0), ("temperature", 0.0), ("max_weight", 0.0), ("tau", 0.0)]
PROBED = {"plain": Probed(config=AWACConfig(**FAST_CRITIC, tau=0.1, temperature=0.05), space=PROBE_BOX, updates=300)}


def make(space=BOX, net=NET, obs=OBS, **config):
    return AWAC.make(AWACConfig(**config), Task(observation_space=obs, action_space=space, net=net), seed=0)


class FixedActor:
    """Draws `act`; the stored actions have log-densities -1, -2, ..."""

    def __init__(self, sample, act):
        self.act, self.logp = torch.full((len(sample.obs), 2), act), -torch.arange(1.0, len(sample.obs) + 1.0)

    def sample(self, generator):
        return self.act


def fixed(algorithm, act):
    algorithm.policy.analyze = algorithm.policy.analyze_next = lambda sample: FixedActor(sample, act)
    return recorded(algorithm, "critic_optim", "actor_optim")


def test_losses_by_hand():
    # the target's next action is (0.5, 0.5): 1 + 0.9 * (3 + 1); the stored action's value is 0.4 above the drawn one's
    algorithm = make(temperature=0.2)
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 2.0, slope=1.0), FixedCritic(4.0, 3.0, slope=1.0)
    critic, actor = fixed(algorithm, 0.5)
    data = batch(2, rew=np.ones(2, np.float32), act=np.full((2, 2), 0.7, np.float32))
    stats = algorithm.update(data)
    errors = (1.0 + 1.4 - 4.6, 2.0 + 1.4 - 4.6)
    assert critic[0].item() == pytest.approx(sum(error**2 for error in errors), rel=1e-5)
    assert actor[0].item() == pytest.approx(math.exp(0.4 / 0.2) * 1.5, rel=1e-5)
    assert stats.weight_mean == pytest.approx(math.exp(2.0), rel=1e-5)


def test_a_row_counts_by_its_weight_and_no_more_than_the_bound():
    algorithm = make(temperature=0.001, max_weight=7.0)
    algorithm.critic, algorithm.critic_target = FixedCritic(0.0, 0.0, slope=1.0), FixedCritic(0.0, 0.0)
    critic, actor = fixed(algorithm, 0.0)
    data = batch(2, rew=np.zeros(2, np.float32), act=np.full((2, 2), 0.5, np.float32))
    data.weight = np.array([1.0, 0.5], np.float32)
    algorithm.update(data)
    assert critic[0].item() == pytest.approx(2 * 0.75)
    assert actor[0].item() == pytest.approx(7.0 * (1.0 + 0.5 * 2.0) / 2)


def test_draws_of_the_policy_have_its_mean_and_deviation_and_stay_in_bounds():
    algorithm = make(log_std_init=math.log(0.1))
    now = algorithm.policy.analyze(algorithm.prepare(batch(5000)))
    drawn = (now.sample(algorithm.rng.torch) - now.params).detach()
    assert drawn.mean().item() == pytest.approx(0.0, abs=0.01)
    assert drawn.std().item() == pytest.approx(0.1, rel=0.05)
    wide = make(log_std_init=2.0).policy.analyze(algorithm.prepare(batch(100)))
    assert wide.sample(algorithm.rng.torch).abs().amax().item() == 1.0


def test_takes_the_best_actions_that_there_are_and_none_beyond():
    fast = {"actor_optim": OptimConfig(lr=0.003), "critic_optim": OptimConfig(lr=0.003)}
    taken = learn_what_ends(make(temperature=0.1, **fast), 300)
    assert all(-0.12 < act < 0.25 for act in taken)  # the data have -0.2 in the mean


def test_layer_normalisation_bounds_what_critics_say_of_anything():
    algorithm = make()
    with torch.no_grad():
        far = batch(64)
        obs, act = algorithm.prepare(far), torch.full((64, 2), 1e6)
        value = algorithm.critic.value(obs, act)
    bound = algorithm.critic.q[-1].weight.norm(dim=1).amax() * math.sqrt(NET.hidden_sizes[-1]) + 1.0
    assert value.abs().amax() <= bound  # of a layer normalised to a deviation of 1


@pytest.mark.parametrize("cls", [AWAC, IQL])
@pytest.mark.parametrize("method", ["clip", "tanh"])
def test_the_mean_is_bounded_once(cls, method):
    """What tanh maps to the bounds needs no other one before it, which would leave 76 % of them."""
    task = Task(observation_space=OBS, action_space=spaces.Box(-2.0, 2.0, (1,), np.float32), net=NET)
    policy = cls.make(cls.config_type(action_bound_method=method), task, seed=0).policy
    with torch.no_grad():
        policy.action_head.output.bias.fill_(9.0)
    rows = RolloutRequest(obs=np.zeros((1, *OBS.shape), np.float32), is_evaluation=np.ones(1, bool))
    assert policy.map_action(policy.rollout(rows).action)[0, 0] == pytest.approx(2.0, abs=1e-3)
