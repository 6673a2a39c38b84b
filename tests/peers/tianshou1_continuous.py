"""Actor-critics of Tianshou 1.0.0 that learn from a replay buffer, for `recorder`; recorded anew by `test_recorded.py`.

The batch is a whole buffer of random transitions, one step each; online and target networks differ.
"""

from __future__ import annotations

import gymnasium as gym
import numpy as np
import recorder
import torch
from tianshou.policy import DDPGPolicy, DiscreteSACPolicy, REDQPolicy, SACPolicy, TD3Policy
from tianshou.utils.net import continuous, discrete
from tianshou.utils.net.common import EnsembleLinear, Net
from tianshou1_value import ACTIONS, GAMMA, OBS, ROWS, filled

ACT, HIDDEN = 2, (8, 8)
BOX = gym.spaces.Box(-1.0, 1.0, (ACT,), np.float32)


class Keeping(torch.optim.SGD):
    """Moves nothing, and keeps the gradients of its step: later losses of the peer leave theirs in `.grad`, too."""

    def __init__(self, module):
        super().__init__(module.parameters(), lr=0.0)

    def step(self):
        self.kept = [(p, p.grad.clone()) for group in self.param_groups for p in group["params"]]

    def give_back(self):
        for parameter, gradient in self.kept:
            parameter.grad = gradient


def learn(cls, modules, act, draws=(), space=BOX, **settings):
    """Let a policy learn from all of a buffer, with importance weights, and record it."""
    optims = {name: Keeping(module) for name, module in modules.items()}
    named = {f"{name}_optim": optim for name, optim in optims.items()}
    policy = cls(**modules, **named, action_space=space, tau=0.0, gamma=GAMMA, **settings)
    policy.train()
    targets = {f"{name}_old": getattr(policy, f"{name}_old") for name in modules if hasattr(policy, f"{name}_old")}
    torch.manual_seed(2)
    for target in targets.values():
        for parameter in target.parameters():
            parameter.data += 0.3 * torch.randn(parameter.shape)
    buffer = filled(act)
    batch, indices = buffer.sample(0)
    weight = np.random.default_rng(3).uniform(0.5, 1.0, ROWS).astype(np.float32)
    given = {
        "obs": batch.obs,
        "act": act,
        "rew": batch.rew.astype(np.float32),
        "obs_next": batch.obs_next,
        "discount": (GAMMA * ~batch.terminated).astype(np.float32),
        "weight": weight,
    }
    batch = policy.process_fn(batch, buffer, indices)
    batch.weight = torch.as_tensor(weight)
    losses = policy.learn(batch).get_loss_stats_dict()
    for optim in optims.values():
        optim.give_back()
    return recorder.record({**modules, **targets}, given, losses, draws)


def logged(module, name, draws):
    """Let a function that draws note what it gives."""
    draw = getattr(module, name)

    def noting(*args, **kwargs):
        drawn = draw(*args, **kwargs)
        draws.append(np.array(drawn))
        return drawn

    setattr(module, name, noting)


def box_actions():
    return np.random.default_rng(0).uniform(-1.0, 1.0, (ROWS, ACT)).astype(np.float32)


def critic(**settings):
    net = Net(OBS, ACT, hidden_sizes=HIDDEN, concat=True, **settings)
    last = {"linear_layer": settings["linear_layer"], "flatten_input": False} if settings else {}
    return continuous.Critic(net, **last)


def deterministic():
    return continuous.Actor(Net(OBS, hidden_sizes=HIDDEN), ACT)


def gaussian():
    return continuous.ActorProb(Net(OBS, hidden_sizes=HIDDEN), ACT, unbounded=True, conditioned_sigma=True)


def temperature():
    log_alpha = torch.full((1,), -1.0, requires_grad=True)
    return -2.0, log_alpha, torch.optim.SGD([log_alpha], lr=0.0)


def ddpg():
    return learn(DDPGPolicy, {"actor": deterministic(), "critic": critic()}, box_actions())


def td3():
    draws = []
    modules = {"actor": deterministic(), "critic": critic(), "critic2": critic()}
    torch.manual_seed(2)
    plain = torch.randn

    def noise(*args, size=None, **kwargs):  # the smoothing's alone names its size so
        drawn = plain(*args, **kwargs) if size is None else plain(size, **kwargs)
        if size is not None:
            draws.append(drawn.numpy().copy())
        return drawn

    torch.randn = noise
    return learn(TD3Policy, modules, box_actions(), draws, update_actor_freq=1)


def sac(alpha):
    draws = []
    logged(torch.distributions.normal, "_standard_normal", draws)
    modules = {"actor": gaussian(), "critic": critic(), "critic2": critic()}
    return learn(SACPolicy, modules, box_actions(), draws, alpha=alpha)


def redq():
    draws = []
    logged(torch.distributions.normal, "_standard_normal", draws)
    logged(np.random, "choice", draws)
    modules = {
        "actor": gaussian(),
        "critic": critic(linear_layer=lambda x, y: EnsembleLinear(5, x, y)),
    }
    return learn(REDQPolicy, modules, box_actions(), draws, ensemble_size=5, subset_size=2, actor_delay=1, alpha=0.3)


def discrete_sac(alpha):
    def net():
        return Net(OBS, hidden_sizes=HIDDEN)

    modules = {
        "actor": discrete.Actor(net(), ACTIONS, softmax_output=False),
        "critic": discrete.Critic(net(), last_size=ACTIONS),
        "critic2": discrete.Critic(net(), last_size=ACTIONS),
    }
    act = np.random.default_rng(0).integers(ACTIONS, size=ROWS)
    return learn(DiscreteSACPolicy, modules, act, space=gym.spaces.Discrete(ACTIONS), alpha=alpha)


CASES = {
    "ddpg": ddpg,
    "td3": td3,
    "sac": lambda: sac(0.3),
    "sac_auto": lambda: sac(temperature()),
    "redq": redq,
    "discrete_sac": lambda: discrete_sac(0.3),
    "discrete_sac_auto": lambda: discrete_sac((1.0, *temperature()[1:])),
}

if __name__ == "__main__":
    recorder.main(CASES)
