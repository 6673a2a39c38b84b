"""Deep Q-networks (Mnih et al., 2015, https://doi.org/10.1038/nature14236).

Details that matter:

1. Double DQN (van Hasselt et al., 2016, https://arxiv.org/abs/1509.06461): the online network picks the next action,
   the target network values it. Action masks hold for the choice, the value is read unmasked, so that a terminal
   state without a legal action gives no NaN (its discount is 0).
2. The target network is copied every `target_update_freq` updates (tau = 1), or follows softly (tau < 1).
3. n-step returns (Sutton, 1988) are made by the sampler: `rew` is the discounted sum, `discount` = gamma^k for the k
   steps it covers, 0 if the last one was terminal. A truncated episode bootstraps from its true last observation.
4. The Huber loss with threshold 1 is the paper's clipping of the error to [-1, 1].
5. Dueling streams (Wang et al., 2016, https://arxiv.org/abs/1511.06581): a value and an advantage per action.
6. Exploration falls linearly from `eps_start` to `eps_end` over the first `eps_decay_steps` env steps.
7. Noisy networks (Fortunato et al., 2018, https://arxiv.org/abs/1706.10295): all linear layers draw noise for each act
   that explores and, online and target apart, for each update.
8. Munchausen DQN (Vieillard et al., 2020, https://arxiv.org/abs/2007.14430): with pi = softmax(Q / tau) of the target
   network, the reward grows by alpha * tau * log pi(act | obs), which is clipped from below, and successors have their
   soft value, tau * log sum exp(Q / tau). `double` then has no say; of n steps the first alone brings a bonus.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
import torch.nn.functional as F

from argosy.algorithm.base import Task, batch_mean, batch_priorities
from argosy.algorithm.q_learning import QLearning, QLearningConfig, QLearningStats
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import NetConfig
from argosy.policy import QPolicy

# Shapes: B batch, A actions. With memory, [B] becomes [T, B].

LOSSES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "huber": lambda error: F.huber_loss(error, torch.zeros_like(error), reduction="none"),
    "mse": lambda error: error * error,  # its gradient takes fewer calls than that of a power
}


@dataclass(frozen=True, kw_only=True)
class DQNConfig(QLearningConfig):
    """Hyper-parameters of DQN; docs/glossary.md explains each at length."""

    double: bool = True
    """Choose the next action by the online network (detail 1)."""
    dueling: bool = False
    """Split the last hidden layer into a value and an advantage stream (detail 5)."""
    noisy_std: float = limited(0.0, ge=0.0, le=100.0)
    """Deviation with which the layers' noise starts, e.g. 0.5; 0: no noise (detail 7)."""
    munchausen_alpha: float = limited(0.0, ge=0.0, le=1.0)
    """Share of the action's log-probability in the reward, e.g. 0.9; 0: the plain target (detail 8)."""
    munchausen_tau: float = limited(0.03, ge=1e-6)
    """Temperature of the policy whose log-probabilities these are (detail 8)."""
    munchausen_low: float = limited(-1.0, le=0.0)
    """Least value of tau times a log-probability (detail 8)."""
    loss: Literal["huber", "mse"] = limited("huber", among=tuple(LOSSES))
    """Loss of the temporal-difference error (detail 4)."""

    def build_policy(self, task: Task, net: NetConfig) -> QPolicy:
        """Make the policy of a task, or take the task's own."""
        return task.policy_or(QPolicy, net, dueling=self.dueling, noisy_std=self.noisy_std)


class DQN(QLearning[DQNConfig, QLearningStats]):
    """Q-learning from a replay buffer with a target network."""

    config_type = DQNConfig
    policy: QPolicy
    policy_target: QPolicy

    def update(self, batch: TransitionBatch) -> QLearningStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        with self.noise(self.rng):
            q_taken = self.policy.analyze(batch).q_taken
            td_error = q_taken - self._target(batch)
        loss = batch_mean(batch.weight * LOSSES[self.config.loss](td_error), batch)
        grad_norm = self.optim.step(loss)
        self.update_target()
        metrics = self._finish(loss=loss, q_mean=batch_mean(q_taken.detach(), batch), grad_norm=grad_norm)
        return QLearningStats(**metrics, priorities=batch_priorities(td_error, batch))

    @torch.no_grad()
    def _target(self, batch: TransitionBatch) -> torch.Tensor:
        """Return [B]: reward and discounted value of the best allowed next action, or soft (details 1, 3, 8)."""
        target = self.policy_target.analyze_next(batch)
        if self.config.munchausen_alpha:
            now, config = self.policy_target.analyze(batch), self.config
            bonus = (now.q_taken - now.soft_value(config.munchausen_tau)).clamp(config.munchausen_low, 0.0)
            soft_value = target.soft_value(config.munchausen_tau)
            return batch.rew + config.munchausen_alpha * bonus + batch.discount * soft_value
        chooser = self.policy.analyze_next(batch) if self.config.double else target
        return batch.rew + batch.discount * target.of(chooser.greedy)
