import numpy as np
import pytest
import torch
from gymnasium import spaces
from stand_ins import BOX, NET, OBS, FixedCritic, batch, learn_what_ends, recorded

from argosy.algorithm import TD3BC, OptimConfig, Task, TD3BCConfig
from argosy.data import Batch
from argosy.net.regularise import EnsembleLayerNorm

CASES = {
    "plain": (TD3BCConfig(policy_freq=1), BOX),
    "layer norm": (TD3BCConfig(policy_freq=1, layer_norm=True), BOX),
    "scalar": (TD3BCConfig(policy_freq=1, alpha=0.0, return_scaling=True), spaces.Box(-1.0, 1.0, (), np.float32)),
}
LEARNS = ("policy", "critic")
FOLLOWS = ("policy_target", "critic_target", "update_policy_target", "update_critic_target")
RANGES = [("alpha", -1.0), ("tau", 0.0), ("policy_freq", 0)]


def make(**config):
    return TD3BC.make(TD3BCConfig(**config), Task(observation_space=OBS, action_space=BOX, net=NET), seed=0)


def parts_of(algorithm):
    return algorithm.policy, algorithm.critic, algorithm.policy_target, algorithm.critic_target


def value(weights, obs, act):
    return perceptron(weights, torch.cat((obs, act), -1)).squeeze(-1)


def perceptron(weights, x):
    first, bias_first, last, bias_last = weights
    return torch.relu(x @ first + bias_first) @ last + bias_last


def test_a_hundred_updates_are_those_of_the_paper():
    """A plain implementation has the same parameters, of the same weights, batches and noise."""
    algorithm, noise = make(), torch.Generator()
    plain = [[p.detach().clone() for p in part.parameters()] for part in parts_of(algorithm)]
    actor, critics, actor_target, critics_target = plain
    for one in (*actor, *critics):
        one.requires_grad_()
    optims = torch.optim.Adam(actor, 3e-4), torch.optim.Adam(critics, 3e-4)

    def step(optim, loss):
        optim.zero_grad()
        loss.backward()
        optim.step()

    for update in range(1, 101):
        data = batch(32, seed=update)
        noise.set_state(algorithm.rng.torch.get_state())
        algorithm.update(data)
        obs, obs_next, act, rew, discount = (
            torch.from_numpy(data[name]) for name in ("obs", "obs_next", "act", "rew", "discount")
        )
        with torch.no_grad():
            act_next = perceptron(actor_target, obs_next).tanh()
            drawn = torch.empty(act_next.shape).normal_(generator=noise) * 0.2
            act_next = (act_next + drawn.clamp(-0.5, 0.5)).clamp(-1.0, 1.0)
            target = rew + discount * value(critics_target, obs_next, act_next).amin(0)
        step(optims[1], (value(critics, obs, act) - target).square().mean(-1).sum())
        if update % 2 == 0:
            own = perceptron(actor, obs).tanh()
            q = value([p[0] for p in critics], obs, own)
            step(optims[0], (own - act).square().mean() - 2.5 * q.mean() / q.abs().mean().detach())
            for targets, sources in ((actor_target, actor), (critics_target, critics)):
                for one, other in zip(targets, sources, strict=True):
                    one.lerp_(other.detach(), 0.005)
    for part, copied in zip(parts_of(algorithm), plain, strict=True):  # Adam may take rounding alone for a gradient
        apart = torch.cat([(one - other).flatten() for one, other in zip(part.parameters(), copied, strict=True)])
        assert apart.abs().mean() < 4e-6


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_actor_loss_by_hand(scale):
    """Distance minus alpha times the value over its mean size: the unit of rewards does not matter."""
    algorithm = make(policy_freq=1, alpha=2.0)
    algorithm.critic = FixedCritic(3.0 * scale, -50.0)
    algorithm.update_critic_target = lambda: None
    _, losses = recorded(algorithm, "critic_optim", "actor_optim")
    data = batch()
    act = algorithm.policy(Batch(obs=data.obs)).act.detach()
    algorithm.update(data)
    distance = (act - torch.from_numpy(data.act)).square().mean().item()
    assert losses[0].item() == pytest.approx(distance - 2.0, rel=1e-5)


def test_without_values_it_is_behaviour_cloning():
    algorithm = make(policy_freq=1, alpha=0.0, actor_optim=OptimConfig(lr=0.01))
    for i in range(300):
        data = batch(64, seed=i)
        data.act = np.clip(data.obs[:, :2], -0.9, 0.9)
        algorithm.update(data)
    data = batch(200)
    found = algorithm.policy(Batch(obs=data.obs)).act.detach().numpy()
    assert np.abs(found - data.obs[:, :2]).mean() < 0.1


@pytest.mark.parametrize(("layer_norm", "layers"), [(False, 0), (True, len(NET.hidden_sizes))])
def test_critics_and_targets_are_normalised_if_asked(layer_norm, layers):
    algorithm = make(layer_norm=layer_norm)
    for critic in (algorithm.critic, algorithm.critic_target):
        assert sum(isinstance(layer, EnsembleLayerNorm) for layer in critic.q) == layers


def test_takes_the_best_actions_that_there_are_and_none_beyond():
    optims = {"actor_optim": OptimConfig(lr=0.003), "critic_optim": OptimConfig(lr=0.003)}
    assert learn_what_ends(make(policy_freq=1, alpha=1e6, **optims), 300) == pytest.approx([1.0, 1.0], abs=0.1)
    near = learn_what_ends(make(policy_freq=1, alpha=0.05, **optims), 300)
    assert all(-0.2 < act < 0.3 for act in near)
