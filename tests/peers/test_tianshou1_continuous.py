"""Actor-critics that learn from a replay buffer have the losses and gradients of Tianshou 1.0's."""

import math
from unittest import mock

import numpy as np
import pytest
import torch
from gymnasium import spaces
from peers import Gradients, layers, load, members, take_over

from argosy.algorithm import (
    DDPG,
    REDQ,
    SAC,
    TD3,
    DDPGConfig,
    DiscreteSAC,
    DiscreteSACConfig,
    REDQConfig,
    SACConfig,
    Task,
    TD3Config,
)
from argosy.net import NetConfig

OBS = spaces.Box(-np.inf, np.inf, (4,), np.float32)
BOX, DISCRETE = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3)
NET = NetConfig(hidden_sizes=(8, 8))
HIDDEN = ("preprocess.model.model.0", "preprocess.model.model.2")
LEARNED = {"alpha": math.exp(-1.0), "target_entropy": -2.0}

CASES = {
    "ddpg": (DDPG, DDPGConfig(), BOX),
    "td3": (TD3, TD3Config(policy_freq=1), BOX),
    "sac": (SAC, SACConfig(alpha=0.3, auto_alpha=False), BOX),
    "sac_auto": (SAC, SACConfig(**LEARNED), BOX),
    "redq": (REDQ, REDQConfig(num_critics=5, policy_freq=1, alpha=0.3, auto_alpha=False), BOX),
    "discrete_sac": (DiscreteSAC, DiscreteSACConfig(alpha=0.3, auto_alpha=False), DISCRETE),
    "discrete_sac_auto": (DiscreteSAC, DiscreteSACConfig(alpha=math.exp(-1.0), target_entropy=1.0), DISCRETE),
}


def actor(policy, name, case):
    heads = ("mu.model.0", "sigma.model.0") if case.startswith(("sac", "redq")) else ("last.model.0",)
    head = policy.action_head if case.startswith("discrete") else policy.head
    prefixes = [*([f"{name}.{layer}"] for layer in HIDDEN), tuple(f"{name}.{part}" for part in heads)]
    own = head.output if case.startswith("discrete") else head
    return layers([*policy.actor.trunk, own], [tuple(prefix) for prefix in prefixes])


def critics(critic, suffix, case):
    if case == "redq":  # one module there, too
        names = [f"critic{suffix}.{layer}" for layer in (*HIDDEN, "last.model.0")]
        return layers(critic.q, names, {"bias": "bias_weights"})
    each = ["critic"] if case == "ddpg" else ["critic", "critic2"]
    names = [[f"{name}{suffix}.{layer}" for name in each] for layer in (*HIDDEN, "last.model.0")]
    return members(critic.q, names)


@pytest.mark.parametrize("case", CASES)
def test_losses_and_gradients_are_the_peers(case):
    cls, config, space = CASES[case]
    recorded = load(f"tianshou1_continuous-{case}")
    algorithm = cls.make(config, Task(observation_space=OBS, action_space=space, net=NET))
    policy, critic = actor(algorithm.policy, "actor", case), critics(algorithm.critic, "", case)
    pairs = [*policy, *critic, *critics(algorithm.critic_target, "_old", case)]
    if hasattr(algorithm, "policy_target"):
        pairs += actor(algorithm.policy_target, "actor_old", case)
    take_over(pairs, recorded)
    algorithm.actor_optim, algorithm.critic_optim = Gradients(policy), Gradients(critic)

    draws = [torch.from_numpy(draw) for draw in recorded.draws if draw.dtype == np.float32]
    chosen = [torch.from_numpy(draw) for draw in recorded.draws if draw.dtype != np.float32]

    def normal(tensor, **_):
        return tensor.copy_(draws.pop(0))

    def permutation(*_, **__):
        return chosen.pop(0)

    with (
        mock.patch.object(torch.Tensor, "normal_", normal),
        mock.patch.object(torch, "randperm", permutation),
    ):
        stats = algorithm.update(recorded.batch)
    assert not draws
    assert not chosen

    algorithm.actor_optim.check(recorded, "actor_loss")
    losses = recorded.losses
    if "critic_loss" not in losses:
        losses["critic_loss"] = losses["critic1_loss"] + losses["critic2_loss"]
    # REDQ's is a mean over the ensemble there, a sum here
    algorithm.critic_optim.check(recorded, "critic_loss", 5.0 if case == "redq" else 1.0)
    if case.endswith("auto"):
        assert stats.loss_alpha == pytest.approx(losses["alpha_loss"], rel=1e-5)
