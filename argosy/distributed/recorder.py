"""Cut what rows live through into segments [T, B, ...]. Every row has its own time: rows may act in turns."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from argosy.data import NamedArray, tree
from argosy.distributed.streams import Segment

Fields = Mapping[str, object]


class Recorder:
    """Writes transitions into storage [T, R, ...] and hands out full columns as segments.

    Args:
        producer: name in the segments.
        incarnation: of the worker.
        rows: R.
        steps: T; with `whole_episodes` the longest episode, longer ones are handed out in parts.
        whole_episodes: hand a row out at its episode's end, in its own length.
    """

    def __init__(
        self,
        producer: str,
        incarnation: int,
        rows: int,
        steps: int,
        *,
        whole_episodes: bool = False,
    ) -> None:
        self.producer, self.incarnation = producer, incarnation
        self._rows, self._steps, self._whole = rows, steps, whole_episodes
        self.seq = 0
        """Number of the next segment."""
        self._cursor = np.zeros(rows, np.int64)
        self._in_step = True  # all rows stand at the same time
        self._storage: NamedArray | None = None
        self._leaves: list[np.ndarray] = []
        self._returns = np.zeros(rows)
        self._lengths = np.zeros(rows, np.int64)
        self._ended: list[tuple[np.ndarray, np.ndarray]] = []

    def add(self, rows: np.ndarray, fields: Fields) -> list[Segment]:
        """Store one transition of each of `rows` [k]; return the segments that are full now.

        Args:
            rows: indices, each at most once.
            fields: [k, ...]; `rew`, `terminated` and `truncated` among them; the same names at each call.
        """
        if self._storage is None:
            self._allocate(fields)
        at = self._cursor[rows]
        everyone = len(rows) == self._rows and self._in_step
        for store, (_, value) in zip(self._leaves, _present(fields), strict=True):
            if everyone:
                store[at[0]] = value
            else:
                store[at, rows] = value
        if not everyone:
            self._in_step = False
        self._cursor[rows] += 1
        rew = np.asarray(fields["rew"])
        self._returns[rows] += rew
        self._lengths[rows] += 1
        done = np.asarray(fields["terminated"]) | np.asarray(fields["truncated"])
        if done.any():
            over = rows[done]
            self._ended.append((self._returns[over].copy(), self._lengths[over].copy()))
            self._returns[over], self._lengths[over] = 0.0, 0
        full = self._cursor[rows] == self._steps
        if self._whole:
            full |= done
        return self._hand_out(rows[full]) if full.any() else []

    def cut(self) -> None:
        """Say that the environments are new: what was recorded last is the end of an episode that was cut short."""
        begun = np.flatnonzero(self._cursor > 0)
        if self._storage is not None and len(begun):
            at = self._cursor[begun] - 1
            self._storage["truncated"][at, begun] = ~self._storage["terminated"][at, begun]
        if len(begun) < self._rows:
            self.seq += 1  # the gap tells the receiver that the next segment does not continue the last one
        self._returns[:], self._lengths[:] = 0.0, 0

    def _allocate(self, fields: Fields) -> None:
        self._storage = tree.map_leaves(
            lambda leaf: np.empty((self._steps, self._rows, *leaf.shape[1:]), leaf.dtype), NamedArray(**dict(fields))
        )
        self._leaves = [leaf for _, leaf in _present(self._storage)]

    def _hand_out(self, rows: np.ndarray) -> list[Segment]:
        assert self._storage is not None
        lengths = self._cursor[rows]
        segments = []
        if self._in_step and len(rows) == self._rows:
            segments.append(self._segment(self._storage[: lengths[0]], rows))
            self._allocate(dict(self._storage[0].items()))  # the receiver keeps the old storage
        else:
            for length in np.unique(lengths):
                same = rows[lengths == length]
                segments.append(self._segment(self._storage[:length, same], same))
        self._cursor[rows] = 0
        self._in_step = bool((self._cursor == self._cursor[0]).all())
        return segments

    def _segment(self, data: NamedArray, rows: np.ndarray) -> Segment:
        ended, self._ended = self._ended, []
        self.seq += 1
        return Segment(
            producer=self.producer,
            incarnation=self.incarnation,
            seq=self.seq - 1,
            rows=rows,
            data=data,
            episode_returns=np.concatenate([r for r, _ in ended]) if ended else np.zeros(0),
            episode_lengths=np.concatenate([n for _, n in ended]) if ended else np.zeros(0, np.int64),
        )


def _present(fields: object) -> list[tuple[str, np.ndarray]]:
    return [
        (name, leaf)
        for name, leaf in tree.leaves(dict(fields) if isinstance(fields, Mapping) else fields)
        if leaf is not None
    ]
