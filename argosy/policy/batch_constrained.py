"""Policy of batch-constrained Q-learning: of actions that a model of the data proposes, the best by Q."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import torch
from gymnasium import spaces
from torch import nn

from argosy.data import Batch, SampleBatch
from argosy.data.protocols import ObsBatchProtocol
from argosy.env.spaces import Space, is_bounded
from argosy.errors import ConfigError, SpaceError
from argosy.net import MLP, Backbone, EnsembleCritic, NetConfig, Scaling
from argosy.policy.base import NetPolicy, PolicyState, RolloutRequest, RolloutResult

LATENT_BOUND = 0.5
LOG_STD_MIN, LOG_STD_MAX = -4.0, 15.0


@dataclass(frozen=True)
class BatchConstrainedAnalysis:
    """What `BatchConstrainedPolicy` says of a sample; [...] are its leading axes, A the flattened action, Z latents.

    Where several actions or latents of each row are asked about, they have one more axis in front, [N, ...].
    """

    policy: BatchConstrainedPolicy
    features: tuple[torch.Tensor, torch.Tensor, torch.Tensor]
    """[..., F] of the model of the data, of the perturbation and of the critics."""

    def posterior(self, act: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Mean and log deviation [..., Z] of the latents of actions [..., *act]."""
        flat = act.reshape(*self.features[0].shape[:-1], -1)
        mean, log_std = self.policy.latents(_beside(self.features[0], flat)).chunk(2, dim=-1)
        return mean, log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)

    def decoded(self, latent: torch.Tensor) -> torch.Tensor:
        """Actions [..., A] of latents [..., Z]."""
        act: torch.Tensor = self.policy.decoder(_beside(self.features[0], latent)).tanh()
        return act

    def perturbed(self, act: torch.Tensor) -> torch.Tensor:
        """Actions [..., A] moved by at most `max_perturbation`, within bounds; with 0 they stay as they are."""
        if self.policy.max_perturbation == 0.0:
            return act
        move: torch.Tensor = self.policy.perturbation(_beside(self.features[1], act)).tanh()
        return (act + self.policy.max_perturbation * move).clamp(-1.0, 1.0)

    def value(self, act: torch.Tensor) -> torch.Tensor:
        """Q [K, ...] of actions [..., *act] or [..., A]."""
        return self.policy.critic.of_features(self.features[2], act)

    def best(self, latent: torch.Tensor) -> torch.Tensor:
        """The action [..., *act], of those of N latents [N, ..., Z], that the first critic thinks best."""
        act = self.perturbed(self.decoded(latent))
        index = self.value(act)[0].argmax(dim=0)
        found = act.gather(0, index[None, ..., None].expand_as(act[:1])).squeeze(0)
        return found.reshape(*found.shape[:-1], *self.policy.action_shape)

    @property
    def act(self) -> torch.Tensor:
        """[..., *act] actions in [-1, 1] that evaluating rows take."""
        return self.best(self.policy.fixed_latents(self.features[0].dim() - 1))


class BatchConstrainedPolicy(NetPolicy):
    """A `NetPolicy`, with its arguments: the best by Q of actions that a model of the data draws, a little perturbed.

    The model is a conditional variational autoencoder. Exploring rows draw their latents; evaluating ones use the same
    for all observations, so that they act alike.

    Args:
        num_critics: size of the ensemble that values actions.
        num_candidates: actions to choose from.
        max_perturbation: the most by which one of their elements is moved.
        value_scaling: whether the critics predict scaled returns, see `Scaled`; None: no.

    Raises:
        SpaceError: the Box has infinite bounds.
    """

    action_spaces = (spaces.Box,)

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        *,
        num_critics: int = 2,
        num_candidates: int = 100,
        max_perturbation: float = 0.05,
        value_scaling: Scaling | None = None,
    ) -> None:
        if isinstance(action_space, spaces.Box) and not is_bounded(action_space):
            raise SpaceError(f"{type(self).__name__} squashes actions into bounds; {action_space} has infinite ones")
        if num_candidates < 2:
            raise ConfigError(f"num_candidates is {num_candidates}; the best one is chosen of 2 or more")
        net = net or NetConfig(hidden_sizes=(256, 256))
        super().__init__(observation_space, action_space, net, action_scaling=True)
        self.action_shape = action_space.shape or ()
        self.num_candidates, self.max_perturbation = num_candidates, max_perturbation
        self.num_latents = 2 * self.action_dim
        hidden, activation, dim = net.hidden_sizes, net.activation, self.action_dim
        bare = replace(net, hidden_sizes=())
        self.model, self.actor = Backbone(observation_space, bare), Backbone(observation_space, bare)
        width = self.model.out_features
        self.latents = MLP(width + dim, hidden, 2 * self.num_latents, activation)
        self.decoder = MLP(width + self.num_latents, hidden, dim, activation)
        self.perturbation = MLP(width + dim, hidden, dim, activation)
        self.critic = EnsembleCritic(observation_space, dim, net, num_critics, scaling=value_scaling)
        fixed = torch.randn(num_candidates, self.num_latents, generator=torch.Generator().manual_seed(0))
        self.fixed = nn.Buffer(fixed.clamp_(-LATENT_BOUND, LATENT_BOUND), persistent=False)
        self._remember(self.model, self.actor, self.critic.backbone, all_act=True)

    def model_parameters(self) -> list[torch.Tensor]:
        """Return the parameters of the model of the data."""
        return [parameter for part in (self.model, self.latents, self.decoder) for parameter in part.parameters()]

    def actor_parameters(self) -> list[torch.Tensor]:
        """Return the parameters of the perturbation."""
        return [*self.actor.parameters(), *self.perturbation.parameters()]

    def critic_parameters(self) -> list[torch.Tensor]:
        """Return the parameters of the critics."""
        return list(self.critic.parameters())

    def fixed_latents(self, lead: int) -> torch.Tensor:
        """The latents [N, 1, ..., Z] of evaluating rows, for `lead` leading axes."""
        return self.fixed.reshape(self.num_candidates, *(1,) * lead, self.num_latents)

    def forward(self, batch: ObsBatchProtocol, state: PolicyState = None) -> Batch:
        """Actions of evaluating rows for `batch.obs`."""
        features, state = self._step(*self._inputs(batch, state))
        act = self._analysis(*features.values()).act
        return Batch(act=act, logits=act, state=state)

    def rollout(self, requests: RolloutRequest) -> RolloutResult:
        """Actions [B, *act] in [-1, 1]."""
        same = nn.Identity()
        features, memory = self._outputs(requests, *((backbone, same) for backbone in self._acting))
        count, evaluating = len(features[0]), requests.is_evaluation
        with torch.inference_mode():
            analysis = self._analysis(*(torch.from_numpy(part).to(self.device) for part in features))
            latent = self.fixed_latents(1).expand(-1, count, -1)
            if evaluating is None or not evaluating.all():
                draws = self.rng.numpy.standard_normal(tuple(latent.shape), dtype=np.float32)
                drawn = torch.from_numpy(draws.clip(-LATENT_BOUND, LATENT_BOUND)).to(self.device)
                keep = torch.zeros(count, dtype=torch.bool) if evaluating is None else torch.from_numpy(evaluating)
                latent = torch.where(keep.to(self.device).unsqueeze(-1), latent, drawn)
            act = analysis.best(latent).cpu().numpy()
        return self._result(act, requests, memory)

    def analyze(self, sample: SampleBatch) -> BatchConstrainedAnalysis:
        """What there is at the observations of a sample, with gradient."""
        return self._analysis(*(backbone.features(sample) for backbone in self._acting))

    def analyze_next(
        self, sample: SampleBatch, rows: tuple[torch.Tensor, ...] | None = None
    ) -> BatchConstrainedAnalysis:
        """The same at `obs_next`."""
        return self._analysis(*(backbone.features_next(sample, rows) for backbone in self._acting))

    def _analysis(self, *features: torch.Tensor) -> BatchConstrainedAnalysis:
        model, actor, critic = features
        return BatchConstrainedAnalysis(self, (model, actor, critic))


def _beside(features: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Features [..., F] and numbers [..., X] or [N, ..., X] side by side; the latter may be the same for all rows."""
    lead = (*x.shape[: x.dim() - features.dim()], *features.shape[:-1])
    return torch.cat((features.expand(*lead, -1), x.expand(*lead, -1)), dim=-1)
