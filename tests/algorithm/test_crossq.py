import numpy as np
import pytest
import torch
from gymnasium import spaces
from probes import BOX as PROBE_BOX
from probes import COOL, FAST_BANDIT, GAMMA, PROBES, Probed
from stand_ins import BOX, NET, OBS, Recorder, Unscaled, batch, fixed_actor, recorded, two_rows

from argosy.algorithm import CrossQ, CrossQConfig, OptimConfig, Task
from argosy.data import Batch
from argosy.errors import ConfigError
from argosy.net import MLP, NetConfig
from argosy.net.batch_norm import BatchRenorm, batch_statistics
from argosy.policy import RolloutRequest

CASES = {
    "plain": (CrossQConfig(policy_freq=1), BOX),
    "warmed up": (CrossQConfig(policy_freq=1, norm_warmup=0, critic_sizes=(24,), auto_alpha=False, popart=True), BOX),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("log_alpha",)
CONTEXT = ("act",)  # by the statistics of the batch
RANGES = [("alpha", 0.0), ("num_critics", 0), ("n_step", 0), ("policy_freq", 0), ("norm_warmup", -1)]
RESUME = {"policy_freq": 3, "norm_warmup": 20}
OPTIMS = ("critic_optim", "actor_optim", "alpha_optim")
PROBE_CONFIG = CrossQConfig(
    gamma=GAMMA,
    actor_optim=OptimConfig(lr=0.01),
    critic_optim=OptimConfig(lr=0.01),
    **COOL,
    policy_freq=1,
    norm_warmup=50,
)
PROBED = {
    "plain": Probed(config=PROBE_CONFIG, space=PROBE_BOX, updates=300, probes=[p for p in PROBES if p != "endless"]),
    # its one observation tells the normalisation nothing: after 500 updates three of eight seeds are still on their way
    "long": Probed(config=PROBE_CONFIG, space=PROBE_BOX, updates=2000, probes=["endless"]),
}
BANDIT = (CrossQConfig(**FAST_BANDIT, policy_freq=1), 400)


def make(space=BOX, net=NET, obs=OBS, **config):
    return CrossQ.make(CrossQConfig(**config), Task(observation_space=obs, action_space=space, net=net), seed=0)


class FixedCritic(Unscaled, torch.nn.Module):
    """An ensemble of which each member says one value of stored actions and one of the next ones."""

    def __init__(self, values, values_next):
        super().__init__()
        self.both = torch.tensor(values), torch.tensor(values_next)

    def value(self, sample, act):
        return self.both[0].unsqueeze(1).expand(-1, len(act)) + 0.0 * act.sum(-1)

    def values(self, sample, act, act_next):
        return self.value(sample, act), self.both[1].unsqueeze(1).expand(-1, len(act))


def test_losses_by_hand():
    # target = 1 + 0.9 * (min(4, 3) - 0.5 * 2) = 2.8; errors 1 - 2.8 and 2 - 2.8
    algorithm = make(alpha=0.5, auto_alpha=False, policy_freq=1)
    fixed_actor(algorithm, 0.0, 2.0)
    algorithm.critic = FixedCritic([1.0, 2.0], [4.0, 3.0])
    critic, actor, _ = recorded(algorithm, *OPTIMS)
    stats = algorithm.update(batch(rew=np.ones(16, np.float32)))
    assert critic[0].item() == pytest.approx(1.8**2 + 0.8**2)
    assert actor[0].item() == pytest.approx(0.5 * 2.0 - 1.0)
    assert stats.priorities.tolist() == pytest.approx([1.3] * 16)
    assert (stats.entropy, stats.q_mean, stats.loss_alpha) == (-2.0, 1.5, None)


def test_weights_and_discount_enter_the_critic_loss():
    algorithm = make(alpha=0.5, auto_alpha=False, policy_freq=1)
    fixed_actor(algorithm, 0.0, 0.0)
    algorithm.critic = FixedCritic([1.0, 1.0], [4.0, 4.0])
    critic, _, _ = recorded(algorithm, *OPTIMS)
    algorithm.update(two_rows())  # errors 1 and -1
    assert critic[0].item() == pytest.approx(2 * (1.0 + 0.5) / 2)


def test_no_gradient_flows_through_the_next_values():
    """With discount 0 for all but what it is worth, the gradient is that of the stored actions' values alone."""
    algorithm = make(num_critics=1)
    critic = algorithm.critic_optim = Recorder()
    data = batch(rew=np.zeros(16, np.float32))
    algorithm.update(data)
    fresh = make(num_critics=1)
    sample = fresh.prepare(data)
    with torch.no_grad():
        act_next, logp_next = fresh.policy.analyze_next(sample).sample(fresh.rng.torch)
    with batch_statistics(fresh.critic, torch.ones(32, dtype=torch.bool)):
        q, q_next = fresh.critic.values(sample, sample.act, act_next)
    target = (0.9 * (q_next[0] - 0.2 * logp_next)).detach()
    loss = (q[0] - target).square().mean()
    assert critic.losses[0].item() == pytest.approx(loss.item(), rel=1e-5)
    expected = torch.autograd.grad(loss, fresh.critic.parameters())
    found = torch.autograd.grad(critic.losses[0], algorithm.critic.parameters())
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_both_passes_are_in_the_critics_statistics_but_terminated_successors():
    algorithm = make()
    data = batch(4, discount=np.array([0.9, 0.0, 0.9, 0.9], np.float32))
    algorithm.update(data)
    counted = np.concatenate((data.obs, data.obs_next[[0, 2, 3]])).mean(0)
    found = algorithm.critic.q[0].mean[0, :3]  # the observation's part of the input; 1 % of the first batch's mean
    assert found.numpy() == pytest.approx(0.01 * counted, rel=1e-4)


def test_acting_and_the_policys_target_use_running_statistics():
    algorithm = make(policy_freq=1)
    for i in range(3):
        algorithm.update(batch(seed=i))
    before = {key: value.clone() for key, value in algorithm.policy.state_dict().items()}
    obs = np.random.default_rng(0).uniform(-1, 1, (8, 3)).astype(np.float32)

    def actions(obs):
        return algorithm.policy.rollout(RolloutRequest(obs=obs, is_evaluation=np.ones(len(obs), bool))).action

    for i in range(8):
        assert actions(obs[i : i + 1])[0] == pytest.approx(actions(obs)[i], abs=1e-6)
    assert all(torch.equal(before[key], value) for key, value in algorithm.policy.state_dict().items())


def test_critics_may_be_wider_than_the_policy():
    algorithm = make(critic_sizes=(40, 30))
    shapes = [tuple(layer.weight.shape) for layer in list(algorithm.critic.q)[1::3]]
    assert shapes == [(2, 5, 40), (2, 40, 30), (2, 30, 1)]
    assert algorithm.policy.actor.out_features == 16
    with pytest.raises(ConfigError, match=r"CrossQConfig\.critic_sizes is \(8, 0\); it must be >= 1"):
        CrossQConfig(critic_sizes=(8, 0))


class OwnEncoder(torch.nn.Module):
    def __init__(self, space):
        super().__init__()
        self.layers = MLP(space.shape[0], (16,))
        self.out_features = 16

    def forward(self, obs):
        return self.layers(obs)


def test_encoders_of_ones_own_stay_as_they_are():
    net = NetConfig(encoder=f"{__name__}:OwnEncoder", hidden_sizes=(8,))
    space = spaces.Box(-1.0, 1.0, (3,), np.float32)
    algorithm = CrossQ.make(CrossQConfig(), Task(observation_space=space, action_space=space, net=net), seed=0)
    encoders = [
        part for net in (algorithm.policy, algorithm.critic) for part in net.modules() if type(part) is OwnEncoder
    ]
    assert len(encoders) == 2
    assert not any(isinstance(part, BatchRenorm) for one in encoders for part in one.modules())
    rng = np.random.default_rng(0)
    obs, act, obs_next = rng.uniform(-1, 1, (3, 16, 3)).astype(np.float32)
    rows = {name: np.ones(16, np.float32) for name in ("rew", "discount", "weight")}
    assert np.isfinite(algorithm.update(Batch(obs=obs, act=act, obs_next=obs_next, **rows)).loss_critic)
