"""Implicit quantile networks, IQN (Dabney et al., 2018, https://arxiv.org/abs/1806.06923).

Details that matter:

1. The network gives the quantile of each action's return at any fraction of probability: the features are multiplied
   with an embedding of the fraction by cosines, before the last hidden layer (`net/implicit.py`).
2. Each predicted quantile, at N fractions that are drawn for every row and update, is compared with each of N' samples
   of the target, at fractions of their own: the Huber loss of their difference, weighted by |tau - 1(difference < 0)|,
   summed over the predicted, mean over the target's.
3. An action's value is the mean over K quantiles, at the middles of equal shares of probability, where the paper draws
   K fractions: the estimate has no noise, and acting is deterministic.
4. The target network values the greedy action: the online network's choice with `double`, as in double DQN, else its
   own, as in the paper.
5. n-step returns, masks and exploration are those of DQN.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.base import Task, batch_mean, batch_priorities
from argosy.algorithm.q_learning import QLearning, QLearningConfig, QLearningStats
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import NetConfig
from argosy.ops.quantiles import quantile_huber_loss
from argosy.policy.implicit import ImplicitPolicy

# Shapes: B batch, N fractions of the prediction, M of the target. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class IQNConfig(QLearningConfig):
    """Hyper-parameters of IQN; docs/glossary.md explains each at length."""

    num_quantiles: int = limited(8, ge=1)
    """Fractions N that are drawn for the prediction (detail 2)."""
    num_target_quantiles: int = limited(8, ge=1)
    """Fractions N' that are drawn for the target (detail 2)."""
    num_mean_quantiles: int = limited(32, ge=1)
    """Quantiles K whose mean is an action's value (detail 3)."""
    num_cosines: int = limited(64, ge=1)
    """Cosines that a fraction is embedded by (detail 1)."""
    kappa: float = limited(1.0, gt=0.0)
    """Threshold from which the loss of a difference is linear (detail 2)."""

    def build_policy(self, task: Task, net: NetConfig) -> ImplicitPolicy:
        """Make the policy of a task, or take the task's own."""
        return task.policy_or(ImplicitPolicy, net, num_fractions=self.num_mean_quantiles, num_cosines=self.num_cosines)


class IQN(QLearning[IQNConfig, QLearningStats]):
    """Distributional Q-learning: a network that gives the quantile of the return at any fraction."""

    config_type = IQNConfig
    policy: ImplicitPolicy
    policy_target: ImplicitPolicy

    def update(self, batch: TransitionBatch) -> QLearningStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        tau_BN = self._draw(batch, self.config.num_quantiles)  # noqa: N806  # the suffix says the shape
        taken_BN = self.policy.analyze(batch).quantiles_taken(tau_BN)  # noqa: N806
        target_BM = self._target(batch)  # noqa: N806
        loss_B = quantile_huber_loss(taken_BN, target_BM, self.config.kappa, tau_BN)  # noqa: N806
        loss = batch_mean(batch.weight * loss_B, batch)
        grad_norm = self.optim.step(loss)
        self.update_target()
        q_taken = taken_BN.detach().mean(dim=-1)
        metrics = self._finish(loss=loss, q_mean=batch_mean(q_taken, batch), grad_norm=grad_norm)
        return QLearningStats(**metrics, priorities=batch_priorities(q_taken - target_BM.mean(dim=-1), batch))

    def _draw(self, batch: TransitionBatch, count: int) -> torch.Tensor:
        """Draw fractions [B, count], uniform in [0, 1)."""
        return torch.empty(*batch.rew.shape, count).uniform_(generator=self.rng.torch).to(self.device)

    @torch.no_grad()
    def _target(self, batch: TransitionBatch) -> torch.Tensor:
        """Samples [B, M] of the return: reward and discounted quantiles of the best allowed next action (detail 4)."""
        target = self.policy_target.analyze_next(batch)
        chooser = self.policy.analyze_next(batch) if self.config.double else target
        tau_BM = self._draw(batch, self.config.num_target_quantiles)  # noqa: N806
        next_BM = target.quantiles_of(chooser.greedy, tau_BM)  # noqa: N806
        return batch.rew.unsqueeze(-1) + batch.discount.unsqueeze(-1) * next_BM
