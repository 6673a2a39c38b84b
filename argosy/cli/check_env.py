"""`argosy check-env MODULE:ENV`: is this environment sound?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from argosy.cli.flags import parse


@dataclass(frozen=True)
class CheckFlags:
    """What `argosy check-env` takes."""

    env: Annotated[str, tyro.conf.Positional]
    """MODULE:ENV (a class or function in a module that can be imported from here), or a registered id."""
    steps: int = 1000
    """Random steps to take."""
    seed: int = 0
    """Seed of the environment and of the actions."""


def main(args: Sequence[str]) -> int:
    """Check the environment; 1 when something is wrong with it."""
    flags = parse(CheckFlags, args, prog="argosy check-env", description="Check an environment, in sentences.")
    raise NotImplementedError(flags)
