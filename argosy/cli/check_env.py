"""`argosy check-env MODULE:ENV`: is this environment sound?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated

import tyro

from argosy.cli.flags import gathered, parse
from argosy.env.config import EnvConfig


@dataclass(frozen=True)
class CheckEnv:
    """Say what is wrong with an environment."""

    task: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="TASK")]
    """MODULE:ENV (a class or function in a module that can be imported from here), or a registered id."""
    env: EnvConfig = field(default_factory=EnvConfig)
    """Settings of the environment, as `argosy train` takes them; those of vector envs change nothing."""
    steps: int = 1000
    """Random steps to take; for several agents 3 episodes are played."""
    seed: int = 0
    """Seed of the environment and of the actions."""

    def __call__(self) -> int:
        """Print what was found; 1 when an error is among it."""
        from argosy.env import test_environment  # here: help needs none of it
        from argosy.env.agents.registry import environment_source
        from argosy.env.check import check_env

        if environment_source(self.task) is not None:
            found = test_environment(self.task, self.env.kwargs, seed=self.seed)
            sentences = [f"error: {sentence}" for sentence in found]
        else:
            sentences = [str(one) for one in check_env(self.task, steps=self.steps, seed=self.seed, config=self.env)]
        for sentence in sentences:
            print(sentence)
        errors = sum(sentence.startswith("error") for sentence in sentences)
        print(f"{self.task}: {errors} error(s)" if errors else f"{self.task}: sound")
        return 1 if errors else 0


def main(args: Sequence[str]) -> int:
    """Check as the flags say."""
    return parse(CheckEnv, gathered({"env.kwargs": {}}, args), prog="argosy check-env")()
