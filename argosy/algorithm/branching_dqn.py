"""Branching dueling Q-networks (Tavakoli et al., 2018, https://arxiv.org/abs/1711.08946).

An action of D parts with n choices each has n^D values; this learns D * n of them. Details that matter:

1. The layers up to the last hidden one are shared. From there a value stream, and an advantage stream for each part of
   the action, make Q_d = V + A_d - mean(A_d) (`net/heads.py`), in which each part chooses by itself.
2. All parts learn towards one target: the reward and the discounted mean, over the parts, of the value that the target
   network gives the online network's choices.
3. The loss is the mean over the parts of the squared error, the priority the sum of its sizes.
4. The gradient that the streams send into the shared layers is divided by their number.
5. A Box is divided into bins: evenly spaced values of each dimension, the bounds among them. Stored actions that others
   have chosen, random ones for instance, count as the nearest of these.
6. Exploration draws all parts of an action anew (epsilon-greedy; the paper adds Gaussian noise to greedy actions).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from gymnasium import spaces

from argosy.algorithm.base import Task, batch_mean, batch_priorities
from argosy.algorithm.q_learning import QLearning, QLearningConfig, QLearningStats
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import NetConfig
from argosy.policy.branching import BranchingPolicy

# Shapes: B batch, D parts of an action. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class BranchingDQNConfig(QLearningConfig):
    """Hyper-parameters of branching DQN; docs/glossary.md explains each at length."""

    bins: int = limited(25, ge=2)
    """Values of each dimension of a Box (detail 5)."""
    double: bool = True
    """Choose the next action by the online network (detail 2)."""

    def build_policy(self, task: Task, net: NetConfig) -> BranchingPolicy:
        """Make the policy of a task, or take the task's own."""
        return task.policy_or(BranchingPolicy, net, bins=self.bins)


class BranchingDQN(QLearning[BranchingDQNConfig, QLearningStats]):
    """Q-learning for actions of several parts: one branch of the network for each."""

    config_type = BranchingDQNConfig
    action_spaces = (spaces.MultiDiscrete, spaces.Box)
    needs_bounds = True
    policy: BranchingPolicy
    policy_target: BranchingPolicy

    def update(self, batch: TransitionBatch) -> QLearningStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        taken_BD = self.policy.analyze(batch).q_taken  # noqa: N806  # the suffix says the shape
        error_BD = taken_BD - self._target(batch).unsqueeze(-1)  # noqa: N806
        loss = batch_mean(batch.weight * error_BD.square().mean(dim=-1), batch)
        grad_norm = self.optim.step(loss)
        self.update_target()
        q_mean = batch_mean(taken_BD.detach().mean(dim=-1), batch)
        metrics = self._finish(loss=loss, q_mean=q_mean, grad_norm=grad_norm)
        return QLearningStats(**metrics, priorities=batch_priorities(error_BD.abs().sum(dim=-1), batch))

    @torch.no_grad()
    def _target(self, batch: TransitionBatch) -> torch.Tensor:
        """Return [B]: reward and discounted mean value of the best allowed choices (detail 2)."""
        target = self.policy_target.analyze_next(batch)
        chooser = self.policy.analyze_next(batch) if self.config.double else target
        return batch.rew + batch.discount * target.of(chooser.best).mean(dim=-1)
