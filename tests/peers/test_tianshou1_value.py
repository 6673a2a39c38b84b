"""Value-based algorithms have the losses and gradients of Tianshou 1.0's."""

from contextlib import contextmanager

import numpy as np
import pytest
import torch
from gymnasium import spaces
from peers import Gradients, layers, load, members, take_over

from argosy.algorithm import (
    C51,
    DQN,
    FQF,
    IQN,
    QRDQN,
    BranchingDQN,
    BranchingDQNConfig,
    C51Config,
    DQNConfig,
    FQFConfig,
    IQNConfig,
    QRDQNConfig,
    Rainbow,
    RainbowConfig,
    Task,
)
from argosy.net import NetConfig

OBS = spaces.Box(-np.inf, np.inf, (4,), np.float32)
NET = NetConfig(hidden_sizes=(8, 8))
PLAIN = ["model.model.0", "model.model.2", "model.model.4"]

CASES = {
    "dqn": (DQN, DQNConfig(loss="mse"), 1.0),
    "dqn_single": (DQN, DQNConfig(loss="mse", double=False), 1.0),
    "dqn_huber": (DQN, DQNConfig(), 1.0),
    "c51": (C51, C51Config(num_atoms=7, v_min=-2.0, v_max=3.0, double=True), 1.0),
    "qrdqn": (QRDQN, QRDQNConfig(num_quantiles=5, double=True), 1.0),
}


def plain(policy, prefix):
    return layers([*policy.backbone.trunk, policy.head], [f"{prefix}.{name}" for name in PLAIN])


@pytest.mark.parametrize("case", CASES)
def test_loss_and_gradient_are_the_peers(case):
    cls, config, scale = CASES[case]
    recorded = load(f"tianshou1_value-{case}")
    algorithm = cls.make(config, Task(observation_space=OBS, action_space=spaces.Discrete(3), net=NET))
    online = plain(algorithm.policy, "online")
    take_over([*online, *plain(algorithm.policy_target, "target")], recorded)
    algorithm.optim = Gradients(online)
    algorithm.update(recorded.batch)
    algorithm.optim.check(recorded, "loss", scale)


def branches(policy, prefix):
    """Shared layers, and those of the streams."""
    parts = [f"{prefix}.{part}" for part in ("value", "branches.0", "branches.1")]
    shared = layers(policy.backbone.trunk, [f"{prefix}.common.model.0"])
    streams = [policy.head.hidden, policy.head.value]
    own = layers(streams, [tuple(f"{part}.model.0" for part in parts), f"{parts[0]}.model.2"])
    return shared, [*own, *members([policy.head.advantage], [[f"{part}.model.2" for part in parts[1:]]])]


def test_loss_and_gradient_of_branches_are_the_peers():
    """But in the layers that its three streams share: the peer does not divide their gradient, as the paper does."""
    recorded = load("tianshou1_value-branching_dqn")
    task = Task(observation_space=OBS, action_space=spaces.MultiDiscrete([3, 3]), net=NET)
    algorithm = BranchingDQN.make(BranchingDQNConfig(), task)
    shared, own = branches(algorithm.policy, "online")
    take_over(
        [*shared, *own, *(pair for pairs in branches(algorithm.policy_target, "target") for pair in pairs)], recorded
    )
    for pair in shared:
        for name in pair.names:
            recorded.gradients[name] /= 3
    algorithm.optim = Gradients([*shared, *own])
    algorithm.update(recorded.batch)
    algorithm.optim.check(recorded, "loss")


NOISY = {"weight": "mu_W", "weight_std": "sigma_W", "bias": "mu_bias", "bias_std": "sigma_bias"}


def dueling(policy, prefix):
    names = ["model.model.0", ("V.model.0", "Q.model.0"), "V.model.2", "Q.model.2"]
    own = [policy.backbone.trunk[0], policy.head.hidden, policy.head.value, policy.head.advantage]
    return layers(
        own, [tuple(f"{prefix}.{n}" for n in ([name] if isinstance(name, str) else name)) for name in names], NOISY
    )


def test_loss_and_gradient_of_noisy_dueling_networks_are_the_peers():
    recorded = load("tianshou1_value-rainbow")
    config = RainbowConfig(num_atoms=7, v_min=-2.0, v_max=3.0)
    algorithm = Rainbow.make(config, Task(observation_space=OBS, action_space=spaces.Discrete(3), net=NET))
    online = dueling(algorithm.policy, "online")
    take_over([*online, *dueling(algorithm.policy_target, "target")], recorded)

    noisy = algorithm.noise.layers

    @contextmanager
    def given(rng):
        draws = map(torch.from_numpy, recorded.draws)
        for layer, drawn in zip(noisy, zip(draws, draws, strict=True), strict=True):
            layer.noise = drawn
        yield

    algorithm.optim, algorithm.noise = Gradients(online), given
    algorithm.update(recorded.batch)
    algorithm.optim.check(recorded, "loss")


def implicit(policy, prefix):
    head = policy.head
    names = ["preprocess.model.model.0", "embed_model.net.0", "last.model.0", "last.model.2"]
    return layers([policy.backbone.trunk[0], head.embed, head.hidden, head.out], [f"{prefix}.{name}" for name in names])


def test_loss_and_gradient_of_implicit_quantiles_are_the_peers():
    recorded = load("tianshou1_value-iqn")
    config = IQNConfig(num_target_quantiles=5, num_mean_quantiles=8, num_cosines=4, double=True)
    algorithm = IQN.make(config, Task(observation_space=OBS, action_space=spaces.Discrete(3), net=NET))
    online = implicit(algorithm.policy, "online")
    take_over([*online, *implicit(algorithm.policy_target, "target")], recorded)
    draws = map(torch.from_numpy, recorded.draws)
    algorithm.optim, algorithm._draw = Gradients(online), lambda batch, count: next(draws)
    algorithm.update(recorded.batch)
    algorithm.optim.check(
        recorded, "loss", scale=8 / 5
    )  # sum over the 8 predicted and mean over the 5 targets, not v.v.


def test_losses_and_gradients_of_proposed_fractions_are_the_peers():
    recorded = load("tianshou1_value-fqf")
    config = FQFConfig(num_fractions=6, entropy_coef=0.01, num_cosines=1, double=True)
    algorithm = FQF.make(config, Task(observation_space=OBS, action_space=spaces.Discrete(3), net=NET))
    online, proposals = implicit(algorithm.policy, "online"), algorithm.policy.head.fractions.logits
    proposing = layers([proposals], ["proposals.net"])
    next_proposing = layers([algorithm.policy_target.head.fractions.logits], ["proposals.net"])
    take_over([*online, *implicit(algorithm.policy_target, "target"), *proposing, *next_proposing], recorded)
    algorithm.optim, algorithm.fraction_optim = Gradients(online), Gradients(proposing)
    stats = algorithm.update(recorded.batch)
    algorithm.optim.check(recorded, "quantile_loss")
    losses = recorded.losses
    assert stats.entropy == pytest.approx(losses["entropy_loss"], rel=1e-5)
    recorded.losses["both"] = losses["fraction_loss"] - 0.01 * losses["entropy_loss"]
    algorithm.fraction_optim.check(recorded, "both")
