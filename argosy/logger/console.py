"""Metrics as lines on the terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence

from tqdm import tqdm

from argosy.logger.base import SafeLogger


class ConsoleLogger(SafeLogger):
    """Prints one line per call, above a progress bar if there is one.

    Args:
        keys: metrics to show, in this order; a call that has none of them prints nothing. None shows all.
    """

    def __init__(self, keys: Sequence[str] | None = None) -> None:
        self.keys = keys

    def _write(self, metrics: Mapping[str, float], env_step: int, gradient_step: int) -> None:
        keys = list(metrics) if self.keys is None else [key for key in self.keys if key in metrics]
        if keys:
            shown = "  ".join(f"{key} {metrics[key]:.4g}" for key in keys)
            tqdm.write(f"step {env_step:,}  {shown}", file=sys.stderr)  # standard output stays free for results
