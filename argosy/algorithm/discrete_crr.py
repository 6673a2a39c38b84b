"""Critic-regularised regression for discrete actions (Wang et al., 2020, https://arxiv.org/abs/2006.15134).

Details that matter:

1. The policy imitates the data's actions, each weighted by how much better it is than the policy: with "exp" by
   exp(advantage / temperature), at most `max_weight`; with "binary" by 1 where it is better, else 0; with "all" by 1,
   which is behaviour cloning.
2. Advantages are exact: Q(s, a) minus the sum over a of pi(a) * Q(s, a), nothing is drawn.
3. The critics' target is the same sum at s' by the target policy and the minimum of the target critics. `discount` is
   gamma^k, 0 where the episode terminated; a truncated one bootstraps from its true last observation.
4. With `conservative_weight` the critics pay for log sum exp Q(s, a) minus Q(s, a) of the stored action as well, as in
   CQL; Tianshou's results on Atari are with 10.
5. Forbidden actions have probability 0 and do not count in any sum.
6. Target policy and critics are copied once in `target_update_freq` updates, or follow softly with a `tau` below 1.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Self

import torch
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, Task, batch_mean
from argosy.algorithm.critics import CriticLoss, CriticsConfig, CriticsStats, action_critic, finished
from argosy.algorithm.optim import OptimConfig
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import EnsembleCritic, NetConfig, TargetUpdate, frozen_copy
from argosy.ops.choice import of_index
from argosy.ops.offline import advantage_weight, conservative_gap
from argosy.policy import ActorCriticPolicy
from argosy.policy.actor_critic import FORBIDDEN

# Shapes: B batch, A actions, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class DiscreteCRRConfig(CriticsConfig):
    """Hyper-parameters of discrete CRR; docs/glossary.md explains each at length."""

    actor_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the policy."""
    critic_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the critics."""
    improvement: Literal["exp", "binary", "all"] = limited("exp", among=("exp", "binary", "all"))
    """How much an action is worth imitating (detail 1)."""
    temperature: float = limited(1.0, gt=0.0)
    """With "exp": advantage that makes an action e times as important to imitate."""
    max_weight: float = limited(20.0, gt=0.0)
    """With "exp": most that an action counts."""
    conservative_weight: float = limited(0.0, ge=0.0)
    """What a nat by which other actions seem better costs; 0: nothing (detail 4)."""
    num_critics: int = 1
    """Size K of the ensemble (detail 3)."""
    target_update_freq: int = limited(100, ge=1)
    """Updates between two steps of the targets (detail 6)."""
    tau: float = 1.0
    """Length of the targets' step; 1 copies."""


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteCRRStats(CriticsStats):
    """What one update reports."""

    loss_critic: float
    """Mean squared error, summed over the critics, and what the gap costs."""
    loss_actor: float
    """Mean weighted negative log-likelihood of the stored actions."""
    gap: float
    """Mean of log sum exp Q minus Q of the stored actions, over the critics."""
    weight_mean: float
    """Mean weight of the stored actions (detail 1)."""


class DiscreteCRR(Algorithm[DiscreteCRRConfig, DiscreteCRRStats]):
    """Actor-critic from a data set whose policy imitates what its critics think good."""

    kind = "offline"
    config_type = DiscreteCRRConfig
    action_spaces = (spaces.Discrete,)
    default_net = NetConfig(hidden_sizes=(128, 128))
    policy: ActorCriticPolicy

    def __init__(self, config: DiscreteCRRConfig, policy: ActorCriticPolicy, critic: EnsembleCritic) -> None:
        super().__init__(config, policy)
        self.policy_target, self.critic, self.critic_target = frozen_copy(policy), critic, frozen_copy(critic)
        self.actor_optim, self.critic_optim = config.actor_optim.build(policy), config.critic_optim.build(critic)
        pace = config.tau, config.target_update_freq
        self.update_policy_target = TargetUpdate(self.policy_target, policy, *pace)
        self.update_critic_target = TargetUpdate(self.critic_target, critic, *pace)

    @classmethod
    def build(cls, config: DiscreteCRRConfig, task: Task) -> Self:
        """Make actor, critics and the algorithm."""
        net = task.net or cls.default_net
        policy = task.policy_or(ActorCriticPolicy, net, critic=False)
        return cls(config, policy, action_critic(policy, net, config.num_critics, config.value_scaling))

    def update(self, batch: TransitionBatch) -> DiscreteCRRStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        with torch.no_grad():  # detail 3
            probs_BA = self.policy_target.analyze_next(batch).params.exp()  # noqa: N806  # the suffix says the shape
            value_next = (probs_BA * self.critic_target.next_value(batch).amin(dim=0)).sum(dim=-1)
            target = batch.rew + batch.discount * value_next
        now = self.policy.analyze(batch)
        logp, probs_BA = now.logp, now.params.detach().exp()  # noqa: N806

        q_KBA = self.critic.value(batch)  # noqa: N806
        q_KB = of_index(q_KBA, batch.act)  # noqa: N806
        td_error = self.critic.scaled(q_KB) - self.critic.scaled(target)
        is_allowed_BA = now.params.detach() > FORBIDDEN / 2  # noqa: N806
        gap_KB = conservative_gap(q_KBA, q_KB, is_allowed_BA)  # noqa: N806
        loss_KB = td_error.square() + self.config.conservative_weight * gap_KB  # noqa: N806  # detail 4
        loss = batch_mean((batch.weight * loss_KB).sum(dim=0), batch)
        critics = CriticLoss(loss, q_KB.detach().mean(dim=0), td_error.detach().abs().mean(dim=0), target)
        self.critic_optim.step(critics.loss)
        self.critic.take_in(target, batch)

        q_BA = q_KBA.detach().amin(dim=0)  # noqa: N806
        adv = of_index(q_BA, batch.act) - (probs_BA * q_BA).sum(dim=-1)  # detail 2
        weight = self._weight(adv)
        loss_actor = -batch_mean(batch.weight * weight * logp, batch)
        self.actor_optim.step(loss_actor)
        self.update_policy_target()
        self.update_critic_target()

        gap = batch_mean(gap_KB.detach().mean(dim=0), batch)
        metrics = {"loss_actor": loss_actor, "gap": gap, "weight_mean": batch_mean(weight, batch)}
        return DiscreteCRRStats(**finished(self, batch, critics, **metrics))

    def _weight(self, adv: torch.Tensor) -> torch.Tensor:
        """Weights of actions with these advantages [B] (detail 1)."""
        if self.config.improvement == "exp":
            return advantage_weight(adv, self.config.temperature, self.config.max_weight)
        return torch.ones_like(adv) if self.config.improvement == "all" else (adv > 0.0).to(adv.dtype)
