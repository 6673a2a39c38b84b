"""Changing parameters: initialisation and target networks."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch
from torch import nn

from argosy.net.mlp import Linear

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def orthogonal_(module: nn.Module, gain: float) -> None:
    """Give every linear and convolution layer in `module` orthogonal weights (times `gain`) and zero biases."""
    for layer in module.modules():
        if isinstance(layer, Linear | nn.Linear | nn.Conv2d):
            nn.init.orthogonal_(layer.weight.t() if isinstance(layer, Linear) else layer.weight, gain)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def frozen_copy(module: ModuleT) -> ModuleT:
    """Return a copy that takes no gradients (a target network)."""
    return copy.deepcopy(module).requires_grad_(False)


class TargetUpdate:
    """Moves a target network towards the online one: target += tau * (online - target); tau = 1 copies."""

    def __init__(self, target: nn.Module, online: nn.Module, tau: float) -> None:
        self.tau = tau
        self.target = [*target.parameters(), *(b for b in target.buffers() if b.is_floating_point())]
        self.online = [*online.parameters(), *(b for b in online.buffers() if b.is_floating_point())]

    @torch.no_grad()
    def __call__(self) -> None:
        """Do one step."""
        if self.tau == 1.0:
            torch._foreach_copy_(self.target, self.online)
        else:
            torch._foreach_lerp_(self.target, self.online, self.tau)
