"""The episodes of a data set: what they returned, and the best of them alone."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from argosy.data.batch import Batch
from argosy.data.datasets.source import Progress, Source
from argosy.errors import ConfigError, DataError


@dataclass
class Sums:
    """Sums up episodes whose rows come in parts."""

    total: float = 0.0
    """Return of the episode under way, so far."""
    length: int = 0
    """Its rows, so far."""
    begun: bool = True
    """Whether they are there from its beginning on."""

    def take_in(self, part: Batch) -> Iterator[tuple[float, int, bool]]:
        """Yield return, rows and whether it is whole, of each piece that a part ends; others lack beginning or end."""
        cut, start = part.get("cut", np.zeros(len(part.rew), np.bool_)), 0
        first = part.get("first", np.ones(len(part.rew), np.bool_))
        for end in (np.flatnonzero(part.terminated | part.truncated) + 1).tolist():
            begun = bool(first[start]) if self.length == 0 else self.begun
            total = self.total + float(part.rew[start:end].sum(dtype=np.float64))
            yield total, self.length + end - start, begun and not cut[end - 1]
            self.total, self.length, start = 0.0, 0, end
        if self.length == 0 and start < len(first):
            self.begun = bool(first[start])
        self.total += float(part.rew[start:].sum(dtype=np.float64))
        self.length += len(part.rew) - start


def best_episodes(source: Source, share: float, progress: Progress | None = None) -> Source:
    """Return this share of a data set's episodes, rounded up: those that returned most, in their order.

    Pieces without beginning or end are left out. The data set is read once, in constant memory. Cloning the best tenth
    is what others are to be compared with where data are mixed (%BC in Chen et al., 2021,
    https://arxiv.org/abs/2106.01345).

    Raises:
        ConfigError: `share` is not within 0 (exclusive) and 1.
        DataError: no episode ends, or the data set is damaged.
    """
    if not 0.0 < share <= 1.0:
        raise ConfigError(f"the share of the best episodes is {share}; it must be > 0 and <= 1, e.g. 0.1")
    sums = Sums()
    seen: list[tuple[float, int, bool]] = []
    for part in source.parts(progress):
        seen += sums.take_in(part)
    returns, lengths, ended = (np.array(column) for column in zip(*seen, strict=True)) if seen else [np.zeros(0)] * 3
    known = np.flatnonzero(ended)
    if not len(known):
        raise DataError(f"{source.path}: no episode is whole in {source.rows:,} rows, so that none is known to be best")
    count = math.ceil(share * len(known) - 1e-9)  # 0.07 of 100 are 7, though the product is a little more
    kept = known[np.argsort(-returns[known], kind="stable")[: max(count, 1)]]
    stops = np.cumsum(lengths)
    is_kept = np.zeros(source.rows, np.bool_)
    for episode in kept:
        is_kept[stops[episode] - lengths[episode] : stops[episode]] = True

    def read(size: int) -> Iterator[Batch]:
        start = 0
        for part in source.read(size):
            rows = is_kept[start : start + len(part.rew)]
            start += len(part.rew)
            if rows.any():
                yield part[rows]

    best = returns[kept]
    note = f"the best {len(best):,} of {len(known):,} episodes, with returns from {best.min():.4g} on"
    return dataclasses.replace(
        source,
        rows=int(is_kept.sum()),
        read=read,
        whole=None,
        attributes={**source.attributes, "episodes": len(best), "return_mean": best.mean(), "return_std": best.std()},
        notes=(*source.notes, note),
    )
