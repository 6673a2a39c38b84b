"""`argosy data FILE`: what a data set holds, what is wrong with it; `argosy data convert SRC DST`: as argosy's own."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from argosy.cli.flags import parse
from argosy.errors import ConfigError, DataError, require

if TYPE_CHECKING:
    from argosy.data.datasets import Source
    from argosy.data.datasets.card import Card


@dataclass(frozen=True, kw_only=True)
class DataFlags:
    """Say what a data set holds and what is wrong with it; `argosy data convert SRC DST` makes argosy's own of it."""

    file: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="FILE")]
    """A file, or a folder of Minari, of LeRobot or of TFRecords."""
    output: Annotated[str | None, tyro.conf.arg(aliases=["-o"])] = None
    """A picture of the returns, PNG."""
    task: str | None = None
    """Environment whose spaces it must fit."""
    quiet: bool = False
    """No progress bar."""


@dataclass(frozen=True, kw_only=True)
class ConvertFlags:
    """Write a data set as argosy's own, in constant memory."""

    source: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="SRC")]
    """A file, or a folder of Minari, of LeRobot or of TFRecords."""
    output: Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="DST")]
    """The file, HDF5; one that is there is replaced in the end."""
    task: str | None = None
    """Environment whose spaces it must fit."""
    clip: bool = False
    """Cut actions to the bounds of the task's."""
    best: float | None = None
    """Only this share of the episodes, those that returned most, e.g. 0.1."""
    unpacked: bool = False
    """Do not compress images: the file takes more room, but it is mapped, not read, when it is learned from."""
    quiet: bool = False
    """No progress bar and no report."""


def main(args: Sequence[str]) -> int:
    """Show a card, or convert; 1 when something is wrong with the data."""
    return _convert(args[1:]) if args and args[0] == "convert" else _show(args)


def _show(args: Sequence[str]) -> int:
    flags = parse(DataFlags, args, prog="argosy data")
    from argosy.data.datasets import open_source  # here, as below: help needs none of it
    from argosy.data.datasets.card import make_card
    from argosy.logger import ProgressBar

    bar = ProgressBar(not flags.quiet, unit="row")
    with open_source(flags.file) as source, contextlib.closing(bar):
        bar.open(source.rows, 0)
        card = make_card(source, bar.move)
        if flags.task is not None and source.rows:
            card.wrong += _misfits(source, flags.task)
            from argosy.env import task_spaces
            from argosy.run.dataset import of_another_task, of_other_bounds

            odd = [of_another_task(source, flags.task)]
            if not card.wrong:
                odd.append(of_other_bounds(next(source.parts()).obs, task_spaces(flags.task)[0]))
            card.notes += tuple(filter(None, odd))
    for line in card.lines():
        print(line)
    if flags.output is not None:
        _draw(card, flags.output)
        print(f"picture  {flags.output}")
    return 1 if card.wrong else 0


def _convert(args: Sequence[str]) -> int:
    flags = parse(ConvertFlags, args, prog="argosy data convert")
    if flags.clip and flags.task is None:
        raise ConfigError("--clip needs --task TASK, whose bounds actions are cut to")
    from argosy.data.datasets import convert, open_source
    from argosy.data.datasets.episodes import best_episodes
    from argosy.logger import ProgressBar
    from argosy.process import unwound_by_sigterm

    bar = ProgressBar(not flags.quiet, unit="row")
    with unwound_by_sigterm(), open_source(flags.source) as source, contextlib.closing(bar):
        made = source if flags.task is None else _fitted(source, flags.task, "clip" if flags.clip else "check")
        if flags.best is not None:
            bar.open(source.rows, 0)
            made = best_episodes(made, flags.best, bar.move)
            bar.close()
        bar.open(made.rows, 0)
        convert(made, flags.output, bar.move, packed=not flags.unpacked)
    if not flags.quiet:
        print(f"rows     {made.rows:,} transitions ({source.format})")
        for note in made.notes:
            print(f"note     {note}")
        print(f"file     {flags.output}")
    return 0


def _fitted(source: Source, task: str, bounds: Literal["check", "clip"]) -> Source:
    from argosy.env import task_spaces
    from argosy.run.dataset import fitted

    return fitted(source, *task_spaces(task), bounds=bounds)


def _misfits(source: Source, task: str) -> list[str]:
    """Return in what a data set does not fit a task."""
    try:
        for _ in _fitted(source, task, "check").parts(finite=False):
            pass
    except DataError as error:
        return [str(error)]
    return []


def _draw(card: Card, path: str) -> None:
    """Draw the returns' histogram."""
    require("matplotlib", "plot")
    from matplotlib.figure import Figure

    from argosy.data.datasets.card import histogram

    if not card.returns:
        ended = len(card.lengths)
        why = f"no return of {ended:,} episodes is a finite number" if ended else "no episode is whole"
        raise DataError(f"there is nothing to draw: {why} in {card.path}")
    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    counts, edges = histogram(card.returns, 40)
    axes.stairs(counts, edges, fill=True, color="#58a")
    axes.set(xlabel="return", ylabel="episodes", title=f"{Path(card.path).name}: {len(card.returns):,} episodes")
    axes.grid(alpha=0.3)
    try:
        figure.savefig(path)
    except (OSError, ValueError) as error:  # a folder that is not there, a kind of picture that there is not
        raise DataError(f"the picture {path!r} cannot be written: {error}") from error
