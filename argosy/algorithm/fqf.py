"""Fully parameterised quantile functions, FQF (Yang et al., 2019, https://arxiv.org/abs/1911.02140).

Details that matter:

1. The network is IQN's: the quantile of each action's return at any fraction of probability (`net/implicit.py`).
2. A linear layer proposes N shares of probability for each observation. The return's distribution is a staircase of
   them, with the quantile at each share's middle, and an action's value its mean.
3. The shares follow the gradient of the staircase's 1-Wasserstein distance from the quantile function, which needs no
   derivative of it (`ops/quantiles.py`); the layer has an optimiser of its own and gives no gradient to the features.
   With `entropy_coef`, as the authors' code has it, the shares are kept from collapsing.
4. The quantile loss is IQN's, at the shares' middles. The target's quantiles are those at the middles of the shares
   that the next observation is given.
5. The target network values the greedy action. With `double`, action and shares are the online network's choice, else
   the target network's own.
6. n-step returns, masks and exploration are those of DQN.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from argosy.algorithm.base import Task, batch_mean, batch_priorities
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.q_learning import QLearning, QLearningConfig
from argosy.config import limited
from argosy.data import TrainingStats, TransitionBatch
from argosy.net import NetConfig
from argosy.net.implicit import edges, fraction_parameters, middles
from argosy.ops.quantiles import fraction_gradient, quantile_huber_loss
from argosy.policy.implicit import ImplicitAnalysis, ImplicitPolicy

# Shapes: B batch, N shares of probability. With memory, [B] becomes [T, B].

TINY = 1e-12
"""Keeps the logarithm of a share finite."""


@dataclass(frozen=True, kw_only=True)
class FQFConfig(QLearningConfig):
    """Hyper-parameters of FQF; docs/glossary.md explains each at length."""

    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the network without the shares' layer."""
    fraction_optim: OptimConfig = field(default_factory=lambda: OptimConfig(kind="rmsprop", lr=2.5e-9))
    """Optimiser of the layer that proposes shares (detail 3)."""
    num_fractions: int = limited(32, ge=2)
    """Shares of probability N (detail 2)."""
    entropy_coef: float = limited(0.0, ge=0.0)
    """Weight of the shares' entropy (detail 3)."""
    num_cosines: int = limited(64, ge=1)
    """Cosines that a fraction is embedded by (detail 1)."""
    kappa: float = limited(1.0, gt=0.0)
    """Threshold from which the loss of a difference is linear."""
    double: bool = False
    """Choose the next action and its shares by the online network (detail 5)."""

    def build_policy(self, task: Task, net: NetConfig) -> ImplicitPolicy:
        """Make the policy of a task, or take the task's own."""
        return task.policy_or(
            ImplicitPolicy, net, num_fractions=self.num_fractions, proposes=True, num_cosines=self.num_cosines
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class FQFStats(TrainingStats):
    """What one update reports."""

    loss_quantile: float
    """Mean (weighted) quantile Huber loss."""
    loss_fraction: float
    """Mean (weighted) loss of the shares: its gradient is what matters, its value means nothing."""
    entropy: float
    """Mean entropy of the shares, at most log N."""
    q_mean: float
    """Mean value of the taken actions."""
    grad_norm: float | None = None
    """Norm of the network's gradient before clipping; None without clipping."""


class FQF(QLearning[FQFConfig, FQFStats]):
    """Distributional Q-learning: quantiles at fractions that are learned, too."""

    config_type = FQFConfig
    policy: ImplicitPolicy
    policy_target: ImplicitPolicy

    def __init__(self, config: FQFConfig, policy: ImplicitPolicy) -> None:
        proposing = fraction_parameters(policy)
        others = (p for p in policy.parameters() if all(p is not other for other in proposing))
        super().__init__(config, policy, others)
        self.fraction_optim = config.fraction_optim.build(proposing)

    def update(self, batch: TransitionBatch) -> FQFStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        analysis = self.policy.analyze(batch)
        shares_BN = analysis.shares  # noqa: N806  # the suffix says the shape
        taken_BN = analysis.quantiles_taken()  # noqa: N806
        target_BN, q_target = self._target(batch)  # noqa: N806
        loss_B = quantile_huber_loss(taken_BN, target_BN, self.config.kappa, middles(shares_BN))  # noqa: N806
        loss_quantile = batch_mean(batch.weight * loss_B, batch)
        distance_B = self._distance(analysis, edges(shares_BN), taken_BN.detach())  # noqa: N806
        entropy_B = -(shares_BN * shares_BN.clamp(min=TINY).log()).sum(dim=-1)  # noqa: N806
        loss_fraction = batch_mean(batch.weight * (distance_B - self.config.entropy_coef * entropy_B), batch)

        q_taken = (taken_BN * shares_BN).detach().sum(dim=-1)
        priorities = batch_priorities(q_taken - q_target, batch)
        grad_norm = self.optim.step(loss_quantile)
        self.fraction_optim.step(loss_fraction)
        self.update_target()
        metrics = self._finish(
            loss_quantile=loss_quantile,
            loss_fraction=loss_fraction,
            entropy=batch_mean(entropy_B.detach(), batch),
            q_mean=batch_mean(q_taken, batch),
            grad_norm=grad_norm,
        )
        return FQFStats(**metrics, priorities=priorities)

    def _distance(self, analysis: ImplicitAnalysis, edges: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
        """Return [B] with the gradient of the staircase's distance in its inner edges [B, N - 1]; taken [B, N]."""
        with torch.no_grad():
            gradient = fraction_gradient(analysis.quantiles_taken(edges), taken)
        return (gradient * edges).sum(dim=-1)

    @torch.no_grad()
    def _target(self, batch: TransitionBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """Samples [B, N] of the return and its mean [B].

        They are the reward and the discounted quantiles of the best allowed next action (detail 4).
        """
        target = self.policy_target.analyze_next(batch)
        if self.config.double:
            chooser = self.policy.analyze_next(batch)
            next_BN = target.quantiles_of(chooser.greedy, middles(chooser.shares))  # noqa: N806
        else:
            chooser = target
            next_BN = target.quantiles_of(target.greedy)  # noqa: N806
        target_BN = batch.rew.unsqueeze(-1) + batch.discount.unsqueeze(-1) * next_BN  # noqa: N806
        return target_BN, (target_BN * chooser.shares).sum(dim=-1)
