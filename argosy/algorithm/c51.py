"""Categorical DQN, C51 (Bellemare et al., 2017, https://arxiv.org/abs/1707.06887).

Details that matter:

1. The network gives, for each action, the probabilities of N fixed values of the return, equally spaced from `v_min` to
   `v_max`; an action's value is their mean. Returns outside of these bounds cannot be told from the bounds.
2. The target's values, reward plus discounted support, are projected onto the support: each one's probability goes to
   its two neighbours (`ops/categorical.py`). A terminated row's mass lies at its reward.
3. The loss is the cross entropy of the projected target and the prediction, whose gradient is that of their
   Kullback-Leibler divergence; this divergence is the priority (Hessel et al., 2018, https://arxiv.org/abs/1710.02298).
4. The target network values the greedy action: the online network's choice with `double`, as in double DQN, else its
   own, as in the paper.
5. n-step returns, dueling streams, noisy layers, masks and exploration are those of DQN.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.base import Task, batch_mean, batch_priorities
from argosy.algorithm.q_learning import QLearning, QLearningConfig, QLearningStats
from argosy.config import check_range, limited
from argosy.data import TransitionBatch
from argosy.net import NetConfig
from argosy.ops.categorical import categorical_projection
from argosy.policy.categorical import CategoricalPolicy

# Shapes: B batch, A actions, N atoms. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class C51Config(QLearningConfig):
    """Hyper-parameters of C51; docs/glossary.md explains each at length."""

    num_atoms: int = limited(51, ge=2)
    """Values N of the return that are told apart (detail 1)."""
    v_min: float = -10.0
    """The smallest of them."""
    v_max: float = 10.0
    """The largest of them."""
    dueling: bool = False
    """Split the last hidden layer into a value and an advantage stream."""
    noisy_std: float = limited(0.0, ge=0.0, le=100.0)
    """Deviation with which the layers' noise starts, e.g. 0.5; 0: no noise."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "v_min", "v_max", ge=-1e30, le=1e30)
        check_range(self, "v_max", gt=self.v_min)

    def build_policy(self, task: Task, net: NetConfig) -> CategoricalPolicy:
        """Make the policy of a task, or take the task's own."""
        return task.policy_or(
            CategoricalPolicy,
            net,
            num_atoms=self.num_atoms,
            v_min=self.v_min,
            v_max=self.v_max,
            dueling=self.dueling,
            noisy_std=self.noisy_std,
        )


class C51(QLearning[C51Config, QLearningStats]):
    """Distributional Q-learning: probabilities of fixed returns instead of their mean."""

    config_type = C51Config
    policy: CategoricalPolicy
    policy_target: CategoricalPolicy

    def update(self, batch: TransitionBatch) -> QLearningStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        with self.noise(self.rng):
            analysis = self.policy.analyze(batch)
            target_BN = self._target(batch)  # noqa: N806  # the suffix says the shape
        cross_entropy = -(target_BN * analysis.log_probs_taken).sum(dim=-1)
        divergence = cross_entropy + torch.xlogy(target_BN, target_BN).sum(dim=-1)
        loss = batch_mean(batch.weight * cross_entropy, batch)
        grad_norm = self.optim.step(loss)
        self.update_target()
        metrics = self._finish(loss=loss, q_mean=batch_mean(analysis.q_taken.detach(), batch), grad_norm=grad_norm)
        return QLearningStats(**metrics, priorities=batch_priorities(divergence, batch))

    @torch.no_grad()
    def _target(self, batch: TransitionBatch) -> torch.Tensor:
        """Probabilities [B, N] of reward and discounted return of the best allowed next action (details 2, 4)."""
        target = self.policy_target.analyze_next(batch)
        chooser = self.policy.analyze_next(batch) if self.config.double else target
        atoms_BN = batch.rew.unsqueeze(-1) + batch.discount.unsqueeze(-1) * target.support  # noqa: N806
        return categorical_projection(target.log_probs_of(chooser.greedy).exp(), atoms_BN, target.support)
