"""Algorithms that learn from a data set have the losses and gradients of d3rlpy's."""

from unittest import mock

import numpy as np
import pytest
import torch
from gymnasium import spaces
from peers import Gradients, layers, load, members, take_over

from argosy.algorithm import CQL, IQL, CQLConfig, IQLConfig, ReBRAC, ReBRACConfig, Task, TD3Config
from argosy.net import NetConfig
from argosy.policy.deterministic import DeterministicPolicy

OBS, BOX = spaces.Box(-np.inf, np.inf, (4,), np.float32), spaces.Box(-1.0, 1.0, (2,), np.float32)
NET = NetConfig(hidden_sizes=(8, 8))
TASK = Task(observation_space=OBS, action_space=BOX, net=NET)
HIDDEN = ("_encoder._layers.0", "_encoder._layers.2")


def critics(critic, name, count=2):
    return members(critic.q, [[f"{name}.{i}.{layer}" for i in range(count)] for layer in (*HIDDEN, "_fc")])


def actor(policy, name, *heads):
    return layers(
        [*policy.actor.trunk, policy.head if hasattr(policy, "head") else policy.action_head.output],
        [*(f"{name}.{layer}" for layer in HIDDEN), tuple(f"{name}.{head}" for head in heads)],
    )


def test_iql():
    """The logarithm of the deviation is a sigmoid from -5 to 2 there."""
    recorded = load("d3rlpy_offline-iql")
    algorithm = IQL.make(IQLConfig(expectile=0.8, temperature=0.5, max_weight=1.5), TASK)
    critic = critics(algorithm.critic, "q_funcs")
    value = members(algorithm.value.q, [[f"value_func.{layer}"] for layer in (*HIDDEN, "_fc")])
    policy = actor(algorithm.policy, "policy", "_mu")
    take_over([*policy, *critic, *value, *critics(algorithm.critic_target, "targ_q_funcs")], recorded)
    log_std = torch.from_numpy(recorded.weights["policy._logstd"][0])
    algorithm.policy.action_head.log_std.data = -5 + 7 * log_std.sigmoid()
    algorithm.critic_optim, algorithm.value_optim = Gradients(critic), Gradients(value)
    algorithm.actor_optim = Gradients(policy)
    stats = algorithm.update(recorded.batch)
    recorded.losses["critics"] = recorded.losses["critic"] - recorded.losses["value"]
    algorithm.critic_optim.check(recorded, "critics")
    algorithm.value_optim.check(recorded, "value")
    algorithm.actor_optim.check(recorded, "actor")
    assert stats.weight_mean == pytest.approx(recorded.losses["weight"], rel=1e-5)


def test_rebrac():
    recorded = load("d3rlpy_offline-rebrac")
    config = ReBRACConfig(actor_penalty=0.3, critic_penalty=0.2, target_noise=0.0, policy_freq=1)
    policy = DeterministicPolicy(OBS, BOX, NET)
    algorithm = ReBRAC(config, policy, TD3Config.build_critic(config, policy, NET))  # without layer normalisation
    policy, online = actor(algorithm.policy, "policy", "_fc"), critics(algorithm.critic, "q_funcs")
    targets = critics(algorithm.critic_target, "targ_q_funcs")
    take_over([*policy, *online, *targets, *actor(algorithm.policy_target, "targ_policy", "_fc")], recorded)
    algorithm.actor_optim, algorithm.critic_optim = Gradients(policy), Gradients(online)
    algorithm.update(recorded.batch)
    algorithm.critic_optim.check(recorded, "critic")
    algorithm.actor_optim.check(recorded, "actor")


def test_cal_ql():
    recorded = load("d3rlpy_offline-cal_ql")
    config = CQLConfig(
        calibrated=True, conservative_weight=2.0, num_draws=3, alpha=1.0, auto_alpha=False, entropy_in_target=True
    )
    algorithm = CQL.make(config, TASK)
    policy, critic = actor(algorithm.policy, "policy", "_mu", "_logstd"), critics(algorithm.critic, "q_funcs")
    take_over([*policy, *critic, *critics(algorithm.critic_target, "targ_q_funcs")], recorded)
    algorithm.actor_optim, algorithm.critic_optim = Gradients(policy), Gradients(critic)
    of_target, now, after, uniform, of_actor = recorded.draws
    left = {
        "normal_": [of_target, now, after, of_actor],
        "uniform_": [uniform.reshape(16, 3, 2).swapaxes(0, 1)],
    }

    def draws(name):
        return lambda tensor, *_, **__: tensor.copy_(torch.from_numpy(left[name].pop(0)))

    with mock.patch.multiple(torch.Tensor, **{name: draws(name) for name in left}):
        algorithm.update(recorded.batch)
    assert not any(left.values())
    algorithm.critic_optim.check(recorded, "critic")
    algorithm.actor_optim.check(recorded, "actor")
