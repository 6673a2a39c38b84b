"""Advantage actor-critic (Mnih et al., 2016, https://arxiv.org/abs/1602.01783), in step instead of asynchronous.

Details that matter:

1. One gradient step per rollout, which is short: a few steps of many environments (`trainer.step_per_collect`,
   `env.num_envs`). After it the policy is another one, so that there is no second pass.
2. Advantages are generalised (https://arxiv.org/abs/1506.02438). With `gae_lambda` 1 they are the paper's: what the
   rest of the rollout brought and the value where it ends, less the value of the observation. A truncated episode
   bootstraps from its true last observation, a terminated one from nothing.
3. RMSprop with epsilon 1e-5, as in the paper's successors that run in step.
4. The critic may predict returns divided by their running standard deviation, or PopArt's (see `ScaledLinear`).
5. Learning rate and entropy bonus may fall linearly.
6. Layers start orthogonal, the actor's last one small (see `ActorCriticPolicy`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.actor_critic import ActorCriticConfig, ActorCriticStats, SummedLoss, SummedLossConfig
from argosy.algorithm.base import batch_mean, batch_standardised
from argosy.algorithm.optim import OptimConfig
from argosy.config import limited
from argosy.data import TrajectoryBatch
from argosy.ops import explained_variance
from argosy.policy.rollouts import advantage_rows, critic_units, minibatches

RMSPROP = OptimConfig(kind="rmsprop", lr=7e-4, eps=1e-5, max_grad_norm=0.5)
# Shapes: T time, B envs, N = T * B rows of the rollout. With memory, [N] becomes [T, N].


@dataclass(frozen=True, kw_only=True)
class A2CConfig(SummedLossConfig, ActorCriticConfig):
    """Hyper-parameters of A2C; docs/glossary.md explains each at length."""

    gae_lambda: float = limited(1.0, ge=0.0, le=1.0)
    """Trade-off of the advantage estimate: 0 little variance, 1 no bias."""
    optim: OptimConfig = RMSPROP
    """Optimiser of actor and critic."""
    normalize_adv: bool = False
    """Normalise the rollout's advantages."""


@dataclass(frozen=True, kw_only=True, eq=False)
class A2CStats(ActorCriticStats):
    """What one update reports."""

    loss: float


class A2C(SummedLoss[A2CConfig, A2CStats]):
    """Policy gradient with a critic, one step per short rollout of many environments."""

    config_type = A2CConfig

    def update(self, batch: TrajectoryBatch) -> A2CStats:
        """Learn from a rollout [T, B, ...]: obs, act, rew, obs_next, terminated, cut, maybe mask."""
        config = self.config
        rows = advantage_rows(self.policy, self.prepare(batch), config.gamma, config.gae_lambda)
        (mb,) = minibatches(self.policy, rows, None, self.rng)
        now = self.policy.analyze(mb)
        adv = batch_standardised(mb.adv, mb) if config.normalize_adv else mb.adv
        error = (critic_units(self.policy, now.value) - mb.returns).square()
        means = batch_mean(torch.stack((-adv * now.logp, error, now.entropy)), mb)
        loss_policy, loss_value, entropy = means
        loss = loss_policy + config.value_coef * loss_value - self.entropy_coef * entropy
        grad_norm = self.optim.step(loss)
        stats = self._finish(
            loss=loss,
            loss_policy=loss_policy,
            loss_value=loss_value,
            entropy=entropy,
            grad_norm=grad_norm,
            explained_variance=explained_variance(rows.value, rows.returns, rows.get("mask")),
        )
        return A2CStats(**stats)
