"""Randomised ensembled double Q-learning (Chen et al., 2021, https://arxiv.org/abs/2101.05982): SAC with an ensemble.

Details that matter:

1. K critics, one batched ensemble; the target takes the minimum over a random subset of M target critics, drawn anew in
   each update. Only these are evaluated.
2. The policy climbs the mean over all critics.
3. Many updates per step of the environment (the trainer's `update_per_step`, 20 in the paper), which an ensemble of
   small and even bias bears. The policy and the temperature move once in `policy_freq` of them.
4. Temperature, entropy, squashing and targets are those of SAC.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.sac import SAC, SACConfig
from argosy.config import check_range
from argosy.data import TransitionBatch

# Shapes: B batch, K critics, M of them. With memory, [B] becomes [T, B].


@dataclass(frozen=True, kw_only=True)
class REDQConfig(SACConfig):
    """Hyper-parameters of REDQ; docs/glossary.md explains each at length."""

    num_critics: int = 10
    """Size K of the ensemble (detail 1)."""
    subset_size: int = 2
    """Target critics M whose minimum counts (detail 1)."""
    policy_freq: int = 20
    """Updates of the critics per update of policy and temperature (detail 3)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range(self, "subset_size", ge=1, le=self.num_critics)


class REDQ(SAC):
    """Soft actor-critic with an ensemble that bears many updates per step."""

    config_type = REDQConfig
    config: REDQConfig

    def _value_next(self, batch: TransitionBatch, act_next: torch.Tensor) -> torch.Tensor:
        some = torch.randperm(self.config.num_critics, generator=self.rng.torch)[: self.config.subset_size]
        return self.critic_target.next_value(batch, act_next, some.to(self.device)).amin(dim=0)  # detail 1

    def _value(self, batch: TransitionBatch, act: torch.Tensor) -> torch.Tensor:
        return self.critic.value(batch, act).mean(dim=0)  # detail 2
