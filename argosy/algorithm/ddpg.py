"""Deep deterministic policy gradient (Lillicrap et al., 2016, https://arxiv.org/abs/1509.02971).

Details that matter:

1. One critic; its target values the target policy's next action: y = r + discount * Q'(s', mu'(s')).
2. The policy climbs the critic: the gradient of -Q(s, mu(s)) flows through the action; the critic gets none of it.
3. Both targets follow softly after every update.
4. Actions are in [-1, 1], stored so, and stretched to the env's bounds at the border only; noise is in these units.
5. `discount` is gamma^k, 0 where the episode terminated; a truncated one bootstraps from its true last observation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, Task, batch_mean
from argosy.algorithm.critics import CriticsStats, ScalingConfig, action_critic, critic_loss, finished
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.task import Kind
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import EnsembleCritic, NetConfig, TargetUpdate, frozen_copy
from argosy.policy import NoiseConfig, Policy
from argosy.policy.deterministic import DeterministicPolicy

# Shapes: B batch, A action dim. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class DDPGConfig(ScalingConfig):
    """Hyper-parameters of DDPG; docs/glossary.md explains each at length."""

    n_step: int = limited(1, ge=1)
    """Rewards summed before the bootstrap value."""
    actor_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the policy."""
    critic_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the critic."""
    tau: float = limited(0.005, gt=0.0, le=1.0)
    """Share by which the targets move per update (detail 3)."""
    exploration: NoiseConfig = field(default_factory=NoiseConfig)
    """Noise on the actions of training."""

    def build_critic(self, policy: Policy, net: NetConfig) -> EnsembleCritic:
        """Make the critic of what a policy sees and does."""
        return action_critic(policy, net, 1, self.value_scaling)


@dataclass(frozen=True, kw_only=True, eq=False)
class DDPGStats(CriticsStats):
    """What one update reports."""

    loss_actor: float | None
    """None where the policy was left alone."""


class DDPG(Algorithm[DDPGConfig, DDPGStats]):
    """Deterministic actor-critic, the first for continuous actions."""

    kind: Kind = "offpolicy"
    config_type = DDPGConfig
    action_spaces = (spaces.Box,)
    needs_bounds = True
    default_net = NetConfig(hidden_sizes=(256, 256))
    policy: DeterministicPolicy

    def __init__(self, config: DDPGConfig, policy: DeterministicPolicy, critic: EnsembleCritic) -> None:
        super().__init__(config, policy)
        self.policy_target, self.critic, self.critic_target = frozen_copy(policy), critic, frozen_copy(critic)
        self.actor_optim, self.critic_optim = config.actor_optim.build(policy), config.critic_optim.build(critic)
        self.update_policy_target = TargetUpdate(self.policy_target, policy, config.tau)
        self.update_critic_target = TargetUpdate(self.critic_target, critic, config.tau)
        policy.explore_by(config.exploration.build(policy.action_dim))

    @classmethod
    def build(cls, config: DDPGConfig, task: Task) -> Self:
        """Make actor, critic and the algorithm."""
        net = task.net or cls.default_net
        policy = task.policy_or(DeterministicPolicy, net)
        return cls(config, policy, config.build_critic(policy, net).to(task.device))

    def update(self, batch: TransitionBatch) -> DDPGStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        with torch.no_grad():  # detail 1
            act_next = self.policy_target.analyze_next(batch).act
            target = batch.rew + batch.discount * self.critic_target.next_value(batch, act_next)[0]
        critics = critic_loss(self.critic, self.critic.value(batch, batch.act), target, batch)
        self.critic_optim.step(critics.loss)
        self.critic.take_in(target, batch)

        loss_actor = -batch_mean(self.critic.value(batch, self.policy.analyze(batch).act)[0], batch)  # detail 2
        self.actor_optim.step(loss_actor)
        self.update_policy_target()
        self.update_critic_target()
        return DDPGStats(**finished(self, batch, critics, loss_actor=loss_actor))
