"""`argosy report RUN... -o FILE`: what runs have come to, as one page; `argosy compare A B`: which are better."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

import argosy
from argosy.errors import CheckpointError
from argosy.files import make_folder, write_atomically

if TYPE_CHECKING:
    import argosy.report  # otherwise when it is used: help needs none of it


@dataclass(frozen=True, kw_only=True)
class Report:
    """Write one page on what runs have come to."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...]")] = ("runs",)
    """Runs' folders, folders above them, or patterns of such."""
    output: Annotated[str, tyro.conf.arg(aliases=["-o"])] = "report.html"
    """The file."""
    threshold: float | None = None
    """Return to whose first time steps and seconds are told; none: the runs' target, or near the best return."""

    def __call__(self) -> int:
        """Write the page."""
        studies, said = argosy.report.read_studies(self.runs)
        fleets, of_fleets = argosy.report.read_fleets(self.runs)
        runs, more = _readable(self.runs, or_studies=bool(studies))
        html = argosy.report.render(runs, [*said, *of_fleets, *more], self.threshold, studies, fleets)
        make_folder(Path(self.output).parent)
        write_atomically(Path(self.output), html.encode("utf-8", "replace"))
        print(f"report: {self.output} ({len(runs)} runs)")
        return 0


@dataclass(frozen=True)
class Compare:
    """Say whether runs A are better than B, and how sure it is."""

    a: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="A")]
    """Runs: a folder of one, a folder above several, or a pattern."""
    b: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="B")]
    """Runs to compare them with."""

    def __call__(self) -> int:
        """Print the answer."""
        print("\n".join(argosy.report.compare(_readable([self.a])[0], _readable([self.b])[0])))
        return 0


def _readable(places: Sequence[str], *, or_studies: bool = False) -> tuple[list[argosy.report.Run], list[str]]:
    """Return the runs in some places; what is wrong with them is printed, too. None will do where `or_studies`."""
    runs, said = argosy.report.read_runs(places)
    for note in said:
        print(f"argosy: {note}", file=sys.stderr)
    if not runs and not or_studies:
        raise CheckpointError(f"no run in {', '.join(places)} can be read")
    return runs, said
