"""Policy of batch-constrained Q-learning: the best action by Q among those that the data's policy is likely to take."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch

from argosy.env.spaces import Space
from argosy.net import NetConfig
from argosy.policy.actor_critic import FORBIDDEN
from argosy.policy.q import QAnalysis, QPolicy


@dataclass(frozen=True, kw_only=True)
class LikelyAnalysis(QAnalysis):
    """What `LikelyPolicy` says."""

    logits: torch.Tensor
    """[..., num_actions] of the imitation, those of forbidden actions too."""
    threshold: float
    """Share of the likeliest action's probability above which an action may be taken."""

    @property
    def choices(self) -> torch.Tensor | None:
        """[..., num_actions] bool, the allowed actions that are likely; None: all."""
        if self.threshold == 0.0:
            return self.mask
        allowed = self._allowed.detach()
        return allowed >= allowed.amax(dim=-1, keepdim=True) + math.log(self.threshold)

    @property
    def log_probs(self) -> torch.Tensor:
        """[..., num_actions] of the imitation."""
        return self._allowed.log_softmax(dim=-1)

    @property
    def _allowed(self) -> torch.Tensor:
        return self.logits if self.mask is None else self.logits.masked_fill(~self.mask, FORBIDDEN)


class LikelyPolicy(QPolicy[LikelyAnalysis]):
    """A `QPolicy`, with its arguments, whose network also imitates the data; it takes what these may have done alone.

    Args:
        threshold: share of the likeliest action's probability above which an action may be taken.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        *,
        threshold: float = 0.3,
        dueling: bool = False,
        noisy_std: float = 0.0,
    ) -> None:
        super().__init__(observation_space, action_space, net, dueling=dueling, noisy_std=noisy_std, atoms=2)
        self.threshold = threshold

    def _choose(self, output: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        allowed = None if mask is None else torch.from_numpy(mask)
        best: np.ndarray = self._read(torch.from_numpy(output), allowed).greedy.numpy()
        return best

    def _read(self, output: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None) -> LikelyAnalysis:
        q, logits = output.reshape(*output.shape[:-1], self.num_actions, 2).unbind(-1)
        return LikelyAnalysis(q, mask, act, logits=logits, threshold=self.threshold)
