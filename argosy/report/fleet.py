"""How fleets did: throughput, who waited for whom, how old experience was when it was learned from, restarts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from os import PathLike

import numpy as np

from argosy.distributed.snapshot import Snapshot
from argosy.errors import CheckpointError
from argosy.files import damage_named, read_json
from argosy.logger import read_jsonl
from argosy.report.figure import Line, figure, short, table
from argosy.report.runs import STEPS, below, numbers

_LAG = "lag_steps/"
_WAITS = {
    "wait_samples_s": "trainer",
    "wait_inference_s": "policy",
    "wait_parameters_s": "parameters",
    "wait_s": "data",
}


@dataclass(frozen=True)
class FleetSeen:
    """What a report knows of a fleet."""

    name: str
    wall_s: float
    """Of its last driver, as are the times of the workers."""
    total_s: float
    reason: str
    """Why it ended; "": it has not."""
    workers: Mapping[str, Mapping[str, float]]
    """What each counts."""
    lags: Mapping[str, Mapping[int, float]]
    """Of each trainer, steps by the updates that they lagged, each number up to below the next power of two."""
    rows: Sequence[Mapping[str, float]]
    """Its metrics."""


def read_fleets(places: Sequence[str | PathLike[str]]) -> tuple[list[FleetSeen], list[str]]:
    """Return the runs of fleets in and below folders, and what is wrong with others."""
    fleets, said = list[FleetSeen](), list[str]()
    for folder in {path.resolve(): path for place in places for path in below(place, "fleet.json")}.values():
        try:
            status = read_json(folder / "status.json")
            with damage_named(folder / "status.json"):
                workers = {str(name): numbers(one) for name, one in status["workers"].items()}
                wall_s, before_s = float(status["wall_s"]), float(status["before_s"])
                rows = [numbers(row) for row in read_jsonl(folder / "metrics.jsonl")]
                reason = str(status["reason"])
                lags = {
                    name: {int(key.removeprefix(_LAG)): steps for key, steps in one.items() if key.startswith(_LAG)}
                    for name, one in workers.items()
                }
            fleets.append(FleetSeen(folder.name, wall_s, before_s + wall_s, reason, workers, lags, rows))
        except (CheckpointError, OSError) as error:
            said.append(f"{folder}: nothing is said of this fleet: {error}")
    return fleets, said


def fleet_section(fleet: FleetSeen) -> str:
    """Return a fleet's section."""
    restarts = sum(worker.get("restarts", 0.0) for worker in fleet.workers.values())
    seen = Snapshot(
        wall_s=fleet.wall_s, env_steps={}, updates={}, gradient_steps={}, evaluations={}, workers=fleet.workers
    )
    ended = f"ended: {fleet.reason}" if fleet.reason else "goes on"
    parts = [
        f"<section><h2>Fleet: {escape(fleet.name)}</h2>",
        f"<p>{short(fleet.total_s)} seconds, {restarts:.0f} restarts, {seen.bottleneck()}; {escape(ended)}.</p>",
    ]
    points = sorted(
        (row[STEPS], row["time/steps_per_s"]) for row in fleet.rows if {STEPS, "time/steps_per_s"} <= row.keys()
    )
    if len(points) > 1:
        x, y = np.array(points).T
        picture = figure("Steps per second of all actors", "steps", [Line(0, x, y)])
        parts.append(f'<div class="figures">{picture}</div>')
    rows = [[name, *_worker(worker, fleet.wall_s)] for name, worker in sorted(fleet.workers.items())]
    parts.append(
        table("Workers: restarts, and shares of their time", ["worker", "restarts", "waited for", "learned"], rows)
    )
    for name, lags in sorted(fleet.lags.items()):
        if lags:
            title = f"Staleness: steps that {name} learned from, by updates since they were acted"
            parts.append(table(title, ["updates", "share of steps", ""], _histogram(lags)))
    return "".join(parts) + "</section>"


def _worker(worker: Mapping[str, float], wall_s: float) -> list[str]:
    def share(key: str) -> float:
        return worker[key] / max(wall_s, 1e-9)

    waits = [f"{what} {share(key):.0%}" for key, what in _WAITS.items() if key in worker and share(key) >= 0.01]
    learned = f"{share('update_s'):.0%}" if "update_s" in worker else "-"
    return [f"{worker.get('restarts', 0.0):.0f}", ", ".join(waits) or "-", learned]


def _histogram(lags: Mapping[int, float]) -> list[list[str]]:
    """Return a row for each power of two, with a bar."""
    whole = sum(lags.values()) or 1.0
    rows = []
    for low in sorted(lags):
        bounds = str(low) if low < 2 else f"{low} to {2 * low - 1}"
        rows.append([bounds, f"{lags[low] / whole:.1%}", "█" * round(30 * lags[low] / whole)])
    return rows
