"""`argosy algorithms`: what there is and what it is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.cli.flags import parse
from argosy.cli.help import table


@dataclass(frozen=True)
class AlgorithmsFlags:
    """No options."""


def main(args: Sequence[str]) -> int:
    """Print a line per algorithm."""
    parse(AlgorithmsFlags, args, prog="argosy algorithms", description="List the algorithms and what they are for.")
    print(table())
    print("\n`argosy train NAME --help` lists an algorithm's settings.")
    return 0
