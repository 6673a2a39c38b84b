"""Algorithms that learn from a data set have the losses and gradients of Tianshou 1.0's."""

import math
from unittest import mock

import numpy as np
import pytest
import torch
from gymnasium import spaces
from peers import Gradients, Members, layers, load, members, take_over

from argosy.algorithm import (
    BC,
    BCQ,
    CQL,
    TD3BC,
    BCConfig,
    BCQConfig,
    CQLConfig,
    DiscreteBCQ,
    DiscreteBCQConfig,
    DiscreteCQL,
    DiscreteCQLConfig,
    DiscreteCRR,
    DiscreteCRRConfig,
    Task,
    TD3BCConfig,
)
from argosy.net import NetConfig

OBS = spaces.Box(-np.inf, np.inf, (4,), np.float32)
BOX, DISCRETE = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(3)
NET = NetConfig(hidden_sizes=(8, 8))
HIDDEN = ("preprocess.model.model.0", "preprocess.model.model.2")


def made(cls, config, space):
    return cls.make(config, Task(observation_space=OBS, action_space=space, net=NET))


def critics(critic, *names, inner=(*HIDDEN, "last.model.0")):
    return members(critic.q, [[f"{name}.{layer}" for name in names] for layer in inner])


def actor(policy, name, *heads):
    head = policy.head if hasattr(policy, "head") else policy.action_head.output
    names = [*((f"{name}.{layer}",) for layer in HIDDEN), tuple(f"{name}.{part}" for part in heads)]
    return layers([*policy.actor.trunk, head], names)


def drawn(*normal, uniform=()):
    """Let argosy draw these numbers, in this order."""
    left = {"normal_": list(normal), "uniform_": list(uniform)}

    def draws(name):
        return lambda tensor, *_, **__: tensor.copy_(torch.from_numpy(left[name].pop(0)).reshape(tensor.shape))

    return mock.patch.multiple(torch.Tensor, **{name: draws(name) for name in left}), left


@pytest.mark.parametrize(("case", "space"), [("discrete", DISCRETE), ("box", BOX)])
def test_bc(case, space):
    """Of two numbers, and where the deviation is 1, the negative log-likelihood is the squared error and a constant."""
    recorded = load(f"tianshou1_offline-bc_{case}")
    algorithm = made(BC, BCConfig(log_std_init=0.0), space)
    policy = algorithm.policy
    names = ["actor.model.model.0", "actor.model.model.2", "actor.model.model.4"]
    pairs = layers([*policy.actor.trunk, policy.action_head.output], names)
    take_over(pairs, recorded)
    algorithm.optim = Gradients(pairs)
    algorithm.update(recorded.batch)
    if space is BOX:
        recorded.losses["loss"] += math.log(2.0 * math.pi)
    algorithm.optim.check(recorded, "loss")


def test_td3_bc():
    recorded = load("tianshou1_offline-td3_bc")
    algorithm = made(TD3BC, TD3BCConfig(policy_freq=1, target_noise=0.0), BOX)
    policy, critic = actor(algorithm.policy, "actor", "last.model.0"), critics(algorithm.critic, "critic", "critic2")
    targets = actor(algorithm.policy_target, "actor_old", "last.model.0")
    targets += critics(algorithm.critic_target, "critic_old", "critic2_old")
    take_over([*policy, *critic, *targets], recorded)
    algorithm.actor_optim, algorithm.critic_optim = Gradients(policy), Gradients(critic)
    algorithm.update(recorded.batch)
    recorded.losses["critics"] = recorded.losses["critic1_loss"] + recorded.losses["critic2_loss"]
    algorithm.critic_optim.check(recorded, "critics")
    recorded.batch.weight = np.ones_like(recorded.batch.weight)  # the peer's actor takes none
    algorithm.update(recorded.batch)
    algorithm.actor_optim.check(recorded, "actor_loss")


def test_cql():
    recorded = load("tianshou1_offline-cql")
    config = CQLConfig(alpha=0.3, auto_alpha=False, conservative_weight=2.0, num_draws=1, entropy_in_target=True)
    algorithm = made(CQL, config, BOX)
    policy = actor(algorithm.policy, "actor", "mu.model.0", "sigma.model.0")
    critic = critics(algorithm.critic, "critic", "critic2")
    take_over([*policy, *critic, *critics(algorithm.critic_target, "critic_old", "critic2_old")], recorded)
    algorithm.actor_optim, algorithm.critic_optim = Gradients(policy), Gradients(critic)
    of_actor, of_target, uniform, now, after = recorded.draws
    patched, left = drawn(of_target, now, after, of_actor, uniform=[uniform])
    with patched:
        algorithm.update(recorded.batch)
    assert not any(left.values())
    algorithm.actor_optim.check(recorded, "actor_loss")
    recorded.losses["critics"] = recorded.losses["critic1_loss"] + recorded.losses["critic2_loss"]
    algorithm.critic_optim.check(recorded, "critics")


def test_bcq():
    """Of argosy's target policy the perturbation is taken away: Tianshou's target goes without it."""
    recorded = load("tianshou1_offline-bcq")
    algorithm = made(BCQ, BCQConfig(num_draws=3), BOX)
    policy, target = algorithm.policy, algorithm.policy_target
    model = layers(
        [*policy.latents, *policy.decoder],
        [
            *("vae.encoder.model.0", "vae.encoder.model.2", ("vae.mean", "vae.log_std")),
            *(f"vae.decoder.model.{i}" for i in (0, 2, 4)),
        ],
    )
    perturbation = layers(
        policy.perturbation, [f"actor_perturbation.preprocess_net.model.model.{i}" for i in (0, 2, 4)]
    )
    critic = critics(policy.critic, "critic", "critic2")
    take_over([*model, *perturbation, *critic, *critics(target.critic, "critic_old", "critic2_old")], recorded)
    with torch.no_grad():
        for parameter in target.perturbation[-1].parameters():
            parameter.zero_()
    algorithm.model_optim, algorithm.actor_optim = Gradients(model), Gradients(perturbation)
    algorithm.critic_optim = Gradients(critic)
    of_model, of_target, of_actor = recorded.draws
    patched, left = drawn(of_model, of_target.reshape(16, 3, 4).swapaxes(0, 1), of_actor)
    with patched:
        algorithm.update(recorded.batch)
    assert not any(left.values())
    algorithm.model_optim.check(recorded, "vae_loss")
    algorithm.actor_optim.check(recorded, "actor_loss")
    recorded.losses["critics"] = recorded.losses["critic1_loss"] + recorded.losses["critic2_loss"]
    algorithm.critic_optim.check(recorded, "critics")


def test_discrete_cql():
    recorded = load("tianshou1_offline-discrete_cql")
    config = DiscreteCQLConfig(num_quantiles=5, double=True, conservative_weight=2.0)
    algorithm = made(DiscreteCQL, config, DISCRETE)
    online, target = (
        layers([*policy.backbone.trunk, policy.head], [f"{name}.model.model.{i}" for i in (0, 2, 4)])
        for policy, name in ((algorithm.policy, "online"), (algorithm.policy_target, "target"))
    )
    take_over([*online, *target], recorded)
    algorithm.optim = Gradients(online)
    stats = algorithm.update(recorded.batch)
    algorithm.optim.check(recorded, "loss")
    assert stats.gap == pytest.approx(recorded.losses["cql_loss"], rel=1e-5)


def likely(policy, name):
    """Pairs for a network that values and imitates: the peer's heads lie in two layers, ours in one."""
    last, heads = policy.head, (f"{name}.last.model.0", "imitator.model.0")
    hidden = layers(policy.backbone.trunk, [f"{name}.{layer}" for layer in HIDDEN])
    weights, biases = (tuple(f"{head}.{part}" for head in heads) for part in ("weight", "bias"))
    weight = Members(last.weight, weights, lambda x: x.detach().t().unflatten(0, (3, 2)).transpose(0, 1))
    return [*hidden, weight, Members(last.bias, biases, lambda x: x.detach().unflatten(0, (3, 2)).t())]


def test_discrete_bcq():
    recorded = load("tianshou1_offline-discrete_bcq")
    algorithm = made(DiscreteBCQ, DiscreteBCQConfig(threshold=0.5), DISCRETE)
    online = likely(algorithm.policy, "online")
    take_over([*online, *likely(algorithm.policy_target, "target")], recorded)
    allowed = algorithm.policy.analyze(algorithm.prepare(recorded.batch)).choices
    assert 0.1 < allowed.float().mean() < 0.9  # some actions are unlikely
    algorithm.optim = Gradients(online)
    stats = algorithm.update(recorded.batch)
    algorithm.optim.check(recorded, "loss")
    assert stats.loss_td == pytest.approx(recorded.losses["q_loss"], rel=1e-5)
    assert stats.loss_imitation == pytest.approx(recorded.losses["i_loss"], rel=1e-5)


@pytest.mark.parametrize("improvement", ["binary", "all"])
def test_discrete_crr(improvement):
    """With "exp" they differ by design: there the gradient of the weights goes into actor and critic, too."""
    recorded = load(f"tianshou1_offline-discrete_crr_{improvement}")
    # The squared error counts half there
    algorithm = made(DiscreteCRR, DiscreteCRRConfig(improvement=improvement, conservative_weight=4.0), DISCRETE)
    policy, critic = actor(algorithm.policy, "actor", "last.model.0"), critics(algorithm.critic, "critic")
    targets = actor(algorithm.policy_target, "actor_old", "last.model.0")
    take_over([*policy, *critic, *targets, *critics(algorithm.critic_target, "critic_old")], recorded)
    algorithm.actor_optim, algorithm.critic_optim = Gradients(policy), Gradients(critic)
    stats = algorithm.update(recorded.batch)
    recorded.losses["critic"] = recorded.losses["critic_loss"] + 2.0 * recorded.losses["cql_loss"]
    algorithm.critic_optim.check(recorded, "critic", scale=2.0)
    if improvement == "all":
        algorithm.actor_optim.check(recorded, "actor_loss")
    else:  # there weights [B, 1] meet log-probabilities [B]: every row is weighted by the mean weight
        unweighted = load("tianshou1_offline-discrete_crr_all").losses["actor_loss"]
        assert stats.weight_mean * unweighted == pytest.approx(recorded.losses["actor_loss"], rel=1e-5)
