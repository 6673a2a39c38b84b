"""`argosy algorithms`: what there is and what it is for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from argosy.algorithm import ALGORITHMS, algorithm_class
from argosy.cli.flags import parse
from argosy.presets import tuned_families


@dataclass(frozen=True)
class AlgorithmsFlags:
    """No options."""


def main(args: Sequence[str]) -> int:
    """Print a line per algorithm."""
    parse(AlgorithmsFlags, args, prog="argosy algorithms", description="List the algorithms and what they are for.")
    print(f"{'name':<10} {'learns':<10} {'action spaces':<30} {'presets':<24} what it is")
    for name in ALGORITHMS:
        cls = algorithm_class(name)
        actions = ", ".join(space.__name__ for space in cls.action_spaces)
        families = ", ".join(tuned_families(name)) or "-"
        what = (cls.__doc__ or "").strip().splitlines()[0]
        print(f"{name:<10} {cls.kind:<10} {actions:<30} {families:<24} {what}")
    print("\n`argosy train NAME --help` lists an algorithm's settings.")
    return 0
