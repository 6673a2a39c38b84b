"""ReBRAC (Tarasov et al., 2023, https://arxiv.org/abs/2305.09836): TD3 on a data set, regularised where it counts.

Details that matter:

1. The policy's loss is `actor_penalty` times its squared distance from the stored actions, minus the value of its
   actions by the minimum of the critics, divided by the mean of their absolute values in the batch.
2. The target falls by `critic_penalty` times the squared distance of the target policy's next action from the one that
   followed in the data. Where none followed (the episode was cut off, the data end) it does not.
3. Critics have layer normalisation after every hidden linear layer, which keeps values of actions outside of the data
   from growing without bound.
4. Three hidden layers and large batches (1,024 on locomotion tasks).
5. Target policy smoothing, delays, n-step returns and targets are those of TD3.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch

from argosy.algorithm.base import batch_mean
from argosy.algorithm.td3 import TD3, TD3Config
from argosy.config import limited
from argosy.data import Sampling, TransitionBatch
from argosy.net import EnsembleCritic, NetConfig
from argosy.net.regularise import add_dropout_and_layer_norm
from argosy.ops.offline import squared_distance
from argosy.policy import Policy

# Shapes: B batch, A action dim, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class ReBRACConfig(TD3Config):
    """Hyper-parameters of ReBRAC; docs/glossary.md explains each at length."""

    actor_penalty: float = limited(0.01, ge=0.0)
    """What a unit of squared distance from the data's action costs the policy (detail 1)."""
    critic_penalty: float = limited(0.01, ge=0.0)
    """What it costs the target, of the next action (detail 2)."""

    def build_critic(self, policy: Policy, net: NetConfig) -> EnsembleCritic:
        """Make critics with layer normalisation."""
        critic = super().build_critic(policy, net)
        add_dropout_and_layer_norm(critic.q, 0.0)
        return critic


class ReBRAC(TD3):
    """Deterministic actor-critic from a data set, with penalties in both losses and layer normalisation."""

    kind = "offline"
    config_type = ReBRACConfig
    config: ReBRACConfig
    default_net = NetConfig(hidden_sizes=(256, 256, 256))

    @property
    def sampling(self) -> Sampling:
        """Rows know the action that followed in the data."""
        return replace(super().sampling, fields=("act_next",))

    def _value_next(self, batch: TransitionBatch, act_next: torch.Tensor) -> torch.Tensor:
        distance = squared_distance(act_next, batch.act_next, batch.rew.dim()).nan_to_num(nan=0.0)
        return super()._value_next(batch, act_next) - self.config.critic_penalty * distance  # detail 2

    def _actor_loss(self, batch: TransitionBatch) -> torch.Tensor:
        act = self.policy.analyze(batch).act
        q = self.critic.value(batch, act).amin(dim=0)
        scale = 1.0 / batch_mean(q.detach().abs(), batch)  # detail 1
        penalty = self.config.actor_penalty * squared_distance(act, batch.act, q.dim())
        return batch_mean(batch.weight * penalty - scale * q, batch)
