import copy

import numpy as np
import pytest
import torch
from probes import BOX as PROBE_BOX
from probes import COOL, FAST_BANDIT, FAST_CRITIC, Probed
from stand_ins import BOX, NET, OBS, FixedCritic, batch, fixed_actor, recorded

from argosy.algorithm import DroQ, DroQConfig, Task
from argosy.data import Batch
from argosy.net.regularise import Dropout

CASES = {
    "plain": (DroQConfig(policy_freq=1, dropout=0.2), BOX),
    "without dropout": (
        DroQConfig(policy_freq=1, dropout=0.0, num_critics=3, auto_alpha=False, return_scaling=True),
        BOX,
    ),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("critic_target", "log_alpha", "update_target")
RANGES = [("dropout", -0.1), ("dropout", 1.0), ("policy_freq", 0)]
RESUME = {"policy_freq": 3, "dropout": 0.1}
PROBED = {
    "plain": Probed(
        config=DroQConfig(**FAST_CRITIC, **COOL, tau=0.1, policy_freq=1, dropout=1e-3), space=PROBE_BOX, updates=300
    )
}
BANDIT = (DroQConfig(**FAST_BANDIT, policy_freq=1), 300)


def make(space=BOX, net=NET, obs=OBS, **config):
    return DroQ.make(DroQConfig(**config), Task(observation_space=obs, action_space=space, net=net), seed=0)


def test_losses_by_hand():
    # target = 1 + 0.9 * (min(4, 3) - 0.5 * 2) = 2.8, as SAC's; the policy climbs the mean
    algorithm = make(alpha=0.5, auto_alpha=False, policy_freq=1)
    fixed_actor(algorithm, 0.0, 2.0)
    algorithm.critic, algorithm.critic_target = FixedCritic(1.0, 2.0), FixedCritic(4.0, 3.0)
    critic, actor = recorded(algorithm, "critic_optim", "actor_optim")
    algorithm.update(batch(rew=np.ones(16, np.float32)))
    assert critic[0].item() == pytest.approx(1.8**2 + 0.8**2)
    assert actor[0].item() == pytest.approx(0.5 * 2.0 - 1.5)


@pytest.mark.parametrize("part", ["critic", "critic_target"])
def test_dropout_is_on_in_critics_and_targets_and_draws_from_the_algorithms_generator(part):
    algorithm = make(dropout=0.5)
    critic, sample, act = getattr(algorithm, part), Batch(obs=torch.ones(4, 3)), torch.ones(4, 2)
    algorithm.seed(3)
    first, second = critic.value(sample, act), critic.value(sample, act)
    assert not torch.equal(first, second)
    algorithm.seed(3)
    assert torch.equal(critic.value(sample, act), first)
    assert not torch.equal(first[:, 0], first[:, 1])  # equal rows, other draws


def test_without_dropout_equal_rows_have_equal_values():
    value = make(dropout=0.0).critic.value(Batch(obs=torch.ones(4, 3)), torch.ones(4, 2))
    torch.testing.assert_close(value, value[:, :1].expand(-1, 4))


def test_a_resumed_run_draws_on():
    algorithm, resumed = make(dropout=0.3), make(dropout=0.3)
    algorithm.update(batch())
    resumed.load_state_dict(copy.deepcopy(algorithm.state_dict()))
    losses = [each.update(batch(seed=1)).loss_critic for each in (algorithm, resumed)]
    assert losses[0] == losses[1]


def test_each_hidden_layer_of_the_critics_has_dropout_and_normalisation_of_its_own():
    shape = [type(layer).__name__ for layer in make().critic.q]
    assert shape == ["EnsembleLinear", "Dropout", "EnsembleLayerNorm", "ReLU", "EnsembleLinear"]
    assert make(dropout=0.25).critic.q[1].probability == 0.25
    assert not any(isinstance(layer, Dropout) for layer in make().policy.modules())
