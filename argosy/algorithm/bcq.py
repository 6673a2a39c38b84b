"""Batch-constrained Q-learning (Fujimoto et al., 2019, https://arxiv.org/abs/1812.02900), for continuous actions.

Details that matter:

1. A conditional variational autoencoder models the data's actions: its loss is the mean squared error of the action
   that a drawn latent is decoded to, and half of the mean divergence of the latents from a standard Gaussian.
2. Actions come from this model alone. Its latents are drawn within [-0.5, 0.5], where the data's are; what is decoded
   is moved by a second network by at most `max_perturbation`, which climbs the first critic's value.
3. The target values `num_draws` actions of the model at s', moved by the target's perturbation, and takes the best. Of
   the target critics' values of each it takes `pessimism` times the minimum and the rest times the maximum.
4. The policy takes the best of `num_candidates` such actions by the first critic.
5. `discount` is gamma^k, 0 where the episode terminated; a truncated one bootstraps from its true last observation.
6. All three losses are of the networks as they were before the update, so that they are asked once.
7. Targets of critics and perturbation follow softly after every update.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, Task, batch_mean
from argosy.algorithm.critics import CriticsConfig, CriticsStats, critic_loss, finished
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.task import Kind
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import NetConfig, TargetUpdate, frozen_copy
from argosy.ops import gaussian_kl
from argosy.ops.offline import squared_distance
from argosy.policy.batch_constrained import LATENT_BOUND, BatchConstrainedPolicy

# Shapes: B batch, A action dim, K critics, N draws, Z latents. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class BCQConfig(CriticsConfig):
    """Hyper-parameters of BCQ; docs/glossary.md explains each at length."""

    model_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the model of the data."""
    actor_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the perturbation."""
    critic_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the critics."""
    max_perturbation: float = limited(0.05, ge=0.0, le=1.0)
    """The most by which an element of an action is moved (detail 2)."""
    num_draws: int = limited(10, ge=2)
    """Actions N of the model from which the target takes the best (detail 3)."""
    num_candidates: int = limited(100, ge=2)
    """Actions of the model from which the policy takes the best (detail 4)."""
    pessimism: float = limited(0.75, ge=0.0, le=1.0)
    """Share of the critics' minimum in the target, beside their maximum (detail 3)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class BCQStats(CriticsStats):
    """What one update reports."""

    loss_model: float
    """Of the model of the data (detail 1)."""
    loss_actor: float
    """Minus the first critic's value of what the model draws, perturbed."""


class BCQ(Algorithm[BCQConfig, BCQStats]):
    """Q-learning from a data set among actions that a model of the data proposes."""

    kind: Kind = "offline"
    config_type = BCQConfig
    action_spaces = (spaces.Box,)
    needs_bounds = True
    default_net = NetConfig(hidden_sizes=(256, 256))
    policy: BatchConstrainedPolicy

    def __init__(self, config: BCQConfig, policy: BatchConstrainedPolicy) -> None:
        super().__init__(config, policy)
        self.policy_target = frozen_copy(policy)
        self.model_optim = config.model_optim.build(policy.model_parameters())
        self.actor_optim = config.actor_optim.build(policy.actor_parameters())
        self.critic_optim = config.critic_optim.build(policy.critic_parameters())
        self.update_target = TargetUpdate(self.policy_target, policy, config.tau)

    @classmethod
    def build(cls, config: BCQConfig, task: Task) -> Self:
        """Make the policy, which has all networks, and the algorithm."""
        policy = task.policy_or(
            BatchConstrainedPolicy,
            task.net or cls.default_net,
            num_critics=config.num_critics,
            num_candidates=config.num_candidates,
            max_perturbation=config.max_perturbation,
            value_scaling=config.value_scaling,
        )
        return cls(config, policy)

    def update(self, batch: TransitionBatch) -> BCQStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        now = self.policy.analyze(batch)
        mean, log_std = now.posterior(batch.act)  # detail 1
        latent = mean + log_std.exp() * self._noise(mean.shape)
        decoded = now.decoded(latent)
        distance = squared_distance(decoded, batch.act, batch.rew.dim()) / self.policy.action_dim
        none = torch.zeros_like(mean)
        divergence = gaussian_kl(mean, log_std, none, none) / mean.shape[-1]
        loss_model = batch_mean(batch.weight * (distance + 0.5 * divergence), batch)

        target = self._target(batch)
        critics = critic_loss(self.policy.critic, now.value(batch.act), target, batch)

        drawn = now.decoded(self._latents(batch.rew.shape)).detach()
        loss_actor = -batch_mean(now.value(now.perturbed(drawn))[0], batch)  # detail 2
        self.actor_optim.step(loss_actor)  # detail 6
        self.critic_optim.step(critics.loss)
        self.model_optim.step(loss_model)
        self.policy.critic.take_in(target, batch)
        self.update_target()
        return BCQStats(**finished(self, batch, critics, loss_model=loss_model, loss_actor=loss_actor))

    @torch.no_grad()
    def _target(self, batch: TransitionBatch) -> torch.Tensor:
        """Return [B]: reward and discounted value of the best of the actions drawn at s' (detail 3)."""
        after, target = self.policy.analyze_next(batch), self.policy_target.analyze_next(batch)
        act_NBA = after.decoded(self._latents((self.config.num_draws, *batch.rew.shape)))  # noqa: N806
        q_KNB = target.value(target.perturbed(act_NBA))  # noqa: N806
        pessimism = self.config.pessimism
        q_NB = pessimism * q_KNB.amin(dim=0) + (1.0 - pessimism) * q_KNB.amax(dim=0)  # noqa: N806
        return batch.rew + batch.discount * q_NB.amax(dim=0)

    def _latents(self, lead: tuple[int, ...]) -> torch.Tensor:
        """Draw latents [*lead, Z] as the policy does."""
        return self._noise((*lead, 2 * self.policy.action_dim)).clamp(-LATENT_BOUND, LATENT_BOUND)

    def _noise(self, shape: tuple[int, ...]) -> torch.Tensor:
        return torch.empty(shape).normal_(generator=self.rng.torch).to(self.device)
