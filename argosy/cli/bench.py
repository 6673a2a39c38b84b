"""`argosy bench SUITE`: algorithms x tasks x seeds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from argosy.cli.flags import SideBySide
from argosy.run.suites import SUITES, suite

_TASKS = "; ".join(f"{name}: {', '.join(tasks)}" for name, tasks in SUITES.items())


@dataclass(frozen=True, kw_only=True)
class Bench(SideBySide):
    """Train algorithms on the tasks of a suite with several seeds.

    Run it again after Ctrl-C: what has ended is kept, what was cut off goes on.
    """

    suite: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SUITE", help=f"Which tasks. {_TASKS}.")]
    algorithms: tuple[str, ...] = ()
    """Which algorithms; none: all that learn online and have presets for these tasks."""
    seeds: str = "0-4"
    """A run for each: 0-4, or 1,3,5."""
    runs: str = "runs"
    """Folder; the suite's runs lie in bench/SUITE below it."""
    dry: bool = False
    """Say what would be run, and run nothing."""

    def __call__(self) -> int:
        """Run what is missing."""
        from argosy.cli.many import run_and_report  # here: help needs none of it
        from argosy.run.many import Job, make_group, read_seeds

        algorithms = [name for names in self.algorithms for name in names.split(",")]
        experiments = suite(self.suite, algorithms, read_seeds(self.seeds))
        root = Path(self.runs) / "bench" / self.suite
        if self.dry:
            jobs = [Job(experiment, root) for experiment in experiments]
            print("\n".join(f"{job.name}: {'there' if job.result() else 'missing'}" for job in jobs))
            return 0
        return run_and_report(make_group(root, experiments), self)
