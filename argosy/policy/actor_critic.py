"""Policy of on-policy algorithms: categorical, multi-categorical or Gaussian actor, and a value function."""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar, cast

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import Batch, SampleBatch
from argosy.data.protocols import ObsBatchProtocol
from argosy.env.spaces import ARRAYS, Space
from argosy.errors import ConfigError, SpaceError
from argosy.net import Backbone, Linear, NetConfig, ScaledLinear, Scaling, orthogonal_
from argosy.ops import (
    categorical_entropy,
    categorical_kl,
    categorical_log_prob,
    categorical_sample,
    gaussian_entropy,
    gaussian_kl,
    gaussian_log_prob,
    gaussian_sample,
)
from argosy.policy.base import NetPolicy, PolicyState, RolloutRequest, RolloutResult
from argosy.policy.boxes import ActionBound
from argosy.policy.unseen import sees_all
from argosy.rng import Rng

FORBIDDEN = -1e8
"""Logit of actions that a mask excludes: probability 0, and finite, so that p * log p is 0 and not NaN."""


class CategoricalHead(nn.Module):
    """Features -> K independent categorical actions of `sizes` choices.

    Parameters of the distribution are normalised log-probabilities [..., A] when there is one action, else
    [..., K, A] with A the largest size; missing choices are forbidden.
    """

    def __init__(self, in_features: int, sizes: tuple[int, ...], dtype: np.dtype[np.generic], *, single: bool) -> None:
        super().__init__()
        self.output = Linear(in_features, sum(sizes))
        self.single, self.dtype = single, dtype
        self.padded_shape = (len(sizes), max(sizes))
        slots = [k * max(sizes) + i for k, size in enumerate(sizes) for i in range(size)]
        self.slots = nn.Buffer(torch.tensor(slots), persistent=False)

    def forward(self, features: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """(features, mask [..., sum(sizes)] bool) -> log-probabilities."""
        logits: torch.Tensor = self.output(features)
        if mask is not None:
            logits = logits.masked_fill(~mask, FORBIDDEN)
        if not self.single:
            lead = logits.shape[:-1]
            padded = logits.new_full((*lead, self.padded_shape[0] * self.padded_shape[1]), 2 * FORBIDDEN)
            logits = padded.index_copy(-1, self.slots, logits).reshape(*lead, *self.padded_shape)
        return logits.log_softmax(dim=-1)

    def from_output(self, logits: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Log-probabilities from what the linear layer gave, for acting."""
        if mask is not None:
            logits = np.where(mask, logits, np.float32(FORBIDDEN))
        if not self.single:
            padded = np.full((len(logits), self.padded_shape[0] * self.padded_shape[1]), 2 * FORBIDDEN, np.float32)
            padded[:, self.slots.cpu().numpy()] = logits
            logits = padded.reshape(-1, *self.padded_shape)
        shifted = logits - logits.max(axis=-1, keepdims=True)
        log_probs: np.ndarray = shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))
        return log_probs

    def act(self, log_probs: np.ndarray, rng: Rng, evaluating: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        """Draw an action per row; take the likeliest one where `evaluating` [B]. -> (act [B] or [B, K], logp [B])."""
        noise = rng.numpy.standard_exponential(log_probs.shape, dtype=np.float32)
        if evaluating is not None:
            noise[evaluating] = 1.0
        act, logp = categorical_sample(log_probs, noise)
        return act.astype(self.dtype, copy=False), logp if self.single else logp.sum(axis=-1)

    def mode(self, log_probs: torch.Tensor) -> torch.Tensor:
        """Likeliest action [...] or [..., K]."""
        return log_probs.argmax(dim=-1)

    def log_prob(self, log_probs: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        """Log-probability [...] of `act`."""
        logp = categorical_log_prob(log_probs, act)
        return logp if self.single else logp.sum(dim=-1)

    def entropy(self, log_probs: torch.Tensor) -> torch.Tensor:
        """Entropy [...]."""
        entropy = categorical_entropy(log_probs)
        return entropy if self.single else entropy.sum(dim=-1)

    def distribution(self, log_probs: torch.Tensor) -> torch.Tensor:
        """All that the distribution depends on [..., A] or [..., K, A]."""
        return log_probs

    def kl(self, distribution: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """KL(distribution || other) [...]."""
        kl = categorical_kl(distribution, other)
        return kl if self.single else kl.sum(dim=-1)

    def information(self, distribution: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """Fisher information of a distribution times a change of it, both [..., A] or [..., K, A]."""
        weighted = distribution.exp() * change
        return weighted - distribution.exp() * weighted.sum(dim=-1, keepdim=True)  # 0 but for rounding


class GaussianHead(nn.Module):
    """Features -> a diagonal Gaussian over `shape`, its deviation independent of the observation.

    The distribution's parameter is the mean [..., A], by tanh within [-1, 1] if it is bounded; A is an action's size.
    """

    def __init__(self, in_features: int, shape: tuple[int, ...], log_std_init: float, bounded: bool = False) -> None:
        super().__init__()
        self.shape, self.bounded = shape, bounded
        size = int(np.prod(shape))
        self.output: nn.Module = Linear(in_features, size)
        self.log_std = nn.Parameter(torch.full((size,), log_std_init))

    def forward(self, features: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        """Features -> mean [..., A]; there is nothing to mask."""
        mean: torch.Tensor = self.output(features)
        return mean.tanh() if self.bounded else mean

    def from_output(self, mean: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """Mean from what the linear layer gave, for acting."""
        return np.tanh(mean) if self.bounded else mean

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

    def log_prob(self, mean: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        """Log-density [...] of `act`."""
        return gaussian_log_prob(act.reshape(mean.shape), mean, self.log_std)

    def entropy(self, mean: torch.Tensor) -> torch.Tensor:
        """Entropy [...]."""
        return gaussian_entropy(self.log_std).expand(mean.shape[:-1])

    def distribution(self, mean: torch.Tensor) -> torch.Tensor:
        """All that the distribution depends on [..., 2, A]: mean and logarithm of the deviation."""
        return torch.stack((mean, self.log_std.expand_as(mean)), dim=-2)

    def kl(self, distribution: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
        """KL(distribution || other) [...]."""
        return gaussian_kl(*distribution.unbind(-2), *other.unbind(-2))

    def information(self, distribution: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """Fisher information of a distribution times a change of it, both [..., 2, A]."""
        of_mean, of_log_std = change.unbind(-2)
        return torch.stack((of_mean * (-2.0 * distribution[..., 1, :]).exp(), 2.0 * of_log_std), dim=-2)


def _action_head(
    space: Space, in_features: int, log_std_init: float, bounded_mean: bool
) -> CategoricalHead | GaussianHead:
    if isinstance(space, spaces.Box):
        return GaussianHead(in_features, space.shape, log_std_init, bounded_mean)
    if isinstance(space, spaces.Discrete):
        return CategoricalHead(in_features, (int(space.n),), np.dtype(np.int64), single=True)
    sizes = np.full(space.shape, 2) if isinstance(space, spaces.MultiBinary) else cast(spaces.MultiDiscrete, space).nvec
    if sizes.ndim != 1:
        raise SpaceError(f"ActorCriticPolicy takes actions of several choices with one axis, not {space}; flatten it")
    return CategoricalHead(in_features, tuple(sizes.tolist()), np.dtype(space.dtype), single=False)


class ActorCriticAnalysis:
    """What the policy says of a sample's rows, or of their successors; each part is computed when it is asked for.

    [...] are the sample's leading axes, A the parameters of a distribution.

    Args:
        policy: the present one.
        sample: observations, their successors and the stored actions.
        successors: whether it is about `obs_next`.
        rows: of the successors only these, [k, ...]; None: all.
    """

    def __init__(
        self,
        policy: ActorCriticPolicy,
        sample: SampleBatch,
        *,
        successors: bool = False,
        rows: tuple[torch.Tensor, ...] | None = None,
    ) -> None:
        self._policy, self._sample, self._successors, self._rows = policy, sample, successors, rows
        self._features: dict[Backbone, torch.Tensor] = {}

    def _features_of(self, backbone: Backbone) -> torch.Tensor:
        if backbone not in self._features:  # a shared one is asked once
            sample = self._sample
            found = backbone.features_next(sample, self._rows) if self._successors else backbone.features(sample)
            self._features[backbone] = found
        return self._features[backbone]

    @cached_property
    def params(self) -> torch.Tensor:
        """[..., A] parameters of the distribution of actions: log-probabilities or means."""
        policy, sample = self._policy, self._sample
        mask = policy._mask_next(sample, self._rows) if self._successors else policy._mask(sample.obs)
        params: torch.Tensor = policy.action_head(self._features_of(policy.actor), mask)
        return params

    @property
    def logp(self) -> torch.Tensor:
        """[...] log-probability of the stored action."""
        return self._policy.action_head.log_prob(self.params, self._sample.act)

    @property
    def entropy(self) -> torch.Tensor:
        """[...] entropy of the actor."""
        return self._policy.action_head.entropy(self.params)

    @property
    def distribution(self) -> torch.Tensor:
        """[..., ...] the distribution of actions, in a form that only its own policy looks into."""
        return self._policy.action_head.distribution(self.params)

    def kl_from(self, distribution: torch.Tensor) -> torch.Tensor:
        """[...] KL divergence of this distribution of actions from another one, KL(other || this)."""
        return self._policy.action_head.kl(distribution, self.distribution)

    def information(self, distribution: torch.Tensor, change: torch.Tensor) -> torch.Tensor:
        """[..., ...] Fisher information of a distribution of actions times a change of it."""
        return self._policy.action_head.information(distribution, change)

    def sample(self, generator: torch.Generator) -> torch.Tensor:
        """[..., *act] draw from a Gaussian by a CPU generator, in the bounds in which the env would take it."""
        mean, log_std = self.distribution.unbind(-2)
        noise = torch.empty(mean.shape).normal_(generator=generator).to(mean.device)
        act = self._policy.action_head.mode(torch.addcmul(mean, noise, log_std.exp()))
        return act if self._policy._box is None else self._policy._box.clipped(act)

    @property
    def value(self) -> torch.Tensor:
        """[...] value of the observation."""
        policy = self._policy
        assert policy.critic is not None, "this policy was made without critic"
        value: torch.Tensor = policy.value_head(self._features_of(policy.critic)).squeeze(-1)
        return value


class ActorCriticPolicy(NetPolicy):
    """Stochastic actor and value function, on one backbone or on two; evaluating rows take the likeliest action.

    Stores `logp` [B] of every action, and `value` [B] where it is nearly free or has to be computed anyway: with a
    shared backbone, or with memory (otherwise the algorithm evaluates the whole rollout at once, which is cheaper than
    one more small network call per step). Layers start orthogonal: gain sqrt(2), the actor's last layer 0.01 (nearly
    uniform at first), the critic's 1.

    Args:
        observation_space: space of one observation; a Dict may hold an action mask.
        action_space: Discrete, MultiDiscrete or MultiBinary (one axis), or Box.
        net: shape of the networks; `shared_backbone` matters here.
        log_std_init: initial logarithm of a Gaussian actor's deviation.
        bounded_mean: whether tanh keeps a Gaussian's mean within [-1, 1], where these are the bounds.
        critic: whether there is a value function; imitation needs none.
        value_scaling: whether its last layer predicts scaled returns, see `ScaledLinear`; None: no.
        action_scaling: see `Policy`.
        action_bound_method: see `Policy`.

    Raises:
        ConfigError: `log_std_init` is out of range.
    """

    action_spaces: ClassVar[tuple[type[Space], ...]] = ARRAYS

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        *,
        log_std_init: float = 0.0,
        bounded_mean: bool = False,
        critic: bool = True,
        value_scaling: Scaling | None = None,
        action_scaling: bool | None = None,
        action_bound_method: ActionBound = "auto",
    ) -> None:
        net = net or NetConfig(activation="tanh")
        super().__init__(
            observation_space, action_space, net, action_scaling=action_scaling, action_bound_method=action_bound_method
        )
        if not -10.0 <= log_std_init <= 2.0:
            raise ConfigError(f"log_std_init is {log_std_init}; it must be >= -10 and <= 2")
        self.actor = Backbone(self.acts_on, net, self.no_input)
        self.critic: Backbone | None = None
        if critic:
            self.critic = self.actor if net.shared_backbone else Backbone(observation_space, net, self.no_input)
        bounded = bounded_mean and bool(self.action_scaling) and self.action_bound_method != "tanh"
        self.action_head = _action_head(action_space, self.actor.out_features, log_std_init, bounded)
        if self.critic is not None:
            width = self.critic.out_features
            self.value_head = ScaledLinear(width, 1, value_scaling) if value_scaling else Linear(width, 1)
        orthogonal_(self.actor, 2**0.5)
        if self.critic is not None:
            orthogonal_(self.critic, 2**0.5)
        orthogonal_(self.action_head, 0.01)
        if self.critic is not None:
            orthogonal_(self.value_head, 1.0)
        self._remember(*(backbone for backbone in (self.actor, self.critic) if backbone is not None))

    def actor_parameters(self) -> list[torch.Tensor]:
        """Return the parameters that the distribution of actions depends on."""
        return [*self.actor.parameters(), *self.action_head.parameters()]

    def critic_parameters(self) -> list[torch.Tensor]:
        """Return the parameters that the value depends on; with a shared backbone some are the actor's, too."""
        return [] if self.critic is None else [*self.critic.parameters(), *self.value_head.parameters()]

    def forward(self, batch: ObsBatchProtocol, state: PolicyState = None) -> Batch:
        """Likeliest actions for `batch.obs`; `logits` are log-probabilities or means."""
        obs, state = self._inputs(batch, state)
        features, state = self._step(obs, state)
        params = self.action_head(features[self.actor], self._mask(obs))
        return Batch(act=self.action_head.mode(params), logits=params, state=state)

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Sampled actions with their log-probability and, where it is at hand, the value of the observation."""
        head, actor, critic = self.action_head, self.actor, self.critic  # looked up once: a module is slow at that
        networks = [(actor, head.output)]
        if critic is not None and (critic is actor or (self.is_recurrent and sees_all(self, requests.obs))):
            networks.append((critic, self.value_head))
        (output, *value), memory = self._outputs(requests, *networks)
        act, logp = head.act(head.from_output(output, self._mask(requests.obs)), self.rng, requests.is_evaluation)
        stored = Batch(logp=logp, value=value[0].squeeze(-1)) if value else Batch(logp=logp)
        return self._result(act, requests, memory, stored)

    def analyze(self, sample: SampleBatch) -> ActorCriticAnalysis:
        """Log-probability, entropy and value with gradient; `sample` has obs [..., *obs] and act [..., *act]."""
        return ActorCriticAnalysis(self, sample)

    def analyze_next(self, sample: SampleBatch, rows: tuple[torch.Tensor, ...] | None = None) -> ActorCriticAnalysis:
        """The same at `obs_next` [..., *obs]; there are no actions, so only the value can be asked for."""
        return ActorCriticAnalysis(self, sample, successors=True, rows=rows)
