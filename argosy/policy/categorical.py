"""Policy of categorical distributions: the best action by the mean of its return's distribution over fixed atoms."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from argosy.env.spaces import Space
from argosy.net import NetConfig
from argosy.ops.choice import of_action
from argosy.policy.q import QAnalysis, QPolicy


@dataclass(frozen=True, kw_only=True)
class CategoricalAnalysis(QAnalysis):
    """What `CategoricalPolicy` says; its `q` is the mean of the distribution."""

    log_probs: torch.Tensor
    """[..., num_actions, N] log-probabilities of the atoms."""
    support: torch.Tensor
    """[N] where the atoms are."""

    def log_probs_of(self, act: torch.Tensor) -> torch.Tensor:
        """[..., N] log-probabilities for actions [...]."""
        return of_action(self.log_probs, act)

    @property
    def log_probs_taken(self) -> torch.Tensor:
        """[..., N] log-probabilities for the stored actions."""
        assert self.act is not None, "successors have no stored actions"
        return self.log_probs_of(self.act)


class CategoricalPolicy(QPolicy[CategoricalAnalysis]):
    """A `QPolicy`, with its arguments, whose network gives for each action the probabilities of N values of the return.

    Args:
        num_atoms: N.
        v_min: the smallest value.
        v_max: the largest value.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        *,
        num_atoms: int = 51,
        v_min: float = -10.0,
        v_max: float = 10.0,
        dueling: bool = False,
        noisy_std: float = 0.0,
    ) -> None:
        super().__init__(observation_space, action_space, net, dueling=dueling, noisy_std=noisy_std, atoms=num_atoms)
        self.num_atoms = num_atoms
        self.support = nn.Buffer(torch.linspace(v_min, v_max, num_atoms), persistent=False)

    def _read(
        self, output: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None
    ) -> CategoricalAnalysis:
        log_probs = output.reshape(*output.shape[:-1], self.num_actions, self.num_atoms).log_softmax(dim=-1)
        q = log_probs.exp() @ self.support
        return CategoricalAnalysis(q, mask, act, log_probs=log_probs, support=self.support)

    def _values(self, output: np.ndarray) -> np.ndarray:
        logits = output.reshape(-1, self.num_actions, self.num_atoms)
        odds = np.exp(logits - logits.max(axis=-1, keepdims=True))
        values: np.ndarray = odds @ self.support.cpu().numpy() / odds.sum(axis=-1)
        return values
