"""What a population (`argosy tune --population`) has come to, as a section of a report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from argosy.config import from_plain
from argosy.report.figure import Line, figure, short, table
from argosy.report.runs import number
from argosy.run.population import Turn
from argosy.run.tune import shown


@dataclass(frozen=True)
class PopulationSeen:
    """What a report knows of a population."""

    name: str
    """Algorithm and task."""
    rounds: Sequence[Sequence[Turn]]
    """What the members did in those that have ended."""

    @classmethod
    def of(cls, name: str, data: Mapping[str, Any]) -> PopulationSeen:
        """Take it from what its file says."""
        rounds = [[from_plain(Turn, turn) for turn in turns] for turns in data["turns"]]
        if len({(len(turns), *turns[0].settings) for turns in rounds}) != 1:
            raise ValueError("its rounds have other members or settings than its first one")
        return cls(name, [turns for turns in rounds if all(turn.has_ended for turn in turns)])

    def section(self) -> str:
        """Return its section: how scores and settings went, and where each member stands."""
        head = f"<section><h2>Population: {escape(self.name)}</h2>"
        if not self.rounds:
            return f"{head}<p>No round has ended yet.</p></section>"
        last, names = self.rounds[-1], list(self.rounds[-1][0].settings)
        values = {"return": [[turn.score for turn in turns] for turns in self.rounds]}
        values |= {name: [[number(turn.settings[name]) for turn in turns] for turns in self.rounds] for name in names}
        pictures = [picture for title, lines in values.items() if (picture := _picture(title, lines))]
        order = sorted(enumerate(last), key=lambda one: np.inf if one[1].score is None else -one[1].score)
        rows = []
        for member, turn in order:
            score = f"failed: {turn.why}" if turn.score is None else short(turn.score)
            rows.append([str(member), score, str(turn.parent), *shown(turn.settings).values()])
        title = f"The members in round {len(self.rounds)}, the best one first"
        made = table(title, ["member", "return", "went on from", *names], rows)
        return f'{head}<div class="figures">{"".join(pictures)}</div>{made}</section>'


def _picture(title: str, values: Sequence[Sequence[float | None]]) -> str:
    """Return a picture of values [rounds, members], a line for each member; "": none has two that are numbers."""
    lines = []
    for member, line in enumerate(np.array(values, np.float64).T):
        known = np.isfinite(line)
        if known.sum() > 1:
            lines.append(Line(member, 1.0 + np.flatnonzero(known).astype(np.float64), line[known]))
    return figure(f"{title}, by member", "rounds", lines) if lines else ""
