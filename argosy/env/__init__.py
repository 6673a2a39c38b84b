"""Environments: tasks by name, vector environments and their workers, wrappers, games of several agents, the checker.

Names are imported when they are first used, so that a spawned worker process imports only what it runs (no torch).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from argosy.lazy import getter, homes

if TYPE_CHECKING:
    from argosy.env.table import *  # noqa: F403  # all of it
else:
    _HOME = homes(__file__)
    __all__ = sorted(_HOME)
    __getattr__ = getter(__name__, _HOME)
