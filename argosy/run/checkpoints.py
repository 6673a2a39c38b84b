"""The checkpoints of a run: the newest ones, and what a failure has left beside them."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from pathlib import Path

from argosy.errors import CallbackError, CheckpointError, DataError, EnvError
from argosy.files import numbered
from argosy.run.folder import RunFolder, resume_command, trusting_command
from argosy.trainer.base import BaseTrainer, TrainerState
from argosy.trainer.checkpoint import KIND, collectors_of, restore_checkpoint, save_checkpoint
from argosy.trainer.statefile import read_state, write_state

EPISODES = 10
"""Lengths of its longest episode that an env gets between two checkpoints, where they are not counted in epochs."""
MOST_STEPS = 20_000
"""Steps of each env after which there is a checkpoint, however long episodes are (they may never end)."""


def is_due(every: int | None, trainer: BaseTrainer) -> bool:
    """Say whether a checkpoint belongs after an epoch: after each `every`-th, or (None) when the envs can bear it.

    Each checkpoint cuts the episodes under way short. If that came more often than episodes end, a policy would never
    learn how they go on, and all envs would always stand at the same place of theirs: 64 of them in Hopper-v5 with
    30,000 steps per epoch come no further than step 468.
    """
    if every is not None:
        return every > 0 and trainer.state.epoch % every == 0
    collector = collectors_of(trainer).get("train_collector")
    if collector is None or trainer.state.epoch == 1:
        return True
    steps = collector.steps_since_restart
    return steps == 0 or steps >= min(EPISODES * collector.longest_episode, MOST_STEPS)


class Checkpoints:
    """Saves a run and goes on with it.

    A failure never touches the checkpoints before it: what could be saved then stands in a file of its own, from which
    the run goes on. If that fails in the same way, for instance because a number in the buffer is too large, it is
    dropped, and the run goes on from the last checkpoint; if that fails so, too, from the one before. Of the newest
    checkpoints that it keeps, the newest that is whole is used.
    """

    def __init__(self, folder: RunFolder, keep: int) -> None:
        self.folder, self.keep = folder, keep
        self._from: Path | None = None
        """What the run goes on from, until it is saved again."""
        self._saved: TrainerState | None = None

    def save(self, trainer: BaseTrainer) -> bool:
        """Save the run; False (and a warning) if that is not possible now, e.g. because the disk is full.

        Saving starts new episodes, so what is saved already is not saved again: it would be another run that goes on.
        """
        if trainer.state == self._saved:
            return True
        new = self._path("-new")
        try:
            self._check_folder()
            save_checkpoint(new, trainer)
            self._keep(new)
        except (CheckpointError, OSError) as error:
            self._check_folder()
            warnings.warn(f"no checkpoint was written, the run goes on and will try again: {error}", stacklevel=2)
            return False
        for left in (self.folder.crash, self._dropped):
            left.unlink(missing_ok=True)
        self._from = None
        self._saved = copy.deepcopy(trainer.state)
        return True

    def load(self, trainer: BaseTrainer) -> None:
        """Go on from the newest state that is whole; warns when that is not the newest one."""
        paths = [path for path in (self.folder.crash, self._path("-new"), *self._kept()) if path.is_file()]
        if not paths:
            raise CheckpointError(f"the run {str(self.folder.path)!r} has no checkpoint to go on from")
        problems: list[CheckpointError] = []
        for path in paths:
            try:
                state = read_state(path, KIND)
            except CheckpointError as error:
                problems.append(error)
                continue
            if problems:
                warnings.warn(f"{problems[0]}; the run goes on from {path.name}", stacklevel=2)
            restore_checkpoint(path, state, trainer)
            self._from = path
            self._saved = None if path == self.folder.crash or problems else copy.deepcopy(trainer.state)
            if path == self._path("-new"):
                self._keep(path)  # the process before this one died before it could
                self._from = self.folder.checkpoint
            return
        raise problems[0]

    def correct(self, trainer: BaseTrainer) -> None:
        """Let the file that the run goes on from say what `trainer.state` says, which has changed since it was read."""
        assert self._from is not None, "nothing was loaded"
        state = read_state(self._from, KIND)
        write_state(self._from, KIND, {**state, "trainer": dataclasses.asdict(trainer.state)})
        self._saved = copy.deepcopy(trainer.state)

    def failed(self, error: BaseException, trainer: BaseTrainer) -> str:
        """Save what can be saved after a failure; return a sentence that says how to go on."""
        if trainer.position == 0 and not self._kept():
            return "nothing was trained yet, so nothing is saved"
        resume = f"go on with: {resume_command(self.folder.path)}"
        if isinstance(error, DataError) and self._from is not None and self._from.is_file():
            if not self._kept():
                anew = f"begin anew: {trusting_command(self.folder.path, 'train', '--config', str(self.folder.config))}"
                return f"the state that an earlier failure has left leads here again, and there is no other; {anew}"
            if self._from == self.folder.crash:
                self._from.replace(self._dropped)
                return f"the state that an earlier failure has left leads here again and was dropped, {resume}"
            if self._dropped.is_file() and len(self._kept()) > 1:
                aside = self._from.replace(self._from.with_suffix(".refused"))
                self._kept()[0].replace(self.folder.checkpoint)
                return f"{self._from.name} leads here, too, and is now {aside.name}; from the one before it {resume}"
        # Only these leave everything as it was before the step that failed
        if isinstance(error, EnvError | DataError | CallbackError) or not self._kept():
            try:
                self._check_folder()
                save_checkpoint(self.folder.crash, trainer)
                return f"the training so far is saved, {resume}"
            except Exception as problem:  # the disk is full, too; the first error is the one to tell
                if not self._kept():
                    return f"nothing could be saved ({problem})"
        return f"the last checkpoint is whole, {resume}"

    def _keep(self, new: Path) -> None:
        """Let a new checkpoint be the newest of those that are kept; goes on where a kill has interrupted it."""
        places = [self._path(f"-{i}" if i else "") for i in range(self.keep)]
        free = next((i for i, path in enumerate(places) if not path.exists()), self.keep - 1)
        for i in range(free, 0, -1):
            places[i - 1].replace(places[i])
        new.replace(places[0])

    def _kept(self) -> list[Path]:
        """Paths of the checkpoints, newest first."""
        paths = [self.folder.checkpoint, *numbered(self.folder.place, f"{self.folder.checkpoint.stem}-").values()]
        return [path for path in paths if path.is_file()]

    @property
    def _dropped(self) -> Path:
        """What a failure has left, and from which the run came to the same failure again."""
        return self.folder.crash.with_suffix(".dropped")

    def _path(self, suffix: str) -> Path:
        return self.folder.checkpoint.with_stem(self.folder.checkpoint.stem + suffix)

    def _check_folder(self) -> None:
        if not self.folder.config.is_file():
            raise CheckpointError(f"the run's folder {str(self.folder.path)!r} is gone: it was removed or moved")
