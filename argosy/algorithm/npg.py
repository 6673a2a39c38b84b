"""Natural policy gradient (Kakade, 2001; Rajeswaran et al., 2017, https://arxiv.org/abs/1703.02660).

Details that matter:

1. The actor moves by `step_size` times the natural gradient F^-1 g: g is the gradient of mean(logp * adv), F the
   Fisher matrix, the Hessian of the mean KL divergence from the acting policy. No matrix is made: products with F come
   from two backward passes, F^-1 g from `cg_steps` steps of conjugate gradients; `damping` is added to F's diagonal.
   The step's length is Kakade's, fixed; Rajeswaran et al. choose it so that the policy changes as much as asked for
   (TRPO does, and checks it).
2. Advantages are generalised (https://arxiv.org/abs/1506.02438), from values of the critic before the update. A
   truncated episode bootstraps from its true last observation, a terminated one from nothing.
3. Advantages are normalised over the rollout.
4. The critic learns by itself, `critic_steps` steps of its own optimiser per rollout, before the next one; it may
   predict returns divided by their running standard deviation, or PopArt's (see `ScaledLinear`).
5. Actor and critic share no layer: a step of the critic would move the actor past its bound.
6. Layers start orthogonal, the actor's last one small (see `ActorCriticPolicy`).
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.base import batch_mean
from argosy.algorithm.natural import NaturalConfig, NaturalGradient, NaturalStats
from argosy.config import limited
from argosy.data import AdvantageBatch
from argosy.ops import move

# Shapes: N rows of the rollout. With memory, [N] becomes [T, N].


@dataclass(frozen=True, kw_only=True)
class NPGConfig(NaturalConfig):
    """Hyper-parameters of NPG; docs/glossary.md explains each at length."""

    step_size: float = limited(0.1, gt=0.0)
    """How far the actor goes along the natural gradient (detail 1)."""


class NPG(NaturalGradient[NPGConfig, NaturalStats]):
    """Natural policy gradient: steps measured by how much the policy changes."""

    config_type = NPGConfig
    stats_type = NaturalStats

    def _move_actor(self, mb: AdvantageBatch) -> dict[str, torch.Tensor]:
        """Make the actor's step (detail 1). -> its metrics."""
        now = self.policy.analyze(mb)
        before = now.distribution.detach()
        loss = -batch_mean(now.logp * mb.adv, mb)
        natural_gradient, _ = self._natural_gradient(loss, now, mb)
        move(self.policy.actor_parameters(), -self.config.step_size * natural_gradient)
        with torch.no_grad():
            kl = batch_mean(self.policy.analyze(mb).kl_from(before), mb)
        return {"loss_policy": loss, "entropy": batch_mean(now.entropy, mb), "approx_kl": kl}
