"""Optimisers: gradient, guard, clipping, step; all settings in one config."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import nn
from torch.autograd.graph import increment_version

from argosy.config import check_limits, limited, name_code
from argosy.errors import ConfigError, DataError
from argosy.named import Registry
from argosy.ops.kernels import foreach_div_, foreach_norm, fused_adam_, fused_adamw_, unscale_check_

KINDS = Registry("optimiser", {k.lower(): (k, "torch.optim") for k in ("Adam", "AdamW", "RMSprop", "SGD")}, ("step",))


@dataclass(frozen=True, kw_only=True)
class OptimConfig:
    """One optimiser; an algorithm has one of these for each that it uses."""

    kind: str = "adam"
    """adam, adamw, rmsprop, sgd, or "MODULE:CLASS" of a `torch.optim.Optimizer` (e.g. torch.optim:Adagrad)."""
    lr: float = limited(1e-3, gt=0.0, lt=math.inf)
    """Learning rate."""
    eps: float = limited(1e-8, gt=0.0)
    """Added to the denominator (adam, adamw, rmsprop)."""
    betas: tuple[float, float] = limited((0.9, 0.999), ge=0.0, lt=1.0)
    """Decay rates of the two moments (adam, adamw)."""
    weight_decay: float = limited(0.0, ge=0.0)
    """Weight of the L2 penalty (adamw: decoupled from the gradient)."""
    max_grad_norm: float | None = limited(None, gt=0.0)
    """Scale gradients down to this global norm; None: not."""
    lr_schedule: Literal["constant", "linear"] = limited("constant", among=("constant", "linear"))
    """linear: the learning rate falls to 0 over the run."""
    args: Mapping[str, object] = field(default_factory=dict)
    """Further arguments of the optimiser's class, e.g. momentum (not for adam and adamw)."""

    def __post_init__(self) -> None:
        check_limits(self)
        name_code(self, "kind")
        KINDS.source(self.kind)  # an unknown name is refused now
        if self.kind in ("adam", "adamw") and self.args:
            raise ConfigError(f"OptimConfig.args are {dict(self.args)}, but {self.kind} takes none beside the fields")

    def build(self, what: nn.Module | Iterable[torch.Tensor]) -> Optim:
        """Make the optimiser of a module's parameters, or of the given ones.

        Raises:
            ConfigError: the class cannot be imported or does not take its arguments.
        """
        parameters = [p for p in (what.parameters() if isinstance(what, nn.Module) else what) if p.requires_grad]
        if self.kind in ("adam", "adamw"):
            return Adam(self, parameters)
        from argosy.algorithm.torch_optim import TorchOptim  # here, because that module names this one

        return TorchOptim(self, parameters, KINDS.load(self.kind))


class Optim(ABC):
    """Minimises losses over some parameters.

    A step whose loss or gradient is not finite changes nothing: on the CPU, where looking is free, it raises; on a
    GPU, where looking would make the host wait, it is skipped and `Algorithm._finish` finds the loss among the metrics
    that it fetches anyway.
    """

    def __init__(self, config: OptimConfig, parameters: Sequence[torch.Tensor]) -> None:
        self.config = config
        self.parameters = list(parameters)
        self.lr = config.lr
        self._strides = [parameter.stride() for parameter in self.parameters]
        self._one = torch.ones((), device=self.parameters[0].device)
        self._is_bad = torch.zeros_like(self._one)

    def step(self, loss: torch.Tensor) -> torch.Tensor | None:
        """Minimise the scalar `loss` by one step; gradients are taken for these parameters alone.

        That of a parameter which the loss does not use is 0.

        Returns:
            The gradient's norm before clipping (a scalar tensor); None when `max_grad_norm` is.

        Raises:
            DataError: loss or gradient are not finite; nothing has changed.
        """
        gradients = list(torch.autograd.grad(loss, self.parameters, allow_unused=True))
        if [None if gradient is None else gradient.stride() for gradient in gradients] != self._strides:
            gradients = list(map(_laid_out, gradients, self.parameters))
        norm = scale = skip = None
        if self.config.max_grad_norm is not None:
            norm = torch.linalg.vector_norm(torch.stack(foreach_norm(gradients)))
            scale = (norm / self.config.max_grad_norm).clamp_(min=1.0)
        else:
            unscale_check_(gradients, self._is_bad, self._one)  # far cheaper than a norm
        if not loss.is_cpu:
            finite = loss.detach() if norm is None else loss.detach() + norm
            skip = torch.max((~torch.isfinite(finite)).float(), self._is_bad)
            self._is_bad.zero_()
        elif self._is_bad.item() or not math.isfinite(loss.item() + (0.0 if norm is None else norm.item())):
            self._is_bad.zero_()
            of_gradient = "its gradient is not" if norm is None else f"the norm of its gradient {norm.item()}"
            raise DataError(f"the loss is {loss.item()} and {of_gradient}; this step has changed nothing")
        with torch.no_grad():
            self._apply(gradients, scale, skip)
        return norm

    def schedule(self, progress: float) -> None:
        """Set the learning rate for a share `progress` of the run, 0 to 1."""
        self.lr = self.config.lr * (1.0 - progress if self.config.lr_schedule == "linear" else 1.0)

    @abstractmethod
    def _apply(self, gradients: list[torch.Tensor], scale: torch.Tensor | None, skip: torch.Tensor | None) -> None:
        """Make a step with gradients divided by `scale`; where `skip` is 1 (on a GPU) change nothing."""

    @abstractmethod
    def state_dict(self) -> Mapping[str, Any]:
        """Return what the next step depends on (no copies)."""

    @abstractmethod
    def load_state_dict(self, state: Any) -> None:
        """Continue exactly where `state` was taken (of an optimiser of the same parameters)."""


def _laid_out(gradient: torch.Tensor | None, parameter: torch.Tensor) -> torch.Tensor:
    """Return a gradient in the layout of its parameter, which fused kernels take for granted; None: zeros."""
    if gradient is None:
        return torch.zeros_like(parameter)
    return gradient if gradient.stride() == parameter.stride() else torch.empty_like(parameter).copy_(gradient)


class Adam(Optim):
    """Adam (Kingma and Ba, 2015, https://arxiv.org/abs/1412.6980) and AdamW (https://arxiv.org/abs/1711.05101).

    Calls torch's fused kernel without the bookkeeping of `torch.optim` (hooks, parameter groups), which costs as much
    as the kernel when networks are small. The kernel scales and skips.
    """

    def __init__(self, config: OptimConfig, parameters: Sequence[torch.Tensor]) -> None:
        super().__init__(config, parameters)
        self.steps = torch.zeros((), device=self.parameters[0].device)
        self.exp_avgs = [torch.zeros_like(parameter) for parameter in self.parameters]
        self.exp_avg_sqs = [torch.zeros_like(parameter) for parameter in self.parameters]

    def _apply(self, gradients: list[torch.Tensor], scale: torch.Tensor | None, skip: torch.Tensor | None) -> None:
        steps = self.steps + 1.0
        if scale is not None and scale.dtype is not self.steps.dtype:  # the kernel scales by float32 alone
            foreach_div_(gradients, scale)
            scale = None
        kernel = fused_adam_ if self.config.kind == "adam" else fused_adamw_
        kernel(
            self.parameters,
            gradients,
            self.exp_avgs,
            self.exp_avg_sqs,
            [],
            [steps] * len(self.parameters),
            lr=self.lr,
            beta1=self.config.betas[0],
            beta2=self.config.betas[1],
            weight_decay=self.config.weight_decay,
            eps=self.config.eps,
            amsgrad=False,
            maximize=False,
            grad_scale=scale,
            found_inf=skip,
        )
        increment_version(self.parameters)  # as any other write does; the kernel does not
        self.steps = steps if skip is None else steps - skip

    def state_dict(self) -> dict[str, Any]:
        """Return the moments of each parameter, step counts and the learning rate in force (no copies)."""
        return {"lr": self.lr, "steps": self.steps, "exp_avgs": self.exp_avgs, "exp_avg_sqs": self.exp_avg_sqs}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `state` was taken (of an optimiser of the same parameters)."""
        self.lr = state["lr"]
        own = (self.steps, *self.exp_avgs, *self.exp_avg_sqs)
        saved = (state["steps"], *state["exp_avgs"], *state["exp_avg_sqs"])
        for tensor, value in zip(own, saved, strict=True):
            tensor.copy_(value)
