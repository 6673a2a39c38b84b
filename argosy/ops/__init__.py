"""Pure functions on tensors: returns and advantages, distributions."""

from argosy.ops.distributions import (
    categorical_entropy,
    categorical_kl,
    categorical_log_prob,
    categorical_sample,
    gaussian_entropy,
    gaussian_kl,
    gaussian_log_prob,
    gaussian_sample,
    squashed_gaussian_log_prob,
)
from argosy.ops.natural import check_gradient, conjugate_gradient, fisher_product, flat_gradient, move
from argosy.ops.returns import explained_variance, gae, values_next
from argosy.ops.vtrace import vtrace

__all__ = [
    "categorical_entropy",
    "categorical_kl",
    "categorical_log_prob",
    "categorical_sample",
    "check_gradient",
    "conjugate_gradient",
    "explained_variance",
    "fisher_product",
    "flat_gradient",
    "gae",
    "gaussian_entropy",
    "gaussian_kl",
    "gaussian_log_prob",
    "gaussian_sample",
    "move",
    "squashed_gaussian_log_prob",
    "values_next",
    "vtrace",
]
