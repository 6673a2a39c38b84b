"""`argosy collect RUN --steps N -o FILE`: a data set of what a run's best policy does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from argosy.cli.flags import parse
from argosy.run.collect import collect_data


@dataclass(frozen=True, kw_only=True)
class CollectFlags:
    """What `argosy collect` takes."""

    run: Annotated[str, tyro.conf.Positional]
    """The run's folder."""
    steps: int
    """Transitions to collect, over all environments."""
    output: Annotated[str, tyro.conf.arg(aliases=["-o"])]
    """The file, HDF5; one that is there is replaced in the end."""
    eps: float = 0.0
    """Probability of a uniformly random action instead of the policy's."""
    seed: int = 0
    """Seed of the environments and of random actions."""
    trust: bool = False
    """Import the code that the run names as MODULE:CLASS."""
    quiet: bool = False
    """No progress bar and no report."""


def main(args: Sequence[str]) -> int:
    """Play, write and report."""
    flags = parse(
        CollectFlags,
        args,
        prog="argosy collect",
        description="Write what a run's best policy does, without exploration, to a file for `argosy train --data`.",
    )
    stats = collect_data(
        flags.run,
        flags.output,
        steps=flags.steps,
        eps=flags.eps,
        seed=flags.seed,
        show_progress=not flags.quiet,
        trust=flags.trust,
    )
    if not flags.quiet:
        returns = stats.returns_stat
        shown = "no episode ended" if returns is None else f"{returns.mean:.1f} ± {returns.std:.1f}"
        print(f"return   {shown} over {stats.n_collected_episodes} episodes")
        print(f"steps    {stats.n_collected_steps:,}")
        print(f"file     {flags.output}")
    return 0
