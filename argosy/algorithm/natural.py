"""What algorithms share whose actor goes along the natural gradient, while its critic learns by itself."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import TypeVar

import torch

from argosy.algorithm.actor_critic import ActorCriticConfig, ActorCriticStats, PolicyGradient
from argosy.algorithm.base import StatsT, batch_mean, batch_standardised
from argosy.algorithm.optim import OptimConfig
from argosy.config import limited
from argosy.data import AdvantageBatch, TrajectoryBatch
from argosy.ops import check_gradient, conjugate_gradient, explained_variance, fisher_product, flat_gradient
from argosy.policy import ActorCriticAnalysis, ActorCriticPolicy
from argosy.policy.rollouts import advantage_rows, critic_units, minibatches

# Shapes: T time, B envs, N = T * B rows of the rollout, P parameters of the actor. With memory, [N] becomes [T, N].


@dataclass(frozen=True, kw_only=True)
class NaturalConfig(ActorCriticConfig):
    """Settings of advantages, natural gradient and critic."""

    gae_lambda: float = limited(0.95, ge=0.0, le=1.0)
    """Trade-off of the advantage estimate: 0 little variance, 1 no bias."""
    damping: float = limited(0.1, gt=0.0)
    """Added to the diagonal of the Fisher matrix."""
    cg_steps: int = limited(10, ge=1)
    """Steps of conjugate gradients."""
    normalize_adv: bool = True
    """Normalise the rollout's advantages."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the critic."""
    critic_steps: int = limited(20, ge=1)
    """Steps of the critic per rollout."""


NaturalConfigT = TypeVar("NaturalConfigT", bound=NaturalConfig)


@dataclass(frozen=True, kw_only=True, eq=False)
class NaturalStats(ActorCriticStats):
    """What one update reports."""

    loss_value: float
    """Of the critic's last step."""
    approx_kl: float
    """KL(acting policy, current policy), exactly, on the rollout."""


class NaturalGradient(PolicyGradient[NaturalConfigT, StatsT]):
    """One step of the actor per rollout, and several of the critic; they share no layer."""

    averages_gradients = False
    learn_apart = True
    stats_type: type[StatsT]

    def __init__(self, config: NaturalConfigT, policy: ActorCriticPolicy) -> None:
        super().__init__(config, policy)
        self.optim = config.optim.build(policy.critic_parameters())

    def update(self, batch: TrajectoryBatch) -> StatsT:
        """Learn from a rollout [T, B, ...]: obs, act, rew, obs_next, terminated, cut, maybe mask."""
        config = self.config
        rows = advantage_rows(self.policy, self.prepare(batch), config.gamma, config.gae_lambda)
        (mb,) = minibatches(self.policy, rows, None, self.rng)
        if config.normalize_adv:
            mb.adv = batch_standardised(mb.adv, mb)
        metrics = self._move_actor(mb)
        for _ in range(config.critic_steps):
            error = (critic_units(self.policy, self.policy.analyze(mb).value) - mb.returns).square()
            loss_value = batch_mean(error, mb)
            grad_norm = self.optim.step(loss_value)
        explained = explained_variance(rows.value, rows.returns, rows.get("mask"))
        stats = self._finish(**metrics, loss_value=loss_value, grad_norm=grad_norm, explained_variance=explained)
        return self.stats_type(**stats, gradient_steps=1 + config.critic_steps)

    @abstractmethod
    def _move_actor(self, mb: AdvantageBatch) -> dict[str, torch.Tensor]:
        """Make the actor's step. -> its metrics."""

    def _natural_gradient(
        self, loss: torch.Tensor, now: ActorCriticAnalysis, mb: AdvantageBatch
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """-> (x = F^-1 g [P] of a loss, x' F x), F being the Hessian of the mean divergence from `now`."""
        parameters = self.policy.actor_parameters()
        gradient = flat_gradient(loss, parameters)
        check_gradient(loss, gradient)
        output = now.distribution
        kept = output.detach()
        rows = mb.mask if "mask" in mb else torch.ones_like(mb.adv)
        share = (rows / rows.sum()).reshape(*rows.shape, *(1,) * (kept.dim() - rows.dim()))
        product = fisher_product(
            output, lambda change: share * now.information(kept, change), parameters, self.config.damping
        )
        return conjugate_gradient(product, gradient, self.config.cg_steps)
