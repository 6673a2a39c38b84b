"""Trains with several seeds side by side: what `argosy train --seeds` does, for Python."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tqdm import tqdm

from argosy.algorithm import Algorithm
from argosy.env.tasks import TaskOf
from argosy.errors import ArgosyError, ConfigError
from argosy.experiment import Experiment
from argosy.named import elsewhere, given_code
from argosy.process import num_cores
from argosy.run.folder import RunFolder, resume_command
from argosy.run.many import Outcome, new_group, run_many
from argosy.run.result import Result
from argosy.run.train import asked_for


def train_seeds(
    algorithm: str | type[Algorithm] | Experiment,
    task: TaskOf | None = None,
    *,
    seeds: str | Iterable[int] = "0-4",
    jobs: int = 0,
    runs: str | Path = "runs",
    show_progress: bool = True,
    **changes: Any,
) -> list[Result]:
    """Train once with each seed, some runs side by side, each in a process of its own with cores of its own.

        results = argosy.train_seeds("dqn", "CartPole-v1", seeds="0-4", jobs=2)
        print([result.test_return_mean for result in results])

    Does what `argosy train --seeds` does; scripts need no `if __name__ == "__main__"` for it.

    Args:
        algorithm: see `train`.
        task: see `train`.
        seeds: a run for each: "0-4", "1,3,5", or numbers.
        jobs: how many side by side; 0: as many as cores.
        runs: folder under which the runs get theirs, in one of their own below `many`.
        show_progress: a bar that counts runs, on standard error.
        changes: see `train`; callbacks by their names only.

    Returns:
        What each run has come to, in the order of the seeds.

    Raises:
        ConfigError, SpaceError: as `train` says; or code is given that only this process has, e.g. of this script.
        ArgosyError: runs have failed; says why, where the others are and how to go on.
        KeyboardInterrupt: Ctrl-C; all runs are saved, and it says how to go on.
    """
    if not isinstance(seeds, Iterable):
        raise ConfigError(f"seeds is {seeds!r}; give '0-4', or numbers such as [1, 3, 5] or range(5)")
    experiment = asked_for(algorithm, task, changes)
    if missing := [name for name in given_code(experiment.to_dict()) if elsewhere(name)]:
        raise ConfigError(f"each run is a process of its own, which cannot find {missing[0]!r}{elsewhere(missing[0])}")
    group = new_group(experiment, seeds if isinstance(seeds, str) else ",".join(map(str, seeds)), runs)
    with tqdm(total=len(group), unit="run", disable=None if show_progress else True) as bar:

        def told(outcome: Outcome) -> None:
            bar.update()

        outcomes = run_many(group, jobs or num_cores(), told=told)
    go_on = f"go on with: {resume_command(group[0].root)}"
    if failed := [f"{one.job.name}: {one.why}" for one in outcomes if one.failed]:
        raise ArgosyError(f"{len(failed)} of {len(group)} runs have failed, {'; '.join(failed)}; {go_on}")
    if len(outcomes) < len(group) or any(one.code for one in outcomes):
        raise KeyboardInterrupt(f"all runs are saved, {go_on}")
    return [Result.read(folder) for job in group if isinstance(folder := job.folder(), RunFolder)]
