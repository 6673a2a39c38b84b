"""Critics outside of policies, for actions of either kind, and what algorithms with these say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

import torch

from argosy.algorithm.base import AlgorithmConfig, batch_mean
from argosy.algorithm.optim import OptimConfig
from argosy.config import limited
from argosy.data import TrainingStats, TransitionBatch
from argosy.net import EnsembleCritic, NetConfig
from argosy.policy import Policy


@dataclass(frozen=True, kw_only=True)
class CriticsConfig(AlgorithmConfig):
    """Settings of a policy and of critics beside it, whose targets follow them."""

    n_step: int = limited(1, ge=1)
    """Rewards summed before the bootstrap value."""
    actor_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of the policy."""
    critic_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of the critics."""
    num_critics: int = limited(2, ge=1)
    """Size K of the ensemble."""
    tau: float = limited(0.005, gt=0.0, le=1.0)
    """Share by which targets move per update; 1 copies."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CriticsStats(TrainingStats):
    """What one update of critics reports."""

    loss_critic: float
    """Mean squared error, summed over the critics."""
    q_mean: float
    """Mean value of the stored actions, over batch and critics."""


class CriticLoss(NamedTuple):
    """What critics learn from."""

    loss: torch.Tensor
    q: torch.Tensor
    """[B] value of the stored actions, without gradient: the mean over the critics."""
    error: torch.Tensor
    """[B] size of the temporal-difference error, without gradient: the mean over the critics."""
    metrics: Mapping[str, torch.Tensor] = MappingProxyType({})
    """Of an algorithm that has stats of its own: more of them."""


def critic_loss(q_KB: torch.Tensor, target: torch.Tensor, batch: TransitionBatch) -> CriticLoss:  # noqa: N803
    """Mean squared error of values [K, B] of the stored actions from a target [B], summed over the critics."""
    td_error = q_KB - target
    loss = batch_mean((batch.weight * td_error.square()).sum(dim=0), batch)
    return CriticLoss(loss, q_KB.detach().mean(dim=0), td_error.detach().abs().mean(dim=0))


def action_critic(policy: Policy, net: NetConfig, size: int) -> EnsembleCritic:
    """Make Q [K, ...] of what a policy sees and does: of an action in a Box, or of all choices [K, ..., A]."""
    choices = policy.num_actions
    dim = 0 if choices else policy.action_dim
    return EnsembleCritic(policy.observation_space, dim, net, size, _no_input(policy), atoms=choices or 1).to(
        policy.device
    )


def state_critic(policy: Policy, net: NetConfig) -> EnsembleCritic:
    """Make V [1, ...] of what a policy sees."""
    return EnsembleCritic(policy.observation_space, 0, net, 1, _no_input(policy)).to(policy.device)


def _no_input(policy: Policy) -> tuple[str, ...]:
    return () if policy.mask_key is None else (policy.mask_key,)
