"""CrossQ (Bhatt et al., 2024, https://arxiv.org/abs/1902.05605): SAC with batch normalisation, without target networks.

Details that matter:

1. There are no target networks: the critics themselves value the next action, without gradient.
2. Critics and policy have batch renormalisation before their hidden layers and after each of them. The critics see the
   actions taken and the next ones in one batch, so that the statistics are those of both.
3. Successors of terminated rows count for nothing, in these statistics either; nor do rows that the batch's mask leaves
   out.
4. Running statistics stand for the batch's wherever nothing is learned from the pass: when acting, for the next action,
   in the critics that the policy climbs.
5. Wide critics, Adam with a first moment of 0.5; policy and temperature move once in `policy_freq` updates.
6. Temperature, entropy and squashing are those of SAC.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Self

import torch
from gymnasium import spaces

from argosy.algorithm.base import Task, batch_mean
from argosy.algorithm.critics import action_critic, critic_loss, finished
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.soft import SoftActorCritic, SoftConfig, SoftStats
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net.batch_norm import add_batch_norm, batch_statistics
from argosy.policy import SquashedGaussianPolicy

# Shapes: B batch, A action dim, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class CrossQConfig(SoftConfig):
    """Hyper-parameters of CrossQ; docs/glossary.md explains each at length."""

    actor_optim: OptimConfig = field(default_factory=lambda: OptimConfig(betas=(0.5, 0.999)))
    """Optimiser of the actor."""
    critic_optim: OptimConfig = field(default_factory=lambda: OptimConfig(betas=(0.5, 0.999)))
    """Optimiser of the critics."""
    alpha_optim: OptimConfig = field(default_factory=lambda: OptimConfig(betas=(0.5, 0.999)))
    """Optimiser of the logarithm of the temperature."""
    critic_sizes: tuple[int, ...] | None = limited(None, ge=1)
    """Widths of the critics' hidden layers; None: those of the policy's."""
    policy_freq: int = limited(3, ge=1)
    """Updates of the critics per update of policy and temperature (detail 5)."""
    norm_warmup: int = limited(100_000, ge=0)
    """Batches that are normalised by their own statistics alone, before these are renormalised (detail 2)."""


class CrossQ(SoftActorCritic[CrossQConfig]):
    """Soft actor-critic with batch normalisation in the place of target networks."""

    config_type = CrossQConfig
    action_spaces = (spaces.Box,)
    needs_bounds = True
    averages_gradients = False  # every trainer's batch normalisation has statistics of its own
    policy: SquashedGaussianPolicy

    @classmethod
    def build(cls, config: CrossQConfig, task: Task) -> Self:
        """Make actor, critics and the algorithm; a policy of one's own stays as it is."""
        net = task.net or cls.default_net
        policy = task.policy_or(
            lambda seen, taken: add_batch_norm(SquashedGaussianPolicy(seen, taken, net), config.norm_warmup)
        )
        wide = replace(net, hidden_sizes=config.critic_sizes or net.hidden_sizes)
        critic = action_critic(policy, wide, config.num_critics, config.value_scaling)
        return cls(config, policy, add_batch_norm(critic, config.norm_warmup).to(task.device))

    def update(self, batch: TransitionBatch) -> SoftStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        alpha = self.log_alpha.detach().exp()
        rows = batch.mask if "mask" in batch else torch.ones_like(batch.discount, dtype=torch.bool)

        with torch.no_grad():
            act_next, logp_next = self.policy.analyze_next(batch).sample(self.rng.torch)
        with batch_statistics(self.critic, torch.cat((rows, rows & (batch.discount > 0.0)), dim=-1)):  # details 2, 3
            q_KB, next_KB = self.critic.values(batch, batch.act, act_next)  # noqa: N806  # the suffix says the shape
        value_next = next_KB.detach().amin(dim=0) - alpha * logp_next  # detail 1
        critics = critic_loss(self.critic, q_KB, batch.rew + batch.discount * value_next, batch)
        self.critic_optim.step(critics.loss)
        self.critic.take_in(critics.target, batch)

        loss_actor = loss_alpha = entropy = None
        if (self.num_updates + 1) % self.config.policy_freq == 0:  # detail 5
            with batch_statistics(self.policy, rows):
                act, logp = self.policy.analyze(batch).sample(self.rng.torch)
            loss_actor = batch_mean(alpha * logp - self.critic.value(batch, act).amin(dim=0), batch)  # detail 4
            self.actor_optim.step(loss_actor)
            entropy = -batch_mean(logp.detach(), batch)
            loss_alpha = self._learn_alpha(entropy, self.target_entropy)

        metrics = {"loss_actor": loss_actor, "loss_alpha": loss_alpha, "alpha": alpha, "entropy": entropy}
        return SoftStats(**finished(self, batch, critics, **metrics))
