"""Algorithms of Tianshou 1.0.0 that learn from a data set, for `recorder`; recorded anew by `test_recorded.py`.

The batch is a whole buffer of random transitions, one step each; online and target networks differ.
"""

from __future__ import annotations

from unittest import mock

import gymnasium as gym
import numpy as np
import recorder
import torch
from tianshou.data import Batch
from tianshou.policy import (
    BCQPolicy,
    CQLPolicy,
    DiscreteBCQPolicy,
    DiscreteCQLPolicy,
    DiscreteCRRPolicy,
    ImitationPolicy,
    TD3BCPolicy,
)
from tianshou.utils.net.common import MLP, Net
from tianshou.utils.net.continuous import VAE, Perturbation
from tianshou.utils.net.discrete import Actor, Critic
from tianshou1_continuous import (
    ACT,
    BOX,
    HIDDEN,
    Keeping,
    box_actions,
    critic,
    deterministic,
    gaussian,
    learn,
    logged,
)
from tianshou1_value import ACTIONS, DISCRETE, GAMMA, OBS, ROWS, discrete, filled, net


def stirred(*modules):
    """Make target networks differ from what they follow."""
    torch.manual_seed(2)
    for module in modules:
        for parameter in module.parameters():
            parameter.data += 0.3 * torch.randn(parameter.shape)


def transitions(act, ends=True):
    """Return the rows of a buffer, for a policy and for argosy; without importance weights, which these do not take."""
    batch, _ = filled(act, truncates=False).sample(0)
    if not ends:
        batch.terminated[:] = batch.done[:] = False
    given = {
        "obs": batch.obs,
        "act": act,
        "rew": batch.rew.astype(np.float32),
        "obs_next": batch.obs_next,
        "discount": (GAMMA * ~batch.terminated).astype(np.float32),
        "weight": np.ones(ROWS, np.float32),
    }
    return Batch(batch), given


def discrete_actions():
    return np.random.default_rng(0).integers(ACTIONS, size=ROWS)


def bc(act, size, space):
    actor = net_of(OBS, size)
    policy = ImitationPolicy(actor=actor, optim=torch.optim.SGD(actor.parameters(), lr=0.0), action_space=space)
    batch, given = transitions(act)
    stats = policy.learn(batch)
    return recorder.record({"actor": actor}, given, stats.get_loss_stats_dict())


def td3_bc():
    modules = {"actor": deterministic(), "critic": critic(), "critic2": critic()}
    return learn(TD3BCPolicy, modules, box_actions(), update_actor_freq=1, policy_noise=0.0)


def discrete_bcq():
    """Values and imitation share their layers but the last, as in argosy."""
    shared = Net(OBS, hidden_sizes=HIDDEN)
    model, imitator = (Actor(shared, ACTIONS, softmax_output=False) for _ in range(2))
    with torch.no_grad():
        imitator.last.model[0].weight.mul_(20.0)  # so that some actions are unlikely
    return discrete(
        DiscreteBCQPolicy,
        model,
        weighted=False,
        modules={"imitator": imitator.last},
        imitator=imitator,
        unlikely_action_threshold=0.5,
    )


def discrete_crr(mode):
    modules = {
        "actor": Actor(Net(OBS, hidden_sizes=HIDDEN), ACTIONS, softmax_output=False),
        "critic": Critic(Net(OBS, hidden_sizes=HIDDEN), last_size=ACTIONS),
    }
    policy = DiscreteCRRPolicy(
        **modules,
        optim=torch.optim.SGD([p for module in modules.values() for p in module.parameters()], lr=0.0),
        action_space=DISCRETE,
        discount_factor=GAMMA,
        policy_improvement_mode=mode,
        min_q_weight=2.0,
        target_update_freq=100,
    )
    policy.train()
    policy._iter = 1  # else the targets are copied first
    stirred(policy.actor_old, policy.critic_old)
    batch, given = transitions(discrete_actions())
    losses = policy.learn(batch).get_loss_stats_dict()
    modules |= {"actor_old": policy.actor_old, "critic_old": policy.critic_old}
    return recorder.record(modules, given, losses)


def cql():
    """One action of each kind: of several, its sum is over each of them alone."""
    draws = []
    logged(torch.distributions.normal, "_standard_normal", draws)
    logged(torch.Tensor, "uniform_", draws)
    modules = {"actor": gaussian(), "critic": critic(), "critic2": critic()}
    optims = {name: Keeping(module) for name, module in modules.items()}
    policy = CQLPolicy(
        **modules,
        **{f"{name}_optim": optim for name, optim in optims.items()},
        action_space=BOX,
        gamma=GAMMA,
        tau=0.0,
        alpha=0.3,
        cql_weight=2.0,
        with_lagrange=False,
        calibrated=False,
        num_repeat_actions=1,
        min_action=1.0,  # it draws between -min_action and max_action
        clip_grad=1e9,
    )
    policy.train()
    stirred(policy.critic_old, policy.critic2_old)
    batch, given = transitions(box_actions(), ends=False)
    draws.clear()
    losses = policy.learn(batch).get_loss_stats_dict()
    for optim in optims.values():
        optim.give_back()
    modules |= {"critic_old": policy.critic_old, "critic2_old": policy.critic2_old}
    return recorder.record(modules, given, losses, draws)


def bcq():
    latents, draws = 2 * ACT, []
    modules = {
        "actor_perturbation": Perturbation(net_of(OBS + ACT, ACT), max_action=1.0),
        "critic": critic(),
        "critic2": critic(),
        "vae": VAE(
            MLP(OBS + ACT, hidden_sizes=HIDDEN), MLP(OBS + latents, ACT, HIDDEN), HIDDEN[-1], latents, max_action=1.0
        ),
    }
    modules["vae"].encoder.model.append(torch.nn.ReLU())  # as after every hidden layer
    optims = {name: Keeping(module) for name, module in modules.items()}
    policy = BCQPolicy(
        **modules,
        **{f"{name}_optim": optim for name, optim in optims.items()},
        action_space=gym.spaces.Box(-1.0, 1.0, (ACT,), np.float32),
        gamma=GAMMA,
        tau=0.0,
        num_sampled_action=3,
    )
    policy.train()
    stirred(policy.critic_target, policy.critic2_target)
    batch, given = transitions(box_actions())

    def noting(draw):
        def drawn(*args, **kwargs):
            draws.append(draw(*args, **kwargs))
            return draws[-1]

        return drawn

    with (
        mock.patch.object(torch, "randn", noting(torch.randn)),
        mock.patch.object(torch, "randn_like", noting(torch.randn_like)),
    ):
        losses = policy.learn(batch).get_loss_stats_dict()
    for optim in optims.values():
        optim.give_back()
    modules |= {"critic_old": policy.critic_target, "critic2_old": policy.critic2_target}
    return recorder.record(modules, given, losses, draws)


def net_of(size_in, size_out):
    return Net(size_in, size_out, hidden_sizes=HIDDEN)


CASES = {
    "bc_discrete": lambda: bc(discrete_actions(), ACTIONS, DISCRETE),
    "bc_box": lambda: bc(box_actions(), ACT, BOX),
    "td3_bc": td3_bc,
    "discrete_bcq": discrete_bcq,
    "discrete_cql": lambda: discrete(
        DiscreteCQLPolicy, net(num_atoms=5), weighted=False, num_quantiles=5, min_q_weight=2.0
    ),
    "discrete_crr_binary": lambda: discrete_crr("binary"),
    "discrete_crr_all": lambda: discrete_crr("all"),
    "cql": cql,
    "bcq": bcq,
}

if __name__ == "__main__":
    recorder.main(CASES)
