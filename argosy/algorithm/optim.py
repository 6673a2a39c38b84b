"""One gradient step: backward, guard, clip, step."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypedDict

import torch
from torch import nn

from argosy.errors import CheckpointError, DataError


class OptimizerState(TypedDict):
    """What `Optimizer.state_dict` returns: string keys and tensors, nothing that needs pickle."""

    lr: float
    state: dict[str, dict[str, torch.Tensor]]


class Optimizer:
    """Adam over some parameters, one call per gradient step.

    A step whose loss or gradient norm is not finite changes no parameter: on the CPU, where looking costs nothing, it
    raises; on a GPU, where looking would make the host wait, the fused kernel skips it and the caller finds the loss
    in the metrics that it fetches anyway (`Algorithm.fetch` raises then).

    Args:
        parameters: what to train.
        lr: learning rate.
        eps: Adam's epsilon.
        max_grad_norm: gradients are scaled down to this global norm; None: not.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        eps: float = 1e-8,
        max_grad_norm: float | None = None,
    ) -> None:
        self.parameters = [parameter for parameter in parameters if parameter.requires_grad]
        self.lr = lr
        self.max_grad_norm = max_grad_norm
        self.adam = torch.optim.Adam(self.parameters, lr=lr, eps=eps, fused=True)

    def step(self, loss: torch.Tensor) -> torch.Tensor:
        """Minimise the scalar `loss` by one step; gradients flow to these parameters only.

        Returns:
            The gradients' norm before clipping (a scalar tensor); NaN when `max_grad_norm` is None.

        Raises:
            DataError: loss or norm are not finite; nothing has changed.
        """
        gradients = torch.autograd.grad(loss, self.parameters)
        if self.max_grad_norm is None:
            norm = finite = loss.detach()
        else:
            norm = nn.utils.get_total_norm(gradients, foreach=True)
            finite = norm + loss.detach()
            torch._foreach_mul_(gradients, (self.max_grad_norm / (norm + 1e-6)).clamp(max=1.0))
        if finite.is_cpu:
            if not torch.isfinite(finite):
                raise DataError(
                    f"the loss is {loss.item()} and its gradient's norm {norm.item()}; no parameter has changed"
                )
        else:
            self.adam.found_inf = (~torch.isfinite(finite)).float()  # type: ignore[attr-defined]  # read by fused kernels
        for parameter, gradient in zip(self.parameters, gradients, strict=True):
            parameter.grad = gradient
        self.adam.step()
        return norm

    def set_lr(self, factor: float) -> None:
        """Use `factor` times the configured learning rate from now on."""
        for group in self.adam.param_groups:
            group["lr"] = self.lr * factor

    def state_dict(self) -> OptimizerState:
        """Return the moments and step counts of every parameter (by position) and the learning rate in force."""
        state = self.adam.state_dict()
        return {
            "lr": float(state["param_groups"][0]["lr"]),
            "state": {str(index): dict(values) for index, values in state["state"].items()},
        }

    def load_state_dict(self, state: OptimizerState) -> None:
        """Continue exactly where `state` was taken.

        Raises:
            CheckpointError: it belongs to other parameters.
        """
        full = self.adam.state_dict()
        moments = {int(index): values for index, values in state["state"].items()}
        for index, values in moments.items():
            if index >= len(self.parameters) or values["exp_avg"].shape != self.parameters[index].shape:
                raise CheckpointError(f"the optimiser's state does not fit the parameters (number {index})")
        full["state"] = moments
        full["param_groups"][0]["lr"] = state["lr"]
        self.adam.load_state_dict(full)
