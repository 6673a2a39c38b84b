"""`argosy report RUN... -o report.html`: what runs have come to, as one page."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from argosy.cli.flags import parse
from argosy.errors import CheckpointError
from argosy.files import write_atomically
from argosy.report import Run, read_fleets, read_runs, read_studies, render


@dataclass(frozen=True, kw_only=True)
class ReportFlags:
    """What `argosy report` takes."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional] = ("runs",)
    """Runs' folders, folders above them, or patterns of such."""
    output: Annotated[str, tyro.conf.arg(aliases=["-o"])] = "report.html"
    """The file."""
    threshold: float | None = None
    """Return to whose first time steps and seconds are told; none: the runs' target, or near the best return."""


def main(args: Sequence[str]) -> int:
    """Write the page."""
    flags = parse(ReportFlags, args, prog="argosy report", description="Write one page on what runs have come to.")
    studies, said = read_studies(flags.runs)
    fleets, of_fleets = read_fleets(flags.runs)
    runs, more = readable(flags.runs, or_studies=bool(studies))
    html = render(runs, [*said, *of_fleets, *more], flags.threshold, studies, fleets)
    write_atomically(Path(flags.output), html.encode("utf-8", "replace"))
    print(f"report: {flags.output} ({len(runs)} runs)")
    return 0


def readable(places: Sequence[str], *, or_studies: bool = False) -> tuple[list[Run], list[str]]:
    """Return the runs in some places; what is wrong with them is printed, too. None will do where `or_studies`.

    Raises:
        CheckpointError: none can be read.
    """
    runs, said = read_runs(places)
    for note in said:
        print(f"argosy: {note}", file=sys.stderr)
    if not runs and not or_studies:
        raise CheckpointError(f"no run in {', '.join(places)} can be read")
    return runs, said
