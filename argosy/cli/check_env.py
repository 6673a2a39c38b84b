"""`argosy check-env MODULE:ENV`: is this environment sound?"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import tyro

from argosy.env import test_environment
from argosy.env.agents.registry import environment_source
from argosy.env.check import check_env


@dataclass(frozen=True)
class CheckEnv:
    """Say what is wrong with an environment."""

    env: Annotated[str, tyro.conf.Positional]
    """MODULE:ENV (a class or function in a module that can be imported from here), or a registered id."""
    steps: int = 1000
    """Random steps to take; for several agents 3 episodes are played."""
    seed: int = 0
    """Seed of the environment and of the actions."""

    def __call__(self) -> int:
        """Print what was found; 1 when an error is among it."""
        if environment_source(self.env) is not None:
            sentences = [f"error: {sentence}" for sentence in test_environment(self.env, seed=self.seed)]
        else:
            sentences = [str(finding) for finding in check_env(self.env, steps=self.steps, seed=self.seed)]
        for sentence in sentences:
            print(sentence)
        errors = sum(sentence.startswith("error") for sentence in sentences)
        print(f"{self.env}: {errors} error(s)" if errors else f"{self.env}: sound")
        return 1 if errors else 0
