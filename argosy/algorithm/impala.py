"""IMPALA's learner (Espeholt et al., 2018, https://arxiv.org/abs/1802.01561): actor-critic by V-trace.

Details that matter:

1. V-trace (section 4.1; see `argosy.ops.vtrace`) weighs experience by how likely the present policy is to act so,
   beside the policy that did, whose log-probabilities are stored. So experience may be old: in a fleet the actors never
   wait for the learner (`StalenessConfig`, rule "correct"). Fresh experience has weights of 1: with `trace_lambda` 1
   the update is then A2C's.
2. Values are the present critic's, at every row and at the successors of cut ones: a truncated episode bootstraps from
   its true last observation, a terminated one from nothing.
3. One forward pass and one gradient step per rollout, whose rows stay in order of time. With memory the gradient runs
   through all of a column, as far as an episode goes (`net.sequence_length` and `net.burn_in` have no say).
4. The paper's RMSprop (epsilon 0.1) and its sums over a batch are tuned to each other; here losses are means and the
   optimiser is Adam.
5. The critic may predict returns divided by their running standard deviation, or PopArt's (see `ScaledLinear`); the
   rollout's targets count in the statistics from the next update on.
6. Learning rate and entropy bonus may fall linearly.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from argosy.algorithm.actor_critic import ActorCriticConfig, ActorCriticStats, SummedLoss, SummedLossConfig
from argosy.algorithm.optim import OptimConfig
from argosy.config import limited
from argosy.data import TrajectoryBatch
from argosy.ops import explained_variance, values_next, vtrace
from argosy.policy.rollouts import critic_units, take_in_returns

# Shapes: T time, B envs.


@dataclass(frozen=True, kw_only=True)
class IMPALAConfig(SummedLossConfig, ActorCriticConfig):
    """Hyper-parameters of IMPALA; docs/glossary.md explains each at length."""

    trace_lambda: float = limited(1.0, ge=0.0, le=1.0)
    """How far targets look ahead: 0 one step, 1 to the end of a row's episode or segment."""
    rho_clip: float = limited(1.0, gt=0.0)
    """Bound of the weights of surprises: infinity learns the present policy's values, 0 the acting one's."""
    trace_clip: float = limited(1.0, gt=0.0)
    """Bound of the weights that carry a surprise back in time; lower has less variance."""
    optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=6e-4, eps=1e-5, max_grad_norm=40.0))
    """Optimiser of actor and critic."""


@dataclass(frozen=True, kw_only=True, eq=False)
class IMPALAStats(ActorCriticStats):
    """What one update reports."""

    loss: float
    importance: float
    """Mean weight of the rows, pi / mu bounded by `rho_clip`: 1 for fresh experience."""
    explained_variance: float
    """1 - Var(targets - value) / Var(targets) of the present values; 1 is a perfect critic."""


class IMPALA(SummedLoss[IMPALAConfig, IMPALAStats]):
    """Policy gradient with a critic from experience that may be old, corrected by V-trace."""

    config_type = IMPALAConfig
    corrects_staleness = True

    def update(self, batch: TrajectoryBatch) -> IMPALAStats:
        """Learn from a rollout [T, B, ...]: obs, act, rew, obs_next, terminated, cut, policy.logp, maybe mask."""
        config, rollout = self.config, self.prepare(batch)
        now = self.policy.analyze(rollout)
        log_ratio, value = (now.logp - rollout.policy.logp).detach(), now.value.detach()
        targets, adv = self._targets(rollout, log_ratio, value)
        error = (critic_units(self.policy, now.value) - critic_units(self.policy, targets)).square()
        weight = log_ratio.exp().clamp(max=config.rho_clip)
        learned = rollout.mask if "mask" in rollout else torch.ones_like(rollout.cut)
        terms = torch.stack((-adv * now.logp, error, now.entropy, weight))[:, learned]
        loss_policy, loss_value, entropy, importance = terms.mean(dim=-1)
        loss = loss_policy + config.value_coef * loss_value - self.entropy_coef * entropy
        grad_norm = self.optim.step(loss)
        take_in_returns(self.policy, rollout, targets)
        stats = self._finish(
            loss=loss,
            loss_policy=loss_policy,
            loss_value=loss_value,
            entropy=entropy,
            importance=importance,
            explained_variance=explained_variance(value[learned], targets[learned]),
            grad_norm=grad_norm,
        )
        return IMPALAStats(**stats)

    def _targets(
        self, rollout: TrajectoryBatch, log_ratio: torch.Tensor, value: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """-> (targets of values [T, B], advantages [T, B]), both in units of reward (details 1 and 2)."""
        config = self.config

        @torch.no_grad()
        def at_cuts(rows: tuple[torch.Tensor, ...]) -> torch.Tensor:
            return self.policy.analyze_next(rollout, rows).value

        return vtrace(
            log_ratio,
            rollout.rew,
            value,
            values_next(value, rollout.terminated, rollout.cut, at_cuts),
            rollout.terminated,
            rollout.cut,
            config.gamma,
            trace_lambda=config.trace_lambda,
            rho_clip=config.rho_clip,
            trace_clip=config.trace_clip,
        )
