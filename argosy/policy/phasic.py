"""An actor-critic whose actor predicts the value as well, by a head that nobody acts on."""

from __future__ import annotations

from typing import Any

import torch

from argosy.data import SampleBatch
from argosy.env.spaces import Space
from argosy.net import Linear, NetConfig
from argosy.policy.actor_critic import ActorCriticAnalysis, ActorCriticPolicy


class PhasicAnalysis(ActorCriticAnalysis):
    """What the policy says of a sample's rows."""

    _policy: PhasicPolicy

    @property
    def auxiliary_value(self) -> torch.Tensor:
        """[...] value of the observation as the actor predicts it, in the units in which the critic learns."""
        value: torch.Tensor = self._policy.auxiliary_head(self._features_of(self._policy.actor)).squeeze(-1)
        return value


class PhasicPolicy(ActorCriticPolicy):
    """Actor and value function on backbones of their own, with an auxiliary value head on the actor's.

    Takes the arguments of `ActorCriticPolicy`.
    """

    def __init__(
        self,
        observation_space: Space,
        action_space: Space,
        net: NetConfig | None = None,
        **options: Any,
    ) -> None:
        super().__init__(observation_space, action_space, net, **options)
        self.auxiliary_head = Linear(self.actor.out_features, 1)

    def analyze(self, sample: SampleBatch) -> PhasicAnalysis:
        """Log-probability, entropy and values with gradient; `sample` has obs [..., *obs] and act [..., *act]."""
        return PhasicAnalysis(self, sample)
