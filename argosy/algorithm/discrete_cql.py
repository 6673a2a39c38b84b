"""Discrete conservative Q-learning (Kumar et al., 2020, https://arxiv.org/abs/2006.04779): QR-DQN on a data set.

Details that matter:

1. Beside its quantile loss the network pays `conservative_weight` for log sum exp Q(s, a) over actions minus Q(s, a) of
   the stored one: values of actions outside of the data are pushed down, those of the data's up. It is the gradient of
   the log-likelihood of the data under a softmax of Q.
2. Q is the mean over the quantiles. Forbidden actions do not count in the sum.
3. Quantile loss, targets, n-step returns and dueling streams are those of QR-DQN.
"""

from __future__ import annotations

from dataclasses import dataclass

from argosy.algorithm.base import batch_mean, batch_priorities
from argosy.algorithm.q_learning import QLearningStats
from argosy.algorithm.qrdqn import QRDQN, QRDQNConfig
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.ops.offline import conservative_gap
from argosy.ops.quantiles import quantile_huber_loss

# Shapes: B batch, A actions, N quantiles. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class DiscreteCQLConfig(QRDQNConfig):
    """Hyper-parameters of discrete CQL; docs/glossary.md explains each at length."""

    conservative_weight: float = limited(10.0, ge=0.0)
    """What a nat of the gap costs (detail 1)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteCQLStats(QLearningStats):
    """What one update reports."""

    loss_quantile: float
    """The loss without what the gap costs."""
    gap: float
    """Mean of log sum exp Q minus Q of the stored actions."""


class DiscreteCQL(QRDQN):
    """Distributional Q-learning from a data set that thinks little of what is not in it."""

    kind = "offline"
    config_type = DiscreteCQLConfig
    config: DiscreteCQLConfig

    def update(self, batch: TransitionBatch) -> DiscreteCQLStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        now = self.policy.analyze(batch)
        taken_BN = now.quantiles_taken  # noqa: N806  # the suffix says the shape
        target_BN = self._target(batch)  # noqa: N806
        loss_B = quantile_huber_loss(taken_BN, target_BN, self.config.kappa)  # noqa: N806
        loss_quantile = batch_mean(batch.weight * loss_B, batch)
        gap = batch_mean(batch.weight * conservative_gap(now.q, now.q_taken, now.mask), batch)  # detail 1
        loss = loss_quantile + self.config.conservative_weight * gap
        grad_norm = self.optim.step(loss)
        self.update_target()
        q_taken = taken_BN.detach().mean(dim=-1)
        metrics = self._finish(
            loss=loss, loss_quantile=loss_quantile, gap=gap, q_mean=batch_mean(q_taken, batch), grad_norm=grad_norm
        )
        return DiscreteCQLStats(**metrics, priorities=batch_priorities(q_taken - target_BN.mean(dim=-1), batch))
