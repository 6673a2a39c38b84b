"""Optimisers of `torch.optim`, and any that are like these, behind the interface of ours."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from argosy.algorithm.optim import Optim, OptimConfig
from argosy.errors import ConfigError
from argosy.ops.kernels import foreach_div_


class TorchOptim(Optim):
    """Any optimiser of `torch.optim`, or like it."""

    def __init__(self, config: OptimConfig, parameters: Sequence[torch.Tensor], make: Callable[..., object]) -> None:
        super().__init__(config, parameters)
        known = inspect.signature(make).parameters
        given = {name: getattr(config, name) for name in ("eps", "betas", "weight_decay") if name in known}
        try:
            made: Any = make(self.parameters, lr=config.lr, **{**given, **config.args})
        except (TypeError, ValueError) as error:
            raise ConfigError(f"OptimConfig.kind is {config.kind!r}, which could not be made: {error}") from error
        if not isinstance(made, torch.optim.Optimizer):
            raise ConfigError(f"OptimConfig.kind is {config.kind!r}, which is no torch.optim.Optimizer")
        if any(p.default is p.empty for p in inspect.signature(made.step).parameters.values()):
            raise ConfigError(f"OptimConfig.kind is {config.kind!r}, which computes losses itself; it cannot be used")
        self._torch = made

    def _apply(self, gradients: list[torch.Tensor], scale: torch.Tensor | None, skip: torch.Tensor | None) -> None:
        if skip is not None and bool(skip):  # these optimisers cannot skip by themselves: the host has to look
            return
        if scale is not None:
            foreach_div_(gradients, scale)
        for group in self._torch.param_groups:
            group["lr"] = self.lr
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self._torch.step()
        torch.autograd.graph.increment_version(self.parameters)  # fused ones do not, and states of memories go by it
        for parameter in self.parameters:
            parameter.grad = None

    def state_dict(self) -> Mapping[str, Any]:
        """Return the learning rate in force and what the optimiser keeps, of parameters once there was a step."""
        slots = {str(i): dict(slot) for i, slot in self._torch.state_dict()["state"].items()}
        (group,) = self._torch.param_groups
        counts = {name: value for name, value in group.items() if isinstance(value, int | float | torch.Tensor)}
        return {"lr": self.lr, "slots": slots, "group": counts}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state` was taken (of an optimiser of the same parameters)."""
        self.lr = state["lr"]
        slots = {int(i): copy.deepcopy(slot) for i, slot in state["slots"].items()}  # torch would keep these tensors
        (group,) = self._torch.state_dict()["param_groups"]
        self._torch.load_state_dict({"state": slots, "param_groups": [group | copy.deepcopy(state["group"])]})
