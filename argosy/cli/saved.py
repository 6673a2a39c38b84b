"""Flags that say which of a run's policies is meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import tyro


@dataclass(frozen=True, kw_only=True)
class SavedFlags:
    """What all commands take that use a saved policy."""

    run: Annotated[str, tyro.conf.Positional]
    """The folder of a run, or of a fleet's, or a file that `argosy pack` wrote."""
    policy: str | None = None
    """Of a fleet with several policies: which."""
    version: int | None = None
    """Of a fleet: which version; those that are kept."""
    tag: str | None = None
    """best, latest, or another tag of a fleet's version (None: the best, if any was tested)."""
    trust: bool = False
    """Import the code that the run names as MODULE:CLASS."""

    @property
    def chosen(self) -> dict[str, Any]:
        """Return the choice, as keyword arguments."""
        return {"policy": self.policy, "version": self.version, "tag": self.tag, "trust": self.trust}
