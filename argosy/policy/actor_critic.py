"""Policy of on-policy algorithms: categorical, multi-categorical or Gaussian actor, and a value function."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import Batch, NamedArray, namedarray, tree
from argosy.data.protocols import Obs
from argosy.errors import SpaceError
from argosy.net import Backbone, Linear, NetConfig, SmallForward, orthogonal_
from argosy.ops import (
    categorical_entropy,
    categorical_log_prob,
    categorical_sample,
    gaussian_entropy,
    gaussian_log_prob,
    gaussian_sample,
)
from argosy.policy.base import ActionBound, Policy, PolicyState, RolloutRequest, RolloutResult
from argosy.rng import Rng

FORBIDDEN = -1e8
"""Logit of actions that a mask excludes: probability 0, and finite, so that p * log p is 0 and not NaN."""
CHUNK_ROWS = 2048
"""Rows of a rollout whose values are computed in one go: a CNN's activations of all of them may not fit in memory."""


@namedarray
class ActorCriticAnalysis(NamedArray):
    """What `ActorCriticPolicy.analyze` computes; [...] are the sample's leading axes."""

    logp: torch.Tensor
    """[...] log-probability of the stored action."""
    entropy: torch.Tensor
    """[...] entropy of the actor."""
    value: torch.Tensor
    """[...] value of the observation."""


class CategoricalHead(nn.Module):
    """Features -> K independent categorical actions of `sizes` choices.

    Parameters of the distribution are normalised log-probabilities [..., A] when there is one action, else
    [..., K, A] with A the largest size; missing choices are forbidden.
    """

    def __init__(self, in_features: int, sizes: tuple[int, ...], single: bool) -> None:
        super().__init__()
        self.output = Linear(in_features, sum(sizes))
        self.single = single
        self.padded_shape = (len(sizes), max(sizes))
        slots = [k * max(sizes) + i for k, size in enumerate(sizes) for i in range(size)]
        self.register_buffer("slots", torch.tensor(slots), persistent=False)
        self.slots: torch.Tensor

    def forward(self, features: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """(features, mask [..., sum(sizes)] bool) -> log-probabilities."""
        logits: torch.Tensor = self.output(features)
        if mask is not None:
            logits = logits.masked_fill(~mask, FORBIDDEN)
        if not self.single:
            lead = logits.shape[:-1]
            padded = logits.new_full((*lead, self.padded_shape[0] * self.padded_shape[1]), FORBIDDEN)
            logits = padded.index_copy(-1, self.slots, logits).reshape(*lead, *self.padded_shape)
        return logits.log_softmax(dim=-1)

    def from_output(self, logits: np.ndarray) -> np.ndarray:
        """Log-probabilities of one action without a mask, from what the linear layer gave."""
        shifted = logits - logits.max(axis=-1, keepdims=True)
        log_probs: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return log_probs

    def act(self, log_probs: np.ndarray, rng: Rng, evaluating: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Draw an action per row; take the likeliest one where `evaluating` [B]. -> (act [B] or [B, K], logp [B])."""
        clocks = rng.numpy.standard_exponential(log_probs.shape, dtype=np.float32)
        if evaluating is not None:
            clocks[evaluating] = 1.0
        act, logp = categorical_sample(log_probs, clocks)
        return act, logp if self.single else logp.sum(axis=-1)

    def mode(self, log_probs: torch.Tensor) -> torch.Tensor:
        """Likeliest action [...] or [..., K]."""
        return log_probs.argmax(dim=-1)

    def evaluate(self, log_probs: torch.Tensor, act: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """-> (log-probability of `act` [...], entropy [...])."""
        entropy = categorical_entropy(log_probs)
        return self._log_prob(log_probs, act), entropy if self.single else entropy.sum(dim=-1)

    def _log_prob(self, log_probs: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        logp = categorical_log_prob(log_probs, act)
        return logp if self.single else logp.sum(dim=-1)


class GaussianHead(nn.Module):
    """Features -> a diagonal Gaussian over `shape`, its deviation independent of the observation.

    The distribution's parameter is the mean [..., A]; A is the flattened action.
    """

    def __init__(self, in_features: int, shape: tuple[int, ...], log_std_init: float) -> None:
        super().__init__()
        self.shape = shape
        size = int(np.prod(shape))
        self.output = Linear(in_features, size)
        self.single = True
        self.log_std = nn.Parameter(torch.full((size,), log_std_init))

    def forward(self, features: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Features -> mean [..., A]; there is nothing to mask."""
        mean: torch.Tensor = self.output(features)
        return mean

    def from_output(self, mean: np.ndarray) -> np.ndarray:
        """The linear layer gives the mean."""
        return mean

    def act(self, mean: np.ndarray, rng: Rng, evaluating: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Draw an action per row; take the mean where `evaluating` [B]. -> (act [B, *shape], logp [B])."""
        noise = rng.numpy.standard_normal(mean.shape, dtype=np.float32)
        if evaluating is not None:
            noise[evaluating] = 0.0
        act, logp = gaussian_sample(mean, self.log_std.detach().cpu().numpy(), noise)
        return act.reshape(-1, *self.shape), logp

    def mode(self, mean: torch.Tensor) -> torch.Tensor:
        """Mean [..., *shape]."""
        return mean.reshape(*mean.shape[:-1], *self.shape)

    def evaluate(self, mean: torch.Tensor, act: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """-> (log-density of `act` [...], entropy [...])."""
        logp = gaussian_log_prob(act.reshape(mean.shape), mean, self.log_std)
        return logp, gaussian_entropy(self.log_std).expand_as(logp)


def _action_head(space: spaces.Space[Any], in_features: int, net: NetConfig) -> CategoricalHead | GaussianHead:
    if isinstance(space, spaces.Box):
        return GaussianHead(in_features, space.shape, net.log_std_init)
    if isinstance(space, spaces.Discrete):
        return CategoricalHead(in_features, (int(space.n),), single=True)
    sizes = cast(spaces.MultiDiscrete, space).nvec
    if sizes.ndim != 1:
        raise SpaceError(f"ActorCriticPolicy takes MultiDiscrete actions of one axis, not {space}; flatten it")
    return CategoricalHead(in_features, tuple(sizes.tolist()), single=False)


class ActorCriticPolicy(Policy):
    """Stochastic actor and value function, on one backbone or on two; evaluating rows take the likeliest action.

    Stores `logp` [B] of every action, and with a shared backbone, where it is nearly free, `value` [B] (otherwise the
    algorithm evaluates the whole rollout at once, which is cheaper than one more small network call per step).
    Layers start orthogonal: gain sqrt(2), the actor's last layer 0.01 (nearly uniform at first), the critic's 1.

    Args:
        observation_space: space of one observation; a Dict may hold an action mask.
        action_space: Discrete, MultiDiscrete (one axis) or Box.
        net: shape of the networks; `shared_backbone` and `log_std_init` matter here.
        action_scaling: see `Policy`.
        action_bound_method: see `Policy`.
    """

    action_spaces = (spaces.Discrete, spaces.MultiDiscrete, spaces.Box)

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        net: NetConfig | None = None,
        *,
        action_scaling: bool | None = None,
        action_bound_method: ActionBound = "auto",
    ) -> None:
        super().__init__(
            observation_space,
            action_space,
            action_scaling=action_scaling,
            action_bound_method=action_bound_method,
        )
        net = net or NetConfig(activation="tanh")
        self.shares_backbone = net.shared_backbone
        self.actor = Backbone(observation_space, net, self._no_input)
        self.critic = self.actor if self.shares_backbone else Backbone(observation_space, net, self._no_input)
        self.action_head = _action_head(action_space, self.actor.out_features, net)
        self.value_head = Linear(self.critic.out_features, 1)
        self._small = None if self.shares_backbone or not self.action_head.single else SmallForward()
        orthogonal_(self.actor, 2**0.5)
        orthogonal_(self.critic, 2**0.5)
        orthogonal_(self.action_head, 0.01)
        orthogonal_(self.value_head, 1.0)

    def forward(self, batch: Any, state: PolicyState = None) -> Batch:
        """Likeliest actions for `batch.obs`; `logits` are log-probabilities or means."""
        obs = self._tensors(batch.obs)
        features, state = self.actor(obs, state)
        params = self.action_head(features, self._mask(obs))
        return Batch(act=self.action_head.mode(params), logits=params, state=state)

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Sampled actions with their log-probability and the value of the observation."""
        head, state, value = self.action_head, requests.policy_state, None
        output = None if self._small is None else self._small(self.actor, head.output, requests.obs)
        if output is not None:
            params = head.from_output(output)
        else:
            with torch.inference_mode():
                obs = self._tensors(requests.obs)
                features, state = self.actor(obs, state, requests.on_reset)
                params = head(features, self._mask(obs)).cpu().numpy()
                if self.shares_backbone:
                    value = self.value_head(features).squeeze(-1).cpu().numpy()
        act, logp = head.act(params, self.rng, requests.is_evaluation)
        stored = Batch(logp=logp) if value is None else Batch(logp=logp, value=value)
        return RolloutResult(action=act, policy_state=state, analyzed_result=stored)

    def analyze(self, sample: Any, target: str = "") -> ActorCriticAnalysis:
        """Log-probability, entropy and value with gradient; `sample` has obs [..., *obs] and act [..., *act]."""
        obs = sample.obs
        features, _ = self.actor(obs)
        logp, entropy = self.action_head.evaluate(self.action_head(features, self._mask(obs)), sample.act)
        if not self.shares_backbone:
            features, _ = self.critic(obs)
        return ActorCriticAnalysis(logp=logp, entropy=entropy, value=self.value_head(features).squeeze(-1))

    def lay_out(self, obs: Obs) -> Obs:
        """Lay images out as the actor's network reads them."""
        return self.actor.encoder.lay_out(obs)

    def value(self, obs: Obs) -> torch.Tensor:
        """Value [...] of observations [..., *obs]."""
        features, _ = self.critic(obs)
        value: torch.Tensor = self.value_head(features).squeeze(-1)
        return value

    @torch.no_grad()
    def values(self, rollout: Any) -> torch.Tensor:
        """V(obs) [T, B] of a rollout, some steps at a time."""
        T, B = rollout.rew.shape  # noqa: N806  # shapes
        stride = max(CHUNK_ROWS // B, 1)
        return torch.cat([self.value(tree.index(rollout.obs, slice(t, t + stride))) for t in range(0, T, stride)])

    @torch.no_grad()
    def next_values(self, rollout: Any, at: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """V(obs_next) [k] of the rows `at` of a rollout [T, B, ...]."""
        return self.value(tree.index(rollout.obs_next, at))
