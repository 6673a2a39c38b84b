"""The env checker: says in sentences what is wrong with an environment."""

from argosy.env.check.checker import check_env
from argosy.env.check.finding import Finding

__all__ = ["Finding", "check_env"]
