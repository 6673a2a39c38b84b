"""`argosy resume RUN`: go on with a run that was stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from argosy.cli.flags import parse
from argosy.cli.many import run_and_report
from argosy.cli.show import finish
from argosy.errors import ConfigError
from argosy.run.many import find_group
from argosy.run.train import resume


@dataclass(frozen=True)
class ResumeFlags:
    """Go on with a run that was stopped, from its checkpoint."""

    run: Annotated[str, tyro.conf.Positional]
    """The run's folder, or that of many runs (`argosy train --seeds`), of which those that are missing go on."""
    jobs: int = 0
    """Of many runs, how many side by side; 0: as many as cores."""
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
    flags = parse(ResumeFlags, args, prog="argosy resume")
    if group := find_group(flags.run, trust=flags.trust):
        if flags.total_steps is not None:
            raise ConfigError(
                f"{flags.run} holds many runs, whose length stays; --total-steps takes one of their folders"
            )
        return run_and_report(group, flags.jobs, as_json=flags.json, quiet=flags.quiet)
    result = resume(flags.run, total_steps=flags.total_steps, show_progress=not flags.quiet, trust=flags.trust)
    return finish(result, json=flags.json, quiet=flags.quiet)
