"""Changing parameters: initialisation and target networks."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

from argosy.net.backbone import Linear
from argosy.net.statistics import keeping_layers, moving_parts
from argosy.ops.kernels import foreach_copy_, foreach_lerp_

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def orthogonal_(module: nn.Module, gain: float) -> None:
    """Give every linear and convolution layer in `module` orthogonal weights (times `gain`) and zero biases.

    Networks of a user's own (`NetConfig.encoder`) start as he made them.
    """
    own = {layer for part in module.modules() if getattr(part, "is_own", False) for layer in part.modules()}
    for layer in module.modules():
        if layer not in own and isinstance(layer, Linear | nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(layer.weight.t() if isinstance(layer, Linear) else layer.weight, gain)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def frozen_copy(module: ModuleT) -> ModuleT:
    """Return a copy that takes no gradients (a target network)."""
    return copy.deepcopy(module).requires_grad_(False)


class TargetUpdate:
    """Moves a target network towards the online one every so many calls: target += tau * (online - target).

    Args:
        target: the frozen copy.
        online: what it follows.
        tau: length of the step; 1 copies.
        every: calls between two steps.
    """

    def __init__(self, target: nn.Module, online: nn.Module, tau: float, every: int = 1) -> None:
        self.tau, self.every = tau, every
        self.calls = 0
        self._target, self._online = moving_parts(target), moving_parts(online)
        self._scaled = list(zip(keeping_layers(target), keeping_layers(online), strict=True))

    def __call__(self) -> None:
        """Count a call, and make a step if it is due."""
        self.calls += 1
        if self.calls % self.every:
            return
        with torch.no_grad():
            for layer, followed in self._scaled:
                layer.take_over(followed)
            if self.tau == 1.0:
                foreach_copy_(self._target, self._online)
            else:
                foreach_lerp_(self._target, self._online, self.tau)

    def state_dict(self) -> dict[str, int]:
        """Return the number of calls so far."""
        return {"calls": self.calls}

    def load_state_dict(self, state: dict[str, int]) -> None:
        """Go on counting."""
        self.calls = state["calls"]
