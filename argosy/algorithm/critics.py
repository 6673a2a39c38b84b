"""Critics outside of policies, for actions of either kind, and what algorithms with these say of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

import torch

from argosy.algorithm.base import Algorithm, AlgorithmConfig, batch_mean, batch_priorities
from argosy.algorithm.optim import OptimConfig
from argosy.config import limited
from argosy.data import TrainingStats, TransitionBatch
from argosy.net import EnsembleCritic, NetConfig, Scaling
from argosy.policy import ActorCriticPolicy, Policy

LEAST_LOG_STD = -5.0


def as_taken(policy: Policy, act: torch.Tensor) -> torch.Tensor:
    """Return stored actions [..., *act] as the env took them: where it cuts a Gaussian's draws, these are cut."""
    return act if policy._box is None else policy._box.clipped(act)


@torch.no_grad()
def keep_deviation(policy: ActorCriticPolicy, log_std_init: float) -> None:
    """Let no deviation of a Gaussian fall below e^-5, or what it began with.

    Where all stored actions lie at a bound, a mean within it fits them exactly, and the deviation would shrink for
    ever: the first row that differs would then be worth more than all others.
    """
    log_std = getattr(policy.action_head, "log_std", None)
    if log_std is not None:
        log_std.clamp_(min=min(LEAST_LOG_STD, log_std_init))


@dataclass(frozen=True, kw_only=True)
class ScalingConfig(AlgorithmConfig):
    """Whether critics scale what they predict, see `argosy.net.statistics.Scaled`."""

    return_scaling: bool = False
    """Let critics predict returns divided by their running deviation."""
    popart: bool = False
    """Let them predict centred ones as well, and keep their outputs where the statistics move (PopArt)."""

    @property
    def value_scaling(self) -> Scaling | None:
        """What their last layer is to do; None: they predict returns as they are."""
        return "popart" if self.popart else "std" if self.return_scaling else None


@dataclass(frozen=True, kw_only=True)
class CriticsConfig(ScalingConfig):
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
    target: torch.Tensor
    """[B] or [B, M] returns that the critics were to predict."""
    metrics: Mapping[str, torch.Tensor] = MappingProxyType({})
    """Of an algorithm that has stats of its own: more of them."""


def critic_loss(
    critic: EnsembleCritic,
    q_KB: torch.Tensor,  # noqa: N803  # the suffix says the shape
    target: torch.Tensor,
    batch: TransitionBatch,
) -> CriticLoss:
    """Mean squared error of values [K, B] of the stored actions from a target [B], summed over the critics.

    It is in the units in which they learn, and so is its size as a priority.
    """
    td_error = critic.scaled(q_KB) - critic.scaled(target)
    loss = batch_mean((batch.weight * td_error.square()).sum(dim=0), batch)
    return CriticLoss(loss, q_KB.detach().mean(dim=0), td_error.detach().abs().mean(dim=0), target)


def finished(
    algorithm: Algorithm, batch: TransitionBatch, critics: CriticLoss, **metrics: torch.Tensor | None
) -> dict[str, Any]:
    """End an update that has learned critics; `metrics` are those of its policy. -> all fields of its stats."""
    q_mean = batch_mean(critics.q, batch)
    found = algorithm._finish(loss_critic=critics.loss, **metrics, q_mean=q_mean, **critics.metrics)
    return {**found, "priorities": batch_priorities(critics.error, batch)}


def action_critic(
    policy: Policy,
    net: NetConfig,
    size: int,
    scaling: Scaling | None = None,
    *,
    atoms: int | None = None,
    action_dim: int | None = None,
) -> EnsembleCritic:
    """Make Q [K, ...] of what a policy sees and does: of an action in a Box, or of all choices [K, ..., A].

    With `atoms` so many numbers of an action in a Box, [K, ..., N], see `EnsembleCritic`. `action_dim` is given where
    actions come encoded.
    """
    choices = policy.num_actions
    dim = 0 if choices else action_dim or policy.action_dim
    seen, skip = policy.observation_space, policy.no_input
    return EnsembleCritic(seen, dim, net, size, skip, atoms=choices or atoms, scaling=scaling).to(policy.device)


def state_critic(policy: Policy, net: NetConfig, scaling: Scaling | None = None) -> EnsembleCritic:
    """Make V [1, ...] of what a policy sees."""
    return EnsembleCritic(policy.observation_space, 0, net, 1, policy.no_input, scaling=scaling).to(policy.device)
