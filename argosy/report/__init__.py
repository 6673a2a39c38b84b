"""From many runs to an answer: robust averages over runs and tasks, and how sure they are."""

from argosy.report.statistics import (
    Interval as Interval,
)
from argosy.report.statistics import (
    improvement as improvement,
)
from argosy.report.statistics import (
    interval as interval,
)
from argosy.report.statistics import (
    iqm as iqm,
)
from argosy.report.statistics import (
    profile as profile,
)
