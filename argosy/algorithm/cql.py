"""Conservative Q-learning (Kumar et al., 2020, https://arxiv.org/abs/2006.04779): SAC on a data set, CQL(H).

Details that matter:

1. Beside its squared error each critic pays for log sum exp Q(s, a) over actions minus Q(s, a) of the stored one:
   values of actions outside of the data are pushed down, those of the data's up.
2. The sum over actions is an estimate by importance sampling, from as many uniform actions as draws of the policy at s
   and at s', each divided by its density; the densities carry no gradient, nor does the policy learn from this loss.
   Where the episode terminated, s' says nothing and its draws count for nothing.
3. `conservative_weight` is what a nat of this gap costs. With `lagrange` it is multiplied by a number that is learned
   so that the gap comes near `threshold`, and which stays between 0 and a million.
4. Calibrated (Cal-QL, Nakamoto et al., 2023, https://arxiv.org/abs/2303.05479): values of the policy's actions are not
   pushed below the return that the data's episode had from s on, so that learning can go on online without unlearning.
5. Actor, temperature and squashing are those of SAC. Targets leave the entropy out, as the authors' code does: where
   the data are narrow, the policy's lies below the one that is aimed at, and the temperature grows and grows. With
   `entropy_in_target` they are SAC's, too.
6. In its first `cloning_updates` the actor imitates the data, as in the authors' code, while the critics learn what
   that is worth: those of a new network know nothing that is worth climbing, and what they lead to is not in the data.
   Entropy then counts nothing and the temperature stays (theirs do; where the data are narrow, it grows and holds the
   actor off them, where they are broad, it vanishes). Afterwards it aims at no more entropy than the actor then has,
   unless `target_entropy` says so: of narrow data that is less than the usual.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from argosy.algorithm.base import batch_mean
from argosy.algorithm.critics import CriticLoss
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.sac import SAC, SACConfig
from argosy.algorithm.soft import SoftStats
from argosy.config import limited
from argosy.data import Sampling, TransitionBatch
from argosy.net import EnsembleCritic
from argosy.policy import SquashedGaussianPolicy

MOST_MULTIPLIER = 1e6
# Shapes: B batch, A action dim, K critics, N draws of each kind. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class CQLConfig(SACConfig):
    """Hyper-parameters of CQL; docs/glossary.md explains each at length."""

    actor_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=1e-4))
    """Optimiser of the actor."""
    critic_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of the critics."""
    conservative_weight: float = limited(5.0, ge=0.0)
    """What a nat of the gap costs (detail 3)."""
    num_draws: int = limited(10, ge=1)
    """Actions N of each kind by which the gap is estimated (detail 2)."""
    lagrange: bool = False
    """Learn the weight's multiplier (detail 3)."""
    threshold: float = 5.0
    """With `lagrange`: the weighted gap that is aimed at."""
    multiplier_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """With `lagrange`: optimiser of the multiplier's logarithm."""
    entropy_in_target: bool = False
    """Let targets hold the successors' entropy, as SAC's do (detail 5)."""
    calibrated: bool = False
    """Push no value below the data's return: Cal-QL (detail 4)."""
    cloning_updates: int = limited(0, ge=0)
    """First updates in which the actor imitates the data (detail 6)."""
    cloning_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=1e-3))
    """Optimiser of the actor in these."""


@dataclass(frozen=True, kw_only=True, eq=False)
class CQLStats(SoftStats):
    """What one update reports."""

    loss_conservative: float
    """What the gap costs, summed over the critics; part of the critics' loss."""
    gap: float
    """Mean of log sum exp Q minus Q of the stored actions, over the critics."""
    multiplier: float
    """Of the weight; 1 without `lagrange`."""


class CQL(SAC):
    """Soft actor-critic from a data set, whose critics think little of what is not in it."""

    kind = "offline"
    config_type = CQLConfig
    stats_type = CQLStats
    config: CQLConfig

    def __init__(self, config: CQLConfig, policy: SquashedGaussianPolicy, critic: EnsembleCritic) -> None:
        super().__init__(config, policy, critic)
        self.log_multiplier = nn.Parameter(torch.zeros((), device=self.device))
        self.multiplier_optim = config.multiplier_optim.build([self.log_multiplier])
        if config.cloning_updates > 0:
            self.cloning_optim = config.cloning_optim.build(policy)

    @property
    def sampling(self) -> Sampling:
        """With `calibrated`, rows know what came of them in the data set."""
        return replace(super().sampling, fields=("returns",)) if self.config.calibrated else super().sampling

    def _critic_loss(self, batch: TransitionBatch, alpha: torch.Tensor) -> CriticLoss:
        critics = super()._critic_loss(batch, alpha if self.config.entropy_in_target else 0.0 * alpha)
        gap_K = batch_mean(batch.weight * self._gap(batch), batch)  # noqa: N806  # the suffix says the shape
        weighted = self.config.conservative_weight * gap_K
        multiplier = torch.ones_like(self.log_multiplier)
        if self.config.lagrange:  # detail 3
            multiplier = self.log_multiplier.exp()
            weighted = weighted - self.config.threshold
            self.multiplier_optim.step(-multiplier * weighted.detach().mean())
            with torch.no_grad():
                self.log_multiplier.clamp_(max=math.log(MOST_MULTIPLIER))
        conservative = multiplier.detach() * weighted.sum()
        metrics = {"loss_conservative": conservative, "gap": gap_K.mean(), "multiplier": multiplier}
        return critics._replace(loss=critics.loss + conservative, metrics=metrics)

    def _gap(self, batch: TransitionBatch) -> torch.Tensor:
        """By how much actions in general seem better than the stored one [K, B] (details 1, 2)."""
        count, generator = self.config.num_draws, self.rng.torch
        with torch.no_grad():
            uniform = torch.empty(count, *batch.act.shape).uniform_(-1.0, 1.0, generator=generator).to(self.device)
            now, after = self.policy.analyze(batch), self.policy.analyze_next(batch)
            (act_now, logp_now), (act_after, logp_after) = (dist.sample(generator, count) for dist in (now, after))
            act = torch.cat((uniform, act_now, act_after))  # [3 N, B, ...]
            logp_uniform = torch.full_like(logp_now, -self.policy.action_dim * math.log(2.0))
            logp_after.masked_fill_(batch.discount == 0.0, torch.inf)
            logp = torch.cat((logp_uniform, logp_now, logp_after))
        q = self.critic.value(batch, act)  # [K, 3 N, B]
        if self.config.calibrated:  # detail 4
            q = torch.cat((q[:, :count], q[:, count:].maximum(batch.returns)), dim=1)
        return (q - logp).logsumexp(dim=1) - self.critic.value(batch, batch.act)

    def _learn_actor(self, batch: TransitionBatch, alpha: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        if not self._is_cloning:
            return super()._learn_actor(batch, alpha)
        now = self.policy.analyze(batch)
        _, logp = now.sample(self.rng.torch)
        loss = -batch_mean(batch.weight * now.log_prob(batch.act), batch)
        self.cloning_optim.step(loss)
        entropy = -batch_mean(logp.detach(), batch)
        self.usual_entropy = min(-float(self.policy.action_dim), entropy.item())
        return loss, entropy

    def _learn_alpha(self, entropy: torch.Tensor, target_entropy: torch.Tensor | float) -> torch.Tensor | None:
        return None if self._is_cloning else super()._learn_alpha(entropy, target_entropy)

    @property
    def _is_cloning(self) -> bool:  # detail 6
        return self.num_updates < self.config.cloning_updates
