"""The report: one HTML file with everything in it, no script, no request."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np

from argosy.report.comparison import ENOUGH, by_task, described, tables
from argosy.report.figure import Line, figure, folded, short, table
from argosy.report.film import Films
from argosy.report.fleet import FleetSeen, fleet_section
from argosy.report.population import PopulationSeen
from argosy.report.runs import SECONDS, STEPS, TEST, TRAINING, Run, differences, labels
from argosy.report.statistics import band, improvement, interval, profile
from argosy.report.study import StudySeen

_POINTS = 60
_AXES = ((STEPS, "steps"), (SECONDS, "seconds of training"))
_NOTES = 10
_OF_UPDATES = ("loss/", "stat/")
_COLORS = ("#4878d0", "#d65f00", "#229966", "#c44e8a", "#8a63c9", "#a07a00", "#0e95a8", "#c9403a")
_STYLE = """
:root{color-scheme:light dark}
body{font:16px/1.5 system-ui,sans-serif;max-width:72rem;margin:auto;padding:0 1rem;overflow-wrap:anywhere}
.scroll{overflow-x:auto;margin:1rem 0}table{border-collapse:collapse;overflow-wrap:normal}
th,td{text-align:left;padding:.2rem .7rem .2rem 0;border-bottom:1px solid #8886;vertical-align:top}
caption,figcaption{text-align:left;font-weight:600}caption{max-width:calc(100vw - 2rem)}
figure{margin:0}svg{width:100%;display:block;overflow:visible}
.figures{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,24rem),1fr));gap:1rem;margin:1rem 0}
text{font-size:12px;fill:currentColor}path{stroke:#8884}polyline{fill:none;stroke-width:2}polygon{opacity:.18}
summary{cursor:pointer;font-weight:600}img,video{max-width:100%}
.key{display:flex;flex-wrap:wrap;gap:.2rem 1.2rem;list-style:none;padding:0}.key i{font-style:normal;font-weight:900}
:focus-visible{outline:2px solid #4878d0}
""" + "".join(f".c{n}{{stroke:{c};color:{c}}}polygon.c{n}{{fill:{c};stroke:none}}" for n, c in enumerate(_COLORS))
_HEAD = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width,initial-scale=1">
<meta http-equiv="Content-Security-Policy"
content="default-src 'none';style-src 'unsafe-inline';img-src data:;media-src data:">"""
Groups = Mapping[str, Sequence[Run]]


def render(
    runs: Sequence[Run],
    said: Sequence[str] = (),
    threshold: float | None = None,
    studies: Sequence[StudySeen | PopulationSeen] = (),
    fleets: Sequence[FleetSeen] = (),
    *,
    refresh_s: float | None = None,
) -> str:
    """Return the report on some runs as HTML.

    Args:
        runs: of any algorithms and tasks.
        said: what was wrong with them, as `read_runs` says it.
        threshold: the return to whose first time steps and seconds are told; None: the runs' target return if they
            have one, else nine tenths of the way from a task's lowest return to its best interquartile mean.
        studies: searches for better settings, and populations.
        fleets: runs of fleets.
        refresh_s: seconds after which a browser asks for the page again; None: never.
    """
    tasks: dict[str, dict[str, list[Run]]] = {}
    for run, label in zip(runs, labels(runs), strict=True):
        tasks.setdefault(run.task, {}).setdefault(label, []).append(run)
    names = sorted({label for groups in tasks.values() for label in groups})
    colors = {name: index for index, name in enumerate(names)}
    sizes = {f"{label} on {task}": len(group) for task, groups in tasks.items() for label, group in groups.items()}
    if few := ", ".join(f"{name} ({size})" for name, size in sizes.items() if size < ENOUGH):
        said = [*said, f"fewer than {ENOUGH} seeds, so intervals are too narrow, and of one seed there are none: {few}"]
    key = "".join(
        f'<li><i class="c{index % 8}">{"╌" if index >= 8 else "━"}</i> {escape(name)}</li>'
        for name, index in colors.items()
    )
    notes = [f"<li>{escape(note)}</li>" for note in said]
    first, more = "".join(notes[:_NOTES]), "".join(notes[_NOTES:])
    again = "" if refresh_s is None else f'<meta http-equiv="refresh" content="{refresh_s:g}">'
    live = "" if refresh_s is None else " This page renews itself; &amp;open behind its address opens what is folded."
    films = Films()
    parts = [
        f"{_HEAD}{again}<title>argosy report</title><style>{_STYLE}</style></head><body><main><h1>Report</h1>",
        f"<p>{len(runs)} runs, tasks: {escape(', '.join(tasks) or 'none')}. Lines are interquartile means over seeds, "
        "bands their 95 % intervals; a line begins with the first of its runs (others count with their first "
        "record until then) and ends with the shortest. Seconds are those of "
        f'training, tests not included.{live}</p><ul class="key">{key}</ul>',
        f"<h2>To know first</h2><ul>{first}</ul>" if notes else "",
        folded(f"{len(notes) - _NOTES} more", f"<ul>{more}</ul>") if more else "",
        *(_task(task, groups, colors, threshold, films) for task, groups in tasks.items()),
        _together(tasks, names, colors),
        *(study.section() for study in studies),
        *(fleet_section(fleet) for fleet in fleets),
        _origins(tasks),
        "</main></body></html>\n",
    ]
    return "".join(parts)


def _task(task: str, groups: Groups, colors: Mapping[str, int], threshold: float | None, films: Films) -> str:
    """Return a task's section: scores, curves, time and steps to a return; losses and films to be opened."""
    rows, best = [], -np.inf
    for label, runs in groups.items():
        scores = by_task(runs).get(task, [])
        cells = ["no score", "-", "-"]
        if scores:
            found = interval(scores)
            best, cells = max(best, found.value), [described(found), short(min(scores)), short(max(scores))]
        rows.append([label, f"{len(scores)} of {len(runs)}", *cells])
    curves = [
        figure(f"{name} by {unit}", unit, lines)
        for name, key in (("test return", TEST), ("training return", TRAINING))
        for axis, unit in _AXES
        if (lines := _lines(groups, colors, key, axis))
    ]
    head = ["algorithm", "seeds", "interquartile mean", "lowest", "highest"]
    return (
        f"<section><h2>{escape(task)}</h2>{table('Final scores: mean return of each run', head, rows)}"
        f'<div class="figures">{"".join(curves) or "No curve: no return was noted twice."}</div>'
        f"{_reached(groups, best, threshold)}{_losses(groups, colors)}{films.section(groups)}</section>"
    )


def _losses(groups: Groups, colors: Mapping[str, int]) -> str:
    """Return what shows the losses and statistics of updates when it is opened; "": none was noted twice."""
    names = set[str]().union(*(row for runs in groups.values() for run in runs for row in run.rows))
    curves = [
        figure(f"{name} by steps", "steps", lines)
        for name in sorted(names)
        if name.startswith(_OF_UPDATES) and (lines := _lines(groups, colors, name, STEPS))
    ]
    return folded("Losses and statistics of updates", f'<div class="figures">{"".join(curves)}</div>') if curves else ""


def _lines(groups: Groups, colors: Mapping[str, int], key: str, axis: str) -> list[Line]:
    """Return a line for each group that has noted this metric twice at least."""
    lines = []
    for label, runs in groups.items():
        curves = [curve for run in runs if len((curve := run.curve(key, axis))[0]) > 1]
        start = min((x[0] for x, _ in curves), default=0.0)  # np.interp holds what begins later
        end = min((x[-1] for x, _ in curves), default=0.0)
        if end > start:
            grid = np.linspace(start, end, _POINTS)
            middle, *bounds = band([np.interp(grid, x, y) for x, y in curves])
            lines.append(Line(colors[label], grid, middle, bounds if np.isfinite(bounds).all() else ()))
    return lines


def _reached(groups: Groups, best: float, threshold: float | None) -> str:
    """Return the table of steps and seconds until a return was first reached, in tests where all were tested."""
    runs = [run for group in groups.values() for run in group]
    key, word = (TEST, "test") if all(len(run.curve(TEST, STEPS)[0]) > 1 for run in runs) else (TRAINING, "training")
    returns = np.concatenate([run.curve(key, STEPS)[1] for run in runs])
    if not returns.size:
        return ""
    targets = {run.target for run in runs}
    if threshold is None and len(targets) == 1:
        threshold = targets.pop()
    if threshold is None:
        low, high = float(returns.min()), best if np.isfinite(best) else float(returns.max())
        threshold = low + 0.9 * (high - low)
    rows = []
    for label, group in groups.items():
        cells = [[_first(run, key, axis, threshold) for run in group] for axis, _ in _AXES]
        there = sum(value < np.inf for value in cells[0])
        middle = [statistics.median(values) for values in cells]
        rows.append([label, f"{there} of {len(group)}", *(short(m) if m < np.inf else "not reached" for m in middle)])
    title = f"Until the {word} return was {short(threshold)}: medians over seeds"
    return table(title, ["algorithm", "seeds that reached it", "steps", "seconds"], rows)


def _first(run: Run, key: str, axis: str, threshold: float) -> float:
    x, y = run.curve(key, axis)
    return float(min(x[y >= threshold], default=np.inf))


def _together(tasks: Mapping[str, Groups], names: Sequence[str], colors: Mapping[str, int]) -> str:
    """Return what compares algorithms: averages over tasks, profiles, probabilities of improvement."""
    scores = {name: by_task([run for groups in tasks.values() for run in groups.get(name, ())]) for name in names}
    there = [name for name in names if len(scores[name]) == len(tasks)]
    if len(names) < 2 and len(tasks) < 2:
        return ""
    parts = ["<section><h2>Compared</h2>"]
    if len(there) < len(names):
        missing = ", ".join(name for name in names if name not in there)
        parts.append(f"<p>Not on all tasks, so without an average over them: {escape(missing)}.</p>")
    if there:
        made = tables([scores[name] for name in there], list(tasks))
        if len(tasks) > 1:
            parts.append("<p>For averages, 0 is the lowest score of a run on a task, 1 the highest.</p>")
            rows = [[name, str(len(one)), described(interval(one))] for name, one in zip(there, made, strict=True)]
            parts.append(table("Over all tasks", ["algorithm", "seeds", "interquartile mean"], rows))
        grid = np.linspace(min(one.min() for one in made), max(one.max() for one in made), _POINTS)
        lines = [Line(colors[name], grid, profile(one, grid)) for name, one in zip(there, made, strict=True)]
        parts.append(f'<div class="figures">{figure("Share of runs with a higher score", "score", lines)}</div>')
    if len(names) > 1:
        title = "Probability that a run of the row beats one of the column, on tasks that both have"
        rows = [[name, *(_chance(scores[name], scores[other]) for other in names)] for name in names]
        parts.append(table(title, ["", *names], rows))
    return "".join(parts) + "</section>"


def _chance(ours: Mapping[str, Sequence[float]], theirs: Mapping[str, Sequence[float]]) -> str:
    tasks = sorted(ours.keys() & theirs.keys())
    return f"{improvement(*tables([ours, theirs], tasks)):.2f}" if tasks and ours is not theirs else "-"


def _origins(tasks: Mapping[str, Groups]) -> str:
    """Return what differs between the configs, and on what the runs were made."""
    columns = [(f"{label}, {task}", runs) for task, groups in tasks.items() for label, runs in groups.items()]
    settings = [runs[0].settings for _, runs in columns]
    head = ["setting", *(name for name, _ in columns)]
    rows: dict[bool, list[list[str]]] = {True: [], False: []}
    for name in differences(settings):
        of_several = len({one[name] for one in settings if name in one}) > 1
        rows[of_several].append([name, *(one.get(name, "-") for one in settings)])
    configs = table("Settings that differ", head, rows[True]) if rows[True] else ""
    if rows[False]:
        configs += folded("Settings that only some have", table("Settings that only some have", head, rows[False]))
    machines: dict[str, list[str]] = {}
    for name, runs in columns:
        for run in runs:
            made_on = ", ".join(f"{key} {value}" for key, value in run.machine.items())
            machines.setdefault(made_on, []).append(f"{name}, seed {run.seed}")
    made = table("Hardware and versions", ["machine", "runs"], [[key, "; ".join(on)] for key, on in machines.items()])
    return f"<section><h2>Where the numbers come from</h2>{configs}{made}</section>"
