"""Policy of implicit quantile functions: the best action by the mean of a return whose quantiles a network gives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from gymnasium import spaces

from argosy.env.spaces import Space
from argosy.net import Backbone, NetConfig
from argosy.net.implicit import EqualFractions, ImplicitHead, ProposedFractions, middles
from argosy.ops.choice import of_action
from argosy.policy.base import OneNetPolicy, RolloutRequest, RolloutResult
from argosy.policy.q import QAnalysis


@dataclass(frozen=True, kw_only=True)
class ImplicitAnalysis:
    """What `ImplicitPolicy.analyze` and `analyze_next` say; what is asked for is computed, once."""

    head: ImplicitHead
    """Gives quantiles of features."""
    features: torch.Tensor
    """[..., F] of the observations."""
    mask: torch.Tensor | None = None
    """[..., num_actions] bool, the actions that are allowed; None: all."""
    act: torch.Tensor | None = None
    """[...] stored actions."""

    @cached_property
    def shares(self) -> torch.Tensor:
        """[..., K] shares of probability by which means are computed, or [K] for all."""
        shares: torch.Tensor = self.head.fractions(self.features)
        return shares

    @cached_property
    def quantiles(self) -> torch.Tensor:
        """[..., num_actions, K] quantiles at the middles of the shares."""
        return self.head.quantiles(self.features, middles(self.shares))

    @property
    def greedy(self) -> torch.Tensor:
        """[...] best allowed actions."""
        return QAnalysis((self.quantiles * self.shares.unsqueeze(-2)).sum(dim=-1), self.mask).greedy

    def quantiles_of(self, act: torch.Tensor, tau: torch.Tensor | None = None) -> torch.Tensor:
        """[..., N] quantiles of actions [...] at fractions [..., N]; None: at the middles of the shares."""
        quantiles = self.quantiles if tau is None else self.head.quantiles(self.features, tau)
        return of_action(quantiles, act)

    def quantiles_taken(self, tau: torch.Tensor | None = None) -> torch.Tensor:
        """[..., N] quantiles of the stored actions at fractions [..., N]; None: at the middles of the shares."""
        assert self.act is not None, "successors have no stored actions"
        return self.quantiles_of(self.act, tau)


class ImplicitPolicy(OneNetPolicy[ImplicitAnalysis]):
    """argmax of the mean return over the allowed actions; exploring rows act as the algorithm's `exploration` says.

    Takes the arguments of `NetPolicy` as well.

    Args:
        net: its last hidden layer comes behind the embedding of fractions, an only one before
            and behind it.
        num_fractions: shares of probability K by which means are computed.
        proposes: let a layer propose these shares for each observation, as in FQF; otherwise they are equal.
        num_cosines: cosines that a fraction is embedded by.
    """

    action_spaces = (spaces.Discrete,)

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        *,
        num_fractions: int = 32,
        proposes: bool = False,
        num_cosines: int = 64,
    ) -> None:
        net = net or NetConfig()
        super().__init__(observation_space, action_space, net)
        self.backbone = Backbone(observation_space, net, self.no_input, drop_last=len(net.hidden_sizes) != 1)
        width, hidden = self.backbone.out_features, self.backbone.last_hidden
        fractions = ProposedFractions(width, num_fractions) if proposes else EqualFractions(num_fractions)
        self.head = ImplicitHead(width, hidden, self.num_actions, fractions, num_cosines, net.activation)
        self._remember(self.backbone)

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Actions [B] int64."""
        (q,), memory = self._outputs(requests, (self.backbone, self.head))
        mask = self._mask(requests.obs)
        act = (q if mask is None else np.where(mask, q, -np.inf)).argmax(axis=-1)
        return self._result(act, requests, memory, mask=mask)

    def _best(self, features: torch.Tensor, mask: torch.Tensor | None) -> tuple[torch.Tensor, torch.Tensor]:
        analysis = QAnalysis(self.head(features), mask)
        return analysis.greedy, analysis.q

    def _analysis(
        self, features: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None
    ) -> ImplicitAnalysis:
        return ImplicitAnalysis(head=self.head, features=features, mask=mask, act=act)
