"""`argosy bench SUITE`: algorithms on a suite's tasks, with several seeds; what is missing is run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from argosy.cli.flags import parse
from argosy.cli.many import run_and_report
from argosy.run.many import Job, make_group, read_seeds
from argosy.run.suites import SUITES, suite


@dataclass(frozen=True)
class BenchFlags:
    """What `argosy bench` takes."""

    suite: Annotated[str, tyro.conf.Positional]
    """Which tasks: see below."""
    algorithms: tuple[str, ...] = ()
    """Which algorithms; none: all that learn online and have presets for these tasks."""
    seeds: str = "0-4"
    """A run for each: 0-4, or 1,3,5."""
    jobs: int = 0
    """How many runs side by side; 0: as many as cores."""
    runs: str = "runs"
    """Folder; the suite's runs lie in bench/SUITE below it."""
    dry: bool = False
    """Say what would be run, and run nothing."""
    json: bool = False
    """Print the results as one line of JSON, last, on standard output."""
    quiet: bool = False
    """Neither progress nor summary."""


def main(args: Sequence[str]) -> int:
    """Run what is missing of a suite."""
    tasks = "; ".join(f"{name}: {', '.join(tasks)}" for name, tasks in SUITES.items())
    flags = parse(
        BenchFlags,
        args,
        prog="argosy bench",
        description="Train algorithms on the tasks of a suite with several seeds. Run it again after Ctrl-C: what has "
        f"ended is kept, what was cut off goes on. Suites: {tasks}.",
    )
    experiments = suite(flags.suite, flags.algorithms, read_seeds(flags.seeds))
    root = Path(flags.runs) / "bench" / flags.suite
    if flags.dry:
        jobs = [Job(experiment, root) for experiment in experiments]
        print("\n".join(f"{job.name}: {'there' if job.result() else 'missing'}" for job in jobs))
        return 0
    return run_and_report(make_group(root, experiments), flags.jobs, as_json=flags.json, quiet=flags.quiet)
