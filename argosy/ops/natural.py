"""Natural gradients: steps that are measured by how much a distribution changes, without a matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from argosy.errors import DataError


def flat_gradient(
    scalar: torch.Tensor, parameters: Sequence[torch.Tensor], *, create_graph: bool = False
) -> torch.Tensor:
    """Return the gradient [P] of a scalar with respect to parameters, one after the other; 0 where there is none."""
    found = torch.autograd.grad(scalar, parameters, create_graph=create_graph, retain_graph=True, allow_unused=True)
    return torch.cat(
        [torch.zeros_like(p).flatten() if g is None else g.flatten() for g, p in zip(found, parameters, strict=True)]
    )


def check_gradient(loss: torch.Tensor, gradient: torch.Tensor) -> None:
    """Check that a scalar loss and its gradient [P] are finite, before a step that no optimiser makes.

    Raises:
        DataError: they are not.
    """
    if not math.isfinite((loss.detach() + gradient.sum()).item()):
        raise DataError(f"the loss is {loss.item()} and its gradient is not finite; no parameter has changed")


def fisher_product(
    divergence: torch.Tensor, parameters: Sequence[torch.Tensor], damping: float = 0.0
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function v -> (F + damping * I) v [P], F the Hessian of a divergence by two backward passes.

    Args:
        divergence: scalar KL(p_old || p) at p = p_old, with p_old constant: its Hessian there is the Fisher matrix.
        parameters: of p.
        damping: added to the matrix's diagonal.
    """
    gradient = flat_gradient(divergence, parameters, create_graph=True)

    def product(vector: torch.Tensor) -> torch.Tensor:
        return flat_gradient(gradient @ vector, parameters) + damping * vector

    return product


@torch.no_grad()
def conjugate_gradient(
    product: Callable[[torch.Tensor], torch.Tensor],
    target: torch.Tensor,
    iterations: int = 10,
    tolerance: float = 1e-10,
) -> torch.Tensor:
    """Return x with A x = target, nearly, for a positive definite matrix (Hestenes and Stiefel, 1952).

    Args:
        product: v -> A v [P].
        target: [P].
        iterations: at most; P of them would be exact.
        tolerance: ends when the square of the residual's norm is below it.
    """
    x, residual, direction = torch.zeros_like(target), target.clone(), target.clone()
    square = residual @ residual
    for _ in range(iterations):
        if square < tolerance:
            break
        with torch.enable_grad():
            image = product(direction)
        length = square / (direction @ image)
        x += length * direction
        residual -= length * image
        before, square = square, residual @ residual
        direction = residual + (square / before) * direction
    return x


@torch.no_grad()
def move(parameters: Sequence[torch.Tensor], step: torch.Tensor) -> None:
    """Add a flat step [P] to parameters, in place."""
    parts = torch.split(step, [parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter += part.view_as(parameter)
