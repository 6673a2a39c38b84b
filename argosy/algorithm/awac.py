"""Advantage-weighted actor-critic (Nair et al., 2020, https://arxiv.org/abs/2006.09359): offline first, then online.

Details that matter:

1. Two critics are one batched ensemble; their minimum is used in the target and for the advantage (clipped double Q).
2. The target's next action is drawn from the current policy; V = min Q of it, entropy does not count.
   `discount` is gamma^k, 0 where the episode terminated; a truncated one bootstraps from its true last observation.
3. An action's advantage is its value minus that of an action drawn from the policy.
4. The policy imitates the data's actions, each weighted by exp(advantage / temperature), at most `max_weight`: it is
   held near the data without a model of who made them, so that it learns from its own experience as well.
5. The Gaussian's mean is kept within the bounds of actions by tanh, its deviation does not depend on the observation;
   evaluating takes the mean. Draws, those that were stored too, are cut at the bounds, as the env does. The deviation
   stays above e^-5.
6. Critics have layer normalisation after every hidden linear layer, as ReBRAC's: without it their values of draws that
   the data lack can grow without end, since the target asks for them again (not in the paper).
"""

from __future__ import annotations

from dataclasses import dataclass
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
)
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import EnsembleCritic, NetConfig, TargetUpdate, frozen_copy
from argosy.net.regularise import add_dropout_and_layer_norm
from argosy.ops.offline import advantage_weight
from argosy.policy import ActorCriticPolicy

# Shapes: B batch, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class AWACConfig(ActorConfig, CriticsConfig):
    """Hyper-parameters of AWAC; docs/glossary.md explains each at length."""

    bounded_mean = True  # detail 5
    temperature: float = limited(1.0, gt=0.0)
    """Advantage that makes an action e times as important to imitate (detail 4)."""
    max_weight: float = limited(100.0, gt=0.0)
    """Most that an action counts (detail 4)."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AWACStats(CriticsStats):
    """What one update reports."""

    loss_actor: float
    """Mean weighted negative log-likelihood of the stored actions."""
    weight_mean: float
    """Mean weight of the stored actions (detail 4)."""


class AWAC(Algorithm[AWACConfig, AWACStats]):
    """Actor-critic from a data set whose policy imitates what turned out well."""

    kind = "offline"
    config_type = AWACConfig
    action_spaces = (spaces.Box,)
    default_net = NetConfig(hidden_sizes=(256, 256))
    policy: ActorCriticPolicy

    def __init__(self, config: AWACConfig, policy: ActorCriticPolicy, critic: EnsembleCritic) -> None:
        super().__init__(config, policy)
        self.critic, self.critic_target = critic, frozen_copy(critic)
        self.actor_optim, self.critic_optim = config.actor_optim.build(policy), config.critic_optim.build(critic)
        self.update_target = TargetUpdate(self.critic_target, critic, config.tau)

    @classmethod
    def build(cls, config: AWACConfig, task: Task) -> Self:
        """Make actor, critics and the algorithm."""
        net = task.net or cls.default_net
        policy = config.build_policy(task, net)
        critic = action_critic(policy, net, config.num_critics, config.value_scaling)
        add_dropout_and_layer_norm(critic.q, 0.0)  # detail 6
        return cls(config, policy, critic.to(task.device))

    def update(self, batch: TransitionBatch) -> AWACStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        batch.act = as_taken(self.policy, batch.act)  # detail 5
        with torch.no_grad():  # detail 2
            act_next = self.policy.analyze_next(batch).sample(self.rng.torch)
            target = batch.rew + batch.discount * self.critic_target.next_value(batch, act_next).amin(dim=0)
        q_KB = self.critic.value(batch, batch.act)  # noqa: N806  # the suffix says the shape
        critics = critic_loss(self.critic, q_KB, target, batch)
        self.critic_optim.step(critics.loss)
        self.critic.take_in(target, batch)

        now = self.policy.analyze(batch)
        logp, act = now.logp, now.sample(self.rng.torch)
        with torch.no_grad():
            value = self.critic.value(batch, act).amin(dim=0)
            adv = self.critic.value(batch, batch.act).amin(dim=0) - value  # detail 3
            weight = advantage_weight(adv, self.config.temperature, self.config.max_weight)
        loss_actor = -batch_mean(batch.weight * weight * logp, batch)  # detail 4
        self.actor_optim.step(loss_actor)
        keep_deviation(self.policy, self.config.log_std_init)  # detail 5
        self.update_target()
        metrics = finished(self, batch, critics, loss_actor=loss_actor, weight_mean=batch_mean(weight, batch))
        return AWACStats(**metrics)
