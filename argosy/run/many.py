"""Several runs side by side, each a process of its own that goes on where it was cut off: here, or where one likes."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from argosy.errors import ArgosyError, ConfigError
from argosy.experiment import NO_CODE, Experiment
from argosy.files import damage_named, make_folder, read_json
from argosy.named import check_trusted
from argosy.run.build import check
from argosy.run.folder import RunFolder, located, new_folder
from argosy.run.process import LocalProcess, Process
from argosy.unread import warn_of_unread

GROUP = "experiments"
"""Folder within the folder of many runs that says what these are to be."""
MOST_SEEDS = 1000
"""That can be meant."""
_POLL_S = 0.2


@dataclass(frozen=True)
class Job:
    """One of many runs."""

    experiment: Experiment
    root: Path
    """Where its folder is made, or is already: there is one run of this algorithm, task and seed at most below it."""
    total_steps: int | None = None
    """Length that a run which has begun is to have; None: the one that it began with."""

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
        folder = self.folder()
        return 0 if folder is None else folder.position

    def is_to_get_longer(self, folder: RunFolder) -> bool:
        """Say whether its run is shorter than it is to be, by its length and its steps, of which rollouts make more."""
        if self.total_steps is None:
            return False
        length = read_json(folder.config)["trainer"]["total_steps"]
        return length is not None and length < self.total_steps and folder.position < self.total_steps

    def result(self) -> dict[str, Any] | None:
        """Return what `result.json` says, if the run has come to its end."""
        folder = self.folder()
        if folder is None or not folder.result.is_file() or self.is_to_get_longer(folder):
            return None
        result = read_json(folder.result)
        if result.get("interrupted", False):
            return None
        with damage_named(folder.result):  # it is reckoned with
            mean = result["test_return_mean"]
            sum([result["env_steps"], result["wall_s"], 0 if mean is None else mean])
        return {**result, "run_dir": str(folder.place)}  # it may have been moved


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

    @property
    def failed(self) -> bool:
        """Whether it has come to an end before its own, and nobody asked for that."""
        return self.code not in (0, 130)

    @property
    def why(self) -> str:
        """Return the line that names the error of a failed process: what is said behind it is how to go on."""
        lines = self.said.splitlines() or [f"exit code {self.code}, and not a word"]
        return next(
            (line for line in reversed(lines) if re.match(r"argosy: error: |[\w.]*(Error|Exception)\b", line)),
            lines[-1],
        )


Start = Callable[[Job, int, int], Process]
"""Begins a run, or goes on with it, in a slot of so many."""


@dataclass
class _Running:
    job: Job
    slot: int
    process: Process
    stopped: bool = False


def make_group(root: Path, experiments: Sequence[Experiment]) -> list[Job]:
    """Write down in the folder `root` what its runs are to be, for `find_group`; return them."""
    make_folder(root / GROUP)
    jobs = [Job(located(experiment), root) for experiment in experiments]
    for job in jobs:
        job.experiment.save(job.config)
    return jobs


def new_group(experiment: Experiment, seeds: str, runs: str | Path) -> list[Job]:
    """Make a new folder below `runs` for a run of each seed.

    Raises:
        ConfigError: none of them could begin.
    """
    check(experiment)
    warn_of_unread(experiment)
    experiments = [experiment.replaced({"seed": seed}) for seed in read_seeds(seeds)]
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{experiment.algorithm}-{experiment.task}"
    return make_group(new_folder(Path(runs) / "many", name.replace("/", "-").replace(":", "-")), experiments)


def find_group(root: str | Path, *, trust: bool = False) -> list[Job]:
    """Return the runs that `make_group` has written down in the folder `root`; none: it is no folder of many runs.

    `trust` is as in `Experiment.load`.
    """
    root = Path(root)
    return [Job(Experiment.load(file, trust=trust), root) for file in sorted((root / GROUP).glob("*.json"))]


def read_seeds(text: str) -> list[int]:
    """Return the seeds that "0-4" or "1,3,5" stand for, each once; of anything else it is a ConfigError."""
    parts: list[range] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            parts.append(range(int(first), int(last if dash else first) + 1))
        count = sum(map(len, parts))
    except (ValueError, OverflowError):
        count = 0
    seeds = [seed for part in parts for seed in part] if 0 < count <= MOST_SEEDS else []
    if not seeds or len(set(seeds)) < count:
        raise ConfigError(
            f"seeds are {text!r}; write 0-4 for five of them, or 1,3,5 (each once, {MOST_SEEDS:,} at most)"
        )
    return seeds


def run_many(
    jobs: Iterable[Job],
    at_once: int,
    *,
    start: Start | None = None,
    told: Callable[[Outcome], None] = lambda outcome: None,
    watched: Callable[[Sequence[Job]], None] = lambda running: None,
    stops: Callable[[Job], bool] = lambda job: False,
) -> list[Outcome]:
    """Run all jobs, `at_once` at a time, on this machine pinned to cores of their own where there are enough.

    A run that has ended is not made again, one that was cut off goes on. One that fails ends no other. Ctrl-C ends all
    after their current step, and each can go on.

    Args:
        jobs: the runs; one is asked for when there is room for it.
        at_once: processes side by side.
        start: begins a run; None: on this machine.
        told: is called with each outcome, as they come.
        watched: is called every moment with the jobs that run.
        stops: is asked every moment whether a job that runs should end after its current step, with code 130.
    """
    if at_once < 1:
        raise ConfigError(f"jobs is {at_once}; it must be >= 0 (0: as many as cores)")
    begin = start or start_here
    waiting, running, outcomes, free = iter(jobs), list[_Running](), list[Outcome](), list(range(at_once))
    with _ctrl_c() as presses:
        while True:
            while free and not presses and (job := next(waiting, None)) is not None:
                if (result := job.result()) is not None:
                    outcomes.append(Outcome(job, result))
                    told(outcomes[-1])
                    continue
                slot = free.pop(0)
                running.append(_Running(job, slot, begin(job, slot, at_once)))
            if not running:
                return outcomes
            watched([one.job for one in running])
            time.sleep(_POLL_S)
            for one in running:
                if len(presses) > 1:
                    one.process.kill()
                elif not one.stopped and (presses or stops(one.job)):  # a second one would kill it
                    one.stopped = True
                    one.process.interrupt()
            for one, code in [(one, one.process.poll()) for one in running]:
                if code is not None:
                    running.remove(one)
                    free.append(one.slot)
                    code = 130 if len(presses) > 1 and code < 0 else code  # killed above
                    said = one.process.said() if code not in (0, 130) else ""
                    outcomes.append(Outcome(one.job, one.job.result() if code == 0 else None, code, said))
                    told(outcomes[-1])


def arguments(job: Job) -> list[str]:
    """Return the command by which a run begins, or goes on."""
    folder = job.folder()
    if folder is not None and folder.has_state:
        longer = ["--total-steps", str(job.total_steps)] if job.is_to_get_longer(folder) else []
        args = ["resume", str(folder.path), *longer, *_trust(folder.config)]
    else:
        args = ["train", "--config", str(job.config), "--runs", str(job.root), *_trust(job.config)]
    return [*args, "--quiet", "--json"]


def _trust(config: Path) -> list[str]:
    """Return the flag by which a run's process trusts the code that its file names, if this process does."""
    with contextlib.suppress(ArgosyError):  # the run will say it
        check_trusted(read_json(config), repr(str(config)), but=NO_CODE)
        return ["--trust"]
    return []


def start_here(job: Job, slot: int, slots: int) -> Process:
    """Begin a run, or go on with it, on this machine."""
    return LocalProcess(arguments(job), _cores(slot, slots))


def _cores(slot: int, slots: int) -> list[int]:
    """Return the cores of a slot; none: there are not enough for each to have its own."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return cores[slot::slots] if 1 < slots <= len(cores) else []


@contextlib.contextmanager
def _ctrl_c() -> Iterator[list[int]]:
    """Count presses of Ctrl-C, and SIGTERMs, instead of being ended by the first."""
    presses: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield presses  # only the main thread may handle signals
        return
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda number, frame: presses.append(number)) for number in numbers]
    try:
        yield presses
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler or signal.SIG_DFL)  # None: one that Python does not know
