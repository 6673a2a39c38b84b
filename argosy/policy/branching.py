"""Policy of branching Q-networks: of each part of an action the best choice by Q."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.env.spaces import Space
from argosy.errors import ConfigError, SpaceError
from argosy.net import Backbone, NetConfig
from argosy.net.heads import BranchingHead
from argosy.policy.base import OneNetPolicy, RolloutRequest, RolloutResult

ArrayT = TypeVar("ArrayT", np.ndarray, torch.Tensor)

# Shapes: B batch, D parts of an action, n the most choices that a part has.


@dataclass(frozen=True, kw_only=True)
class BranchingAnalysis:
    """What `BranchingPolicy.analyze` and `analyze_next` say; choices are counted from 0."""

    policy: BranchingPolicy
    q: torch.Tensor
    """[..., D, n] values of each part's choices."""
    allowed: torch.Tensor
    """[..., D, n] or [D, n] bool, those that there are and that are allowed."""
    taken: torch.Tensor | None = None
    """[..., D] choices of the stored actions."""

    @property
    def best(self) -> torch.Tensor:
        """[..., D] best allowed choices."""
        return self.q.masked_fill(~self.allowed, -torch.inf).argmax(dim=-1)

    @property
    def act(self) -> torch.Tensor:
        """[..., D] these as actions."""
        return self.policy.actions(self.best)

    @property
    def q_taken(self) -> torch.Tensor:
        """[..., D] values of the stored actions."""
        assert self.taken is not None, "successors have no stored actions"
        return self.of(self.taken)

    def of(self, choices: torch.Tensor) -> torch.Tensor:
        """[..., D] values of choices [..., D]."""
        return self.q.gather(-1, choices.unsqueeze(-1)).squeeze(-1)


class BranchingPolicy(OneNetPolicy[BranchingAnalysis]):
    """argmax Q in each part of an action; exploring rows act as the algorithm's `exploration` says.

    Args:
        observation_space: a Dict may hold a mask over the choices of all parts in a row.
        action_space: MultiDiscrete, or a Box with bounds, both of one axis.
        net: its last hidden layer is one for each stream.
        bins: of a Box: values of each part, evenly spaced, the bounds among them. What others chose counts as the
            nearest one.

    Raises:
        SpaceError: the action space has several axes, or no bounds.
        ConfigError: `bins` is below 2.
    """

    action_spaces: ClassVar[tuple[type[Space], ...]] = (spaces.MultiDiscrete, spaces.Box)

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        *,
        bins: int = 25,
    ) -> None:
        net = net or NetConfig()
        super().__init__(observation_space, action_space, net)
        if len(action_space.shape or ()) != 1:
            raise SpaceError(f"BranchingPolicy acts in spaces of one axis, not in {action_space}; flatten it")
        if isinstance(action_space, spaces.MultiDiscrete):
            self.bins, sizes = 0, action_space.nvec
        else:
            if not self.action_scaling:
                raise SpaceError(f"BranchingPolicy divides a Box into bins, which needs bounds; got {action_space}")
            if bins < 2:
                raise ConfigError(f"bins is {bins}; it must be >= 2")
            self.bins, sizes = bins, np.full(self.action_dim, bins)
        self._make_networks(sizes.tolist(), net)
        self._remember(self.backbone)
        exists = np.arange(sizes.max()) < sizes[:, None]
        self._exists, self._slot = exists, np.where(exists, np.cumsum(exists).reshape(exists.shape) - 1, 0)
        self.exists = nn.Buffer(torch.from_numpy(exists), persistent=False)
        """[D, n] bool: the choices that there are."""
        self.slot = nn.Buffer(torch.from_numpy(self._slot), persistent=False)
        """[D, n] where each of them stands in a mask over all."""

    def _make_networks(self, sizes: Sequence[int], net: NetConfig) -> None:
        """Make `backbone` and `head`: [..., D, n] values of choices, `sizes` of them in each part."""
        self.backbone = Backbone(self.observation_space, net, self.no_input, drop_last=True)
        width, hidden = self.backbone.out_features, self.backbone.last_hidden
        self.head: nn.Module = BranchingHead(width, hidden, sizes, net.activation)

    def _allowed(self, obs: Any, shape: Sequence[int]) -> np.ndarray:
        """Return [B, D, n] bool, as `shape` says: the choices that there are and that are allowed."""
        mask = self._mask(obs)
        return np.broadcast_to(self._exists, shape) if mask is None else mask[:, self._slot] & self._exists

    def actions(self, choices: ArrayT) -> ArrayT:
        """Take choices [..., D] to the policy's scale."""
        if not self.bins:
            return choices
        act: ArrayT = choices * (2.0 / (self.bins - 1)) - 1.0
        return act

    def choices(self, act: torch.Tensor) -> torch.Tensor:
        """[..., D] which choices actions [..., D] of the policy's scale are."""
        if not self.bins:
            return act.long()
        return ((act + 1.0) * (0.5 * (self.bins - 1))).round().clamp(0, self.bins - 1).long()

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Actions [B, D], int64 of a MultiDiscrete, float32 of a Box."""
        (q,), memory = self._outputs(requests, (self.backbone, self.head))
        allowed = self._allowed(requests.obs, q.shape)
        result = self._result(np.where(allowed, q, -np.inf).argmax(axis=-1), requests, memory, mask=allowed)
        result.action = self.actions(result.action).astype(np.float32 if self.bins else np.int64, copy=False)
        return result

    def _best(self, features: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        analysis = self._analysis(features, mask)
        return analysis.act, analysis.q

    def _analysis(
        self, features: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None
    ) -> BranchingAnalysis:
        allowed = self.exists if mask is None else mask[..., self.slot] & self.exists
        taken = None if act is None else self.choices(act)
        return BranchingAnalysis(policy=self, q=self.head(features), allowed=allowed, taken=taken)
