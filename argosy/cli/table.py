"""Text in columns."""

from __future__ import annotations

from collections.abc import Sequence


def in_columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Return rows under their head, in columns: numbers to the right, words and the last column to the left."""
    columns = list(zip(head, *rows, strict=True))
    padded = [_padded(column) for column in columns[:-1]] + [list(columns[-1])]
    return ["  ".join(cells).rstrip() for cells in zip(*padded, strict=True)]


def _padded(column: Sequence[str]) -> list[str]:
    width = max(len(text) for text in column)
    numbers = all(text[:1].isdigit() or text == "-" for text in column[1:])
    return [text.rjust(width) if numbers else text.ljust(width) for text in column]
