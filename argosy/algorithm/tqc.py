"""Truncated quantile critics (Kuznetsov et al., 2020, https://arxiv.org/abs/2005.04269): SAC with other critics.

Details that matter:

1. Each of K critics gives N quantiles of the return; they are one batched ensemble.
2. The target pools the quantiles of all target critics, K * N, and leaves out the `num_dropped` * K largest ones: what
   makes values too large is the upper tail, and how much of it goes is finer than a minimum over whole critics.
3. Each quantile of each critic learns from all that is left, by the quantile Huber loss: the mean over both, summed
   over the critics.
4. The policy climbs the mean of all quantiles of all critics, none left out.
5. Temperature, entropy, squashing and targets are those of SAC.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.base import batch_mean
from argosy.algorithm.critics import CriticLoss, action_critic
from argosy.algorithm.sac import SAC, SACConfig
from argosy.config import check_range, limited
from argosy.data import TransitionBatch
from argosy.net import EnsembleCritic, NetConfig
from argosy.ops.quantiles import quantile_huber_loss, truncated_mixture
from argosy.policy import Policy

# Shapes: B batch, K critics, N quantiles of each, M = K * (N - num_dropped). With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class TQCConfig(SACConfig):
    """Hyper-parameters of TQC; docs/glossary.md explains each at length."""

    num_critics: int = 5
    """Size K of the ensemble (detail 1)."""
    num_quantiles: int = limited(25, ge=2)
    """Quantiles N of each critic (detail 1)."""
    num_dropped: int = 2
    """Quantiles per critic that the target leaves out (detail 2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "num_dropped", ge=0, lt=self.num_quantiles)

    def build_critic(self, policy: Policy, net: NetConfig) -> EnsembleCritic:
        """Make critics that give quantiles."""
        return action_critic(policy, net, self.num_critics, self.value_scaling, atoms=self.num_quantiles)


class TQC(SAC):
    """Soft actor-critic whose critics give quantiles, of which the target leaves out the largest."""

    config_type = TQCConfig
    config: TQCConfig

    def _critic_loss(self, batch: TransitionBatch, alpha: torch.Tensor) -> CriticLoss:
        """See `SAC`; the error is that of the mean over all quantiles."""
        with torch.no_grad():  # detail 2
            act_next, logp_next = self.policy.analyze_next(batch).sample(self.rng.torch)
            next_BM = truncated_mixture(  # noqa: N806  # the suffix says the shape
                self.critic_target.next_value(batch, act_next), self.config.num_dropped * self.config.num_critics
            )
            soft_BM = next_BM - (alpha * logp_next).unsqueeze(-1)  # noqa: N806
            target_BM = batch.rew.unsqueeze(-1) + batch.discount.unsqueeze(-1) * soft_BM  # noqa: N806
        q_KBN = self.critic.value(batch, batch.act)  # noqa: N806
        units = self.critic.scaled(q_KBN), self.critic.scaled(target_BM)
        loss_KB = quantile_huber_loss(*units) / self.config.num_quantiles  # noqa: N806  # detail 3
        loss = batch_mean((batch.weight * loss_KB).sum(dim=0), batch)
        q = q_KBN.detach().mean(dim=(0, -1))
        return CriticLoss(loss, q, (self.critic.scaled(q) - units[1].mean(dim=-1)).abs(), target_BM)

    def _value(self, batch: TransitionBatch, act: torch.Tensor) -> torch.Tensor:
        return self.critic.value(batch, act).mean(dim=(0, -1))  # detail 4
