"""Metrics as lines on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from tqdm import tqdm

from argosy.logger.base import SafeLogger


class ConsoleLogger(SafeLogger):
    """Prints one line per call, above a progress bar if there is one.

    Args:
        keys: metrics to show, in this order; a call that has none of them prints nothing. None shows all.
        stream: where to; None is standard error, so that standard output stays free for results.
    """

    def __init__(self, keys: Sequence[str] | None = None, stream: TextIO | None = None) -> None:
        self.keys = keys
        self._stream = stream

    def _write(self, metrics: Mapping[str, float], env_step: int, gradient_step: int) -> None:
        keys = list(metrics) if self.keys is None else [key for key in self.keys if key in metrics]
        if keys:
            shown = "  ".join(f"{key} {metrics[key]:.4g}" for key in keys)
            tqdm.write(f"step {env_step:,}  {shown}", file=self._stream or sys.stderr)
