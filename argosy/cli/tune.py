"""`argosy tune ALGO --task TASK`: settings that reach a higher return than the preset's.

They are searched by `--trials N`, one after the other, or change within a `--population N` that is trained at once.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from argosy.cli.many import machines
from argosy.cli.show import show_start
from argosy.cli.train import Common, read_flags
from argosy.errors import ConfigError
from argosy.experiment import Experiment
from argosy.presets import own_settings
from argosy.presets.search import search_space
from argosy.run.folder import RunFolder
from argosy.run.population import Population
from argosy.run.tune import Study, Trial, shown
from argosy.unread import warn_of_unread


@dataclass(frozen=True, kw_only=True)
class TuneFlags(Common):
    """What `argosy tune` takes beside the experiment."""

    trials: int = 30
    """How many, those of earlier calls included; `--trainer.total-steps` says how long each is."""
    space: str | None = None
    """TOML file of ranges: lr = { low = 1e-5, high = 1e-2, log = true }, gamma = { choices = [0.98, 0.99] }."""
    sampler: Literal["tpe", "random"] = "tpe"
    """What proposes settings."""
    pruner: Literal["median", "none"] = "median"
    """Which trials are given up: those whose tests are worse than the median of those before."""
    population: int = 0
    """Instead of trials: so many members are trained side by side, and settings change on the way (PBT)."""
    rounds: int = 10
    """Of a population: after each, the worst quarter of the members goes on from what the best quarter has learned."""
    name: str = "study"
    """The study's folder: RUNS/tune/TASK/ALGO/NAME."""


def main(args: Sequence[str]) -> int:
    """Make the trials that are missing."""
    read = read_flags(args, TuneFlags, "tune")
    if read is None:
        return 0
    experiment, flags, source = read
    space = search_space(experiment, None if flags.space is None else own_settings(flags.space, trust=flags.trust))
    if not re.fullmatch(r"\w[\w.-]*", flags.name):
        raise ConfigError(f"--name is {flags.name!r}; it must be a name for a folder: letters, digits and . _ -")
    warn_of_unread(experiment)
    folder = RunFolder.home(f"{flags.runs}/tune", experiment.task, str(experiment.algorithm)) / flags.name
    if flags.population:
        for name in ("trials", "sampler", "pruner"):
            if getattr(flags, name) != getattr(TuneFlags(), name):
                raise ConfigError(f"--{name} is about trials, but --population trains members; leave one of them out")
        members = Population(folder, experiment, space, size=flags.population, rounds=flags.rounds)
        return train_population(members, flags, source)
    if flags.rounds != TuneFlags().rounds:
        raise ConfigError("--rounds is about a population, and trials have none; give --population N, or leave it out")
    study = Study(folder, experiment, space, sampler=flags.sampler, pruner=flags.pruner)
    if not flags.quiet:
        show_start(experiment, source, flags.stream)
        print(f"  searched {', '.join(space)}\n  files    {folder}", file=flags.stream, flush=True)

    def told(trial: Trial) -> None:
        if not flags.quiet or trial.why:
            print(line(trial), file=flags.stream, flush=True)

    with machines(flags) as (start, at_once):
        done = study.run(flags.trials, at_once, told, start=start)
    best = study.best
    if not done:
        print("\nstopped; all trials are kept. The same command goes on", file=flags.stream)
    if best is not None and not flags.quiet:
        how = to_be_sure(study.best_preset, experiment, trust=flags.trust)
        print(f"\nbest: {line(best)}\n{study.best_preset} holds it. To be sure of it: {how}", file=flags.stream)
    if flags.json:
        score = None if best is None else best.score
        settings = None if best is None else dict(best.settings)
        print(json.dumps({"folder": str(folder), "trials": len(study.trials), "score": score, "settings": settings}))
    return 130 if not done else int(best is None)


def to_be_sure(file: Path, experiment: Experiment, *, trust: bool) -> str:
    """Return the command that trains with the settings of a file what the study was about."""
    words = ["argosy", "train", str(experiment.algorithm), "--task", experiment.task, "--preset", str(file)]
    for name in ("data", "expert", "init", "device"):
        if (value := getattr(experiment, name)) not in (None, "cpu"):
            words += [f"--{name}", value]
    return shlex.join([*words, *(["--trust"] if trust else []), "--seeds", "0-4"])


def train_population(population: Population, flags: TuneFlags, source: str) -> int:
    """Make the rounds of a population that are missing."""
    if not flags.quiet:
        show_start(population.experiment, source, flags.stream)
        changed = ", ".join(population.space)
        print(f"  changed  {changed}\n  files    {population.folder}", file=flags.stream, flush=True)

    def told(number: int) -> None:
        if not flags.quiet:
            turns = population.turns[number]
            scores = ", ".join("failed" if turn.score is None else f"{turn.score:.1f}" for turn in turns)
            print(f"round {number + 1} of {population.rounds}: returns {scores}", file=flags.stream, flush=True)
            for member, turn in enumerate(turns):
                if turn.why:
                    print(f"  member {member} has failed: {turn.why}", file=flags.stream, flush=True)

    with machines(flags) as (start, at_once):
        done = population.run(at_once, told, start=start)
    best = population.best
    if not done:
        print("\nstopped; all members are kept. The same command goes on", file=flags.stream)
    turn = None if best is None else [turns for turns in population.turns if turns[best].score is not None][-1][best]
    run = None if best is None else str(population.run_of(best).path)
    if turn is not None and not flags.quiet:
        print(f"\nbest: member {best}, return {turn.score:.1f}: {listed(turn.settings)}\n{run}", file=flags.stream)
    if flags.json:
        settings = None if turn is None else dict(turn.settings)
        score = None if turn is None else turn.score
        print(json.dumps({"folder": str(population.folder), "run_dir": run, "score": score, "settings": settings}))
    return 130 if not done else 0


def listed(settings: Mapping[str, object]) -> str:
    """Settings in a line."""
    return ", ".join(f"{name} {value}" for name, value in shown(settings).items())


def line(trial: Trial) -> str:
    """One trial."""
    score = "no return" if trial.score is None else f"return {trial.score:.1f}"
    settings = listed(trial.settings)
    return f"trial {trial.number}: {score}, {trial.state}{f' ({trial.why})' if trial.why else ''}: {settings}"
