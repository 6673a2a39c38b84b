"""Implicit Q-learning (Kostrikov et al., 2022, https://arxiv.org/abs/2110.06169), for discrete and continuous actions.

Details that matter:

1. No action is ever valued that is not in the data. V(s) is an upper expectile of Q(s, a) over the data's actions,
   which stands for the best of them; Q learns from it: y = r + discount * V(s').
2. V learns from the minimum of the target critics (clipped double Q).
3. The policy imitates the data's actions, each weighted by exp(advantage / temperature), at most `max_weight`.
4. Targets of Q and weights of the policy come from V as it was before the update.
5. The Gaussian's mean is kept within the bounds of actions by tanh, its deviation does not depend on the observation;
   evaluating takes the mean, or the likeliest choice. Draws count as the env takes them, cut at the bounds; the
   deviation stays above e^-5, as the authors' does.
6. `discount` is gamma^k, 0 where the episode terminated; a truncated one bootstraps from its true last observation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from gymnasium import spaces

from argosy.algorithm.actor_critic import ActorConfig
from argosy.algorithm.base import Algorithm, Task, batch_mean
from argosy.algorithm.critics import (
    CriticsConfig,
    CriticsStats,
    action_critic,
    as_taken,
    critic_loss,
    finished,
    keep_deviation,
    state_critic,
)
from argosy.algorithm.optim import OptimConfig
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import EnsembleCritic, NetConfig, TargetUpdate, frozen_copy
from argosy.ops.offline import advantage_weight, expectile_loss
from argosy.policy import ActorCriticPolicy

# Shapes: B batch, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class IQLConfig(ActorConfig, CriticsConfig):
    """Hyper-parameters of IQL; docs/glossary.md explains each at length."""

    bounded_mean = True  # detail 5
    value_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of V."""
    expectile: float = limited(0.7, gt=0.0, lt=1.0)
    """Which expectile V is: 0.5 the mean over the data's actions, towards 1 their best (detail 1)."""
    temperature: float = limited(1.0 / 3.0, gt=0.0)
    """Advantage that makes an action e times as important to imitate; 1 over the paper's beta (detail 3)."""
    max_weight: float = limited(100.0, gt=0.0)
    """Most that an action counts (detail 3)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class IQLStats(CriticsStats):
    """What one update reports."""

    loss_value: float
    """Mean expectile loss."""
    loss_actor: float
    """Mean weighted negative log-likelihood of the stored actions."""
    weight_mean: float
    """Mean weight of the stored actions (detail 3)."""


class IQL(Algorithm[IQLConfig, IQLStats]):
    """Q-learning from a data set that asks for no action outside of it."""

    kind = "offline"
    config_type = IQLConfig
    action_spaces = (spaces.Discrete, spaces.Box)
    default_net = NetConfig(hidden_sizes=(256, 256))
    policy: ActorCriticPolicy

    def __init__(
        self, config: IQLConfig, policy: ActorCriticPolicy, critic: EnsembleCritic, value: EnsembleCritic
    ) -> None:
        super().__init__(config, policy)
        self.critic, self.critic_target, self.value = critic, frozen_copy(critic), value
        self.actor_optim, self.critic_optim = config.actor_optim.build(policy), config.critic_optim.build(critic)
        self.value_optim = config.value_optim.build(value)
        self.update_target = TargetUpdate(self.critic_target, critic, config.tau)

    @classmethod
    def build(cls, config: IQLConfig, task: Task) -> Self:
        """Make actor, critics and the algorithm."""
        net = task.net or cls.default_net
        policy = config.build_policy(task, net)
        critic = action_critic(policy, net, config.num_critics, config.value_scaling)
        return cls(config, policy, critic, state_critic(policy, net, config.value_scaling))

    def update(self, batch: TransitionBatch) -> IQLStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        batch.act = as_taken(self.policy, batch.act)  # detail 5
        with torch.no_grad():
            q = self.critic_target.value(batch, batch.act).amin(dim=0)
            target = batch.rew + batch.discount * self.value.next_value(batch)[0]  # detail 4

        value = self.value.value(batch)[0]
        adv, surprise = (q - value).detach(), self.value.scaled(q) - self.value.scaled(value)
        loss_value = batch_mean(batch.weight * expectile_loss(surprise, self.config.expectile), batch)  # detail 1
        self.value_optim.step(loss_value)
        self.value.take_in(q, batch)

        q_KB = self.critic.value(batch, batch.act)  # noqa: N806  # the suffix says the shape
        critics = critic_loss(self.critic, q_KB, target, batch)
        self.critic_optim.step(critics.loss)
        self.critic.take_in(target, batch)

        weight = advantage_weight(adv, self.config.temperature, self.config.max_weight)  # detail 3
        loss_actor = -batch_mean(batch.weight * weight * self.policy.analyze(batch).logp, batch)
        self.actor_optim.step(loss_actor)
        keep_deviation(self.policy, self.config.log_std_init)  # detail 5
        self.update_target()
        metrics = {"loss_value": loss_value, "loss_actor": loss_actor, "weight_mean": batch_mean(weight, batch)}
        return IQLStats(**finished(self, batch, critics, **metrics))
