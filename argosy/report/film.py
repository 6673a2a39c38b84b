"""Films of episodes, inside the page: they are bytes of a GIF or an MP4 there, and nothing else."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape

from argosy.report.figure import folded
from argosy.report.runs import Run

_LARGEST, _ALL = 8e6, 24e6
"""Bytes of one film, and of all on a page, at most."""


class Films:
    """Shows the film of each algorithm's best run that has one, as long as there is room on the page."""

    def __init__(self) -> None:
        self._left = _ALL

    def section(self, groups: Mapping[str, Sequence[Run]]) -> str:
        """Return what shows them when it is opened; "": there is none."""
        best = [
            (label, max((run for run in runs if run.film), key=_score, default=None)) for label, runs in groups.items()
        ]
        shown = "".join(self._figure(label, run) for label, run in best if run is not None)
        return folded("Films", f'<div class="figures">{shown}</div>') if shown else ""

    def _figure(self, label: str, run: Run) -> str:
        assert run.film is not None
        try:
            size = run.film.stat().st_size
            title = f"{label}, seed {run.seed}: {run.film.name}"
            if size > min(_LARGEST, self._left):
                return f"<p>{escape(title)} has {size / 1e6:.0f} MB, too many for this page</p>"
            data = run.film.read_bytes()
        except OSError:
            return ""  # it was there a moment ago
        source = base64.b64encode(data).decode("ascii")
        if data.startswith(b"GIF8"):
            film = f'<img alt="{escape(title)}" src="data:image/gif;base64,{source}">'
        elif data[4:8] == b"ftyp":
            film = f'<video controls src="data:video/mp4;base64,{source}"></video>'
        else:
            return f"<p>{escape(title)} is neither GIF nor MP4</p>"
        self._left -= size
        return f"<figure><figcaption>{escape(title)}</figcaption>{film}</figure>"


def _score(run: Run) -> float:
    return float("-inf") if run.score is None else run.score
