"""Soft actor-critic (Haarnoja et al., 2018, https://arxiv.org/abs/1812.05905).

Details that matter:

1. Two critics are one batched ensemble; their minimum is used in the target and for the actor (clipped double Q).
2. The target's next action comes from the current actor, and its entropy counts: V = min Q - alpha * log p.
   `discount` is gamma^k, 0 where the episode terminated; a truncated one bootstraps from its true last observation.
3. The actor's gradient flows through the critics into the action (reparametrisation); the critics get none of it.
4. The temperature alpha is fixed, or learned so that the entropy approaches `target_entropy` (default: -A); the
   optimised quantity is log alpha.
5. Actions are tanh-squashed to [-1, 1], stored so, and stretched to the env's bounds at the border only.
6. Target critics follow softly after every update.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import torch
from gymnasium import spaces
from torch import nn

from argosy.algorithm.base import Algorithm, AlgorithmConfig, Stateful, check_finite
from argosy.algorithm.optim import Adam
from argosy.config import check_range
from argosy.data import TrainingStats, TransitionBatch, as_tensors
from argosy.net import EnsembleCritic, NetConfig, TargetUpdate, frozen_copy
from argosy.policy import SACPolicy

# Shapes: B batch, A action dim, K critics.


@dataclass(frozen=True, kw_only=True)
class SACConfig(AlgorithmConfig):
    """Hyper-parameters of SAC; docs/glossary.md explains each at length."""

    n_step: int = 1
    """Rewards summed before the bootstrap value."""
    actor_lr: float = 1e-3
    """Adam's learning rate for the actor."""
    critic_lr: float = 1e-3
    """Adam's learning rate for the critics."""
    alpha_lr: float = 3e-4
    """Adam's learning rate for the logarithm of the temperature."""
    alpha: float = 0.2
    """Temperature: what a nat of entropy is worth in reward; its start when it is learned."""
    auto_alpha: bool = True
    """Learn the temperature (detail 4)."""
    target_entropy: float | None = None
    """Entropy that a learned temperature aims at, in nats; None: minus the action's dimension."""
    tau: float = 0.005
    """Share by which target critics move to the critics per update."""
    num_critics: int = 2
    """Size K of the ensemble (detail 1)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("n_step", "num_critics"):
            check_range(self, field, ge=1)
        for field in ("actor_lr", "critic_lr", "alpha_lr", "alpha"):
            check_range(self, field, gt=0.0)
        check_range(self, "tau", gt=0.0, le=1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class SACStats(TrainingStats):
    """What one update reports."""

    loss_critic: float
    """Mean squared error, summed over the critics."""
    loss_actor: float
    loss_alpha: float | None
    """None with a fixed temperature."""
    alpha: float
    entropy: float
    """Mean of -log p of freshly drawn actions."""
    q_mean: float
    """Mean value of the stored actions, over batch and critics."""


class Temperature(nn.Module):
    """The weight alpha of the entropy, kept as its logarithm."""

    def __init__(self, alpha: float) -> None:
        super().__init__()
        self.log_alpha = nn.Parameter(torch.tensor(math.log(alpha)))


class SAC(Algorithm[SACConfig, SACStats]):
    """Maximum-entropy actor-critic from a replay buffer."""

    kind = "offpolicy"
    config_type = SACConfig
    action_spaces = (spaces.Box,)
    default_net = NetConfig(hidden_sizes=(256, 256))
    policy: SACPolicy

    def __init__(self, config: SACConfig, policy: SACPolicy, critic: EnsembleCritic) -> None:
        super().__init__(config, policy)
        self.critic, self.critic_target = critic, frozen_copy(critic)
        self.temperature = Temperature(config.alpha).to(self.device)
        self.target_entropy = -float(policy.action_dim) if config.target_entropy is None else config.target_entropy
        self.actor_optim = Adam(policy.parameters(), lr=config.actor_lr)
        self.critic_optim = Adam(critic.parameters(), lr=config.critic_lr)
        self.alpha_optim = Adam([self.temperature.log_alpha], lr=config.alpha_lr)
        self.update_target = TargetUpdate(self.critic_target, critic, config.tau)

    @classmethod
    def build(
        cls,
        config: SACConfig,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        net: NetConfig,
        device: torch.device,
    ) -> Self:
        """Make actor, critics and the algorithm."""
        policy = SACPolicy(observation_space, action_space, net)
        critic = EnsembleCritic(observation_space, policy.action_dim, net, config.num_critics)
        return cls(config, policy.to(device), critic.to(device))

    def update(self, batch: TransitionBatch) -> SACStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = as_tensors(batch, self.device)
        check_finite(batch, "obs", "act", "obs_next", "rew")
        alpha = self.temperature.log_alpha.detach().exp()

        with torch.no_grad():  # detail 2
            next_act, next_logp = self.policy.sample(batch.obs_next, self.rng.torch)
            next_value = self.critic_target(batch.obs_next, next_act).amin(dim=0) - alpha * next_logp
            target = batch.rew + batch.discount * next_value
        q_KB = self.critic(batch.obs, batch.act)  # noqa: N806  # the suffix says the shape
        td_error = q_KB - target
        loss_critic = (batch.weight * td_error.square()).mean(dim=1).sum()
        self.critic_optim.step(loss_critic)

        act, logp = self.policy.sample(batch.obs, self.rng.torch)  # detail 3
        loss_actor = (alpha * logp - self.critic(batch.obs, act).amin(dim=0)).mean()
        self.actor_optim.step(loss_actor)

        entropy = -logp.detach().mean()
        loss_alpha = None
        if self.config.auto_alpha:  # detail 4
            loss_alpha = self.temperature.log_alpha * (entropy - self.target_entropy)
            self.alpha_optim.step(loss_alpha)
        self.update_target()

        metrics = self._finish(
            loss_critic=loss_critic,
            loss_actor=loss_actor,
            loss_alpha=loss_alpha,
            alpha=alpha,
            entropy=entropy,
            q_mean=q_KB.mean(),
        )
        return SACStats(**metrics, priorities=td_error.detach().abs().mean(dim=0))

    def parts(self) -> Mapping[str, Stateful]:
        """Actor, critics, target critics, temperature, optimisers."""
        return {
            "policy": self.policy,
            "critic": self.critic,
            "critic_target": self.critic_target,
            "temperature": self.temperature,
            "actor_optim": self.actor_optim,
            "critic_optim": self.critic_optim,
            "alpha_optim": self.alpha_optim,
        }
