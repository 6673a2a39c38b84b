"""Proximal policy optimisation (Schulman et al., 2017, https://arxiv.org/abs/1707.06347).

Details that matter:

1. Advantages are generalised (https://arxiv.org/abs/1506.02438), from values of the critic before the update: those
   that the policy stored when it acted, or else one evaluation of the whole rollout. V(obs_next) is the value of the
   next row; at a cut (the row's successor is not the next row) it is computed from `obs_next`, so that a truncated
   episode bootstraps from its true last observation; a terminated one bootstraps from nothing.
2. `recompute_advantage` estimates values and advantages again before every pass but the first.
3. Advantages are normalised per minibatch.
4. Minibatches are equal shares of a shuffled rollout, of at least `batch_size` rows each. Where a rollout has a `mask`,
   its other rows are only looked at from these.
5. Dual clip (Ye et al., 2020, https://arxiv.org/abs/1912.09729): where adv < 0, the objective is no less than
   dual_clip * adv.
6. Value clip: the worse of the plain error and that of a value which moved by `clip_ratio` at most.
7. The critic may predict returns divided by their running standard deviation, or PopArt's (see `ScaledLinear`).
8. Learning rate and entropy bonus may fall linearly; passes may stop early when the KL divergence passes `target_kl`.
9. Layers start orthogonal, the actor's last one small (see `ActorCriticPolicy`); Adam's epsilon is 1e-5.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from argosy.algorithm.actor_critic import ActorCriticConfig, ActorCriticStats, PolicyGradient, SummedLossConfig
from argosy.algorithm.base import batch_mean, batch_standardised
from argosy.algorithm.optim import OptimConfig
from argosy.config import limited
from argosy.data import AdvantageBatch, TrajectoryBatch
from argosy.errors import ConfigError
from argosy.ops import explained_variance
from argosy.policy import ActorCriticPolicy
from argosy.policy.rollouts import advantage_rows, critic_units, minibatches

TERMS = ("loss_policy", "loss_value", "entropy", "approx_kl", "clip_fraction")  # the loss is their weighted sum
# Shapes: T time, B envs, N = T * B rows of the rollout, M rows of a minibatch. With memory, [M] becomes [T, M].


@dataclass(frozen=True, kw_only=True)
class PPOConfig(SummedLossConfig, ActorCriticConfig):
    """Hyper-parameters of PPO; docs/glossary.md explains each at length."""

    gae_lambda: float = limited(0.95, ge=0.0, le=1.0)
    """Trade-off of the advantage estimate: 0 little variance, 1 no bias."""
    optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4, eps=1e-5, max_grad_norm=0.5))
    """Optimiser of actor and critic."""
    repeat_per_collect: int = limited(10, ge=1)
    """Passes over each rollout."""
    batch_size: int | None = limited(64, ge=1)
    """Rows per minibatch, at least (detail 4); None: the whole rollout."""
    clip_ratio: float = limited(0.2, ge=0.0, le=1.0)
    """How far a probability ratio may leave 1 before its gradient vanishes."""
    dual_clip: float | None = limited(None, gt=1.0)
    """Bound for negative advantages, > 1 (detail 5); None: off."""
    value_clip: bool = False
    """Clip the value's change, too (detail 6)."""
    normalize_adv: bool = True
    """Normalise advantages per minibatch (detail 3)."""
    recompute_advantage: bool = False
    """Estimate advantages anew before every pass (detail 2)."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus."""
    target_kl: float | None = limited(None, gt=0.0)
    """Stop passing over a rollout when the approximate KL divergence exceeds this; None: never."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.normalize_adv and self.batch_size == 1:
            raise ConfigError(
                "PPOConfig.batch_size is 1, of which normalize_adv leaves 0; use >= 2 or normalize_adv=False"
            )


@dataclass(frozen=True, kw_only=True, eq=False)
class PPOStats(ActorCriticStats):
    """What one update reports: means over its minibatches."""

    loss: float
    approx_kl: float
    """KL(acting policy, current policy), estimated by mean(ratio - 1 - log ratio)."""
    clip_fraction: float
    """Share of rows whose ratio left the clip range."""


class PPO(PolicyGradient[PPOConfig, PPOStats]):
    """Clipped policy gradient from the rollout of the current policy."""

    config_type = PPOConfig

    def __init__(self, config: PPOConfig, policy: ActorCriticPolicy) -> None:
        super().__init__(config, policy)
        self.optim = config.optim.build(policy)
        self.term_weights = torch.tensor((1.0, config.value_coef, -config.entropy_coef, 0.0, 0.0), device=self.device)

    def schedule(self, env_step: int, max_env_step: int) -> None:
        """Set learning rate and entropy bonus (detail 8)."""
        super().schedule(env_step, max_env_step)
        config, falls = self.config, self.config.entropy_coef_end is not None
        self.term_weights[1] = config.value_coef
        self.term_weights[2] = -(config.entropy_coef_at(env_step, max_env_step) if falls else config.entropy_coef)

    def update(self, batch: TrajectoryBatch) -> PPOStats:
        """Learn from a rollout [T, B, ...]: obs, act, rew, obs_next, terminated, cut, policy.logp/value; maybe mask."""
        rollout = self.prepare(batch)
        discounts = self.config.gamma, self.config.gae_lambda
        rows = advantage_rows(self.policy, rollout, *discounts)
        history: list[torch.Tensor] = []  # of each gradient step: means of the TERMS
        norms: list[torch.Tensor | None] = []
        for epoch in range(self.config.repeat_per_collect):
            if epoch > 0 and self.config.recompute_advantage:
                fresh = advantage_rows(self.policy, rollout, *discounts, anew=True)
                rows.adv, rows.returns = fresh.adv, fresh.returns
            first = len(history)
            for mb in minibatches(self.policy, rows, self.config.batch_size, self.rng):
                loss, means = self._loss(mb)
                norms.append(self.optim.step(loss))
                history.append(means.detach())
            target_kl = self.config.target_kl
            if target_kl is not None and torch.stack(history[first:]).mean(0)[TERMS.index("approx_kl")] > target_kl:
                break
        means = torch.stack(history).mean(0)
        stats = self._finish(
            loss=means @ self.term_weights,
            **dict(zip(TERMS, means, strict=True)),
            grad_norm=None if norms[0] is None else torch.stack([norm for norm in norms if norm is not None]).mean(),
            explained_variance=explained_variance(rows.value, rows.returns, rows.get("mask")),
        )
        return PPOStats(**stats, gradient_steps=len(history))

    def _loss(self, mb: AdvantageBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """-> (loss, means of its TERMS) of a minibatch: obs, act, logp, value, adv, returns [M, ...]."""
        config, now = self.config, self.policy.analyze(mb)
        adv = batch_standardised(mb.adv, mb) if config.normalize_adv else mb.adv
        log_ratio = now.logp - mb.logp
        ratio = log_ratio.exp()
        loss_policy = self._objective(ratio, adv)
        value = critic_units(self.policy, now.value)
        error = (value - mb.returns).square()
        if config.value_clip:
            near = mb.value + (value - mb.value).clamp(-config.clip_ratio, config.clip_ratio)
            error = torch.max(error, (near - mb.returns).square())

        with torch.no_grad():
            kl, is_clipped = ratio - 1.0 - log_ratio, ((ratio - 1.0).abs() > config.clip_ratio).float()
        means = batch_mean(torch.stack((loss_policy, error, now.entropy, kl, is_clipped)), mb)  # five in one reduction
        return means @ self.term_weights, means

    def _objective(self, ratio: torch.Tensor, adv: torch.Tensor) -> torch.Tensor:
        """Minus what the policy climbs, of each row: -min(ratio * adv, clip(ratio) * adv)."""
        # One bound instead of clip and min: 1 + clip_ratio where adv > 0, 1 - clip_ratio elsewhere; saves 5 %
        loss = torch.max(-adv * ratio, -adv - self.config.clip_ratio * adv.abs())
        if self.config.dual_clip is not None:
            loss = torch.where(adv < 0.0, torch.min(loss, -self.config.dual_clip * adv), loss)
        return loss
