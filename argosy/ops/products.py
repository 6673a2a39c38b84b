"""Products of float32 matrices on CPUs by oneDNN, where they are large.

torch hands these products to MKL, which is made for Intel's processors: on AMD's it takes twice the time of oneDNN,
which torch has, too, for convolutions. Results differ by rounding alone, and derivatives of any order are there. On
Intel's they take the same time, and torch does without a node of Python.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from argosy.ops.kernels import is_wanted, linear_pointwise

CPUINFO = Path("/proc/cpuinfo")


def _is_intel() -> bool:
    try:
        with CPUINFO.open(errors="replace") as file:
            return "GenuineIntel" in file.read(1_000)  # of the first core: of hundreds it takes the kernel long
    except OSError:
        return "GenuineIntel" in platform.processor()


INTEL = _is_intel()
"""Whether MKL is on the processors that it is made for."""
on = not INTEL and torch.backends.mkldnn.is_available() and torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]  # torch's
"""Whether it is used: where torch has it, and would call MKL without it, as on x86, for a processor of others."""
alone = False
"""Whether all is left to torch, layer by layer, see `torch_alone`."""
LARGE, WIDE = 2**22, 128
"""Multiplications, and outputs of a layer, from which oneDNN is faster: it takes long to begin, and copies what lies
column by column."""


def affine(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return x [..., in] @ weight [in, out] + bias [out]."""
    if not on or x.numel() * bias.numel() < LARGE or not _by_onednn(x, weight):
        return torch.addmm(bias, x, weight) if x.dim() == 2 else x @ weight + bias
    rows = x.flatten(0, -2).contiguous()
    if torch.is_grad_enabled():
        y: torch.Tensor = _Affine.apply(_inner(rows), _inner(weight), _inner(bias))  # type: ignore[no-untyped-call]  # torch's
    else:
        y = linear_pointwise(rows, weight.t(), bias, "none", [], "")
    return y if x.dim() == 2 else y.reshape(*x.shape[:-1], -1)


def affine_each(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """Return x [K, B, in] @ weight [K, in, out] + bias [K, 1, out], each of K by itself."""
    if not on or x.numel() * weight.shape[-1] < len(x) * LARGE or not _by_onednn(x, weight):
        return torch.baddbmm(bias, x, weight)
    return torch.stack([affine(*one) for one in zip(x, weight, bias.squeeze(1), strict=True)])


def _by_onednn(x: torch.Tensor, weight: torch.Tensor) -> bool:
    """Whether a product that is large is one of oneDNN's."""
    return (
        weight.shape[-1] >= WIDE
        and x.shape[-1] == weight.shape[-2]  # torch's own product says what is wrong
        and x.is_cpu
        and x.dtype is weight.dtype is torch.float32
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
    )


@contextmanager
def torch_alone() -> Iterator[None]:
    """Leave all products to torch while the block lasts: what is exported takes any number of rows, anywhere."""
    global on, alone
    before, on, alone = (on, alone), False, True
    try:
        yield
    finally:
        on, alone = before


class _Affine(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(x, weight)
        return linear_pointwise(x, weight.t(), bias, "none", [], "")

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        to_x, to_weight = _gradients(ctx, gradient)
        return to_x, to_weight, gradient.sum(0) if _wanted(ctx, 2) else None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        ctx.save_for_backward(a, b)
        return linear_pointwise(a, b.t(), None, "none", [], "")

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return _gradients(ctx, gradient)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Return a [m, k] @ b [k, n]."""
    if not torch.is_grad_enabled():
        return linear_pointwise(a, b.t(), None, "none", [], "")
    y: torch.Tensor = _Product.apply(_inner(a), _inner(b))  # type: ignore[no-untyped-call]  # torch's
    return y


def _gradients(ctx: Any, gradient: torch.Tensor) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Gradients of a [m, k] @ b [k, n], each in the layout of what it belongs to."""
    a, b = ctx.saved_tensors
    gradient = gradient.contiguous()  # it may repeat a number, or lie among others; oneDNN then takes ages
    to_a = to_b = None
    if _wanted(ctx, 0):
        to_a = _product(b, gradient.t()).t() if _is_transposed(a) else _product(gradient, b.t())
    if _wanted(ctx, 1):
        to_b = _product(gradient.t(), a).t() if _is_transposed(b) else _product(a.t(), gradient)
    return to_a, to_b


def _inner(x: torch.Tensor) -> torch.Tensor:
    """Return the same tensor as a node of its own, of which `_wanted` can tell."""
    return x.view_as(x) if x.is_leaf and x.requires_grad else x


def _wanted(ctx: Any, number: int) -> bool:
    """Whether the gradient of an input is asked for: not of a critic's weights, for one, when its actor learns.

    `ctx.needs_input_grad` says only whether it could be.
    """
    node, _ = ctx.next_functions[number]
    return node is not None and is_wanted(node)


def _is_transposed(matrix: torch.Tensor) -> bool:
    return matrix.stride(0) == 1 and matrix.stride(1) > 1
