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
from typing import Self

import torch
from gymnasium import spaces

from argosy.algorithm.actor_critic import ActorCriticConfig, SummedLossConfig
from argosy.algorithm.base import Algorithm, Task
from argosy.algorithm.optim import OptimConfig
from argosy.config import check_range
from argosy.data import TrainingStats, TrajectoryBatch
from argosy.net import NetConfig
from argosy.ops import explained_variance, values_next, vtrace
from argosy.policy import ActorCriticPolicy
from argosy.policy.rollouts import critic_units, take_in_returns

# Shapes: T time, B envs.


@dataclass(frozen=True, kw_only=True)
class IMPALAConfig(SummedLossConfig, ActorCriticConfig):
    """Hyper-parameters of IMPALA; docs/glossary.md explains each at length."""

    trace_lambda: float = 1.0
    """How far targets look ahead: 0 one step, 1 to the end of a row's episode or segment."""
    rho_clip: float = 1.0
    """Bound of the weights of surprises: infinity learns the present policy's values, 0 the acting one's."""
    trace_clip: float = 1.0
    """Bound of the weights that carry a surprise back in time; lower has less variance."""
    optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=6e-4, eps=1e-5, max_grad_norm=40.0))
    """Optimiser of actor and critic."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "trace_lambda", ge=0.0, le=1.0)
        for name in ("rho_clip", "trace_clip"):
            check_range(self, name, gt=0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class IMPALAStats(TrainingStats):
    """What one update reports."""

    loss: float
    loss_policy: float
    loss_value: float
    entropy: float
    importance: float
    """Mean weight of the rows, pi / mu bounded by `rho_clip`: 1 for fresh experience."""
    explained_variance: float
    """1 - Var(targets - value) / Var(targets) of the present values; 1 is a perfect critic."""
    grad_norm: float | None = None
    """Norm before clipping; None without clipping."""


class IMPALA(Algorithm[IMPALAConfig, IMPALAStats]):
    """Policy gradient with a critic from experience that may be old, corrected by V-trace."""

    kind = "onpolicy"
    config_type = IMPALAConfig
    action_spaces = (spaces.Discrete, spaces.MultiDiscrete, spaces.Box)
    default_net = NetConfig(hidden_sizes=(64, 64), activation="tanh")
    corrects_staleness = True
    policy: ActorCriticPolicy

    def __init__(self, config: IMPALAConfig, policy: ActorCriticPolicy) -> None:
        super().__init__(config, policy)
        self.optim = config.optim.build(policy)
        self.entropy_coef = config.entropy_coef

    @classmethod
    def build(cls, config: IMPALAConfig, task: Task) -> Self:
        """Make the actor-critic and the algorithm."""
        return cls(config, config.make_actor_critic(task, cls.default_net))

    def schedule(self, env_step: int, max_env_step: int) -> None:
        """Set learning rate and entropy bonus (detail 6)."""
        super().schedule(env_step, max_env_step)
        if self.config.entropy_coef_end is not None:
            self.entropy_coef = self.config.entropy_coef_at(env_step, max_env_step)

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
