"""Batch-constrained Q-learning for discrete actions (Fujimoto et al., 2019, https://arxiv.org/abs/1910.01708).

Details that matter:

1. The network gives each action's value and, by maximum likelihood, its probability in the data. Only actions of at
   least `threshold` times the likeliest one's probability are taken, by the policy and for the target: 0 is DQN,
   1 behaviour cloning.
2. Beside the loss of the temporal-difference error it pays the negative log-likelihood of the stored action, and
   `logits_penalty` for the mean square of the logits.
3. The target network values the best likely action: the online network's choice with `double`, as in double DQN.
4. Forbidden actions have probability 0.
5. n-step returns, dueling streams and targets are those of DQN.
"""

from __future__ import annotations

from dataclasses import dataclass

from argosy.algorithm.base import Task, batch_mean, batch_priorities
from argosy.algorithm.dqn import DQN, LOSSES, DQNConfig
from argosy.algorithm.q_learning import QLearningStats
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.errors import ConfigError
from argosy.net import NetConfig
from argosy.ops import categorical_log_prob
from argosy.policy.likely import LikelyPolicy

# Shapes: B batch, A actions. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class DiscreteBCQConfig(DQNConfig):
    """Hyper-parameters of discrete BCQ; docs/glossary.md explains each at length."""

    threshold: float = limited(0.3, ge=0.0, le=1.0)
    """Share of the likeliest action's probability from which an action may be taken (detail 1)."""
    logits_penalty: float = limited(0.01, ge=0.0)
    """What the mean square of the imitation's logits costs (detail 2)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.munchausen_alpha:
            raise ConfigError(
                f"DiscreteBCQConfig.munchausen_alpha is {self.munchausen_alpha}, but actions that may not be taken have"
                " no log-probability; it must be 0.0 (DQN has it, also on data)"
            )

    def build_policy(self, task: Task, net: NetConfig) -> LikelyPolicy:
        """Make a policy that imitates, too, or take the task's own."""
        return task.policy_or(
            LikelyPolicy, net, threshold=self.threshold, dueling=self.dueling, noisy_std=self.noisy_std
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteBCQStats(QLearningStats):
    """What one update reports."""

    loss_td: float
    """Mean (weighted) loss of the temporal-difference error."""
    loss_imitation: float
    """Mean negative log-likelihood of the stored actions."""


class DiscreteBCQ(DQN):
    """Q-learning from a data set that takes only what the data may have done."""

    kind = "offline"
    config_type = DiscreteBCQConfig
    config: DiscreteBCQConfig
    policy: LikelyPolicy

    def update(self, batch: TransitionBatch) -> DiscreteBCQStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        with self.noise(self.rng):
            now = self.policy.analyze(batch)
            q_taken = now.q_taken
            td_error = q_taken - self._target(batch)
        loss_td = batch_mean(batch.weight * LOSSES[self.config.loss](td_error), batch)
        loss_imitation = -batch_mean(batch.weight * categorical_log_prob(now.log_probs, batch.act), batch)
        penalty = batch_mean(now.logits.square().mean(dim=-1), batch)
        loss = loss_td + loss_imitation + self.config.logits_penalty * penalty  # detail 2
        grad_norm = self.optim.step(loss)
        self.update_target()
        q_mean = batch_mean(q_taken.detach(), batch)
        metrics = self._finish(
            loss=loss, loss_td=loss_td, loss_imitation=loss_imitation, q_mean=q_mean, grad_norm=grad_norm
        )
        return DiscreteBCQStats(**metrics, priorities=batch_priorities(td_error, batch))
