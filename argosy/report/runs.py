"""Runs as a report sees them: whatever of their folders can be read; what cannot is said in words."""

from __future__ import annotations

import glob
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike, fspath
from pathlib import Path

import numpy as np

from argosy.errors import CheckpointError
from argosy.files import damage_named, read_json
from argosy.logger import read_jsonl
from argosy.report.statistics import FloatArray
from argosy.run.folder import RunFolder

TEST, TRAINING = "test/return_mean", "episode/return_mean"
STUDY, POPULATION = "study.json", "population.json"
POLICIES = "parameters"
"""Folder within that of a fleet's run which holds a folder for each policy."""
STEPS, SECONDS = "env_step", "seconds"
_SAME = ("argosy", "format", "algorithm", "task", "seed", "threads", "logger.")  # what may differ between seeds


@dataclass(frozen=True)
class Run:
    """What is known of a run."""

    path: Path
    algorithm: str
    task: str
    seed: int
    settings: Mapping[str, str]
    """Settings by their names with dots."""
    machine: Mapping[str, str]
    """What it was made on."""
    rows: Sequence[Mapping[str, float]]
    """Metrics, finite ones; `seconds` counts those of training, tests not included."""
    target: float | None
    """`stop.test_return`."""
    score: float | None
    """Mean return of the best policy's fresh episodes; of a run without a result: of its last test."""
    ended: bool
    """It has a result."""
    film: Path | None = None
    """The newest one of its episodes (`argosy watch`, the callback `video`)."""

    def curve(self, key: str, axis: str) -> tuple[FloatArray, FloatArray]:
        """Return the points (x [n], y [n]) of a metric along steps or seconds."""
        points = sorted((row[axis], row[key]) for row in self.rows if key in row and axis in row)
        table = np.array(points, np.float64).reshape(-1, 2)
        return table[:, 0], table[:, 1]


Known = dict[Path, tuple[object, "Run | None", list[str]]]
"""By its folder: when its files were written, what was read of a run (None: it could not be), and what was wrong."""


def read_runs(places: Sequence[str | PathLike[str]], known: Known | None = None) -> tuple[list[Run], list[str]]:
    """Return the runs in folders, below them, or where patterns (`runs/many/*-ppo-*`) lead, and what is wrong.

    Trials of a study and members of a population (`argosy tune`) count only where their own folders are named.

    Args:
        places: folders, or patterns of such.
        known: what was read before, by whoever reads again and again: only what has changed is read, and noted there.

    Raises:
        CheckpointError: there is neither run nor study in one of the places.
    """
    folders: dict[Path, Path] = {}
    for place in places:
        found, studies = below(place, "config.json"), [*below(place, STUDY), *below(place, POPULATION)]
        if not found and not studies:
            found = [RunFolder.find(place).path]
        folders |= {path.resolve(): path for path in found if not any(one in path.parents for one in studies)}
    known = {} if known is None else known
    for path in folders.values():
        if path not in known or known[path][0] != _stamps(path):
            known[path] = (_stamps(path), *_seen(path))
    seen = [known[path][1:] for path in folders.values()]
    said = [note for _, notes in seen for note in notes]
    runs = _once([run for run, _ in seen if run is not None], said)
    return sorted(runs, key=lambda run: (run.task, run.algorithm, run.seed)), said


def _once(runs: Sequence[Run], said: list[str]) -> list[Run]:
    """Return the runs without those that were made anew, with the same settings and seed: they are no seeds more.

    Policies of fleets all stay: who comes first there is never twice the same.
    """
    newest: dict[tuple[object, ...], Run] = {}
    for run in sorted(runs, key=lambda run: (run.ended, run.path.name)):
        fleet = run.path if run.path.parent.name == POLICIES else None
        newest[(fleet, run.task, run.algorithm, run.seed, *sorted(run.settings.items()))] = run
    kept = {run.path for run in newest.values()}
    if old := [str(run.path) for run in runs if run.path not in kept]:
        said.append(f"{len(old)} left out, whose settings and seeds newer ones have, too: {', '.join(old)}")
    return list(newest.values())


def below(place: str | PathLike[str], name: str) -> list[Path]:
    """Return the folders that hold a file of this name, in a folder or where a pattern leads, and below."""
    place = fspath(place)
    roots = sorted(glob.glob(place)) or [place]
    return [file.parent for root in roots for file in sorted(Path(root).rglob(name))]


def _stamps(path: Path) -> tuple[tuple[int, int], ...]:
    """Return what changes whenever something is written in a run's folder that a report reads."""
    folder = RunFolder(path)
    files = (folder.config, _metrics(folder), folder.result, folder.machine, *_films(folder))
    return tuple((stat.st_mtime_ns, stat.st_size) for file in files if file.is_file() and (stat := file.stat()))


def _seen(path: Path) -> tuple[Run | None, list[str]]:
    """Return a run, None if it cannot be read, and what is wrong with it."""
    said = list[str]()
    try:
        return _read(RunFolder(path), said), said
    except CheckpointError as error:
        return None, [*said, f"{path}: left out: {error}"]


def labels(runs: Sequence[Run]) -> list[str]:
    """Return for each run its algorithm, with the settings in which runs of this algorithm and task differ."""
    variants: dict[tuple[str, str], list[Mapping[str, str]]] = {}
    for run in runs:
        known = variants.setdefault((run.algorithm, run.task), [])
        if run.settings not in known:
            known.append(run.settings)
    named, different = [], {key: differences(known) for key, known in variants.items()}
    for run in runs:
        known, differ = variants[run.algorithm, run.task], different[run.algorithm, run.task]
        if len(differ) > 3:
            named.append(f"{run.algorithm} ({known.index(run.settings) + 1})")
        else:
            shown = [_briefly(run.settings.get(name), {one.get(name) for one in known}) for name in differ]
            named.append(" ".join([run.algorithm, *map("=".join, zip(differ, shown, strict=True))]))
    return named


def _briefly(value: str | None, others: Iterable[str | None]) -> str:
    """Return a setting's value, a number with few digits as long as these tell all values apart."""
    briefs = {other: _rounded(other) for other in others}
    return briefs[value] if len(set(briefs.values())) == len(briefs) else str(value or "-")


def _rounded(value: str | None) -> str:
    try:
        return f"{float(value or '-'):.4g}"
    except ValueError:
        return value or "-"


def differences(settings: Sequence[Mapping[str, str]]) -> list[str]:
    """Return the names of those settings that are not alike."""
    names = dict.fromkeys(itertools.chain.from_iterable(settings))
    return [name for name in names if len({one.get(name) for one in settings}) > 1]


def _read(folder: RunFolder, said: list[str]) -> Run:
    """Read one run; what is missing is added to `said`."""
    config = read_json(folder.config)
    with damage_named(folder.config):
        algorithm, task, seed = str(config["algorithm"]), str(config["task"]), int(config["seed"])
        target = number((config.get("stop") or {}).get("test_return"))
        settings = {name.removeprefix("config."): value for name, value in _flat(config) if not name.startswith(_SAME)}
    result = _optional(folder.result, said)
    rows = _rows(folder, said)
    tests = [row[TEST] for row in rows if TEST in row]
    score = number(result.get("test_return_mean"))
    ended = bool(result) and not result.get("interrupted")
    if score is None or result.get("interrupted"):
        score = tests[-1] if tests else score
        has = "its last test stands for one" if tests else "it was not tested either: no score"
        why = "has not come to an end, so there is no result"
        if folder.path.parent.name == POLICIES:
            why = "is a fleet's policy, which has no result"
        if chosen_by := result.get("chosen_by"):  # it was to have no tests
            why, has = f"has no score; its best version was chosen by {chosen_by}", "it was not tested"
        said.append(f"{folder.path}: {why}; {has}")
    elif not tests:
        said.append(f"{folder.path}: no test on the way; only its result is shown")
    machine = {name: str(value) for name, value in _optional(folder.machine, said).items()}
    settings["scale"] = machine.pop("scale", "one process")
    machine = machine or {"argosy": str(config.get("argosy"))}
    film = max(_films(folder), key=lambda file: file.stat().st_mtime_ns, default=None)
    return Run(folder.path, algorithm, task, seed, settings, machine, rows, target, score, ended, film)


def _films(folder: RunFolder) -> list[Path]:
    """Return the films in a run's folder; those of a fleet lie beside its metrics."""
    files = _metrics(folder).parent.glob("video*")
    return [file for file in sorted(files) if file.suffix in (".gif", ".mp4") and file.is_file()]


def _rows(folder: RunFolder, said: list[str]) -> list[dict[str, float]]:
    file = _metrics(folder)
    if not file.is_file():
        said.append(f"{folder.path}: has no metrics.jsonl, so no curve")
        return []
    try:
        whole = read_jsonl(file)
        lines = sum(bool(line.strip()) for line in file.read_bytes().splitlines())
    except OSError as error:
        said.append(f"{folder.path}: metrics.jsonl cannot be read, so no curve: {error}")
        return []
    rows = [row for row in map(numbers, whole) if STEPS in row]
    if file != folder.metrics and len(list(folder.path.parent.glob("*/config.json"))) > 1:
        rows = _of_policy(rows, folder.path.name)
    rows = [row | {STEPS: float(round(row[STEPS]))} for row in rows]  # or the slope of a curve might be infinite
    if len(rows) < lines:
        said.append(f"{folder.path}: {lines - len(rows)} of {lines} lines of metrics.jsonl are damaged and left out")
    steps, seconds, speed = [0.0], [0.0], 0.0
    for row in rows:
        if (since := row.get("time/steps_per_s", 0.0)) > 1e-9:  # of the steps since the record before
            seconds.append(seconds[-1] + max(0.0, row[STEPS] - steps[-1]) / since)
            steps.append(max(row[STEPS], steps[-1]))
            speed = since
    for row in rows if speed else ():
        row[SECONDS] = float(np.interp(row[STEPS], steps, seconds)) + max(0.0, row[STEPS] - steps[-1]) / speed
    return rows


def _metrics(folder: RunFolder) -> Path:
    """Return the file of a run's metrics; a fleet has one for all its policies."""
    of_policy = folder.path.parent.name == POLICIES
    return folder.path.parents[1] / folder.metrics.name if of_policy else folder.metrics


def _of_policy(rows: Sequence[Mapping[str, float]], policy: str) -> list[dict[str, float]]:
    """Return the rows of a fleet of several policies with the metrics of one, by the names that they have elsewhere."""
    ours = f"{policy}/"
    return [
        {STEPS: row[STEPS]} | {k.removeprefix(ours): v for k, v in row.items() if k.startswith((ours, "time/"))}
        for row in rows
    ]


def _optional(path: Path, said: list[str]) -> dict[str, object]:
    try:
        return read_json(path) if path.is_file() else {}
    except CheckpointError as error:
        said.append(str(error))
        return {}


def number(value: object) -> float | None:
    """Return a number that can be reckoned with; None for whatever else a damaged file may hold."""
    return float(value) if isinstance(value, int | float) and -1e100 < value < 1e100 else None


def numbers(row: Mapping[str, object]) -> dict[str, float]:
    """Return those entries that are numbers that can be reckoned with."""
    return {str(key): found for key, value in row.items() if (found := number(value)) is not None}


def _flat(value: object, name: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    else:
        yield name, value if isinstance(value, str) else json.dumps(value)
