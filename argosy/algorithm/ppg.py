"""Phasic policy gradient (Cobbe et al., 2020, https://arxiv.org/abs/2009.04416).

Details that matter:

1. Policy phase: PPO's clipped objective on each rollout, actor and critic with networks of their own, so that the
   critic's many gradients do not disturb the actor.
2. Auxiliary phase, after every `rollouts_per_phase` rollouts, over all of these: the actor learns to predict returns,
   too, by a head that nobody acts on, and so gets the critic's features; the divergence from what the policy was before
   the phase, weighted by `beta_clone`, keeps its actions as they were. The critic learns on from the same rows.
3. Returns are those that were estimated when the rollouts came in, kept in units of reward; critic and actor learn them
   in those of the critic's last layer (see `ScaledLinear`), as these are by then. Observations are kept as they came,
   too, and normalised, if they are, as the policy does by then. What it was is a copy, made at the phase's beginning.
   Minibatches of all rollouts come in random order, each from one of them.
4. Advantages are generalised and normalised per minibatch. A truncated episode bootstraps from its true last
   observation, a terminated one from nothing.
5. The rollouts of an unfinished phase belong to the state: they are saved and restored.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from argosy.algorithm.actor_critic import ActorCriticConfig, ActorCriticStats, SummedLoss, SummedLossConfig
from argosy.algorithm.base import batch_mean, batch_standardised
from argosy.algorithm.optim import OptimConfig
from argosy.config import limited
from argosy.data import AdvantageBatch, Batch, TrajectoryBatch, as_tensors, tree
from argosy.errors import ConfigError
from argosy.net import frozen_copy
from argosy.ops import explained_variance
from argosy.policy.phasic import PhasicAnalysis, PhasicPolicy
from argosy.policy.rollouts import advantage_rows, critic_units, minibatches, rows_to_learn, scaled_head

# Shapes: T time, B envs, N = T * B rows of the rollout, M rows of a minibatch. With memory, [M] becomes [T, M].


@dataclass(frozen=True, kw_only=True)
class PPGConfig(SummedLossConfig, ActorCriticConfig):
    """Hyper-parameters of PPG; docs/glossary.md explains each at length."""

    gae_lambda: float = limited(0.95, ge=0.0, le=1.0)
    """Trade-off of the advantage estimate: 0 little variance, 1 no bias."""
    optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=5e-4, eps=1e-5, max_grad_norm=0.5))
    """Optimiser of actor and critic, in both phases."""
    repeat_per_collect: int = limited(1, ge=1)
    """Passes over each rollout in the policy phase."""
    batch_size: int | None = limited(64, ge=1)
    """Rows per minibatch, at least; None: the whole rollout."""
    clip_ratio: float = limited(0.2, ge=0.0, le=1.0)
    """How far a probability ratio may leave 1 before its gradient vanishes."""
    value_coef: float = 0.5
    """Weight of the value loss (a mean squared error), in both phases."""
    rollouts_per_phase: int = limited(32, ge=1)
    """Rollouts between two auxiliary phases, and in each of them."""
    aux_epochs: int = limited(6, ge=1)
    """Passes over these rollouts."""
    beta_clone: float = limited(1.0, ge=0.0)
    """Weight of the divergence that keeps the policy as it was."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gsde_steps is not None:
            raise ConfigError(
                f"{type(self).__name__}.gsde_steps is {self.gsde_steps}, but its policy of two critics has independent "
                "noise alone; leave it out"
            )

    def policy_class(self) -> type[PhasicPolicy]:
        """Return the policy of two critics."""
        return PhasicPolicy


@dataclass(frozen=True, kw_only=True, eq=False)
class PPGStats(ActorCriticStats):
    """What one update reports: means over its minibatches."""

    aux_error: float | None = None
    """Mean squared error of the actor's prediction of returns, in the critic's units, in an auxiliary phase."""
    aux_kl: float | None = None
    """KL(policy before the phase, policy), in an auxiliary phase."""


class PPG(SummedLoss[PPGConfig, PPGStats]):
    """Clipped policy gradient, and phases in which the actor learns the critic's features."""

    config_type = PPGConfig
    learn_apart = True
    policy: PhasicPolicy

    def __init__(self, config: PPGConfig, policy: PhasicPolicy) -> None:
        super().__init__(config, policy)
        self.kept = KeptRows(policy.device)

    def update(self, batch: TrajectoryBatch) -> PPGStats:
        """Learn from a rollout [T, B, ...]: obs, act, rew, obs_next, terminated, cut, policy.logp; maybe mask."""
        config = self.config
        rollout, head = self.prepare(batch), scaled_head(self.policy)
        rows = advantage_rows(self.policy, rollout, config.gamma, config.gae_lambda)
        explained = explained_variance(rows.value, rows.returns, rows.get("mask"))
        if head is not None:  # detail 3
            rows.returns = head.unscaled(rows.returns)
        history, norms = [], []
        for _ in range(config.repeat_per_collect):
            for mb in minibatches(self.policy, rows, config.batch_size, self.rng):
                loss, means = self._policy_loss(mb)
                norms.append(self.optim.step(loss))
                history.append(means.detach())
        if self.policy.normaliser is not None:  # detail 3
            raw = Batch(obs=self.policy.normaliser.held())
            rows = Batch({**vars(rows), "obs": rows_to_learn(self.policy, rollout, raw).obs})
        self.kept.rollouts.append(rows)
        aux = []
        if len(self.kept.rollouts) >= config.rollouts_per_phase:
            aux = self._auxiliary_phase(frozen_copy(self.policy))
            self.kept.rollouts.clear()
        loss_policy, loss_value, entropy = torch.stack(history).mean(0)
        aux_error, aux_kl = torch.stack(aux).mean(0) if aux else (None, None)
        found = [norm for norm in norms if norm is not None]
        stats = self._finish(
            loss_policy=loss_policy,
            loss_value=loss_value,
            entropy=entropy,
            explained_variance=explained,
            grad_norm=torch.stack(found).mean() if found else None,
            aux_error=aux_error,
            aux_kl=aux_kl,
        )
        return PPGStats(**stats, gradient_steps=len(history) + len(aux))

    def _policy_loss(self, mb: AdvantageBatch) -> tuple[torch.Tensor, torch.Tensor]:
        """-> (loss, means of objective, squared error and entropy) of a minibatch (detail 1)."""
        config, now = self.config, self.policy.analyze(mb)
        adv, ratio = batch_standardised(mb.adv, mb), (now.logp - mb.logp).exp()
        clipped = ratio.clamp(1.0 - config.clip_ratio, 1.0 + config.clip_ratio)
        loss_policy = -torch.min(ratio * adv, clipped * adv)
        means = batch_mean(torch.stack((loss_policy, self._value_error(now, mb), now.entropy)), mb)
        return means[0] + config.value_coef * means[1] - self.entropy_coef * means[2], means

    def _value_error(self, now: PhasicAnalysis, mb: AdvantageBatch) -> torch.Tensor:
        """Squared errors of the critic's values of a minibatch, in the units in which it learns."""
        return (critic_units(self.policy, now.value) - critic_units(self.policy, mb.returns)).square()

    def _auxiliary_phase(self, before: PhasicPolicy) -> list[torch.Tensor]:
        """Distil (detail 2); `before` is the policy at its beginning. -> squared error and divergence of each step."""
        config, history, normaliser = self.config, [], self.policy.normaliser
        rollouts = self.kept.rollouts
        if normaliser is not None:
            rollouts = [Batch({**vars(rows), "obs": normaliser(rows.obs)}) for rows in rollouts]
        for _ in range(config.aux_epochs):
            for mb in self._mixed(rollouts):
                now = self.policy.analyze(mb)
                with torch.no_grad():
                    acted = before.analyze(mb).distribution
                error = (now.auxiliary_value - critic_units(self.policy, mb.returns)).square()
                terms = torch.stack((error, now.kl_from(acted), self._value_error(now, mb)))
                means = batch_mean(terms, mb)
                self.optim.step(0.5 * means[0] + config.beta_clone * means[1] + config.value_coef * means[2])
                history.append(means[:2].detach())
        return history

    def _mixed(self, rollouts: Sequence[Batch]) -> Iterator[Batch]:
        """Yield the minibatches of rollouts in random order, so that none is always the last one."""
        left = [minibatches(self.policy, rows, self.config.batch_size, self.rng) for rows in rollouts]
        while left:
            at = int(torch.randint(len(left), (), generator=self.rng.torch))
            if (mb := next(left[at], None)) is None:
                del left[at]
            else:
                yield mb


class KeptRows:
    """The rows of the rollouts of a phase, on the policy's device."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.rollouts = device, list[Batch]()

    def state_dict(self) -> dict[str, Any]:
        """Return the rows, by the number of their rollout."""
        return {"rows": {str(i): tree.unflatten(tree.flatten(rows)) for i, rows in enumerate(self.rollouts)}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on with the rows of `state`."""
        rows = state["rows"]
        self.rollouts = [as_tensors(Batch(rows[str(i)]), self.device) for i in range(len(rows))]
