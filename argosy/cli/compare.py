"""`argosy compare A B`: is A better, and how sure is that?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from argosy.cli.flags import parse
from argosy.cli.report import readable
from argosy.report import compare


@dataclass(frozen=True)
class CompareFlags:
    """What `argosy compare` takes."""

    a: Annotated[str, tyro.conf.Positional]
    """Runs: a folder of one, a folder above several, or a pattern."""
    b: Annotated[str, tyro.conf.Positional]
    """Runs to compare them with."""


def main(args: Sequence[str]) -> int:
    """Print the answer."""
    flags = parse(
        CompareFlags,
        args,
        prog="argosy compare",
        description="Say whether runs A are better than B, and how sure it is.",
    )
    print("\n".join(compare(readable([flags.a])[0], readable([flags.b])[0])))
    return 0
