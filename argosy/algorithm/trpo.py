"""Trust region policy optimisation (Schulman et al., 2015, https://arxiv.org/abs/1502.05477).

Details that matter:

1. The actor goes along the natural gradient F^-1 g as far as the KL divergence from the acting policy, to second order,
   is `max_kl`: g is the gradient of mean(ratio * adv), F the Fisher matrix, the Hessian of the mean KL divergence. No
   matrix is made: products with F come from two backward passes, F^-1 g from `cg_steps` steps of conjugate gradients;
   `damping` is added to F's diagonal. From there it comes back, `backtrack` times as far each time, until the
   divergence is within `max_kl` and the objective better than before; if it never is, the actor stays.
2. All else is NPG's: advantages and their normalisation, how the critic learns, layers that are not shared.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.base import batch_mean
from argosy.algorithm.natural import NaturalConfig, NaturalGradient, NaturalStats
from argosy.config import limited
from argosy.data import AdvantageBatch
from argosy.ops import move
from argosy.ops.kernels import foreach_copy_

# Shapes: N rows of the rollout. With memory, [N] becomes [T, N].


@dataclass(frozen=True, kw_only=True)
class TRPOConfig(NaturalConfig):
    """Hyper-parameters of TRPO; docs/glossary.md explains each at length."""

    max_kl: float = limited(0.01, gt=0.0)
    """How far the policy may go from the one that acted (detail 1)."""
    backtrack: float = limited(0.8, gt=0.0, lt=1.0)
    """By how much a step that goes too far is shortened."""
    max_backtracks: int = limited(10, ge=1)
    """Steps that are tried, at most."""


@dataclass(frozen=True, kw_only=True, eq=False)
class TRPOStats(NaturalStats):
    """What one update reports; `approx_kl` is 0 where no step was found."""

    step_share: float
    """The step that was made, over the one that `max_kl` asks for; 0 where none was found."""


class TRPO(NaturalGradient[TRPOConfig, TRPOStats]):
    """Natural policy gradient whose step is searched for within a bound of the policy's change."""

    config_type = TRPOConfig
    stats_type = TRPOStats

    def _move_actor(self, mb: AdvantageBatch) -> dict[str, torch.Tensor]:
        """Make the actor's step (detail 1). -> its metrics."""
        config, parameters = self.config, self.policy.actor_parameters()
        now = self.policy.analyze(mb)
        before = now.distribution.detach()
        loss = -batch_mean((now.logp - mb.logp).exp() * mb.adv, mb)
        natural_gradient, curvature = self._natural_gradient(loss, now, mb)
        step = -(2.0 * config.max_kl / curvature.clamp(min=1e-30)).sqrt() * natural_gradient
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
