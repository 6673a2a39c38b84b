"""What a search for better settings (`argosy tune`) has come to, as a section of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike
from typing import Any

import numpy as np

from argosy.errors import ArgosyError
from argosy.files import damage_named, read_json
from argosy.report.figure import Line, figure, short, table
from argosy.report.population import PopulationSeen
from argosy.report.runs import POPULATION, STUDY, below, number
from argosy.run.tune import Trial

_SHOWN = 10


@dataclass(frozen=True)
class StudySeen:
    """What a report knows of a study."""

    name: str
    """Algorithm and task."""
    trials: Sequence[Trial]
    importance: Mapping[str, float]
    """Of each setting; {}: not known yet."""

    @classmethod
    def of(cls, name: str, data: Mapping[str, Any]) -> StudySeen:
        """Take it from what its file says."""
        trials = [
            Trial(int(one["number"]), dict(one["settings"]), str(one["state"]), number(one["score"]))
            for one in data["trials"]
        ]
        return cls(name, trials, {str(name): float(share) for name, share in data["importance"].items()})

    def section(self) -> str:
        """Return its section: how the best score rose, which settings mattered, the best trials."""
        counts = {state: sum(one.state == state for one in self.trials) for state in ("complete", "given up", "failed")}
        said = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
        parts = [f"<section><h2>Search: {escape(self.name)}</h2><p>{len(self.trials)} trials: {said}.</p>"]
        scored = [(one.score, one) for one in self.trials if one.state == "complete" and one.score is not None]
        if len(scored) > 1:
            scores = np.array([score for score, _ in scored])
            order = np.arange(1.0, len(scores) + 1)
            lines = [Line(n, order, y) for n, y in enumerate((np.maximum.accumulate(scores), scores))]
            picture = figure("Score of each trial, and best so far", "complete trials", lines)
            parts.append(f'<div class="figures">{picture}</div>')
        if self.importance:
            rows = [[name, f"{share:.2f}"] for name, share in self.importance.items()]
            parts.append(table("Importance: what tells good trials from all", ["setting", "share"], rows))
        if scored:
            names = list(scored[0][1].settings)
            top = sorted(scored, key=lambda one: -one[0])[:_SHOWN]
            rows = [
                [str(one.number), short(score), *(one.shown.get(name, "None") for name in names)] for score, one in top
            ]
            parts.append(table("The best trials", ["trial", "score", *names], rows))
        return "".join(parts) + "</section>"


def read_studies(places: Sequence[str | PathLike[str]]) -> tuple[list[StudySeen | PopulationSeen], list[str]]:
    """Return the studies and populations in and below folders, and what is wrong with others."""
    found, said = list[StudySeen | PopulationSeen](), list[str]()
    kinds: dict[str, type[StudySeen | PopulationSeen]] = {STUDY: StudySeen, POPULATION: PopulationSeen}
    for name, kind in kinds.items():
        for folder in {path.resolve(): path for place in places for path in below(place, name)}.values():
            try:
                data = read_json(folder / name)
                with damage_named(folder / name):
                    experiment = data["experiment"]
                    found.append(kind.of(f"{experiment['algorithm']} on {experiment['task']}", data))
            except ArgosyError as error:
                said.append(f"{folder}: left out: {error}")
    return found, said
