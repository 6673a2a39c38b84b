"""`argosy resume RUN`: go on with a run that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from argosy.cli.flags import parse
from argosy.cli.show import finish
from argosy.run.train import resume


@dataclass(frozen=True)
class ResumeFlags:
    """What `argosy resume` takes."""

    run: Annotated[str, tyro.conf.Positional]
    """The run's folder."""
    total_steps: int | None = None
    """The run's new length in steps (offline: updates); a run that has finished goes on, too."""
    trust: bool = False
    """Import the code that the run names as MODULE:CLASS."""
    json: bool = False
    """Print the result as one line of JSON, last, on standard output."""
    quiet: bool = False
    """No progress bar and no report."""


def main(args: Sequence[str]) -> int:
    """Go on with the run."""
    flags = parse(
        ResumeFlags, args, prog="argosy resume", description="Go on with a run that was stopped, from its checkpoint."
    )
    result = resume(flags.run, total_steps=flags.total_steps, show_progress=not flags.quiet, trust=flags.trust)
    return finish(result, json=flags.json, quiet=flags.quiet)
