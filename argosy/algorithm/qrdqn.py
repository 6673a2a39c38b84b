"""Quantile regression DQN (Dabney et al., 2018, https://arxiv.org/abs/1710.10044).

Details that matter:

1. The network gives N quantiles of each action's return, at the middles (2 i + 1) / (2 N) of equal shares of
   probability; an action's value is their mean.
2. Each predicted quantile is compared with each of the target's N samples: the Huber loss of their difference, weighted
   by |tau - 1(difference < 0)|, summed over the predicted quantiles, mean over the target's (algorithm 1).
3. The target network values the greedy action: the online network's choice with `double`, as in double DQN, else its
   own, as in the paper.
4. n-step returns, dueling streams, masks and exploration are those of DQN.
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
from argosy.policy.quantile import QuantilePolicy

# Shapes: B batch, A actions, N quantiles. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class QRDQNConfig(QLearningConfig):
    """Hyper-parameters of QR-DQN; docs/glossary.md explains each at length."""

    num_quantiles: int = limited(200, ge=1)
    """Quantiles N per action (detail 1)."""
    kappa: float = limited(1.0, gt=0.0)
    """Threshold from which the loss of a difference is linear (detail 2)."""
    dueling: bool = False
    """Split the last hidden layer into a value and an advantage stream."""

    def build_policy(self, task: Task, net: NetConfig) -> QuantilePolicy:
        """Make the policy of a task, or take the task's own."""
        return task.policy_or(QuantilePolicy, net, num_quantiles=self.num_quantiles, dueling=self.dueling)


class QRDQN(QLearning[QRDQNConfig, QLearningStats]):
    """Distributional Q-learning: quantiles of the return instead of its mean."""

    config_type = QRDQNConfig
    policy: QuantilePolicy
    policy_target: QuantilePolicy

    def update(self, batch: TransitionBatch) -> QLearningStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        taken_BN = self.policy.analyze(batch).quantiles_taken  # noqa: N806  # the suffix says the shape
        target_BN = self._target(batch)  # noqa: N806
        loss_B = quantile_huber_loss(taken_BN, target_BN, self.config.kappa)  # noqa: N806
        loss = batch_mean(batch.weight * loss_B, batch)
        grad_norm = self.optim.step(loss)
        self.update_target()
        q_taken = taken_BN.detach().mean(dim=-1)
        metrics = self._finish(loss=loss, q_mean=batch_mean(q_taken, batch), grad_norm=grad_norm)
        return QLearningStats(**metrics, priorities=batch_priorities(q_taken - target_BN.mean(dim=-1), batch))

    @torch.no_grad()
    def _target(self, batch: TransitionBatch) -> torch.Tensor:
        """Samples [B, N] of the return: reward and discounted quantiles of the best allowed next action (detail 3)."""
        target = self.policy_target.analyze_next(batch)
        chooser = self.policy.analyze_next(batch) if self.config.double else target
        next_BN = target.quantiles_of(chooser.greedy)  # noqa: N806
        return batch.rew.unsqueeze(-1) + batch.discount.unsqueeze(-1) * next_BN
