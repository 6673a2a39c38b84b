"""Policy of value-based algorithms for discrete actions: the best action by Q, with epsilon-greedy exploration."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass
from typing import Generic, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import nn
from typing_extensions import TypeVar  # with a default

from argosy.env.spaces import Space
from argosy.net import Backbone, DuelingHead, Linear, NetConfig
from argosy.net.noisy import add_noise
from argosy.policy.base import OneNetPolicy, RolloutRequest, RolloutResult


@dataclass(frozen=True)
class QAnalysis:
    """What `QPolicy.analyze` and `analyze_next` say; [...] are the sample's leading axes."""

    q: torch.Tensor
    """[..., num_actions] action values, of forbidden actions too."""
    mask: torch.Tensor | None = None
    """[..., num_actions] bool, the actions that are allowed; None: all."""
    act: torch.Tensor | None = None
    """[...] stored actions."""

    @property
    def q_taken(self) -> torch.Tensor:
        """[...] values of the stored actions."""
        assert self.act is not None, "successors have no stored actions"
        return self.of(self.act)

    @property
    def choices(self) -> torch.Tensor | None:
        """[..., num_actions] bool, the actions that the policy may take; None: all."""
        return self.mask

    @property
    def greedy(self) -> torch.Tensor:
        """[...] best of the `choices`."""
        choices = self.choices
        return (self.q if choices is None else self.q.masked_fill(~choices, -torch.inf)).argmax(dim=-1)

    def soft_value(self, tau: float) -> torch.Tensor:
        """[...] tau * log sum exp(Q / tau) over the `choices`; over all where there is none."""
        choices = self.choices
        q = self.q if choices is None else self.q.masked_fill(~choices & choices.any(dim=-1, keepdim=True), -1e30)
        return tau * torch.logsumexp(q / tau, dim=-1)

    def of(self, act: torch.Tensor) -> torch.Tensor:
        """[...] values of actions [...]."""
        return self.q.gather(-1, act.long().unsqueeze(-1)).squeeze(-1)


QAnalysisT_co = TypeVar("QAnalysisT_co", bound=QAnalysis, default=QAnalysis, covariant=True)


class QPolicy(OneNetPolicy[QAnalysisT_co], Generic[QAnalysisT_co]):
    """argmax Q over the allowed actions; exploring rows act as the algorithm's `exploration` says.

    Args:
        observation_space: space of one observation; a Dict may hold an action mask.
        action_space: a Discrete space.
        net: shape of the Q-network.
        dueling: split the last hidden layer into a value and an advantage stream.
        noisy_std: deviation of the noise of every linear layer at the start (`argosy.net.noisy`); 0: no noise.
        atoms: numbers per action that the network gives; a subclass makes a value of them.
    """

    action_spaces = (spaces.Discrete,)

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        *,
        dueling: bool = False,
        noisy_std: float = 0.0,
        atoms: int = 1,
    ) -> None:
        net = net or NetConfig()
        super().__init__(observation_space, action_space, net)
        self.backbone = Backbone(observation_space, net, self.no_input, drop_last=dueling)
        width = self.backbone.out_features
        self.head: nn.Module = Linear(width, self.num_actions * atoms)
        if dueling:
            self.head = DuelingHead(width, self.backbone.last_hidden, self.num_actions, net.activation, atoms=atoms)
        self._remember(self.backbone)
        self.noise = add_noise(self, noisy_std) if noisy_std else None

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Actions [B] int64."""
        with nullcontext() if self.noise is None else self.noise(self.rng, requests.is_evaluation):
            (output,), memory = self._outputs(requests, (self.backbone, self.head))
        mask = self._mask(requests.obs)
        return self._result(self._choose(output, mask), requests, memory, mask=mask)

    def _best(self, features: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        analysis = self._analysis(features, mask)
        return analysis.greedy, analysis.q

    def _analysis(
        self, features: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None
    ) -> QAnalysisT_co:
        return self._read(self.head(features), mask, act)

    def _choose(self, output: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Return the best allowed actions [B], of what the network gave."""
        q = self._values(output)
        best: np.ndarray = (q if mask is None else np.where(mask, q, -np.inf)).argmax(axis=-1)
        return best

    # -- what a subclass with several atoms says -----------------------------------------------------------------------

    def _read(self, output: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None) -> QAnalysisT_co:
        """Say what the network's output [..., num_actions * atoms] means."""
        return cast(QAnalysisT_co, QAnalysis(output, mask, act))

    def _values(self, output: np.ndarray) -> np.ndarray:
        """[B, num_actions * atoms] -> Q [B, num_actions], for acting."""
        return output
