"""Several runs side by side on this machine, each a process of its own that goes on where it was cut off."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from argosy.errors import ArgosyError, ConfigError
from argosy.experiment import NO_CODE, Experiment
from argosy.files import make_folder, read_json
from argosy.named import check_trusted
from argosy.run.folder import RunFolder

GROUP = "experiments"
"""Folder within the folder of many runs that says what these are to be."""
_POLL_S = 0.2
_COMMAND = (
    "import sys; from argosy.env.worker.serve import die_with; die_with({owner}); "
    "from argosy.cli import main; sys.exit(main(sys.argv[1:]))"
)
_PINNED = "import os; os.sched_setaffinity(0, {cores}); " + _COMMAND


@dataclass(frozen=True)
class Job:
    """One of many runs."""

    experiment: Experiment
    root: Path
    """Where its folder is made, or is already: there is one run of this algorithm, task and seed at most below it."""

    @property
    def name(self) -> str:
        """Algorithm, task and seed."""
        return f"{self.experiment.algorithm} on {self.experiment.task}, seed {self.experiment.seed}"

    @property
    def config(self) -> Path:
        """The experiment, as JSON."""
        home = RunFolder.home("", self.experiment.task, str(self.experiment.algorithm))
        return self.root / GROUP / f"{'-'.join(home.parts)}-{self.experiment.seed}.json"

    def folder(self) -> RunFolder | None:
        """Return the run's folder, once it is there."""
        made = RunFolder.home(self.root, self.experiment.task, str(self.experiment.algorithm))
        found = sorted(made.glob(f"*-*-{self.experiment.seed}")) if made.is_dir() else []
        return RunFolder(found[-1]) if found else None

    def rows(self) -> list[dict[str, float | None]]:
        """Return the metrics that the run has noted so far."""
        folder = self.folder()
        return [] if folder is None else folder.rows()

    @property
    def position(self) -> int:
        """Steps that the run has noted so far; offline: updates."""
        last = (self.rows() or [{}])[-1]
        return int(last.get("env_step") or last.get("gradient_step") or 0)

    def result(self) -> dict[str, Any] | None:
        """Return what `result.json` says, if the run has come to its end."""
        folder = self.folder()
        if folder is None or not folder.result.is_file():
            return None
        result = read_json(folder.result)
        return None if result.get("interrupted", False) else result


@dataclass
class Outcome:
    """What a job has come to."""

    job: Job
    result: dict[str, Any] | None
    """As in the run's `result.json`; None: it failed, or was interrupted."""
    code: int = 0
    """Exit code of its process; 130 after Ctrl-C."""
    said: str = ""
    """The end of what a failed process wrote."""


@dataclass
class _Running:
    job: Job
    slot: int
    process: subprocess.Popen[bytes]
    errors: IO[bytes]
    stopped: bool = False


def make_group(root: Path, experiments: Sequence[Experiment]) -> list[Job]:
    """Write down in the folder `root` what its runs are to be, for `find_group`; return them.

    Raises:
        ConfigError: that is not possible.
    """
    make_folder(root / GROUP)
    jobs = [Job(experiment, root) for experiment in experiments]
    for job in jobs:
        job.experiment.save(job.config)
    return jobs


def find_group(root: str | Path, *, trust: bool = False) -> list[Job]:
    """Return the runs that `make_group` has written down in the folder `root`; none: it is no folder of many runs.

    Raises:
        ConfigError: a file is damaged.
        TrustError: a run names code ("MODULE:CLASS") that nobody has named in this process, and `trust` is not set.
    """
    root = Path(root)
    return [Job(Experiment.load(file, trust=trust), root) for file in sorted((root / GROUP).glob("*.json"))]


def read_seeds(text: str) -> list[int]:
    """Return the seeds that "0-4" or "1,3,5" stand for.

    Raises:
        ConfigError: it is something else, or names a seed twice.
    """
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            seeds += range(int(first), int(last if dash else first) + 1)
    except ValueError:
        seeds = []
    if not seeds or len(set(seeds)) < len(seeds):
        raise ConfigError(f"seeds are {text!r}; write 0-4 for five of them, or 1,3,5")
    return seeds


def run_many(
    jobs: Iterable[Job],
    at_once: int,
    *,
    told: Callable[[Outcome], None] = lambda outcome: None,
    watched: Callable[[Sequence[Job]], None] = lambda running: None,
    stops: Callable[[Job], bool] = lambda job: False,
) -> list[Outcome]:
    """Run all jobs, `at_once` at a time, pinned to cores of their own where there are enough.

    A run that has ended is not made again, one that was cut off goes on. One that fails ends no other. Ctrl-C ends all
    after their current step, and each can go on.

    Args:
        jobs: the runs; one is asked for when there is room for it.
        at_once: processes side by side.
        told: is called with each outcome, as they come.
        watched: is called every moment with the jobs that run.
        stops: is asked every moment whether a job that runs should end after its current step, with code 130.
    """
    waiting, running, outcomes, free = iter(jobs), list[_Running](), list[Outcome](), list(range(at_once))
    interrupted = False
    with _ctrl_c() as presses:
        while True:
            while free and not interrupted and (job := next(waiting, None)) is not None:
                if (result := job.result()) is not None:
                    outcomes.append(Outcome(job, result))
                    told(outcomes[-1])
                    continue
                running.append(_start(job, free.pop(0), at_once))
            if not running:
                return outcomes
            watched([one.job for one in running])
            time.sleep(_POLL_S)
            if presses and not interrupted:
                interrupted = True
                for one in running:
                    if not one.stopped:  # a second one would kill it
                        one.process.send_signal(signal.SIGINT)
            if len(presses) > 1:
                for one in running:
                    one.process.kill()
            for one in [one for one in running if not one.stopped and stops(one.job)]:
                one.stopped = True
                if not interrupted:
                    one.process.send_signal(signal.SIGINT)
            for one in [one for one in running if one.process.poll() is not None]:
                running.remove(one)
                free.append(one.slot)
                outcomes.append(_outcome(one))
                told(outcomes[-1])


def _start(job: Job, slot: int, slots: int) -> _Running:
    folder = job.folder()
    if folder is not None and (folder.checkpoint.is_file() or folder.crash.is_file()):
        args = ["resume", str(folder.path), *_trust(folder.config)]
    else:
        args = ["train", "--config", str(job.config), "--runs", str(job.root), *_trust(job.config)]
    cores = _cores(slot, slots)
    command = (_COMMAND if cores is None else _PINNED).format(owner=os.getpid(), cores=cores)
    errors = tempfile.TemporaryFile()  # noqa: SIM115  # lives as long as the process
    process = subprocess.Popen(
        [sys.executable, "-c", command, *args, "--quiet", "--json"],
        stdout=subprocess.DEVNULL,
        stderr=errors,
        start_new_session=True,  # Ctrl-C comes from here, once
    )
    return _Running(job, slot, process, errors)


def _trust(config: Path) -> list[str]:
    """Return the flag by which a run's process trusts the code that its file names, if this process does."""
    with contextlib.suppress(ArgosyError):  # the run will say it
        check_trusted(read_json(config), repr(str(config)), but=NO_CODE)
        return ["--trust"]
    return []


def _cores(slot: int, slots: int) -> list[int] | None:
    """Return the cores of a slot; None: there are not enough for each to have its own."""
    if not hasattr(os, "sched_getaffinity"):
        return None
    cores = sorted(os.sched_getaffinity(0))
    return cores[slot::slots] if 1 < slots <= len(cores) else None


def _outcome(one: _Running) -> Outcome:
    code = one.process.returncode
    one.errors.seek(0)
    said = one.errors.read().decode(errors="replace").strip()[-2000:]
    one.errors.close()
    return Outcome(one.job, one.job.result() if code == 0 else None, code, said if code not in (0, 130) else "")


@contextlib.contextmanager
def _ctrl_c() -> Iterator[list[int]]:
    """Count presses of Ctrl-C instead of being ended by the first."""
    presses: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: presses.append(number))
    try:
        yield presses
    finally:
        signal.signal(signal.SIGINT, before)
