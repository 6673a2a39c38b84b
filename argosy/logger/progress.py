"""The progress bar of a run."""

from __future__ import annotations

import sys
from typing import NoReturn

from tqdm import tqdm


class ProgressBar:
    """Steps of the whole run, with the numbers of interest; nothing where stderr is neither terminal nor notebook."""

    def __init__(self, enabled: bool, unit: str = "step") -> None:
        self.enabled, self.unit = enabled, unit
        self._bar: tqdm[NoReturn] | None = None
        self._total = 0
        self._shown: dict[str, str] = {}

    def open(self, total: int, position: int) -> None:
        """Show the bar at `position`, if it is not there yet."""
        self._total = total
        if self._bar is None and self.enabled:
            disable = False if in_notebook() else None
            self._bar = tqdm(total=total, initial=position, unit=self.unit, dynamic_ncols=True, disable=disable)

    def move(self, position: int) -> None:
        """Move to `position` (no further than the end)."""
        bar = self._bar
        if bar is not None and not bar.disable:
            bar.update(min(position, self._total) - bar.n)

    def show(self, **numbers: float) -> None:
        """Show numbers beside the bar; those shown before stay."""
        if self._bar is not None and not self._bar.disable:
            self._shown |= {name: f"{value:.4g}" for name, value in numbers.items()}
            self._bar.set_postfix(self._shown, refresh=False)

    def write(self, line: str) -> None:
        """Write a line to stderr, above the bar."""
        tqdm.write(line, file=sys.stderr)

    def close(self) -> None:
        """Leave the bar as it is."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def in_notebook() -> bool:
    """Whether what is written to stderr is shown below the cell of a notebook."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and type(ipython.get_ipython()).__name__ == "ZMQInteractiveShell"
