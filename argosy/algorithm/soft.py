"""What soft actor-critics share: critics and a policy whose entropy is worth something, at a temperature."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import nn

from argosy.algorithm.base import Algorithm
from argosy.algorithm.critics import CriticsStats, ScalingConfig
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.task import Kind
from argosy.config import limited
from argosy.net import EnsembleCritic, NetConfig
from argosy.policy import Policy


@dataclass(frozen=True, kw_only=True)
class SoftConfig(ScalingConfig):
    """Settings of the actor, the critics and the temperature."""

    n_step: int = limited(1, ge=1)
    """Rewards summed before the bootstrap value."""
    actor_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the actor."""
    critic_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the critics."""
    alpha_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of the logarithm of the temperature."""
    alpha: float = limited(0.2, gt=0.0)
    """Temperature: what a nat of entropy is worth in reward; its start when it is learned."""
    auto_alpha: bool = True
    """Learn the temperature."""
    target_entropy: float | None = None
    """Entropy that a learned temperature aims at, in nats; None: minus the action's dimension."""
    num_critics: int = limited(2, ge=1)
    """Size K of the ensemble."""


SoftConfigT = TypeVar("SoftConfigT", bound=SoftConfig)


@dataclass(frozen=True, kw_only=True, eq=False)
class SoftStats(CriticsStats):
    """What one update reports."""

    loss_actor: float | None
    """None where the policy was left alone."""
    loss_alpha: float | None
    """None with a fixed temperature, too."""
    alpha: float
    entropy: float | None
    """Mean entropy of the policy at the stored observations; of continuous actions, mean of -log p of fresh ones."""


class SoftActorCritic(Algorithm[SoftConfigT, SoftStats]):
    """An actor, critics, and a temperature that is fixed or learned.

    Args:
        target_entropy: what a learned temperature aims at where the config does not say so; None: minus the action's
            dimension.
    """

    kind: Kind = "offpolicy"
    default_net = NetConfig(hidden_sizes=(256, 256))

    def __init__(
        self, config: SoftConfigT, policy: Policy, critic: EnsembleCritic, target_entropy: float | None = None
    ) -> None:
        super().__init__(config, policy)
        self.critic = critic
        self.log_alpha = nn.Parameter(torch.tensor(math.log(config.alpha), device=self.device))
        self.usual_entropy = -float(policy.action_dim) if target_entropy is None else target_entropy
        self.actor_optim, self.critic_optim = config.actor_optim.build(policy), config.critic_optim.build(critic)
        self.alpha_optim = config.alpha_optim.build([self.log_alpha])

    def schedule(self, env_step: int, max_env_step: int) -> None:
        """Set what depends on progress; a fixed temperature is that of the settings, whatever a checkpoint brought."""
        super().schedule(env_step, max_env_step)
        if not self.config.auto_alpha:
            self.log_alpha.detach().fill_(math.log(self.config.alpha))

    @property
    def target_entropy(self) -> float:
        """What a learned temperature aims at."""
        return self.usual_entropy if self.config.target_entropy is None else self.config.target_entropy

    def _learn_alpha(self, entropy: torch.Tensor, target_entropy: torch.Tensor | float) -> torch.Tensor | None:
        """Move the temperature so that the policy's mean entropy approaches its target. -> the loss, if it learns."""
        if not self.config.auto_alpha:
            return None
        loss = self.log_alpha * (entropy - target_entropy)
        self.alpha_optim.step(loss)
        return loss
