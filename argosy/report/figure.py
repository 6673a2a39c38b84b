"""Curves with bands as inline SVG, coloured by the page's style sheet, and tables."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from argosy.report.statistics import FloatArray

_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 388.0, 10.0, 210.0


@dataclass(frozen=True)
class Line:
    """A curve."""

    color: int
    """Counts the colours of the page."""
    x: FloatArray
    y: FloatArray
    bounds: Sequence[FloatArray] = ()
    """Low and high [n], between which it lies; (): not known."""


def figure(title: str, unit: str, lines: Sequence[Line]) -> str:
    """Return a picture of some lines; `unit` is that of x."""
    x_ticks = _ticks([line.x for line in lines])
    y_ticks = _ticks([values for line in lines for values in (line.y, *line.bounds)])

    def across(x: float) -> float:
        return _LEFT + (x - x_ticks[0]) / (x_ticks[-1] - x_ticks[0]) * (_RIGHT - _LEFT)

    def down(y: float) -> float:
        return _BOTTOM - (y - y_ticks[0]) / (y_ticks[-1] - y_ticks[0]) * (_BOTTOM - _TOP)

    def points(x: FloatArray, y: FloatArray) -> str:
        return " ".join(f"{across(a):.1f},{down(b):.1f}" for a, b in zip(x, y, strict=True))

    parts = [f'<path d="M{_LEFT} {down(y):.1f}H{_RIGHT}"/>' for y in y_ticks]
    parts += [f'<text x="46" y="{down(y) + 4:.1f}" text-anchor="end">{short(y)}</text>' for y in y_ticks]
    parts += [f'<text x="{across(x):.1f}" y="226" text-anchor="middle">{short(x)}</text>' for x in x_ticks]
    parts.append(f'<text x="220" y="244" text-anchor="middle">{escape(unit)}</text>')
    for line in lines:
        if line.bounds:
            low, high = line.bounds
            around = points(np.append(line.x, line.x[::-1]), np.append(high, low[::-1]))
            parts.append(f'<polygon class="c{line.color % 8}" points="{around}"/>')
    for line in lines:
        dash = ' stroke-dasharray="5 3"' if line.color >= 8 else ""
        parts.append(f'<polyline class="c{line.color % 8}"{dash} points="{points(line.x, line.y)}"/>')
    picture = f'<svg viewBox="0 0 400 250" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    return f"<figure><figcaption>{escape(title)}</figcaption>{picture}</figure>"


def short(value: float) -> str:
    """Return a number in few characters."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size <= abs(value) < 1e15:
            return f"{value / (1e3 if letter == 'k' else size):.4g}{letter}"
    return f"{value:.4g}"


def _ticks(values: Sequence[FloatArray]) -> list[float]:
    """Return round numbers around all finite values."""
    finite = np.concatenate(values)
    finite = finite[np.isfinite(finite)]
    low, high = float(finite.min()), float(finite.max())
    if high - low <= 1e-9 * max(abs(low), abs(high)):
        low, high = low - 0.5 * max(1.0, abs(low)), high + 0.5 * max(1.0, abs(high))
    step = 10.0 ** math.floor(math.log10((high - low) / 4))
    step *= next(times for times in (1, 2, 5, 10) if (high - low) / (step * times) <= 5)
    return [index * step for index in range(math.floor(low / step), math.ceil(high / step) + 1)]


def table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, every text escaped; one that is too wide is scrolled, by the keyboard, too."""
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    body = "".join(
        f'<tr><th scope="row">{escape(first)}</th>{"".join(f"<td>{escape(cell)}</td>" for cell in cells)}</tr>'
        for first, *cells in rows
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escape(title)}"><table>'
        f"<caption>{escape(title)}</caption><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def folded(summary: str, inside: str) -> str:
    """Return HTML that is shown when its summary is opened."""
    return f"<details><summary>{escape(summary)}</summary>{inside}</details>"
