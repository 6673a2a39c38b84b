"""REINFORCE (Williams, 1992, https://doi.org/10.1007/BF00992696): the policy gradient from returns alone.

Details that matter:

1. One gradient step per rollout: after it the policy is another one.
2. The return of a row is what the rest of its episode brought, discounted. There is no critic: where the rollout or a
   time limit cuts an episode off, what would have come is taken to be the running mean of returns; after a terminated
   row comes nothing.
3. Returns are standardised by their running mean and deviation, this rollout's included: a constant baseline, which
   leaves the gradient's expectation as it is and takes most of its variance away, and a step that does not depend on
   the reward's scale. Without it, what a cut-off episode would have brought counts as 0.
4. Layers start orthogonal, the last one small (see `ActorCriticPolicy`).
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from argosy.algorithm.actor_critic import ActorConfig, PolicyGradient
from argosy.algorithm.base import batch_mean
from argosy.algorithm.optim import OptimConfig
from argosy.data import Batch, RunningMeanStd, TrainingStats, TrajectoryBatch
from argosy.ops import gae
from argosy.policy import ActorCriticPolicy
from argosy.policy.rollouts import minibatches, rows_to_learn

# Shapes: T time, B envs, N = T * B rows of the rollout. With memory, [N] becomes [T, N].


@dataclass(frozen=True, kw_only=True)
class REINFORCEConfig(ActorConfig):
    """Hyper-parameters of REINFORCE; docs/glossary.md explains each at length."""

    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the policy."""
    normalize_returns: bool = True
    """Standardise returns by their running mean and deviation (detail 3)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class REINFORCEStats(TrainingStats):
    """What one update reports."""

    loss: float
    """Mean of -log-probability * return."""
    entropy: float
    """Mean entropy of the policy, in nats."""
    return_mean: float
    """Mean return of the rollout's rows, in units of reward."""
    grad_norm: float | None = None
    """Norm before clipping; None without clipping."""


class REINFORCE(PolicyGradient[REINFORCEConfig, REINFORCEStats]):
    """Policy gradient from returns, without a critic."""

    config_type = REINFORCEConfig

    def __init__(self, config: REINFORCEConfig, policy: ActorCriticPolicy) -> None:
        super().__init__(config, policy)
        self.optim = config.optim.build(policy)
        self.return_stat = RunningMeanStd(())

    def update(self, batch: TrajectoryBatch) -> REINFORCEStats:
        """Learn from a rollout [T, B, ...]: obs, act, rew, terminated, cut, maybe mask."""
        rollout = self.prepare(batch)
        returns = self._returns(rollout)
        known = returns[rollout.mask] if "mask" in rollout else returns
        if self.config.normalize_returns:
            self.return_stat.update(known.cpu().numpy())
        scaled = (returns - float(self.return_stat.mean)) / (float(self.return_stat.std) + 1e-8)
        rows = rows_to_learn(self.policy, rollout, Batch(obs=rollout.obs, act=rollout.act, returns=scaled))
        (mb,) = minibatches(self.policy, rows, None, self.rng)
        now = self.policy.analyze(mb)
        loss = -batch_mean(now.logp * mb.returns, mb)
        entropy = batch_mean(now.entropy, mb)
        grad_norm = self.optim.step(loss)
        stats = self._finish(loss=loss, entropy=entropy, return_mean=known.mean(), grad_norm=grad_norm)
        return REINFORCEStats(**stats)

    def _returns(self, rollout: TrajectoryBatch) -> torch.Tensor:
        """Discounted sums of rewards [T, B], to the episode's end or as far as it is known (detail 2)."""
        beyond = rollout.cut * float(self.return_stat.mean)
        nothing = torch.zeros_like(rollout.rew)
        return gae(rollout.rew, nothing, beyond, rollout.terminated, rollout.cut, self.config.gamma, 1.0)[1]
