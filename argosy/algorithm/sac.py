"""Soft actor-critic (Haarnoja et al., 2018, https://arxiv.org/abs/1812.05905).

Details that matter:

1. Two critics are one batched ensemble; their minimum is used in the target and for the actor (clipped double Q).
2. The target's next action comes from the current actor, and its entropy counts: V = min Q - alpha * log p.
   `discount` is gamma^k, 0 where the episode terminated; a truncated one bootstraps from its true last observation.
3. The actor's gradient flows through the critics into the action (reparametrisation); the critics get none of it.
4. The temperature alpha is fixed, or learned so that the entropy approaches `target_entropy` (default: -A); the
   optimised quantity is log alpha.
5. Actions are tanh-squashed to [-1, 1], stored so, and stretched to the env's bounds at the border only.
6. Target critics follow softly after every update; with `policy_freq` > 1, policy and temperature move less often.
7. The critics may predict returns divided by their running standard deviation, or PopArt's (see `Scaled`): targets
   count in the statistics from the next update on. Values are in units of reward, whoever asks for them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from gymnasium import spaces

from argosy.algorithm.base import Task, batch_mean
from argosy.algorithm.critics import CriticLoss, action_critic, critic_loss, finished
from argosy.algorithm.soft import SoftActorCritic, SoftConfig, SoftStats
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import EnsembleCritic, NetConfig, TargetUpdate, frozen_copy
from argosy.policy import Policy, SquashedGaussianPolicy
from argosy.policy.state_dependent import StateDependentGaussianPolicy

# Shapes: B batch, A action dim, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class SACConfig(SoftConfig):
    """Hyper-parameters of SAC; docs/glossary.md explains each at length."""

    tau: float = limited(0.005, gt=0.0, le=1.0)
    """Share by which target critics move to the critics per update."""
    policy_freq: int = limited(1, ge=1)
    """Updates of the critics per update of policy and temperature (detail 6)."""
    gsde_steps: int | None = limited(None, ge=1)
    """Steps for which noise stays the same function of the features (gSDE); None: independent noise."""
    gsde_log_std_init: float = limited(-3.0, ge=-10.0, le=2.0)
    """With gSDE: initial log deviation of the weights of that function."""

    def build_policy(self, task: Task, net: NetConfig) -> SquashedGaussianPolicy:
        """Make the policy of a task, or take the task's own."""
        if self.gsde_steps is None:
            return task.policy_or(SquashedGaussianPolicy, net)
        return task.policy_or(
            StateDependentGaussianPolicy, net, noise_steps=self.gsde_steps, log_std_init=self.gsde_log_std_init
        )

    def build_critic(self, policy: Policy, net: NetConfig) -> EnsembleCritic:
        """Make the critics of what a policy sees and does."""
        return action_critic(policy, net, self.num_critics, self.value_scaling)


class SAC(SoftActorCritic[SACConfig]):
    """Maximum-entropy actor-critic from a replay buffer."""

    config_type = SACConfig
    stats_type: ClassVar[type[SoftStats]] = SoftStats
    action_spaces = (spaces.Box,)
    needs_bounds = True
    policy: SquashedGaussianPolicy

    def __init__(self, config: SACConfig, policy: SquashedGaussianPolicy, critic: EnsembleCritic) -> None:
        super().__init__(config, policy, critic)
        self.critic_target = frozen_copy(critic)
        self.update_target = TargetUpdate(self.critic_target, critic, config.tau)

    @classmethod
    def build(cls, config: SACConfig, task: Task) -> Self:
        """Make actor, critics and the algorithm."""
        net = task.net or cls.default_net
        policy = config.build_policy(task, net)
        return cls(config, policy, config.build_critic(policy, net).to(task.device))

    def update(self, batch: TransitionBatch) -> SoftStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        alpha = self.log_alpha.detach().exp()

        critics = self._critic_loss(batch, alpha)
        self.critic_optim.step(critics.loss)
        self.critic.take_in(critics.target, batch)  # detail 7

        loss_actor = loss_alpha = entropy = None
        if (self.num_updates + 1) % self.config.policy_freq == 0:  # detail 6
            loss_actor, entropy = self._learn_actor(batch, alpha)
            loss_alpha = self._learn_alpha(entropy, self.target_entropy)  # detail 4
        self.update_target()

        metrics = {"loss_actor": loss_actor, "loss_alpha": loss_alpha, "alpha": alpha, "entropy": entropy}
        return self.stats_type(**finished(self, batch, critics, **metrics))

    # -- what differs in algorithms that are SAC with other critics ----------------------------------------------------

    def _critic_loss(self, batch: TransitionBatch, alpha: torch.Tensor) -> CriticLoss:
        with torch.no_grad():  # detail 2
            act_next, logp_next = self.policy.analyze_next(batch).sample(self.rng.torch)
            value_next = self._value_next(batch, act_next) - alpha * logp_next
            target = batch.rew + batch.discount * value_next
        return critic_loss(self.critic, self.critic.value(batch, batch.act), target, batch)

    def _learn_actor(self, batch: TransitionBatch, alpha: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Move the policy. -> the loss and, detached, its entropy."""
        act, logp = self.policy.analyze(batch).sample(self.rng.torch)  # detail 3
        loss = batch_mean(alpha * logp - self._value(batch, act), batch)
        self.actor_optim.step(loss)
        return loss, -batch_mean(logp.detach(), batch)

    def _value_next(self, batch: TransitionBatch, act_next: torch.Tensor) -> torch.Tensor:
        """Values [B] of the successors' actions by the target critics."""
        return self.critic_target.next_value(batch, act_next).amin(dim=0)

    def _value(self, batch: TransitionBatch, act: torch.Tensor) -> torch.Tensor:
        """Values [B] of actions, which the policy climbs."""
        return self.critic.value(batch, act).amin(dim=0)
