"""Pure functions on tensors: returns and advantages, distributions."""

from argosy.ops.distributions import categorical_entropy as categorical_entropy
from argosy.ops.distributions import categorical_kl as categorical_kl
from argosy.ops.distributions import categorical_log_prob as categorical_log_prob
from argosy.ops.distributions import categorical_sample as categorical_sample
from argosy.ops.distributions import gaussian_entropy as gaussian_entropy
from argosy.ops.distributions import gaussian_kl as gaussian_kl
from argosy.ops.distributions import gaussian_log_prob as gaussian_log_prob
from argosy.ops.distributions import gaussian_sample as gaussian_sample
from argosy.ops.distributions import squashed_gaussian_log_prob as squashed_gaussian_log_prob
from argosy.ops.natural import check_gradient as check_gradient
from argosy.ops.natural import conjugate_gradient as conjugate_gradient
from argosy.ops.natural import fisher_product as fisher_product
from argosy.ops.natural import flat_gradient as flat_gradient
from argosy.ops.natural import move as move
from argosy.ops.returns import explained_variance as explained_variance
from argosy.ops.returns import gae as gae
from argosy.ops.returns import values_next as values_next
from argosy.ops.vtrace import vtrace as vtrace
