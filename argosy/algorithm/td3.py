"""Twin delayed deep deterministic policy gradient (Fujimoto et al., 2018, https://arxiv.org/abs/1802.09477).

Details that matter:

1. Two critics are one batched ensemble; the target takes the minimum of the target critics (clipped double Q).
2. Target policy smoothing: the target policy's next action gets clipped Gaussian noise, so that the value is one of a
   neighbourhood and not of a narrow peak.
3. Delay: the policy and all targets move once in `policy_freq` updates of the critics.
4. The policy climbs the value of the first critic alone.
5. Actions are in [-1, 1], stored so, and stretched to the env's bounds at the border only; noise is in these units.
6. `discount` is gamma^k, 0 where the episode terminated; a truncated one bootstraps from its true last observation.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from gymnasium import spaces

from argosy.algorithm.base import Algorithm, AlgorithmConfig, Task, batch_mean, batch_priorities
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.task import Kind
from argosy.config import check_range
from argosy.data import TrainingStats, TransitionBatch
from argosy.net import EnsembleCritic, NetConfig, TargetUpdate, frozen_copy
from argosy.policy import NoiseConfig
from argosy.policy.deterministic import DeterministicPolicy

# Shapes: B batch, A action dim, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class TD3Config(AlgorithmConfig):
    """Hyper-parameters of TD3; docs/glossary.md explains each at length."""

    n_step: int = 1
    """Rewards summed before the bootstrap value."""
    actor_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the policy."""
    critic_optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the critics."""
    tau: float = 0.005
    """Share by which the targets move per step (detail 3)."""
    policy_freq: int = 2
    """Updates of the critics per update of the policy and the targets (detail 3)."""
    target_noise: float = 0.2
    """Deviation of the noise on the target policy's action (detail 2)."""
    target_noise_clip: float = 0.5
    """Bound of that noise."""
    num_critics: int = 2
    """Size K of the ensemble (detail 1)."""
    exploration: NoiseConfig = field(default_factory=NoiseConfig)
    """Noise on the actions of training."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("n_step", "policy_freq", "num_critics"):
            check_range(self, name, ge=1)
        check_range(self, "tau", gt=0.0, le=1.0)
        for name in ("target_noise", "target_noise_clip"):
            check_range(self, name, ge=0.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class TD3Stats(TrainingStats):
    """What one update reports."""

    loss_critic: float
    """Mean squared error, summed over the critics."""
    loss_actor: float | None
    """None where the policy was left alone (detail 3)."""
    q_mean: float
    """Mean value of the stored actions, over batch and critics."""


class TD3(Algorithm[TD3Config, TD3Stats]):
    """Deterministic actor-critic from a replay buffer."""

    kind: Kind = "offpolicy"
    config_type = TD3Config
    action_spaces = (spaces.Box,)
    default_net = NetConfig(hidden_sizes=(256, 256))
    policy: DeterministicPolicy

    def __init__(self, config: TD3Config, policy: DeterministicPolicy, critic: EnsembleCritic) -> None:
        super().__init__(config, policy)
        self.policy_target, self.critic, self.critic_target = frozen_copy(policy), critic, frozen_copy(critic)
        self.actor_optim, self.critic_optim = config.actor_optim.build(policy), config.critic_optim.build(critic)
        self.update_policy_target = TargetUpdate(self.policy_target, policy, config.tau)
        self.update_critic_target = TargetUpdate(self.critic_target, critic, config.tau)
        policy.explore_by(config.exploration.build(policy.action_dim))

    @classmethod
    def build(cls, config: TD3Config, task: Task) -> Self:
        """Make actor, critics and the algorithm."""
        net = task.net or cls.default_net
        policy = task.policy_or(lambda: DeterministicPolicy(task.observation_space, task.action_space, net))
        critic = EnsembleCritic(task.observation_space, policy.action_dim, net, config.num_critics)
        return cls(config, policy, critic.to(task.device))

    def update(self, batch: TransitionBatch) -> TD3Stats:
        """One step on a sample: obs, act, rew, obs_next, discount, weight, all [B, ...]."""
        batch = self.prepare(batch)
        with torch.no_grad():
            act_next = self._smoothed(self.policy_target.analyze_next(batch).act)
            target = batch.rew + batch.discount * self._value_next(batch, act_next)
        q_KB = self.critic.value(batch, batch.act)  # noqa: N806  # the suffix says the shape
        td_error = q_KB - target
        loss_critic = batch_mean((batch.weight * td_error.square()).sum(dim=0), batch)
        self.critic_optim.step(loss_critic)

        loss_actor = None
        if (self.num_updates + 1) % self.config.policy_freq == 0:  # detail 3
            loss_actor = self._actor_loss(batch)
            self.actor_optim.step(loss_actor)
            self.update_policy_target()
            self.update_critic_target()

        q_mean = batch_mean(q_KB.detach().mean(dim=0), batch)
        metrics = self._finish(loss_critic=loss_critic, loss_actor=loss_actor, q_mean=q_mean)
        return TD3Stats(**metrics, priorities=batch_priorities(td_error.detach().abs().mean(dim=0), batch))

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
