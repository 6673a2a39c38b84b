"""Generalised state-dependent exploration (gSDE; Raffin et al., 2021, https://arxiv.org/abs/2005.05719).

The noise on an action is a linear function of the actor's last features, whose random weights a row keeps for some
steps: a smooth motion instead of a jitter. Seen alone, each action is still one of a Gaussian,

    act = mean + features @ (std * weights),   variance = features^2 @ std^2,

so that algorithms learn as they do from independent noise. Gradients of the variance stop at the features.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import Batch
from argosy.env.spaces import Space
from argosy.errors import SpaceError
from argosy.net import Backbone, Linear, NetConfig, orthogonal_
from argosy.ops import gaussian_entropy, gaussian_log_prob, gaussian_sample
from argosy.policy.actor_critic import ActorCriticPolicy, GaussianHead
from argosy.policy.base import RolloutRequest, RolloutResult
from argosy.policy.explore import Exploration, States
from argosy.policy.squashed_gaussian import LOG_STD_MIN, SquashedGaussianAnalysis, SquashedGaussianPolicy
from argosy.policy.unseen import sees_all
from argosy.rng import Rng

TINY = 1e-6
"""Added to variances, which are 0 where no feature is active."""

# Shapes: B rows, F features, A elements of one action. [...] are leading axes.


class KeptNoise(Exploration):
    """Random weights [F, A] of each row, standard normal, that it keeps for some `steps` of its episode."""

    def __init__(self, features: int, action_dim: int, steps: int) -> None:
        super().__init__()
        self.features, self.steps = features, steps
        self.state_size = features * action_dim + 1  # the weights, and how many steps they have been kept

    def explore(
        self, act: np.ndarray, evaluates: np.ndarray | None, rng: Rng, mask: np.ndarray | None, state: States
    ) -> tuple[np.ndarray, States]:
        """Noise [B, A] for features times deviations [B, F, A]; none in rows that evaluate."""
        assert state is not None
        kept, weights = state[:, -1], state[:, :-1]
        anew = kept == 0
        if anew.any():
            weights = weights.copy()
            weights[anew] = rng.numpy.standard_normal((int(anew.sum()), weights.shape[1]), dtype=np.float32)
        noise: np.ndarray = (act * weights.reshape(act.shape)).sum(axis=1)
        if evaluates is not None:
            noise[evaluates] = 0.0
        after = (kept + 1) % self.steps
        return noise, np.concatenate((weights, after[:, None]), axis=1)


class MeanAndFeatures(nn.Module):
    """Features [..., F] -> [..., A + F]: means, by tanh if they are bounded, and the features, as acting needs both."""

    def __init__(self, in_features: int, action_dim: int, bounded: bool = False) -> None:
        super().__init__()
        self.mean, self.bounded = Linear(in_features, action_dim), bounded

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        """[..., F] -> [..., A + F]."""
        mean = self.mean(features)
        return torch.cat((mean.tanh() if self.bounded else mean, features), dim=-1)


def log_std_of(features: torch.Tensor, log_std: torch.Tensor) -> torch.Tensor:
    """Log deviation [..., A] of actions at features [..., F], by log deviations [F, A] of the weights."""
    return 0.5 * (features.detach().square() @ (2.0 * log_std).exp() + TINY).log()


class StateDependentGaussianPolicy(SquashedGaussianPolicy):
    """A `SquashedGaussianPolicy`, with its arguments, whose noise is a function of the features that rows keep.

    Args:
        noise_steps: steps for which a row keeps its function, at most an episode.
        log_std_init: initial log deviation of the function's weights.
    """

    head: MeanAndFeatures

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        *,
        noise_steps: int,
        log_std_init: float = -3.0,
    ) -> None:
        super().__init__(observation_space, action_space, net)
        width = self.actor.out_features
        self.head = MeanAndFeatures(width, self.action_dim)
        self.log_std = nn.Parameter(torch.full((width, self.action_dim), log_std_init))
        self.explore_by(KeptNoise(width, self.action_dim, noise_steps))

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Actions [B, *act] in [-1, 1]."""
        (output,), memory = self._outputs(requests, (self.actor, self.head))
        mean, features = output[:, : self.action_dim], output[:, self.action_dim :]
        noise = self._result(_scaled(features, self.log_std), requests, memory)
        act = np.tanh(mean + noise.action).reshape(-1, *self.action_shape)
        return RolloutResult(action=act, policy_state=noise.policy_state)

    def _analysis(
        self, features: torch.Tensor, mask: torch.Tensor | None, act: torch.Tensor | None = None
    ) -> SquashedGaussianAnalysis:
        log_std = log_std_of(features, self.log_std).clamp(min=LOG_STD_MIN)
        return SquashedGaussianAnalysis(self.head.mean(features), log_std, self.action_shape)


class StateDependentHead(GaussianHead):
    """A `GaussianHead` whose deviation depends on the features; parameters [..., A + F] are means and features."""

    def __init__(self, in_features: int, shape: tuple[int, ...], log_std_init: float, bounded: bool) -> None:
        super().__init__(in_features, shape, log_std_init)
        self.size = self.log_std.numel()
        self.output = MeanAndFeatures(in_features, self.size, bounded)
        self.log_std = nn.Parameter(torch.full((in_features, self.size), log_std_init))

    def mode(self, params: torch.Tensor) -> torch.Tensor:
        """Mean [..., *shape]."""
        return super().mode(params[..., : self.size])

    def log_prob(self, params: torch.Tensor, act: torch.Tensor) -> torch.Tensor:
        """Log-density [...] of `act`."""
        mean = params[..., : self.size]
        return gaussian_log_prob(act.reshape(mean.shape), mean, log_std_of(params[..., self.size :], self.log_std))

    def entropy(self, params: torch.Tensor) -> torch.Tensor:
        """Entropy [...]."""
        return gaussian_entropy(log_std_of(params[..., self.size :], self.log_std))

    def distribution(self, params: torch.Tensor) -> torch.Tensor:
        """Mean and log deviation [..., 2, A]."""
        return torch.stack((params[..., : self.size], log_std_of(params[..., self.size :], self.log_std)), dim=-2)


class StateDependentActorCriticPolicy(ActorCriticPolicy):
    """An `ActorCriticPolicy`, with its arguments, of a Box, whose noise is a function of the features that rows keep.

    Args:
        noise_steps: steps for which a row keeps its function, at most an episode.
        log_std_init: initial log deviation of the function's weights.
    """

    action_spaces = (spaces.Box,)
    action_head: StateDependentHead

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        *,
        noise_steps: int,
        log_std_init: float = 0.0,
        **options: Any,
    ) -> None:
        if not isinstance(action_space, spaces.Box):
            raise SpaceError(f"gsde_steps is {noise_steps}; it acts in Box spaces, not in {action_space}: leave it out")
        super().__init__(observation_space, action_space, net, log_std_init=log_std_init, **options)
        width = self.actor.out_features
        bounded = isinstance(self.action_head, GaussianHead) and self.action_head.bounded
        self.action_head = StateDependentHead(width, action_space.shape or (), log_std_init, bounded)
        orthogonal_(self.action_head, 0.01)
        self.explore_by(KeptNoise(width, self.action_dim, noise_steps))

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Actions with their log-probability and, where it is at hand, the value of the observation."""
        head, actor, critic = self.action_head, self.actor, self.critic
        networks: list[tuple[Backbone, nn.Module]] = [(actor, head.output)]
        if critic is not None and (critic is actor or (self.is_recurrent and sees_all(self, requests.obs))):
            networks.append((critic, self.value_head))
        (output, *value), memory = self._outputs(requests, *networks)
        mean, features = output[:, : self.action_dim], output[:, self.action_dim :]
        scaled = _scaled(features, head.log_std)
        noise = self._result(scaled, requests, memory)
        log_std = 0.5 * np.log(np.square(scaled).sum(axis=1) + TINY)
        act, logp = gaussian_sample(mean, log_std, noise.action * np.exp(-log_std))
        stored = Batch(logp=logp, value=value[0].squeeze(-1)) if value else Batch(logp=logp)
        return RolloutResult(
            action=act.reshape(-1, *(self.action_space.shape or ())),
            policy_state=noise.policy_state,
            analyzed_result=stored,
        )


def _scaled(features: np.ndarray, log_std: torch.Tensor) -> np.ndarray:
    """Features [B, F] times the deviations of the weights [F, A] -> [B, F, A], of which noise is a sum."""
    scaled: np.ndarray = features[:, :, None] * np.exp(log_std.detach().cpu().numpy())
    return scaled
