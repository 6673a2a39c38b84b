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
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from argosy.config import from_plain, to_plain
from argosy.errors import ArgosyError, ConfigError, MissingExtraError, require
from argosy.experiment import Experiment
from argosy.files import claimed, make_folder, read_json, replacing, write_atomically
from argosy.presets.search import Range
from argosy.run.folder import RunFolder, located
from argosy.run.many import Job, Outcome, Start, make_group, run_many

_TEST = "test/return_mean"
_FACTORS = (0.8, 1.25)
"""By which numbers are changed."""
_ANEW = 0.25
"""Probability that a setting is drawn from its range instead."""
_FIXED = ("env", "net", "buffer", "stop", "logger")
"""Sections that a training under way cannot change."""


@dataclass(frozen=True)
class Turn:
    """What a member does in a round."""

    settings: Mapping[str, object]
    parent: int
    """Whose state it goes on from: its own number, unless it was among the worst."""
    score: float | None = None
    """Mean return of the round's last test; None: not there yet."""


class Population:
    """A training that can be ended and gone on with at any time.

    Args:
        folder: its files; made if need be.
        experiment: what the members have in common; the first one begins with its settings, the others with some of
            the space. Its length is that of each member.
        space: which settings change, and where.
        size: members.
        rounds: of equal length.
        share: of the members, that go on from as many others after a round.

    Raises:
        ConfigError: the folder holds another population; nothing is tested, rounds are too short for a test, or a
            setting is one that no training under way can change.
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
        if settings.length < rounds * settings.step_per_epoch:
            raise ConfigError(
                f"{settings.length:,} {experiment.unit} in {rounds} rounds are {self.length:,} each, fewer than an "
                f"epoch (trainer.step_per_epoch is {settings.step_per_epoch:,}), so that nothing would be tested"
            )
        if fixed := [name for name in space if name.partition(".")[0] in _FIXED]:
            raise ConfigError(f"{fixed[0]} cannot change while a run goes on; leave it out of the space")
        constant = {name: "constant" for name in experiment.settings() if name.endswith("lr_schedule")}
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
        if self._file.is_file():
            read = read_json(self._file)
            if {name: read.get(name) for name in self._about} != self._about:
                raise ConfigError(
                    f"{str(folder)!r} holds a population of other settings or another space; give another --name"
                )
            self.turns = [[from_plain(Turn, turn) for turn in turns] for turns in read["turns"]]
            self._ready = read["ready"]
        if not self.turns:
            self.turns, self._ready = [[Turn(one, i) for i, one in enumerate(self._first_settings(size))]], True
        shared = {**self._of_round(0), "trainer.total_steps": self._stop(0)}
        firsts = [
            self.experiment.replaced({**turn.settings, **shared, "seed": experiment.seed + member})
            for member, turn in enumerate(self.turns[0])
        ]
        make_folder(folder)
        self._write()
        self._jobs = [make_group(folder / "members" / str(i), [first])[0] for i, first in enumerate(firsts)]

    @property
    def best(self) -> int | None:
        """The member with the highest score in the last round that has ended; None before the first."""
        ended = [turns for turns in self.turns if None not in (turn.score for turn in turns)]
        return None if not ended else int(np.argmax([turn.score for turn in ended[-1]]))  # type: ignore[arg-type]  # all are there

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
            ArgosyError: a member has failed; says why.
        """
        with claimed(self.folder, "end it first (Ctrl-C keeps all members)"):
            while (number := len(self.turns) - 1) < self.rounds:
                if None in (turn.score for turn in self.turns[-1]):
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
        if failed := [f"{one.job.root.name}: {one.why}" for one in outcomes if one.code not in (0, 130)]:
            raise ArgosyError(f"{len(failed)} of {len(legs)} members have failed, member {'; '.join(failed)}")
        if len(outcomes) < len(legs) or any(one.code for one in outcomes):
            return False
        scores = map(self._score, self._jobs)
        self.turns[-1] = [
            dataclasses.replace(turn, score=score) for turn, score in zip(self.turns[-1], scores, strict=True)
        ]
        self._write()
        self._draw()
        return True

    def _take_over(self, number: int) -> None:
        """Let the members stand where they begin a round; where that was cut off, once more: nobody has moved since."""
        for member, turn in enumerate(self.turns[number]):
            folder = self.run_of(member)
            if turn.parent != member:
                parent = self.run_of(turn.parent)
                for old in folder.path.glob("*.safetensors"):
                    if old not in (folder.checkpoint, folder.best_policy):
                        old.unlink()
                for source, target in (
                    (parent.checkpoint, folder.checkpoint),
                    (parent.best_policy, folder.best_policy),
                ):
                    with source.open("rb") as read, replacing(target) as file:
                        shutil.copyfileobj(read, file)
            begun = folder.experiment(trust=True)  # of this very population
            begun.replaced({**turn.settings, **self._of_round(number)}).save(folder.config)
        self._ready = True
        self._write()

    def _of_round(self, number: int) -> dict[str, object]:
        """Return what all members have in common in a round: only the last one ends with a long evaluation."""
        return {"stop.episodes": self.experiment.stop.episodes if number + 1 == self.rounds else 1}

    def _stop(self, number: int) -> int:
        """Return the steps after which a round ends."""
        return self.experiment.trainer.length if number + 1 == self.rounds else (number + 1) * self.length

    def _score(self, job: Job) -> float:
        tests = [test for row in job.rows() if (test := row.get(_TEST)) is not None and np.isfinite(test)]
        if not tests:
            raise ArgosyError(f"member {job.root.name} has no finite return in its tests")
        return tests[-1]

    def _next_turns(self, number: int) -> list[Turn]:
        """Return what members are to do in a round: the worst ones go on from some of the best."""
        rng = np.random.default_rng([self.experiment.seed, number])
        scores = np.array([turn.score for turn in self.turns[-1]], float)
        order = np.argsort(-scores, kind="stable")
        best, worst = order[: self.replaced], order[len(order) - self.replaced :]
        turns = [Turn(turn.settings, member) for member, turn in enumerate(self.turns[-1])]
        for member in worst.tolist():
            parent = int(rng.choice(best))
            turns[member] = Turn(self._changed(turns[parent].settings, rng), parent)
        return turns

    def _first_settings(self, size: int) -> list[dict[str, object]]:
        rng = np.random.default_rng([self.experiment.seed, 0])
        own = self.experiment.settings()
        return [{name: own[name] for name in self.space}] + [
            {name: where.draw(rng) for name, where in self.space.items()} for _ in range(size - 1)
        ]

    def _changed(self, settings: Mapping[str, object], rng: np.random.Generator) -> dict[str, object]:
        """Return settings near to some."""
        return {
            name: where.draw(rng) if rng.random() < _ANEW else where.near(settings[name], float(rng.choice(_FACTORS)))
            for name, where in self.space.items()
        }

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
        rounds = [turns for turns in self.turns if None not in (turn.score for turn in turns)]
        for member in range(len(self._jobs)):
            bold = 2.5 if member == self.best else 0.8
            line = [(number, turns[member]) for number, turns in enumerate(rounds, 1)]
            panels[0].plot(
                *zip(*((number, turn.score) for number, turn in line), strict=True), linewidth=bold, marker="."
            )
            for axes, name in zip(panels[1:], names, strict=True):
                axes.step(*zip(*((number, turn.settings[name]) for number, turn in line), strict=True), linewidth=bold)
        for axes, name in zip(panels, ["return of tests", *names], strict=True):
            axes.set(title=name, xlabel="round")
            axes.xaxis.get_major_locator().set_params(integer=True)
            if name in self.space and self.space[name].log:
                axes.set_yscale("log")
        with replacing(self.folder / "population.png") as file:
            figure.savefig(file, format="png")
