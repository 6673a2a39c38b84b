"""Natural gradients: steps that are measured by how much a distribution changes, without a matrix."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from argosy.errors import DataError

RESIDUAL = 1e-5
"""Share of the target's length that may be left of it when conjugate gradients stop early."""


def flat_gradient(
    output: torch.Tensor, parameters: Sequence[torch.Tensor], weights: torch.Tensor | None = None
) -> torch.Tensor:
    """Return the gradient [P] with respect to parameters, one after the other; 0 where there is none.

    Args:
        output: a scalar; or a tensor, with the `weights` of its elements.
        parameters: what it may depend on.
        weights: as `output`; None: 1 of the scalar.
    """
    found = torch.autograd.grad(output, parameters, weights, retain_graph=True, allow_unused=True)
    return torch.cat(
        [torch.zeros_like(p).flatten() if g is None else g.flatten() for g, p in zip(found, parameters, strict=True)]
    )


def check_gradient(loss: torch.Tensor, gradient: torch.Tensor) -> None:
    """Check that a scalar loss and its gradient [P] are finite, before a step that no optimiser makes.

    Raises:
        DataError: they are not.
    """
    if not math.isfinite((loss.detach() + gradient.sum()).item()):
        raise DataError(f"the loss is {loss.item()} and its gradient is not finite; this step has changed nothing")


def fisher_product(
    output: torch.Tensor,
    metric: Callable[[torch.Tensor], torch.Tensor],
    parameters: Sequence[torch.Tensor],
    damping: float = 0.0,
) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return the function v -> (F + damping * I) v [P], with F = J' M J and no matrix written out.

    J is the Jacobian of what a network says of a distribution, so that F is the Hessian of the divergence from it
    (Martens, 2020, https://arxiv.org/abs/1412.1193, section 9). J v comes by a backward pass through the backward pass
    of J', which is linear in what it is given; two thirds of the time that differentiating the divergence twice takes.

    Args:
        output: tensor that depends on the parameters.
        metric: change of `output` -> M times it; half their product is how much the distribution diverges.
        parameters: of the network.
        damping: added to the matrix's diagonal.
    """
    given = torch.zeros_like(output, requires_grad=True)
    found = torch.autograd.grad(output, parameters, given, create_graph=True, allow_unused=True)
    used = [(gradient, index) for index, gradient in enumerate(found) if gradient is not None]
    sizes = [parameter.numel() for parameter in parameters]

    def product(vector: torch.Tensor) -> torch.Tensor:
        parts = [part.view_as(p) for part, p in zip(torch.split(vector, sizes), parameters, strict=True)]
        gradients, along = zip(*((gradient, parts[index]) for gradient, index in used), strict=True)
        (change,) = torch.autograd.grad(gradients, given, along, retain_graph=True)
        return flat_gradient(output, parameters, metric(change)) + damping * vector

    return product


@torch.no_grad()
def conjugate_gradient(
    product: Callable[[torch.Tensor], torch.Tensor], target: torch.Tensor, iterations: int = 10
) -> tuple[torch.Tensor, torch.Tensor]:
    """Return x with A x = target, nearly, for a positive definite matrix, and x' A x (Hestenes and Stiefel, 1952).

    The steps are summed up in float64: they cancel each other, and cost nothing beside the products.

    Args:
        product: v -> A v [P].
        target: [P].
        iterations: at most; P of them would be exact.
    """
    residual = target.to(torch.float64, copy=True)
    x, direction, square = torch.zeros_like(residual), residual.clone(), residual @ residual
    enough = RESIDUAL**2 * square
    for _ in range(iterations):
        if square <= enough:
            break
        with torch.enable_grad():
            image = product(direction.to(target.dtype)).double()
        length = square / (direction @ image)
        x += length * direction
        residual -= length * image
        before, square = square, residual @ residual
        direction = residual + (square / before) * direction
    return x.to(target.dtype), (x @ (target - residual)).to(target.dtype)  # A x is what of the target is not left


@torch.no_grad()
def move(parameters: Sequence[torch.Tensor], step: torch.Tensor) -> None:
    """Add a flat step [P] to parameters, in place."""
    parts = torch.split(step, [parameter.numel() for parameter in parameters])
    for parameter, part in zip(parameters, parts, strict=True):
        parameter += part.view_as(parameter)
