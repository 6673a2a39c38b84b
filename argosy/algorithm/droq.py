"""DroQ (Hiraoka et al., 2022, https://arxiv.org/abs/2110.02034): SAC with dropout Q-functions.

Details that matter:

1. A small ensemble of critics, each with dropout and layer normalisation after every hidden linear layer, before the
   activation: dropout makes of each one as many as an ensemble like REDQ's would have, normalisation keeps it stable.
2. Dropout is on wherever critics are asked: in their loss, in the target, and by the policy. It draws from the
   algorithm's generator, so that equal seeds give equal runs, resumed ones too.
3. The target takes the minimum over all target critics, the policy climbs the mean over all critics.
4. Many updates per step of the environment (the trainer's `update_per_step`, 20 in the paper). The policy and the
   temperature move once in `policy_freq` of them.
5. Temperature, entropy, squashing and targets are those of SAC.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.sac import SAC, SACConfig
from argosy.config import limited
from argosy.data import TransitionBatch
from argosy.net import EnsembleCritic, NetConfig
from argosy.net.regularise import add_dropout_and_layer_norm, draw_from
from argosy.policy import Policy, SquashedGaussianPolicy

# Shapes: B batch, K critics. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class DroQConfig(SACConfig):
    """Hyper-parameters of DroQ; docs/glossary.md explains each at length."""

    dropout: float = limited(0.01, ge=0.0, lt=1.0)
    """Probability that a hidden number of a critic is left out (detail 1)."""
    policy_freq: int = 20
    """Updates of the critics per update of policy and temperature (detail 4)."""

    def build_critic(self, policy: Policy, net: NetConfig) -> EnsembleCritic:
        """Make critics with dropout and layer normalisation."""
        critic = super().build_critic(policy, net)
        add_dropout_and_layer_norm(critic.q, self.dropout)
        return critic


class DroQ(SAC):
    """Soft actor-critic whose critics' dropout stands for an ensemble, and bears many updates per step."""

    config_type = DroQConfig
    config: DroQConfig

    def __init__(self, config: DroQConfig, policy: SquashedGaussianPolicy, critic: EnsembleCritic) -> None:
        super().__init__(config, policy, critic)
        for part in (self.critic, self.critic_target):  # detail 2
            draw_from(self.rng.torch, part)

    def _value(self, batch: TransitionBatch, act: torch.Tensor) -> torch.Tensor:
        return self.critic.value(batch, act).mean(dim=0)  # detail 3
