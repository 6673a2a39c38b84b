"""Callbacks that many runs want, by name: `--callbacks 'early_stop(tests=5)' 'video(every=3)'`.

Those that write files need a run with a folder, `argosy.train` and `resume`: its trainer is given by `begin`.
"""

from __future__ import annotations

import copy
import math
import warnings
from pathlib import Path
from typing import Any

from argosy.config import check_range
from argosy.data import CollectStats, EpochStats
from argosy.data.tree import State
from argosy.errors import ArgosyError, CheckpointError, ConfigError
from argosy.files import numbered
from argosy.run.folder import RunFolder
from argosy.run.play import check_film, film_policy
from argosy.trainer.base import BaseTrainer
from argosy.trainer.checkpoint import data_of, save_checkpoint
from argosy.trainer.fqe import FittedQ, check_judgeable


class _Counts:
    """A callback whose counts a checkpoint keeps."""

    counts: tuple[str, ...]

    def state_dict(self) -> dict[str, float]:
        """Return what a checkpoint keeps."""
        return {name: getattr(self, name) for name in self.counts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where `state` was taken."""
        for name, value in state.items():
            setattr(self, name, type(getattr(self, name))(value))


class EarlyStop(_Counts):
    """Ends a run that gets no better, as if it had reached its length: it is evaluated then.

    Args:
        tests: how many in a row must not have been better than the best before.
        at_least: by how much a mean return must be higher to be better.
    """

    counts = ("best", "since", "at")

    def __init__(self, tests: int = 10, at_least: float = 0.0) -> None:
        self.tests, self.at_least = tests, at_least
        check_range(self, "tests", ge=1)
        check_range(self, "at_least", ge=0.0)
        self.best, self.since, self.at = -math.inf, 0, -1

    def on_eval(self, trainer: BaseTrainer, stats: CollectStats) -> None:
        """Count a test."""
        if trainer.position == self.at:
            return  # played again after a resume, as another callback had failed
        self.at = trainer.position
        mean = float(stats.returns.mean())
        if mean > self.best + self.at_least:
            self.best, self.since = mean, 0
            return
        self.since += 1
        if self.since >= self.tests:  # a run that is made longer waits anew
            trainer.state.stopped, self.since = True, 0


class FQE:
    """Says what the policy is worth by the data set that it learns from (`argosy.trainer.fqe`), `test/fqe_value`.

    It is a mean discounted return. Where nothing is tested, it says which version of the policy is the best.

    Args:
        updates: of its critic in each epoch.
        batch_size: transitions of each.
    """

    def __init__(self, updates: int = 1000, batch_size: int = 256) -> None:
        self.updates, self.batch_size = updates, batch_size
        check_range(self, "updates", "batch_size", ge=1)
        self.best = -math.inf
        self._judge: FittedQ | None = None
        self._saved: State | None = None

    def on_step(self, trainer: BaseTrainer) -> None:
        """Say at the first step what cannot be judged."""
        if self._judge is not None:
            return
        data = data_of(trainer)
        check_judgeable(trainer.algorithm.policy, data)
        assert data is not None
        self._judge = FittedQ(trainer.algorithm, data)
        if self._saved is not None:
            self._judge.load_state_dict(self._saved)

    def on_epoch(self, trainer: BaseTrainer, stats: EpochStats) -> None:
        """Fit the critic to what the policy has become, and log what it says."""
        self.on_step(trainer)  # an epoch that goes on after an interruption may have no step left
        assert self._judge is not None
        loss = self._judge.fit(self.updates, self.batch_size)
        value = self._judge.value()
        if trainer.logger is not None:
            metrics = {"test/fqe_value": value, "test/fqe_loss": loss}
            trainer.logger.log(metrics, env_step=trainer.position, gradient_step=trainer.state.gradient_step)
        if value > self.best:
            self.best = value
            if trainer.test_collector is None and trainer.save_best_fn is not None:
                trainer.save_best_fn(trainer.algorithm.policy)

    def progress(self) -> int:
        """Return the updates of its critic so far."""
        return 0 if self._judge is None else self._judge.updates

    def state_dict(self) -> State:
        """Return what a checkpoint keeps."""
        return {"best": self.best, "judge": self._saved if self._judge is None else self._judge.state_dict()}

    def load_state_dict(self, state: State) -> None:
        """Go on where `state` was taken."""
        self.best, self._saved, self._judge = float(state["best"]), state["judge"], None


class _InFolder:
    """Knows the run's folder."""

    folder: RunFolder | None = None

    def begin(self, folder: Path) -> None:
        """Be told the run's folder before it begins, or goes on."""
        self.folder = RunFolder(folder)

    def _path(self, name: str) -> Path:
        if self.folder is None:
            raise ConfigError(f"{type(self).__name__} needs a run with a folder: argosy.train or resume")
        return self.folder.place / name


class KeepCheckpoints(_InFolder, _Counts):
    """Keeps full checkpoints on the way, `step-N.safetensors`, beside those that `resume` goes on from.

    `argosy.load` takes each. To go on from one, copy it over the run's checkpoint.safetensors. At each the envs start
    new episodes: see `trainer.checkpoint_epochs`.

    Args:
        every: steps (offline: updates) between two.
        keep: newest ones to keep; 0: all.
    """

    counts = ("saved",)

    def __init__(self, every: int = 100_000, keep: int = 3) -> None:
        self.every, self.keep, self.saved = every, keep, 0
        check_range(self, "every", ge=1)
        check_range(self, "keep", ge=0)

    def on_step(self, trainer: BaseTrainer) -> None:
        """Save when another multiple of `every` has been passed."""
        if trainer.position // self.every <= self.saved:
            return
        number = trainer.position // self.every
        path = self._path(f"step-{number * self.every}.safetensors")
        before, self.saved = self.saved, number
        try:
            save_checkpoint(path, trainer)
        except CheckpointError as error:  # the disk may be full
            self.saved = before
            warnings.warn(f"{path.name} was not kept, the run goes on and will try again: {error}", stacklevel=2)
            return
        kept = list(numbered(path.parent, "step-").values())
        for old in kept[: -self.keep] if self.keep else []:
            old.unlink()


class Video(_InFolder, _Counts):
    """Films the policy after every k-th test, `video-N.gif` after N steps (offline: updates).

    Args:
        every: tests between two films.
        episodes: to show.
        max_steps: frames of a film at most.
    """

    counts = ("tests",)

    def __init__(self, every: int = 5, episodes: int = 1, max_steps: int = 500) -> None:
        self.every, self.episodes, self.max_steps, self.tests = every, episodes, max_steps, 0
        check_range(self, "every", "episodes", "max_steps", ge=1)

    def begin(self, folder: Path) -> None:
        """Be told the run's folder; an env that cannot be filmed is refused before the run has learned anything."""
        super().begin(folder)
        if self.tests == 0:
            check_film(folder, RunFolder(folder).experiment(trust=True), self._path("video-0.gif"))

    def on_eval(self, trainer: BaseTrainer, stats: CollectStats) -> None:
        """Count a test, and film; what cannot be filmed is warned of, as the run is worth more than a film."""
        self.tests += 1
        if self.tests % self.every:
            return
        path = self._path(f"video-{trainer.position}.gif")
        assert self.folder is not None
        experiment = self.folder.experiment(trust=True)  # it is this run's own
        policy = copy.deepcopy(trainer.algorithm.policy)  # whose random numbers are its own
        try:
            film_policy(self.folder.place, experiment, policy, path, self.episodes, self.max_steps)
        except (ArgosyError, OSError) as error:
            warnings.warn(f"{path.name} was not made, the run goes on: {error}", stacklevel=2)
