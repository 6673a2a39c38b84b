"""What is said about many runs: while they run, and in the end."""

from __future__ import annotations

import contextlib
import json
import math
import sys
import time
from collections.abc import Iterator, Sequence

from tqdm import tqdm

from argosy.cli.flags import SideBySide
from argosy.errors import MissingExtraError
from argosy.process import num_cores
from argosy.run.folder import resume_command
from argosy.run.many import Job, Outcome, Start, run_many, start_here

_LOOK_S = 2.0


@contextlib.contextmanager
def machines(flags: SideBySide) -> Iterator[tuple[Start, int]]:
    """Give what starts runs, and how many side by side, as the flags say."""
    if flags.address is None:
        yield start_here, flags.jobs or num_cores()
        return
    from argosy.distributed.many import RayMachines  # here: it needs Ray

    with RayMachines(flags.address) as ray:
        yield ray.start, flags.jobs or ray.room


def run_and_report(group: Sequence[Job], flags: SideBySide) -> int:
    """Run what is missing of a group, with a line for each run that ends and a summary.

    The exit code that it returns is 0 if all have come to their end, 1 if one has failed, 130 after Ctrl-C.
    """
    bar = tqdm(total=len(group), unit="run", disable=True if flags.quiet else None)
    looked = 0.0

    def told(outcome: Outcome) -> None:
        bar.update()
        if not flags.quiet or outcome.failed:
            tqdm.write(line(outcome), file=sys.stderr)

    def watched(running: Sequence[Job]) -> None:
        nonlocal looked
        if not bar.disable and time.monotonic() - looked > _LOOK_S:
            looked = time.monotonic()
            bar.set_postfix_str(", ".join(f"seed {job.experiment.seed}: {job.position:,}" for job in running))

    with machines(flags) as (start, at_once), bar:
        outcomes = run_many(group, at_once, start=start, told=told, watched=watched)
    if not flags.quiet:
        print(summary(outcomes), file=flags.stream)
    codes = [outcome.code for outcome in outcomes]
    stopped = len(outcomes) < len(group) or 130 in codes
    if stopped or any(codes):
        how = "stopped; everything is saved" if stopped else "not all have come to their end"
        print(f"\n{how}. Go on with: {resume_command(group[0].root)}", file=flags.stream)
    if flags.json:
        failed = {outcome.job.name: outcome.why for outcome in outcomes if outcome.failed}
        runs = {"runs": [outcome.result for outcome in outcomes], "failed": failed, "folder": str(group[0].root)}
        print(json.dumps(runs), flush=True)
    return 130 if stopped else int(any(codes))


def line(outcome: Outcome) -> str:
    """One run that has ended."""
    if outcome.result is not None:
        mean, steps = outcome.result["test_return_mean"], outcome.result["env_steps"]
        score = "not tested" if mean is None else f"return {mean:.1f}"
        return f"{outcome.job.name}: {score} after {steps:,} steps, {outcome.result['wall_s']:.0f} s"
    if outcome.code == 130:
        return f"{outcome.job.name}: stopped"
    return f"{outcome.job.name}: FAILED ({outcome.why})"


def summary(outcomes: Sequence[Outcome]) -> str:
    """A line for each algorithm and task: interquartile mean of the returns, and its 95 % interval."""
    returns: dict[str, list[float]] = {}
    for outcome in outcomes:
        name = f"{outcome.job.experiment.algorithm} on {outcome.job.experiment.task}"
        mean = math.nan if outcome.result is None else outcome.result["test_return_mean"]
        returns.setdefault(name, []).append(math.nan if mean is None else mean)
    rows = []
    for name, values in returns.items():
        there = [value for value in values if math.isfinite(value)]
        rows.append(f"  {name}: {_described(there)} ({len(there)} of {len(values)} seeds)")
    return "\n" + "\n".join(rows)


def _described(returns: Sequence[float]) -> str:
    if not returns:
        return "no return"
    from argosy.report import interval

    try:
        value, low, high = interval(list(returns))
    except MissingExtraError:
        return f"mean return {sum(returns) / len(returns):.1f}"
    bounds = f", 95 % interval {low:.1f} to {high:.1f}" if len(returns) > 1 else ""
    return f"interquartile mean of the return {value:.1f}{bounds}"
