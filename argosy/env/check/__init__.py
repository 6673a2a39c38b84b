"""The env checker: says in sentences what is wrong with an environment, of one agent or of several."""

from argosy.env.check.agents import test_environment
from argosy.env.check.checker import check_env
from argosy.env.check.finding import Finding

__all__ = ["Finding", "check_env", "test_environment"]
