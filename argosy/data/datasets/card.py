"""What a data set holds, in numbers and sentences; found in one pass and in constant memory."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from argosy.data import tree
from argosy.data.batch import Batch
from argosy.data.datasets.episodes import Sums
from argosy.data.datasets.source import Progress, Source
from argosy.errors import DataError

FIELDS = ("obs", "act", "rew", "obs_next")
BINS = 10
_BAR = 30
_SHOWN_DIMENSIONS = 8
TOLERANCE = 1e-3
"""By which share of its range an action may lie out of bounds: files round."""
ODD_SCALE = (
    "{name} reaches {reach:.4g} and is taken to be in the policy's scale, where the bounds of a Box are -1 and 1; "
    "if it is in the env's, let the file say so: its attribute action_scale = 'env'"
)
_MAX_DIMENSIONS = 4096
"""Of larger arrays, as images are, dimensions are not told apart."""


@dataclass
class Column:
    """What is known of one array of the rows seen so far."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: np.ndarray
    """Least finite number per dimension, or of all."""
    high: np.ndarray
    total: float = 0.0
    rows: int = 0
    bad: int = 0
    """NaN and infinite numbers."""
    first_bad: int = -1
    """The row of the first of them."""

    def take_in(self, value: np.ndarray) -> None:
        """Look at further rows."""
        if not value.size:
            return  # rows without elements have no least one
        if value.dtype.kind == "f" and not (finite := np.isfinite(value)).all():
            if not self.bad:
                self.first_bad = self.rows + int(np.argwhere(~finite)[0][0])
            self.bad += int((~finite).sum())
            least, greatest = np.where(finite, value, np.inf), np.where(finite, value, -np.inf)
        else:
            least = greatest = value
        axes = (0,) if self.low.ndim else None
        self.low, self.high = np.minimum(self.low, least.min(axis=axes)), np.maximum(self.high, greatest.max(axis=axes))
        self.total += float(np.where(np.isfinite(value), value, 0).sum()) if self.shape == () else 0.0
        self.rows += len(value)


@dataclass
class Card:
    """What a data set holds."""

    path: str
    format: str
    rows: int
    bytes: int
    """That it takes on the disk."""
    attributes: dict[str, Any]
    columns: dict[str, Column] = field(default_factory=dict)
    """By dotted name: obs, obs.camera, act, rew, ..."""
    terminated: int = 0
    truncated: int = 0
    unfinished: int = 0
    """Pieces of episodes of which nobody knows the beginning or the end."""
    breaks: int = 0
    """Rows whose episode goes on, though their successor is not what the next row sees."""
    returns: list[float] = field(default_factory=list)
    """Of the episodes that ended, where they are finite numbers."""
    lengths: list[int] = field(default_factory=list)
    notes: tuple[str, ...] = ()
    """What had to be mended."""
    wrong: list[str] = field(default_factory=list)
    """What is wrong with it, in sentences."""

    @property
    def scale(self) -> str:
        """What actions in a Box count in."""
        return "the env's scale" if self.attributes.get("action_scale") == "env" else "the policy's scale"

    def lines(self) -> Iterator[str]:
        """Yield the card as lines of text."""
        yield f"data     {self.path} ({self.format}, {self.bytes / 2**20:,.1f} MiB)"
        if task := self.attributes.get("task"):
            yield f"task     {task if str(task).isprintable() else repr(task)}"
        yield f"rows     {self.rows:,} transitions, {len(self.lengths):,} episodes"
        for name, column in self.columns.items():
            mean = f", mean {column.total / max(1, self.rows):.4g}" if name == "rew" else ""
            if name.split(".")[0] != "obs_next":
                known = column.rows and math.prod(column.shape)
                reach = f"{column.low.min():.4g} .. {column.high.max():.4g}" if known else "empty"
                shape = f"{column.shape} " if column.shape else ""
                scale = f", in {self.scale}" if name.split(".")[0] == "act" and column.dtype.kind == "f" else ""
                yield f"{name:<8} {shape}{column.dtype}, {reach}{mean}{scale}"
        pieces = f", {self.unfinished:,} without beginning or end" if self.unfinished else ""
        yield f"ends     {self.terminated:,} terminated, {self.truncated:,} truncated{pieces}"
        if self.returns:
            lengths = np.array(self.lengths)
            yield f"lengths  {lengths.min():,} .. {lengths.max():,}, median {np.median(lengths):,.0f}"
            returns = np.array(self.returns)
            yield f"returns  {returns.mean():.4g} ± {returns.std():.4g}, {returns.min():.4g} .. {returns.max():.4g}"
            counts, edges = histogram(self.returns)
            for count, left, right in zip(counts, edges[:-1], edges[1:], strict=True):
                bar = "█" * math.ceil(_BAR * count / counts.max())
                yield f"  {left:>10.4g} .. {right:<10.4g} {bar:<{_BAR}} {count:,}"
        yield from (f"note     {note}" for note in self.notes)
        yield from (f"wrong    {sentence}" for sentence in self.wrong)


def histogram(values: list[float], bins: int = BINS) -> tuple[np.ndarray, np.ndarray]:
    """Return counts [bins] and edges [bins + 1]; where values are the same, but for rounding, a single bin."""
    array = np.array(values)
    edges = np.linspace(array.min(), array.max(), bins + 1)
    return np.histogram(array, bins if (np.diff(edges) > 0).all() else 1)


def make_card(source: Source, progress: Progress | None = None) -> Card:
    """Read a data set once and say what it holds; numbers that are none are counted, not refused.

    Raises:
        DataError: it is damaged, or cannot be read.
    """
    card = Card(source.path, source.format, source.rows, _bytes(Path(source.path)), dict(source.attributes))
    card.notes = source.notes
    sums, before = Sums(), Batch()
    for part in source.parts(progress, finite=False):
        steps = Batch({name: part[name] for name in ("obs", "obs_next", "terminated", "truncated")})
        card.breaks += _breaks(Batch.cat([before, steps]))
        before = steps[-1:]
        for name in FIELDS:
            for path, leaf in tree.leaves(part[name], name):
                _column(card, path, np.asarray(leaf)).take_in(leaf)
        for total, length, whole in sums.take_in(part):
            card.unfinished += not whole
            if whole:
                card.returns.append(total)
                card.lengths.append(length)
        cut = part.get("cut", np.zeros(len(part.rew), np.bool_))
        card.terminated += int(part.terminated.sum())
        card.truncated += int((part.truncated & ~part.terminated & ~cut).sum())
    card.unfinished += sums.length > 0
    card.returns = [value for value in card.returns if math.isfinite(value)]
    card.wrong += _wrong(card)
    for name, column in card.columns.items():
        is_policy_scale = name.split(".")[0] == "act" and card.attributes.get("action_scale") != "env"
        reach = max(np.abs(column.low).max(initial=0), np.abs(column.high).max(initial=0))
        if is_policy_scale and column.dtype.kind == "f" and 1 + TOLERANCE < reach < math.inf:
            card.notes += (ODD_SCALE.format(name=name, reach=reach),)
    return card


def _breaks(part: Batch) -> int:
    """Count the rows of a part, but the last one, that the next one does not follow though their episode goes on."""
    if len(part.terminated) < 2:
        return 0
    differs = np.zeros(len(part.terminated) - 1, np.bool_)
    for (_, after), (_, seen) in zip(tree.leaves(part.obs_next), tree.leaves(part.obs), strict=True):
        one, other = np.asarray(after)[:-1], np.asarray(seen)[1:]
        if one.dtype.kind == "f":  # numbers that are none are counted elsewhere
            same = np.isclose(one, other) | ~np.isfinite(one) | ~np.isfinite(other)
        else:
            same = one == other
        differs |= ~same.reshape(len(same), -1).all(axis=1)
    return int((differs & ~(part.terminated | part.truncated)[:-1]).sum())


def _column(card: Card, path: str, leaf: np.ndarray) -> Column:
    if path not in card.columns:
        shape = leaf.shape[1:]
        several = shape if 0 < math.prod(shape) <= _MAX_DIMENSIONS else ()
        card.columns[path] = Column(shape, leaf.dtype, np.full(several, np.inf), np.full(several, -np.inf))
    return card.columns[path]


def _wrong(card: Card) -> Iterator[str]:
    """Yield what is wrong, in sentences."""
    if card.rows == 0:
        yield "it holds no transitions"
        return
    for name, column in card.columns.items():
        if column.bad:
            yield f"{name} holds {column.bad:,} NaN or infinite numbers, the first in row {column.first_bad:,}"
        if name.split(".")[0] in ("obs", "act") and not math.prod(column.shape):
            yield f"{name} has no elements: every row has shape {column.shape}"
        if name.split(".")[0] in ("obs", "act") and column.low.ndim and card.rows > 1:
            constant = np.argwhere(column.low == column.high).tolist()
            if constant:
                shown = ", ".join(f"{name}{at}" for at in constant[:_SHOWN_DIMENSIONS])
                more = f" and {len(constant) - _SHOWN_DIMENSIONS} more" if len(constant) > _SHOWN_DIMENSIONS else ""
                yield f"{shown}{more} never changes"
    rew = card.columns["rew"]
    if rew.low == rew.high == 0:
        yield "every reward is 0: nothing tells good from bad"
    if not card.lengths:
        yield f"no episode is whole in {card.rows:,} rows: nobody knows what came of it"
    if card.breaks:
        yield (
            f"{card.breaks:,} rows are not followed by their successors (obs_next is not the next row's obs), though "
            "their episodes go on: ends are missing, or rows are in another order; sums over steps run across them"
        )
    if card.lengths and max(card.lengths) == 1 and card.rows > 1:
        yield "every episode has a single row: rows do not follow each other, sums over several steps are of one"


def _bytes(path: Path) -> int:
    try:
        return sum(file.stat().st_size for file in path.rglob("*")) if path.is_dir() else os.path.getsize(path)
    except OSError as error:
        raise DataError(f"{path} cannot be read: {error}") from error
