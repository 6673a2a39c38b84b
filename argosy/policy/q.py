"""Policy of value-based algorithms for discrete actions: the best action by Q, with epsilon-greedy exploration."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from argosy.data import Batch, NamedArray, namedarray
from argosy.data.protocols import Obs
from argosy.net import NetConfig, QNet, SmallForward
from argosy.policy.base import Policy, PolicyState, RolloutRequest, RolloutResult


@namedarray
class QAnalysis(NamedArray):
    """What `QPolicy.analyze` computes; [...] are the sample's leading axes."""

    q: torch.Tensor
    """[..., num_actions] action values."""
    q_taken: torch.Tensor
    """[...] values of the stored actions."""


class QPolicy(Policy):
    """argmax Q; a random allowed action with probability `eps` in exploring rows, `eps_test` in evaluating ones.

    Args:
        observation_space: space of one observation; a Dict may hold an action mask.
        action_space: a Discrete space.
        net: shape of the Q-network.
    """

    action_spaces = (spaces.Discrete,)

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], net: NetConfig | None = None
    ) -> None:
        super().__init__(observation_space, action_space)
        assert isinstance(action_space, spaces.Discrete)
        self.num_actions = int(action_space.n)
        self.net = QNet(observation_space, self.num_actions, net or NetConfig(), self._no_input)
        self._small = SmallForward()
        self.eps = 0.0
        """Probability of a random action in exploring rows; the algorithm sets it."""
        self.eps_test = 0.0
        """Probability of a random action in evaluating rows."""

    def forward(self, batch: Any, state: PolicyState = None) -> Batch:
        """Greedy actions [...] for `batch.obs`, and Q [..., num_actions] as `logits`."""
        obs = self._tensors(batch.obs)
        q, state = self.net(obs, state)
        return Batch(act=self.greedy(q, obs), logits=q, state=state)

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Epsilon-greedy actions [B] int64."""
        net, state = self.net, requests.policy_state
        q: np.ndarray | None = self._small(net.backbone, net.head, requests.obs)
        if q is None:
            with torch.inference_mode():
                q_tensor, state = net(self._tensors(requests.obs), state, requests.on_reset)
                q = q_tensor.cpu().numpy()
        mask, evaluating, draws = self._mask(requests.obs), requests.is_evaluation, self.rng.numpy
        act = (q if mask is None else np.where(mask, q, -np.inf)).argmax(axis=-1)
        if self.eps > 0.0 or self.eps_test > 0.0:
            eps = self.eps if evaluating is None else np.where(evaluating, self.eps_test, self.eps)
            explores = draws.random(len(act)) < eps
            if mask is None:
                anything = (draws.random(len(act)) * self.num_actions).astype(np.int64)  # integers() is slower
            else:  # a uniform draw among the allowed actions: the largest of one uniform number for each of them
                anything = np.where(mask, draws.random(mask.shape), -1.0).argmax(axis=-1)
            act = np.where(explores, anything, act)
        return RolloutResult(action=act, policy_state=state)

    def analyze(self, sample: Any, target: str = "") -> QAnalysis:
        """Action values with gradient; `sample` has obs [..., *obs] and act [...]."""
        q, _ = self.net(sample.obs)
        return QAnalysis(q=q, q_taken=q.gather(-1, sample.act.unsqueeze(-1)).squeeze(-1))

    def greedy(self, q: torch.Tensor, obs: Obs) -> torch.Tensor:
        """Best allowed actions [...] by q [..., num_actions]."""
        mask = self._mask(obs)
        return (q if mask is None else q.masked_fill(~mask, -torch.inf)).argmax(dim=-1)

    def get_extra_state(self) -> torch.Tensor:
        """Exploration rates: shipped with the parameters, so that remote actors explore as the algorithm says."""
        return torch.tensor([self.eps, self.eps_test], dtype=torch.float64)

    def set_extra_state(self, state: torch.Tensor) -> None:
        """Take over exploration rates."""
        self.eps, self.eps_test = state.tolist()
