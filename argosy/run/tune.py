"""Looks for better settings: trials are runs side by side, what to try next and what to give up is up to Optuna.

A study's folder, runs/tune/TASK/ALGORITHM/NAME/:

| file | what |
| --- | --- |
| study.json | experiment, space, trials so far, importance of each setting: what a report shows |
| journal.log | Optuna's storage |
| trials/N/ | the run of trial N |
| best.json | settings of the best trial, for `argosy train --preset` |
"""

from __future__ import annotations

import dataclasses
import json
import math
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from argosy.config import to_plain
from argosy.errors import ConfigError, require
from argosy.experiment import Experiment
from argosy.files import claimed, make_folder, read_json, write_atomically
from argosy.presets import preset
from argosy.presets.search import Range
from argosy.run.folder import located
from argosy.run.many import Job, Outcome, Start, make_group, run_many

if TYPE_CHECKING:
    import optuna

_TEST = "test/return_mean"
_LOOK_S = 2.0
"""Seconds between two looks at a trial's tests, for which all of its metrics are read."""
_STATES = {"COMPLETE": "complete", "PRUNED": "given up"}
_OF_A_RUN = ("task", "data", "expert", "init", "seed", "device", "threads", "callbacks", "logger")  # not a preset's


def shown(settings: Mapping[str, object]) -> dict[str, str]:
    """Return settings in few characters."""
    return {name: f"{value:.3g}" if isinstance(value, float) else str(value) for name, value in settings.items()}


@dataclasses.dataclass(frozen=True)
class Trial:
    """What one trial has come to."""

    number: int
    """Names the folder of its run."""
    settings: Mapping[str, object]
    state: str
    """complete, given up or failed."""
    score: float | None
    """Mean return of its best policy's fresh episodes; of one that was given up: of its last test."""
    why: str = ""
    """Of one that failed."""

    @property
    def shown(self) -> dict[str, str]:
        """The settings in few characters."""
        return shown(self.settings)


@dataclasses.dataclass
class _Running:
    """A trial whose run goes on."""

    trial: optuna.Trial
    tests: int = 0
    """That Optuna knows of."""
    looked: float = -math.inf
    """When it was looked at last."""
    given_up: bool = False


class Study:
    """A search that can be ended and gone on with at any time.

    Args:
        folder: its files; made if need be.
        experiment: what is to be improved; its own settings are tried first, where they lie in the space.
        space: which settings, and where.
        sampler: what proposes settings.
        pruner: median: a trial whose tests are worse than the median of those before is given up, but for the first
            third of its tests, which say little yet.

    Raises:
        MissingExtraError: Optuna is not installed.
        ConfigError: the folder holds another study, or nothing is tested.
    """

    def __init__(
        self,
        folder: Path,
        experiment: Experiment,
        space: Mapping[str, Range],
        *,
        sampler: Literal["tpe", "random"] = "tpe",
        pruner: Literal["median", "none"] = "median",
    ) -> None:
        require("optuna", "tune")
        if experiment.trainer.episode_per_test == 0:
            raise ConfigError("trainer.episode_per_test is 0, but trials are judged by tests; give it 1 or more")
        import optuna
        from optuna.storages.journal import JournalFileBackend

        self.folder, self.experiment, self.space = folder, located(experiment), space
        self._file, self._states = folder / "study.json", optuna.trial.TrialState
        described = {key: value for key, value in self.experiment.to_dict().items() if key not in ("argosy", "format")}
        self._about: dict[str, Any] = {"experiment": described, "space": to_plain(space)}
        if self._file.is_file() and {name: read_json(self._file).get(name) for name in self._about} != self._about:
            raise ConfigError(f"{str(folder)!r} holds a study of other settings or another space; give another --name")
        make_folder(folder)
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        storage = JournalFileBackend(str(folder / "journal.log"))
        median = optuna.pruners.MedianPruner(n_warmup_steps=1 + experiment.trainer.epochs // 3)
        self._study = optuna.create_study(
            storage=optuna.storages.JournalStorage(storage),
            pruner=median if pruner == "median" else optuna.pruners.NopPruner(),
            study_name="argosy",
            direction="maximize",
            load_if_exists=True,
        )
        # Another seed whenever it goes on, or it would propose the same again
        seed = int(np.random.SeedSequence([experiment.seed, len(self._study.trials)]).generate_state(1)[0])
        samplers = {"tpe": optuna.samplers.TPESampler, "random": optuna.samplers.RandomSampler}
        self._study.sampler = samplers[sampler](seed=seed)
        self._running: dict[Path, _Running] = {}

    @property
    def trials(self) -> list[Trial]:
        """Those that have ended."""
        return [self._trial(one) for one in self._study.trials if self._has_ended(one)]

    @property
    def best(self) -> Trial | None:
        """The one with the highest score; of those that were given up none."""
        scored = [(one.score, one) for one in self.trials if one.state == "complete" and one.score is not None]
        return max(scored, key=lambda one: one[0])[1] if scored else None

    @property
    def best_preset(self) -> Path:
        """The file with the settings of the best trial."""
        return self.folder / "best.json"

    def run(
        self,
        trials: int,
        jobs: int,
        told: Callable[[Trial], None] = lambda trial: None,
        *,
        start: Start | None = None,
    ) -> bool:
        """Make trials until there are `trials`, those of earlier calls included; return whether all have been made.

        A trial that fails ends no other. Ctrl-C ends all after their current step; the next call goes on with them.

        Args:
            trials: how many in all.
            jobs: how many side by side.
            told: is called with each trial that has ended.
            start: begins a trial's run; None: on this machine.

        Raises:
            ConfigError: another process works on the study, or `trials` is below 1.
        """
        if trials < 1:
            raise ConfigError(f"trials is {trials}; it must be >= 1")

        def tell(trial: Trial) -> None:
            self._write()
            told(trial)

        def end(outcome: Outcome) -> None:
            if (trial := self._end(outcome)) is not None:
                tell(trial)

        with claimed(self.folder, "end it first (Ctrl-C keeps its trials); --jobs makes several side by side"):
            self._write()
            self._take_up()
            run_many(self._jobs(trials, tell), jobs, start=start, told=end, stops=self._is_hopeless)
        return len(self.trials) >= trials

    def _take_up(self) -> None:
        """Let the trials that were cut off be the next ones, and the experiment's own settings the first of all."""
        if not self._study.trials:
            own = self.experiment.settings()
            inside = {name: self._stored(where, own[name]) for name, where in self.space.items() if own[name] in where}
            self._study.enqueue_trial(inside)
        for one in self._study.trials:
            if one.state == self._states.RUNNING:
                self._study.enqueue_trial(one.params, user_attrs=one.user_attrs)
                self._study.tell(one.number, state=self._states.FAIL)

    def _jobs(self, trials: int, tell: Callable[[Trial], None]) -> Iterator[Job]:
        """Yield the run of the next trial, as long as some are missing; tell of those that cannot be."""
        while len(self.trials) + len(self._running) < trials:
            trial = self._study.ask()
            number = trial.user_attrs.get("run", trial.number)
            trial.set_user_attr("run", number)
            settings = {name: self._proposed(trial, name, where) for name, where in self.space.items()}
            try:
                experiment = self.experiment.replaced(settings)
            except ConfigError as error:  # settings may contradict each other
                tell(self._fail(trial, str(error)))
                continue
            (job,) = make_group(self.folder / "trials" / str(number), [experiment])
            self._running[job.root] = _Running(trial)
            yield job

    def _is_hopeless(self, job: Job) -> bool:
        """Tell Optuna the tests of a run; return whether it gives up the trial."""
        one = self._running[job.root]
        if one.given_up or time.monotonic() - one.looked < _LOOK_S:
            return one.given_up
        tests = [test for row in job.rows() if (test := row.get(_TEST)) is not None]
        for number, test in enumerate(tests[one.tests :], one.tests + 1):
            one.trial.report(test, number)
        one.given_up = len(tests) > one.tests and one.trial.should_prune()
        one.tests, one.looked = len(tests), time.monotonic()
        return one.given_up

    def _end(self, outcome: Outcome) -> Trial | None:
        """Note what a trial has come to, and remove its checkpoints; None: it was cut off."""
        root = outcome.job.root
        one, score = self._running.pop(root), (outcome.result or {}).get("test_return_mean")
        trial = one.trial
        if outcome.code == 130 and not one.given_up:
            return None
        for file in (*root.rglob("checkpoint*.safetensors"), *root.rglob("crash.safetensors")):
            file.unlink()  # with a replay buffer each
        if score is not None:
            return self._trial(self._study.tell(trial, score))
        if one.given_up:
            return self._trial(self._study.tell(trial, state=self._states.PRUNED))
        return self._fail(trial, outcome.why if outcome.code else "no test, so no return")

    def _fail(self, trial: optuna.Trial, why: str) -> Trial:
        trial.set_user_attr("why", why)
        return self._trial(self._study.tell(trial, state=self._states.FAIL))

    def _has_ended(self, one: optuna.trial.FrozenTrial) -> bool:
        return one.state in (self._states.COMPLETE, self._states.PRUNED) or "why" in one.user_attrs

    def _trial(self, one: optuna.trial.FrozenTrial) -> Trial:
        settings = {
            name: json.loads(value) if self.space[name].choices else value for name, value in one.params.items()
        }
        about = one.user_attrs
        return Trial(about["run"], settings, _STATES.get(one.state.name, "failed"), one.value, about.get("why", ""))

    @staticmethod
    def _stored(where: Range, value: object) -> object:
        """Return a value as Optuna has it: choices may be of any type there only as text."""
        return json.dumps(to_plain(value)) if where.choices else value

    def _proposed(self, trial: optuna.Trial, name: str, where: Range) -> object:
        if where.low is None or where.high is None:
            return json.loads(trial.suggest_categorical(name, [json.dumps(choice) for choice in where.choices]))
        if isinstance(where.low, int) and isinstance(where.high, int):
            return trial.suggest_int(name, where.low, where.high, log=where.log)
        return trial.suggest_float(name, where.low, where.high, log=where.log)

    def _write(self) -> None:
        trials = [dataclasses.asdict(trial) for trial in self.trials]
        data = {**self._about, "trials": trials, "importance": self._importance()}
        write_atomically(self._file, (json.dumps(data) + "\n").encode())
        if (best := self.best) is not None:
            write_atomically(self.best_preset, (json.dumps(self._preset(best), indent=2) + "\n").encode())

    def _preset(self, trial: Trial) -> dict[str, Any]:
        """Return the settings of a trial that differ from the preset for its algorithm and task."""
        experiment = self.experiment.replaced(trial.settings)
        memory = {"net.memory": experiment.net.memory} if experiment.net.memory else {}  # what presets go by, and data
        data = {"data": experiment.data} if experiment.data else {}
        usual = preset(experiment.algorithm, experiment.task, **memory, **data).settings()
        return memory | {
            name: to_plain(value)
            for name, value in experiment.settings().items()
            if value != usual.get(name) and name.partition(".")[0] not in _OF_A_RUN
        }

    def _importance(self) -> dict[str, float]:
        """Return each setting's share of the differences between good trials and all; {}: too few to say."""
        from optuna.importance import PedAnovaImportanceEvaluator, get_param_importances

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                return get_param_importances(self._study, evaluator=PedAnovaImportanceEvaluator())
            except (ValueError, RuntimeError):
                return {}
