"""Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018, https://arxiv.org/abs/1802.09477).

Details that matter:

1. Two critics are one batched ensemble; the target takes the minimum of the target critics (clipped double Q).
2. Target policy smoothing: the target policy's next action gets clipped Gaussian noise, so that the value is one of a
   neighbourhood and not of a narrow peak.
3. Delay: the policy and all targets move once in `policy_freq` updates of the critics.
4. The policy climbs the value of the first critic alone.
5. The scale of actions and noise, and what the end of an episode means, are DDPG's.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.base import batch_mean
from argosy.algorithm.critics import action_critic, critic_loss, finished
from argosy.algorithm.ddpg import DDPG, DDPGConfig, DDPGStats
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import EnsembleCritic, NetConfig
from argosy.policy import Policy

# Shapes: B batch, A action dim, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class TD3Config(DDPGConfig):
    """Hyper-parameters of TD3; docs/glossary.md explains each at length."""

    tau: float = 0.005
    """Share by which the targets move per step (detail 3)."""
    policy_freq: int = limited(2, ge=1)
    """Updates of the critics per update of the policy and the targets (detail 3)."""
    target_noise: float = limited(0.2, ge=0.0)
    """Deviation of the noise on the target policy's action (detail 2)."""
    target_noise_clip: float = limited(0.5, ge=0.0)
    """Bound of that noise."""
    num_critics: int = limited(2, ge=1)
    """Size K of the ensemble (detail 1)."""

    def build_critic(self, policy: Policy, net: NetConfig) -> EnsembleCritic:
        """Make the critics of what a policy sees and does."""
        return action_critic(policy, net, self.num_critics, self.value_scaling)


class TD3(DDPG):
    """Deterministic actor-critic from a replay buffer."""

    config_type = TD3Config
    config: TD3Config

    def update(self, batch: TransitionBatch) -> DDPGStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        with torch.no_grad():
            act_next = self._smoothed(self.policy_target.analyze_next(batch).act)
            target = batch.rew + batch.discount * self._value_next(batch, act_next)
        critics = critic_loss(self.critic, self.critic.value(batch, batch.act), target, batch)
        self.critic_optim.step(critics.loss)
        self.critic.take_in(target, batch)

        loss_actor = None
        if (self.num_updates + 1) % self.config.policy_freq == 0:  # detail 3
            loss_actor = self._actor_loss(batch)
            self.actor_optim.step(loss_actor)
            self.update_policy_target()
            self.update_critic_target()
        return DDPGStats(**finished(self, batch, critics, loss_actor=loss_actor))

    def _smoothed(self, act: torch.Tensor) -> torch.Tensor:
        """Actions with the noise of detail 2."""
        noise = torch.empty(act.shape).normal_(generator=self.rng.torch).to(act.device) * self.config.target_noise
        return (act + noise.clamp(-self.config.target_noise_clip, self.config.target_noise_clip)).clamp(-1.0, 1.0)

    # -- what differs in algorithms that are TD3 on a data set ---------------------------------------------------------

    def _value_next(self, batch: TransitionBatch, act_next: torch.Tensor) -> torch.Tensor:
        """Values [B] of the successors' actions (detail 1)."""
        return self.critic_target.next_value(batch, act_next).amin(dim=0)

    def _actor_loss(self, batch: TransitionBatch) -> torch.Tensor:
        """Minus the value of the policy's actions (detail 4)."""
        return -batch_mean(self.critic.value(batch, self.policy.analyze(batch).act)[0], batch)
