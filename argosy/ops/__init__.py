"""Pure functions on tensors: returns and advantages, distributions."""

from argosy.ops.distributions import (
    categorical_entropy,
    categorical_log_prob,
    categorical_sample,
    gaussian_entropy,
    gaussian_log_prob,
    gaussian_sample,
    squashed_gaussian_log_prob,
)
from argosy.ops.returns import explained_variance, gae, values_next

__all__ = [
    "categorical_entropy",
    "categorical_log_prob",
    "categorical_sample",
    "explained_variance",
    "gae",
    "gaussian_entropy",
    "gaussian_log_prob",
    "gaussian_sample",
    "squashed_gaussian_log_prob",
    "values_next",
]
