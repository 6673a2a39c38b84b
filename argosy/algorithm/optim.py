"""One gradient step: gradient, guard, clipping, Adam."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TypedDict

import torch
from torch import nn

from argosy.errors import DataError

_DENORMAL = 5e-324  # smaller than any normal number


class AdamState(TypedDict):
    """What `Adam.state_dict` returns; the moments have one entry per parameter."""

    lr: float
    steps: torch.Tensor
    exp_avgs: list[torch.Tensor]
    exp_avg_sqs: list[torch.Tensor]


class Adam:
    """Adam (Kingma and Ba, 2015, https://arxiv.org/abs/1412.6980) over some parameters, one call per gradient step.

    Calls torch's fused kernel without the bookkeeping of `torch.optim` (hooks, parameter groups), which costs as much
    as the kernel when networks are small. Clipping by norm is done inside the kernel.

    A step whose loss or gradient norm is not finite changes nothing: on the CPU, where looking is free, it raises; on a
    GPU, where looking would make the host wait, the kernel skips it and `Algorithm._finish` finds the loss among the
    metrics that it fetches anyway.

    Args:
        parameters: what to train.
        lr: learning rate.
        eps: added to the denominator.
        max_grad_norm: gradients are scaled down to this global norm; None: not.
        betas: decay rates of the two moments.
    """

    def __init__(
        self,
        parameters: Iterable[nn.Parameter],
        *,
        lr: float,
        eps: float = 1e-8,
        max_grad_norm: float | None = None,
        betas: tuple[float, float] = (0.9, 0.999),
    ) -> None:
        self.parameters: list[torch.Tensor] = list(parameters)
        self.base_lr = self.lr = lr
        self.eps = eps
        self.max_grad_norm = max_grad_norm
        self.betas = betas
        self.steps = torch.zeros((), device=self.parameters[0].device)
        self.exp_avgs = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.exp_avg_sqs = [torch.zeros_like(parameter) for parameter in self.parameters]

    def step(self, loss: torch.Tensor) -> torch.Tensor | None:
        """Minimise the scalar `loss` by one step; gradients are taken for these parameters alone.

        Returns:
            The gradient's norm before clipping (a scalar tensor); None when `max_grad_norm` is.

        Raises:
            DataError: loss or norm are not finite; nothing has changed.
        """
        gradients = list(torch.autograd.grad(loss, self.parameters))
        norm = scale = skip = None
        finite = loss.detach()
        if self.max_grad_norm is not None:
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(gradients)))
            scale = (norm / self.max_grad_norm).clamp_(min=1.0)  # the kernel divides gradients by it
            finite = finite + norm
        if not finite.is_cpu:
            skip = (~torch.isfinite(finite)).float()
        elif not math.isfinite(finite.item()):
            of_norm = "" if norm is None else f" and the norm of its gradient {norm.item()}"
            raise DataError(f"the loss is {loss.item()}{of_norm}; no parameter has changed")
        # Moments of dead units decay into denormal numbers, on which this kernel takes five times as long: they count
        # as 0 within it; outside of it the process's arithmetic stays as it was
        flushing = _DENORMAL * 1.0 == 0.0
        torch.set_flush_denormal(True)
        with torch.no_grad():
            self.steps += 1.0
            torch._fused_adam_(
                self.parameters,
                gradients,
                self.exp_avgs,
                self.exp_avg_sqs,
                [],
                [self.steps] * len(self.parameters),
                lr=self.lr,
                beta1=self.betas[0],
                beta2=self.betas[1],
                weight_decay=0.0,
                eps=self.eps,
                amsgrad=False,
                maximize=False,
                grad_scale=scale,
                found_inf=skip,
            )
            if skip is not None:
                self.steps -= skip
        torch.set_flush_denormal(flushing)
        return norm

    def scale_lr(self, factor: float) -> None:
        """Use `factor` times the configured learning rate from now on."""
        self.lr = self.base_lr * factor

    def state_dict(self) -> AdamState:
        """Return the moments, step counts and the learning rate in force (no copies)."""
        return {"lr": self.lr, "steps": self.steps, "exp_avgs": self.exp_avgs, "exp_avg_sqs": self.exp_avg_sqs}

    def load_state_dict(self, state: AdamState) -> None:
        """Continue exactly where `state` was taken (of an optimiser of the same parameters)."""
        self.lr = state["lr"]
        own = (self.steps, *self.exp_avgs, *self.exp_avg_sqs)
        saved = (state["steps"], *state["exp_avgs"], *state["exp_avg_sqs"])
        for tensor, value in zip(own, saved, strict=True):
            tensor.copy_(value)
