"""TD3+BC (Fujimoto and Gu, 2021, https://arxiv.org/abs/2106.06860): TD3 on a data set, its policy held near the data.

Details that matter:

1. The policy's loss is the mean squared distance from the stored actions, minus the value of its actions.
2. Values are divided by the mean of their absolute values in the batch, so that `alpha` means the same whatever the
   scale of the rewards: 0 is behaviour cloning, large is TD3.
3. Observations are normalised by the statistics of the data set with `net.norm_obs`, as in the paper.
4. Critics, targets and delays are those of TD3.
5. With `layer_norm`, critics have layer normalisation after every hidden linear layer, as ReBRAC's: it bounds the
   values of actions outside of the data, towards which the policy climbs. The paper has none.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch

from argosy.algorithm.base import batch_mean
from argosy.algorithm.optim import OptimConfig
from argosy.algorithm.td3 import TD3, TD3Config
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import EnsembleCritic, NetConfig
from argosy.net.regularise import add_dropout_and_layer_norm
from argosy.ops.offline import squared_distance
from argosy.policy import Policy

# Shapes: B batch, A action dim. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class TD3BCConfig(TD3Config):
    """Hyper-parameters of TD3+BC; docs/glossary.md explains each at length."""

    actor_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of the policy."""
    critic_optim: OptimConfig = field(default_factory=lambda: OptimConfig(lr=3e-4))
    """Optimiser of the critics."""
    alpha: float = limited(2.5, ge=0.0)
    """What a value counts beside the distance from the data (detail 2)."""
    layer_norm: bool = False
    """Whether critics have layer normalisation (detail 5)."""

    def build_critic(self, policy: Policy, net: NetConfig) -> EnsembleCritic:
        """Make critics, with layer normalisation if asked."""
        critic = super().build_critic(policy, net)
        if self.layer_norm:
            add_dropout_and_layer_norm(critic.q, 0.0)
        return critic


class TD3BC(TD3):
    """Deterministic actor-critic from a data set, its policy held near the data by behaviour cloning."""

    kind = "offline"
    config_type = TD3BCConfig
    config: TD3BCConfig

    def _actor_loss(self, batch: TransitionBatch) -> torch.Tensor:
        act = self.policy.analyze(batch).act
        q = self.critic.value(batch, act)[0]
        scale = self.config.alpha / batch_mean(q.detach().abs(), batch)  # detail 2
        distance = squared_distance(act, batch.act, q.dim()) / self.policy.action_dim
        return batch_mean(batch.weight * distance - scale * q, batch)
