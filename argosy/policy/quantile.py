"""Policy of quantile regression: the best action by the mean of the quantiles of its return."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch

from argosy.env.spaces import Space
from argosy.net import NetConfig
from argosy.ops.choice import of_action
from argosy.policy.q import QAnalysis, QPolicy


@dataclass(frozen=True, kw_only=True)
class QuantileAnalysis(QAnalysis):
    """What `QuantilePolicy` says; its `q` is the mean over the quantiles."""

    quantiles: torch.Tensor
    """[..., num_actions, N] quantiles of the return."""

    def quantiles_of(self, act: torch.Tensor) -> torch.Tensor:
        """[..., N] quantiles of actions [...]."""
        return of_action(self.quantiles, act)

    @property
    def quantiles_taken(self) -> torch.Tensor:
        """[..., N] quantiles of the stored actions."""
        assert self.act is not None, "successors have no stored actions"
        return self.quantiles_of(self.act)


class QuantilePolicy(QPolicy[QuantileAnalysis]):
    """A `QPolicy`, with its arguments, whose network gives N quantiles of each action's return.

    Args:
        num_quantiles: N.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        *,
        num_quantiles: int = 200,
        dueling: bool = False,
    ) -> None:
        super().__init__(observation_space, action_space, net, dueling=dueling, atoms=num_quantiles)
        self.num_quantiles = num_quantiles

    def _read(
        self, output: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None
    ) -> QuantileAnalysis:
        quantiles = output.reshape(*output.shape[:-1], self.num_actions, self.num_quantiles)
        return QuantileAnalysis(quantiles.mean(dim=-1), mask, act, quantiles=quantiles)

    def _values(self, output: np.ndarray) -> np.ndarray:
        values: np.ndarray = output.reshape(-1, self.num_actions, self.num_quantiles).mean(axis=-1)
        return values
