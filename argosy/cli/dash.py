"""`argosy dash [RUNS]`: the report on runs that go on, in the browser."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from argosy.cli.flags import parse
from argosy.cli.live import Dashboard, new_token, page_maker
from argosy.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class DashFlags:
    """Follow runs in the browser; ends with Ctrl-C."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional] = ("runs",)
    """Runs' folders, folders above them, or patterns of such."""
    host: str = "127.0.0.1"
    """Address to listen at; this one can be reached from this machine only."""
    port: int = 8765
    """Where; 0: a free one."""
    token: bool = True
    """Ask for the token in the address that is printed, so that other users of this machine see nothing."""
    every_s: float = 5.0
    """Seconds until the page looks for something new."""
    threshold: float | None = None
    """Return to whose first time steps and seconds are told; none: the runs' target, or near the best return."""

    def __post_init__(self) -> None:
        if not 0 <= self.port <= 65535 or not self.every_s >= 1:
            raise ConfigError(f"port is {self.port}, every_s {self.every_s}; they must be 0 to 65535, and >= 1")


def main(args: Sequence[str]) -> int:
    """Serve the page until Ctrl-C."""
    flags = parse(DashFlags, args, prog="argosy dash")
    make = page_maker(flags.runs, flags.threshold, flags.every_s)
    server = Dashboard(make, flags.every_s, flags.host, flags.port, new_token() if flags.token else None)
    print(f"dash: {server.url}", flush=True)
    server.run()
    return 0
