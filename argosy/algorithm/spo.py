"""Simple policy optimisation (Xie et al., 2025, https://arxiv.org/abs/2401.16025): PPO that is drawn back, not clipped.

Details that matter:

1. The objective is ratio * adv - |adv| / (2 * clip_ratio) * (ratio - 1)^2. It is highest where the ratio is clip_ratio
   from 1, on the side that the advantage is for. PPO's gradient vanishes where a ratio has left its range, so that
   other rows may carry it on; here it is drawn back.
2. All else is PPO's: advantages, minibatches, value loss, schedules.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from argosy.algorithm.ppo import PPO, PPOConfig
from argosy.config import limited
from argosy.errors import ConfigError

# Shapes: M rows of a minibatch. With memory, [M] becomes [T, M].


@dataclass(frozen=True, kw_only=True)
class SPOConfig(PPOConfig):
    """Hyper-parameters of SPO; docs/glossary.md explains each at length."""

    clip_ratio: float = limited(0.2, gt=0.0, le=1.0)
    """How far a probability ratio from 1 is best (detail 1)."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dual_clip is not None:
            raise ConfigError(f"SPOConfig.dual_clip is {self.dual_clip}, but SPO clips no objective; leave it out")


class SPO(PPO):
    """Policy gradient from the rollout of the current policy, whose ratios are drawn back to their range."""

    config_type = SPOConfig
    config: SPOConfig

    def _objective(self, ratio: torch.Tensor, adv: torch.Tensor) -> torch.Tensor:
        """Minus what the policy climbs, of each row [M] (detail 1)."""
        return adv.abs() / (2.0 * self.config.clip_ratio) * (ratio - 1.0).square() - ratio * adv
