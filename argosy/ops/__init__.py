"""Pure functions on tensors: returns and advantages, distributions."""

from argosy.ops.distributions import (
    categorical_entropy as categorical_entropy,
    categorical_kl as categorical_kl,
    categorical_log_prob as categorical_log_prob,
    categorical_sample as categorical_sample,
    gaussian_entropy as gaussian_entropy,
    gaussian_kl as gaussian_kl,
    gaussian_log_prob as gaussian_log_prob,
    gaussian_sample as gaussian_sample,
    squashed_gaussian_log_prob as squashed_gaussian_log_prob,
)
from argosy.ops.natural import (
    check_gradient as check_gradient,
    conjugate_gradient as conjugate_gradient,
    fisher_product as fisher_product,
    flat_gradient as flat_gradient,
    move as move,
)
from argosy.ops.returns import explained_variance as explained_variance, gae as gae, values_next as values_next
from argosy.ops.vtrace import vtrace as vtrace
