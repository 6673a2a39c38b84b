"""Trains a population: members learn side by side, bad ones go on where good ones stand, with settings near to theirs.

Population based training (Jaderberg et al., 2017, https://arxiv.org/abs/1711.09846), in rounds. After each round the
worst share of the members takes over all that as many of the best have learned (networks, optimisers, replay buffer),
and changes their settings. So settings are found within one training, and follow a schedule, which no trial does.

A population's folder:

| file | what |
| --- | --- |
| population.json | experiment, space, and of each round what the members did: settings, score, whom they went on from |
| population.png | the same as a picture |
| members/N/ | the run of member N |
"""

from __future__ import annotations

import dataclasses
import json
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from argosy.config import from_plain, to_plain
from argosy.errors import ArgosyError, ConfigError, MissingExtraError, require
from argosy.experiment import Experiment
from argosy.files import claimed, read_json, replacing, write_atomically
from argosy.presets.search import Range
from argosy.run.changeable import check_changeable
from argosy.run.folder import RunFolder, located
from argosy.run.many import Job, Outcome, Start, make_group, run_many

_TEST = "test/return_mean"
_FACTORS = (0.8, 1.25)
"""By which numbers are changed."""
_ANEW = 0.25
"""Probability that a setting is drawn from its range instead."""
_DRAWS = 100
"""Times that settings are drawn until they are others than those of the member whose state they are for."""


@dataclass(frozen=True)
class Turn:
    """What a member does in a round."""

    settings: Mapping[str, object]
    parent: int
    """Whose state it goes on from: its own number, unless it was among the worst."""
    score: float | None = None
    """Mean return of the round's last test, in the last round of the best policy's fresh episodes; None: not there yet,
    or it failed."""
    why: str = ""
    """Of one that failed."""

    @property
    def has_ended(self) -> bool:
        """Whether it has come to the round's end, or failed."""
        return self.score is not None or bool(self.why)


class Population:
    """A training that can be ended and gone on with at any time.

    A member that fails counts as the worst, and goes on from one that has not.

    Args:
        folder: its files; made if need be.
        experiment: what the members have in common; the first one begins with its settings, the others with some of
            the space. Its length is that of each member; no target return ends one (`stop.test_return`).
        space: which settings change, and where.
        size: members.
        rounds: of equal length.
        share: of the members, that go on from as many others after a round.

    Raises:
        ConfigError: the folder holds another population; nothing is tested, rounds are too short for a test, or a
            setting is one that no training under way can change (see `check_changeable`).
    """

    def __init__(
        self,
        folder: Path,
        experiment: Experiment,
        space: Mapping[str, Range],
        *,
        size: int = 8,
        rounds: int = 10,
        share: float = 0.25,
    ) -> None:
        if size < 2 or rounds < 1 or not 0.0 < share <= 0.5:
            raise ConfigError(
                f"a population of {size} members and {rounds} rounds, of which a share of {share} is replaced, cannot "
                "be: it takes 2 members or more, 1 round or more, and a share above 0 and up to 0.5"
            )
        settings = experiment.trainer
        if settings.episode_per_test == 0:
            raise ConfigError("trainer.episode_per_test is 0, but members are judged by tests; give it 1 or more")
        self.length = settings.length // rounds
        if self.length < settings.step_per_epoch:
            raise ConfigError(
                f"{settings.length:,} {experiment.unit} in {rounds} rounds are {self.length:,} each, fewer than an "
                f"epoch (trainer.step_per_epoch is {settings.step_per_epoch:,}), so that nothing would be tested"
            )
        if experiment.data is None and self.length < settings.step_per_collect:
            raise ConfigError(
                f"{settings.length:,} {experiment.unit} in {rounds} rounds are {self.length:,} each, fewer than a "
                f"rollout (trainer.step_per_collect is {settings.step_per_collect:,}), so that some would do nothing"
            )
        settings_of = {"lr_schedule": "constant", "entropy_coef_end": None}  # each round would fall to its own end
        constant = {
            name: settings_of[last]
            for name in experiment.settings()
            if (last := name.rsplit(".", 1)[-1]) in settings_of
        }
        self.experiment = located(experiment).replaced({**constant, "stop.test_return": None})
        self.folder, self.space, self.rounds = folder, space, rounds
        self.replaced = max(1, int(share * size))
        self._file = folder / "population.json"
        described = {key: value for key, value in self.experiment.to_dict().items() if key not in ("argosy", "format")}
        self._about: dict[str, Any] = {
            "experiment": described, "space": to_plain(space), "size": size, "rounds": rounds, "share": share
        }  # fmt: skip
        self.turns: list[list[Turn]] = []
        """Of each round so far, by member."""
        self._ready = False  # whether the members of the last round stand where they are to begin
        if not self._read():
            check_changeable(self.experiment, space)
            self.turns, self._ready = [[Turn(one, i) for i, one in enumerate(self._first_settings(size))]], True
        shared = {**self._of_round(0), "trainer.total_steps": self._stop(0)}
        try:
            firsts = [
                self.experiment.replaced({**turn.settings, **shared, "seed": experiment.seed + member})
                for member, turn in enumerate(self.turns[0])
            ]
        except ConfigError as error:
            raise ConfigError(f"a round of {self.length:,} {experiment.unit} cannot be: {error}") from None
        self._jobs = [make_group(folder / "members" / str(i), [first])[0] for i, first in enumerate(firsts)]

    @property
    def best(self) -> int | None:
        """The member with the highest score in the last round that has ended; None before the first."""
        ended = [turns for turns in self.turns if all(turn.has_ended for turn in turns)]
        return int(_order(ended[-1])[0]) if ended else None

    def run_of(self, member: int) -> RunFolder:
        """Return a member's run, which has begun."""
        found = self._jobs[member].folder()
        assert found is not None
        return found

    def run(
        self,
        jobs: int,
        told: Callable[[int], None] = lambda number: None,
        *,
        start: Start | None = None,
    ) -> bool:
        """Make the rounds that are missing; return whether all have been made.

        Ctrl-C ends all members after their current step; the next call goes on with them.

        Args:
            jobs: how many members side by side.
            told: is called with the number of each round that has ended.
            start: begins a member's run; None: on this machine.

        Raises:
            ConfigError: another process works on the population.
            ArgosyError: all members have failed; says why.
        """
        with claimed(self.folder, "end it first (Ctrl-C keeps all members)"):
            if not self._read():  # another process may have gone on with it
                self._write()
            while (number := len(self.turns) - 1) < self.rounds:
                if not all(turn.has_ended for turn in self.turns[-1]):
                    if not self._ready:
                        self._take_over(number)
                    if not self._make_round(number, jobs, start):
                        return False
                    told(number)
                if number + 1 == self.rounds:
                    return True
                self.turns.append(self._next_turns(number + 1))
                self._ready = False
                self._write()
        return True

    def _make_round(self, number: int, jobs: int, start: Start | None) -> bool:
        """Let all members learn up to the round's end, and note their scores; False: it was cut off."""
        stop = self._stop(number)
        legs = [dataclasses.replace(job, total_steps=stop) for job in self._jobs]
        outcomes: list[Outcome] = run_many(legs, jobs, start=start)
        if len(outcomes) < len(legs) or any(one.code == 130 for one in outcomes):
            return False
        failed = {int(one.job.root.name): one.why for one in outcomes if one.code}
        turns = [
            dataclasses.replace(turn, why=failed[member]) if member in failed else self._judged(turn, job, number)
            for member, (turn, job) in enumerate(zip(self.turns[-1], self._jobs, strict=True))
        ]
        if all(turn.score is None for turn in turns):
            raise ArgosyError(f"all {len(turns)} members have failed, the first one so: {turns[0].why}")
        self.turns[-1] = turns
        self._write()
        self._draw()
        return True

    def _judged(self, turn: Turn, job: Job, number: int) -> Turn:
        """Return what a member did in the round that its run has ended."""
        tests = [row[_TEST] for row in job.rows() if _TEST in row]
        what, score = "its last test", tests[-1] if tests else None
        if number + 1 == self.rounds:
            what, score = "its best policy", (job.result() or {}).get("test_return_mean")
        if score is None or not np.isfinite(score):
            return dataclasses.replace(turn, why=f"{what} has no finite return" if tests else "it has no test")
        return dataclasses.replace(turn, score=score)

    def _take_over(self, number: int) -> None:
        """Let the members stand where they begin a round; where that was cut off, once more: nobody has moved since."""
        for member, turn in enumerate(self.turns[number]):
            job, parent = self._jobs[member], self.run_of(turn.parent)
            folder, begun = job.folder(), job.experiment
            if folder is None:  # it has failed before there was anything to save
                folder = RunFolder.create(job.root, begun.task, str(begun.algorithm), begun.seed)
            elif folder.config.is_file():
                begun = folder.experiment(trust=True)  # of this very population
            if turn.parent != member:
                if not parent.checkpoint.is_file():
                    raise ArgosyError(f"{str(parent.path)!r} has no checkpoint that another member could go on from")
                for old in [*folder.place.glob("*.safetensors"), folder.result]:
                    old.unlink(missing_ok=True)
                shutil.rmtree(folder.tensorboard, ignore_errors=True)
                for source in sorted(parent.place.iterdir()):
                    is_told = source.suffix in (".json", ".jsonl") and source != parent.config
                    if is_told or source in (parent.checkpoint, parent.best_policy):
                        with source.open("rb") as read, replacing(folder.place / source.name) as file:
                            shutil.copyfileobj(read, file)
                    elif source == parent.tensorboard:
                        shutil.copytree(source, folder.tensorboard)
            begun.replaced({**turn.settings, **self._of_round(number)}).save(folder.config)
        self._ready = True
        self._write()

    def _of_round(self, number: int) -> dict[str, object]:
        """Return what all members have in common in a round: only the last one ends with a long evaluation."""
        return {"stop.episodes": self.experiment.stop.episodes if number + 1 == self.rounds else 1}

    def _stop(self, number: int) -> int:
        """Return the steps after which a round ends."""
        return self.experiment.trainer.length if number + 1 == self.rounds else (number + 1) * self.length

    def _next_turns(self, number: int) -> list[Turn]:
        """Return what members are to do in a round: the worst ones go on from some of the best."""
        rng = np.random.default_rng([self.experiment.seed, number])
        before = self.turns[-1]
        order, alive = _order(before), sum(turn.score is not None for turn in before)
        best, worst = order[: min(self.replaced, alive)], order[min(len(order) - self.replaced, alive) :]
        turns = [Turn(turn.settings, member) for member, turn in enumerate(before)]
        for member in worst:
            parent = best[int(rng.integers(len(best)))]
            turns[member] = Turn(self._changed(turns[parent].settings, rng), parent)
        return turns

    def _first_settings(self, size: int) -> list[dict[str, object]]:
        rng = np.random.default_rng([self.experiment.seed, 0])
        own = self.experiment.settings()
        return [{name: own[name] for name in self.space}] + [
            {name: where.draw(rng) for name, where in self.space.items()} for _ in range(size - 1)
        ]

    def _changed(self, settings: Mapping[str, object], rng: np.random.Generator) -> dict[str, object]:
        """Return settings near to some, and others: with the same ones, two members would be one from now on."""

        def moved(name: str, where: Range) -> object:
            factor = float(rng.choice(_FACTORS))
            is_drawn = rng.random() < _ANEW or settings[name] not in where
            return where.draw(rng) if is_drawn else where.near(settings[name], factor)

        for _ in range(_DRAWS):
            changed = {name: moved(name, where) for name, where in self.space.items()}
            if changed != settings:
                break
        return changed

    def _read(self) -> bool:
        """Take over what the file says; False: there is none yet."""
        if not self._file.is_file():
            return False
        read = read_json(self._file)
        if {name: read.get(name) for name in self._about} != self._about:
            raise ConfigError(
                f"{str(self.folder)!r} holds a population of other settings or another space; give another --name"
            )
        self.turns = [[from_plain(Turn, turn) for turn in turns] for turns in read["turns"]]
        self._ready = read["ready"]
        return True

    def _write(self) -> None:
        data = {**self._about, "turns": to_plain(self.turns), "ready": self._ready}
        write_atomically(self._file, (json.dumps(data) + "\n").encode())

    def _draw(self) -> None:
        """Draw scores and settings of all rounds, a line for each member, into population.png."""
        try:
            require("matplotlib", "plot")
        except MissingExtraError:
            return
        from matplotlib.figure import Figure

        names = [name for name, where in self.space.items() if where.low is not None]
        figure = Figure(figsize=(4 * (1 + len(names)), 3.5), dpi=120, layout="constrained")
        panels = figure.subplots(1, 1 + len(names), squeeze=False)[0]
        rounds = [turns for turns in self.turns if all(turn.has_ended for turn in turns)]
        for member in range(len(self._jobs)):
            bold = 2.5 if member == self.best else 0.8
            line = [(number, turns[member]) for number, turns in enumerate(rounds, 1)]
            scores = [(number, np.nan if turn.score is None else turn.score) for number, turn in line]
            panels[0].plot(*zip(*scores, strict=True), linewidth=bold, marker=".")
            for axes, name in zip(panels[1:], names, strict=True):
                axes.step(*zip(*((number, turn.settings[name]) for number, turn in line), strict=True), linewidth=bold)
        for axes, name in zip(panels, ["return", *names], strict=True):
            axes.set(title=name, xlabel="round")
            axes.xaxis.get_major_locator().set_params(integer=True)
            if name in self.space and self.space[name].log:
                axes.set_yscale("log")
        try:
            with replacing(self.folder / "population.png") as file:
                figure.savefig(file, format="png")
        except OSError as error:
            warnings.warn(f"no picture of the population: {error}", stacklevel=2)


def _order(turns: Sequence[Turn]) -> list[int]:
    """Return the members of a round from the best to the worst; those that have failed come last."""
    scores = [-np.inf if turn.score is None else turn.score for turn in turns]
    return sorted(range(len(turns)), key=lambda member: -scores[member])
