"""Soft actor-critic for discrete actions (Christodoulou, 2019, https://arxiv.org/abs/1910.07207).

Details that matter:

1. Two critics, one batched ensemble, give the values of all actions; their minimum is used in the target and for the
   actor (clipped double Q).
2. Expectations over actions are sums, nothing is drawn: V = sum over a of pi(a) * (min Q(a) - alpha * log pi(a)).
   `discount` is gamma^k, 0 where the episode terminated; a truncated one bootstraps from its true last observation.
3. The actor climbs the same sum at the stored observations; the critics get no gradient of it.
4. The temperature alpha is fixed, or learned so that the entropy approaches `target_entropy` (default: 0.98 times that
   of the uniform policy); the optimised quantity is log alpha.
5. Forbidden actions have probability 0: they count in no sum.
6. Target critics follow softly after every update.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Self

import torch
from gymnasium import spaces
from torch import nn

from argosy.algorithm.base import Algorithm, AlgorithmConfig, Task, batch_mean, batch_priorities
from argosy.algorithm.optim import OptimConfig
from argosy.config import check_range
from argosy.data import TrainingStats, TransitionBatch
from argosy.net import EnsembleCritic, NetConfig, TargetUpdate, frozen_copy
from argosy.ops import categorical_entropy
from argosy.policy import ActorCriticPolicy

# Shapes: B batch, A actions, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class DiscreteSACConfig(AlgorithmConfig):
    """Hyper-parameters of discrete SAC; docs/glossary.md explains each at length."""

    n_step: int = 1
    """Rewards summed before the bootstrap value."""
    actor_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of the actor."""
    critic_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the critics."""
    alpha_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of the logarithm of the temperature."""
    alpha: float = 0.2
    """Temperature: what a nat of entropy is worth in reward; its start when it is learned."""
    auto_alpha: bool = True
    """Learn the temperature (detail 4)."""
    target_entropy: float | None = None
    """Entropy that a learned temperature aims at, in nats; None: 0.98 times that of the uniform policy."""
    tau: float = 0.005
    """Share by which target critics move to the critics per update."""
    num_critics: int = 2
    """Size K of the ensemble (detail 1)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_step", "num_critics"):
            check_range(self, name, ge=1)
        check_range(self, "alpha", gt=0.0)
        check_range(self, "tau", gt=0.0, le=1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class DiscreteSACStats(TrainingStats):
    """What one update reports."""

    loss_critic: float
    """Mean squared error, summed over the critics."""
    loss_actor: float
    loss_alpha: float | None
    """None with a fixed temperature."""
    alpha: float
    entropy: float
    """Mean entropy of the policy at the stored observations."""
    q_mean: float
    """Mean value of the stored actions, over batch and critics."""


class DiscreteSAC(Algorithm[DiscreteSACConfig, DiscreteSACStats]):
    """Maximum-entropy actor-critic for discrete actions."""

    kind = "offpolicy"
    config_type = DiscreteSACConfig
    action_spaces = (spaces.Discrete,)
    default_net = NetConfig(hidden_sizes=(128, 128))
    policy: ActorCriticPolicy

    def __init__(self, config: DiscreteSACConfig, policy: ActorCriticPolicy, critic: EnsembleCritic) -> None:
        super().__init__(config, policy)
        self.critic, self.critic_target = critic, frozen_copy(critic)
        self.log_alpha = nn.Parameter(torch.tensor(math.log(config.alpha), device=self.device))
        highest = math.log(policy.num_actions)
        self.target_entropy = 0.98 * highest if config.target_entropy is None else config.target_entropy
        self.actor_optim, self.critic_optim = config.actor_optim.build(policy), config.critic_optim.build(critic)
        self.alpha_optim = config.alpha_optim.build([self.log_alpha])
        self.update_target = TargetUpdate(self.critic_target, critic, config.tau)

    @classmethod
    def build(cls, config: DiscreteSACConfig, task: Task) -> Self:
        """Make actor, critics and the algorithm."""
        net, seen = task.net or cls.default_net, task.observation_space
        policy = task.policy_or(lambda: ActorCriticPolicy(seen, task.action_space, net, critic=False))
        skip = () if policy.mask_key is None else (policy.mask_key,)
        critic = EnsembleCritic(seen, 0, net, config.num_critics, skip, atoms=policy.num_actions)
        return cls(config, policy, critic.to(task.device))

    def update(self, batch: TransitionBatch) -> DiscreteSACStats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        alpha = self.log_alpha.detach().exp()

        with torch.no_grad():  # detail 2
            log_probs_BA = self.policy.analyze_next(batch).params  # noqa: N806  # the suffix says the shape
            soft_BA = self.critic_target.next_value(batch).amin(dim=0) - alpha * log_probs_BA  # noqa: N806
            target = batch.rew + batch.discount * (log_probs_BA.exp() * soft_BA).sum(dim=-1)
        q_KBA = self.critic.value(batch)  # noqa: N806
        act = batch.act.expand(q_KBA.shape[:-1]).unsqueeze(-1)
        q_KB = q_KBA.gather(-1, act).squeeze(-1)  # noqa: N806
        td_error = q_KB - target
        loss_critic = batch_mean((batch.weight * td_error.square()).sum(dim=0), batch)
        self.critic_optim.step(loss_critic)

        log_probs_BA = self.policy.analyze(batch).params  # noqa: N806  # detail 3
        with torch.no_grad():
            q_BA = self.critic.value(batch).amin(dim=0)  # noqa: N806
        entropy_B = categorical_entropy(log_probs_BA)  # noqa: N806
        loss_actor = -batch_mean(alpha * entropy_B + (log_probs_BA.exp() * q_BA).sum(dim=-1), batch)
        self.actor_optim.step(loss_actor)

        entropy = batch_mean(entropy_B.detach(), batch)
        loss_alpha = None
        if self.config.auto_alpha:  # detail 4
            loss_alpha = self.log_alpha * (entropy - self.target_entropy)
            self.alpha_optim.step(loss_alpha)
        self.update_target()

        metrics = self._finish(
            loss_critic=loss_critic,
            loss_actor=loss_actor,
            loss_alpha=loss_alpha,
            alpha=alpha,
            entropy=entropy,
            q_mean=batch_mean(q_KB.detach().mean(dim=0), batch),
        )
        return DiscreteSACStats(**metrics, priorities=batch_priorities(td_error.detach().abs().mean(dim=0), batch))
