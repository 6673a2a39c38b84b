"""Soft actor-critic for discrete actions (Christodoulou, 2019, https://arxiv.org/abs/1910.07207).

Details that matter:

1. Two critics, one batched ensemble, give the values of all actions; their minimum is used in the target and for the
   actor (clipped double Q).
2. Expectations over actions are sums, nothing is drawn: V = sum over a of pi(a) * (min Q(a) - alpha * log pi(a)).
   `discount` is gamma^k, 0 where the episode terminated; a truncated one bootstraps from its true last observation.
3. The actor climbs the same sum at the stored observations; the critics get no gradient of it.
4. The temperature alpha is fixed, or learned so that the entropy approaches `target_entropy` (default: 0.98 times that
   of the uniform policy over the allowed actions); the optimised quantity is log alpha.
5. Forbidden actions have probability 0: they count in no sum.
6. Target critics follow softly after every update.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from gymnasium import spaces

from argosy.algorithm.base import Task, batch_mean
from argosy.algorithm.critics import action_critic, critic_loss, finished
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.soft import SoftActorCritic, SoftConfig, SoftStats
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import EnsembleCritic, NetConfig, TargetUpdate, frozen_copy
from argosy.ops import categorical_entropy
from argosy.policy import ActorCriticPolicy

# Shapes: B batch, A actions, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class DiscreteSACConfig(SoftConfig):
    """Hyper-parameters of discrete SAC; docs/glossary.md explains each at length."""

    actor_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of the actor."""
    target_entropy: float | None = None
    """Entropy that a learned temperature aims at, in nats; None: 0.98 times the uniform one of what is allowed."""
    tau: float = limited(0.005, gt=0.0, le=1.0)
    """Share by which target critics move to the critics per update."""


class DiscreteSAC(SoftActorCritic[DiscreteSACConfig]):
    """Maximum-entropy actor-critic for discrete actions."""

    config_type = DiscreteSACConfig
    action_spaces = (spaces.Discrete,)
    default_net = NetConfig(hidden_sizes=(128, 128))
    policy: ActorCriticPolicy

    def __init__(self, config: DiscreteSACConfig, policy: ActorCriticPolicy, critic: EnsembleCritic) -> None:
        super().__init__(config, policy, critic, 0.98 * math.log(policy.num_actions))
        self.critic_target = frozen_copy(critic)
        self.update_target = TargetUpdate(self.critic_target, critic, config.tau)

    @classmethod
    def build(cls, config: DiscreteSACConfig, task: Task) -> Self:
        """Make actor, critics and the algorithm."""
        net = task.net or cls.default_net
        policy = task.policy_or(ActorCriticPolicy, net, critic=False)
        return cls(config, policy, action_critic(policy, net, config.num_critics, config.value_scaling))

    def update(self, batch: TransitionBatch) -> SoftStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        alpha = self.log_alpha.detach().exp()

        with torch.no_grad():  # detail 2
            log_probs_BA = self.policy.analyze_next(batch).params  # noqa: N806  # the suffix says the shape
            soft_BA = self.critic_target.next_value(batch).amin(dim=0) - alpha * log_probs_BA  # noqa: N806
            target = batch.rew + batch.discount * (log_probs_BA.exp() * soft_BA).sum(dim=-1)
        critics = critic_loss(self.critic, self.critic.value(batch, batch.act), target, batch)
        self.critic_optim.step(critics.loss)
        self.critic.take_in(target, batch)

        log_probs_BA = self.policy.analyze(batch).params  # noqa: N806  # detail 3
        with torch.no_grad():
            q_BA = self.critic.value(batch).amin(dim=0)  # noqa: N806
        entropy_B = categorical_entropy(log_probs_BA)  # noqa: N806
        loss_actor = -batch_mean(alpha * entropy_B + (log_probs_BA.exp() * q_BA).sum(dim=-1), batch)
        self.actor_optim.step(loss_actor)

        entropy = batch_mean(entropy_B.detach(), batch)
        loss_alpha = self._learn_alpha(entropy, self._target_entropy(batch))  # detail 4
        self.update_target()
        metrics = {"loss_actor": loss_actor, "loss_alpha": loss_alpha, "alpha": alpha, "entropy": entropy}
        return SoftStats(**finished(self, batch, critics, **metrics))

    def _target_entropy(self, batch: TransitionBatch) -> torch.Tensor | float:
        """What a learned temperature aims at: no policy comes near the entropy of all actions where some are masked."""
        obs: Any = batch.obs
        mask_key = self.policy.mask_key
        if mask_key is None or self.config.target_entropy is not None:
            return self.target_entropy
        allowed_B = (obs[mask_key] != 0).sum(dim=-1)  # noqa: N806
        return 0.98 * batch_mean(allowed_B.log(), batch)
