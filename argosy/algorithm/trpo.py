"""Trust region policy optimisation (Schulman et al., 2015, https://arxiv.org/abs/1502.05477).

Details that matter:

1. The actor goes along the natural gradient F^-1 g as far as the KL divergence from the acting policy, to second order,
   is `max_kl`: g is the gradient of mean(ratio * adv), F the Fisher matrix, the Hessian of the mean KL divergence. No
   matrix is made: products with F come from two backward passes, F^-1 g from `cg_steps` steps of conjugate gradients;
   `damping` is added to F's diagonal. From there it comes back, `backtrack` times as far each time, until the
   divergence is within `max_kl` and the objective better than before; if it never is, the actor stays.
2. Advantages are generalised (https://arxiv.org/abs/1506.02438), from values of the critic before the update. A
   truncated episode bootstraps from its true last observation, a terminated one from nothing.
3. Advantages are normalised over the rollout.
4. The critic learns by itself, `critic_steps` steps of its own optimiser per rollout, before the next one; it may
   predict returns divided by their running standard deviation, or PopArt's (see `ScaledLinear`).
5. Actor and critic share no layer: a step of the critic would move the actor past its bound.
6. Layers start orthogonal, the actor's last one small (see `ActorCriticPolicy`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Self

import torch
from gymnasium import spaces

from argosy.algorithm.actor_critic import ActorCriticConfig, refuse_shared
from argosy.algorithm.base import Algorithm, Task, batch_mean, batch_standardised
from argosy.algorithm.optim import OptimConfig
from argosy.config import check_range
from argosy.data import Batch, TrainingStats, TrajectoryBatch
from argosy.net import NetConfig
from argosy.ops import check_gradient, conjugate_gradient, explained_variance, fisher_product, flat_gradient, move
from argosy.ops.kernels import foreach_copy_
from argosy.policy import ActorCriticPolicy
from argosy.policy.rollouts import advantage_rows, critic_units, minibatches

# Shapes: T time, B envs, N = T * B rows of the rollout, P parameters of the actor. With memory, [N] becomes [T, N].


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(ActorCriticConfig):
    """Hyper-parameters of TRPO; docs/glossary.md explains each at length."""

    gae_lambda: float = 0.95
    """Trade-off of the advantage estimate: 0 little variance, 1 no bias."""
    max_kl: float = 0.01
    """How far the policy may go from the one that acted (detail 1)."""
    backtrack: float = 0.8
    """By how much a step that goes too far is shortened."""
    max_backtracks: int = 10
    """Steps that are tried, at most."""
    damping: float = 0.1
    """Added to the diagonal of the Fisher matrix."""
    cg_steps: int = 10
    """Steps of conjugate gradients."""
    normalize_adv: bool = True
    """Normalise the rollout's advantages (detail 3)."""
    optim: OptimConfig = field(default_factory=OptimConfig)
    """Optimiser of the critic."""
    critic_steps: int = 20
    """Steps of the critic per rollout (detail 4)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "gae_lambda", ge=0.0, le=1.0)
        for name in ("max_kl", "damping"):
            check_range(self, name, gt=0.0)
        check_range(self, "backtrack", gt=0.0, lt=1.0)
        for name in ("cg_steps", "critic_steps", "max_backtracks"):
            check_range(self, name, ge=1)


@dataclass(frozen=True, kw_only=True, eq=False)
class TRPOStats(TrainingStats):
    """What one update reports."""

    loss_policy: float
    loss_value: float
    """Of the critic's last step."""
    entropy: float
    approx_kl: float
    """KL(acting policy, current policy), exactly, on the rollout; 0 where no step was found."""
    step_share: float
    """The step that was made, over the one that `max_kl` asks for; 0 where none was found."""
    explained_variance: float
    """1 - Var(returns - value) / Var(returns) of the values at acting time; 1 is a perfect critic."""
    grad_norm: float | None = None
    """Of the critic, before clipping; None without clipping."""


class TRPO(Algorithm[TRPOConfig, TRPOStats]):
    """Natural policy gradient whose step is searched for within a bound of the policy's change."""

    kind = "onpolicy"
    config_type = TRPOConfig
    action_spaces = (spaces.Discrete, spaces.MultiDiscrete, spaces.Box)
    default_net = NetConfig(hidden_sizes=(64, 64), activation="tanh")
    averages_gradients = False
    policy: ActorCriticPolicy

    def __init__(self, config: TRPOConfig, policy: ActorCriticPolicy) -> None:
        super().__init__(config, policy)
        self.optim = config.optim.build(policy.critic_parameters())

    @classmethod
    def build(cls, config: TRPOConfig, task: Task) -> Self:
        """Make the actor-critic and the algorithm."""
        refuse_shared(cls, task)
        return cls(config, config.make_actor_critic(task, cls.default_net))

    def update(self, batch: TrajectoryBatch) -> TRPOStats:
        """Learn from a rollout [T, B, ...]: obs, act, rew, obs_next, terminated, cut, maybe mask."""
        config = self.config
        rows = advantage_rows(self.policy, self.prepare(batch), config.gamma, config.gae_lambda)
        (mb,) = minibatches(self.policy, rows, None, self.rng)
        if config.normalize_adv:
            mb.adv = batch_standardised(mb.adv, mb)
        metrics = self._move_actor(mb)
        for _ in range(config.critic_steps):
            error = (critic_units(self.policy, self.policy.analyze(mb).value) - mb.returns).square()
            loss_value = batch_mean(error, mb)
            grad_norm = self.optim.step(loss_value)
        explained = explained_variance(rows.value, rows.returns)
        stats = self._finish(**metrics, loss_value=loss_value, grad_norm=grad_norm, explained_variance=explained)
        return TRPOStats(**stats, gradient_steps=1 + config.critic_steps)

    def _move_actor(self, mb: Batch) -> dict[str, torch.Tensor]:
        """Make the actor's step (detail 1). -> its metrics."""
        config, parameters = self.config, self.policy.actor_parameters()
        now = self.policy.analyze(mb)
        before = now.distribution.detach()
        loss = -batch_mean((now.logp - mb.logp).exp() * mb.adv, mb)
        gradient = flat_gradient(loss, parameters)
        check_gradient(loss, gradient)
        product = fisher_product(batch_mean(now.kl_from(before), mb), parameters, config.damping)
        direction = -conjugate_gradient(product, gradient, config.cg_steps)
        curvature = (direction @ product(direction)).clamp(min=1e-12)
        step = (2.0 * config.max_kl / curvature).sqrt() * direction
        start, kl, share = [p.detach().clone() for p in parameters], torch.zeros_like(loss), 1.0
        for _ in range(config.max_backtracks):
            move(parameters, share * step)
            with torch.no_grad():
                after = self.policy.analyze(mb)
                kl = batch_mean(after.kl_from(before), mb)
                if kl <= config.max_kl and -batch_mean((after.logp - mb.logp).exp() * mb.adv, mb) < loss:
                    break
                foreach_copy_(parameters, start)
            share *= config.backtrack
        else:
            kl, share = torch.zeros_like(loss), 0.0
        metrics = {"loss_policy": loss, "entropy": batch_mean(now.entropy, mb), "approx_kl": kl}
        return {**metrics, "step_share": torch.as_tensor(share, device=loss.device)}
