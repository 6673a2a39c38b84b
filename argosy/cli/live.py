"""`argosy dash [RUNS]`: the report as a page of this machine, which is made anew when something has changed.

Only the page itself can be asked for, by whoever knows the token, and nothing can be written. A request costs nothing:
it gets what was made last.
"""

from __future__ import annotations

import glob
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qs, urlsplit

import tyro

from argosy.errors import ConfigError

if TYPE_CHECKING:
    from argosy.report.runs import Known

LOOPBACK = ("127.0.0.1", "localhost")
_HEADERS = {
    "Content-Type": "text/html; charset=utf-8",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; media-src data:; "
    "base-uri 'none'; form-action 'none'",
}
_AT_FIRST = """<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta http-equiv="refresh" content="1">
<title>argosy</title></head><body><p>The runs are being read ...</p></body></html>"""


@dataclass(frozen=True, kw_only=True)
class Dash:
    """Follow runs in the browser; ends with Ctrl-C."""

    runs: Annotated[tuple[str, ...], tyro.conf.Positional, tyro.conf.arg(metavar="[RUN ...]")] = ("runs",)
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

    def __call__(self) -> int:
        """Serve the page until Ctrl-C."""
        for place in self.runs:
            if not Path(place).exists() and not glob.glob(place):
                raise ConfigError(f"there is no folder {place!r}, nor any that it fits; name that of the runs")
        make = page_maker(self.runs, self.threshold, self.every_s)
        server = Dashboard(make, self.every_s, self.host, self.port, new_token() if self.token else None)
        print(f"dash: {server.url}", flush=True)
        server.run()
        return 0


class Dashboard(ThreadingHTTPServer):
    """Serves a page that another thread makes anew.

    Args:
        make: returns the page; called from that thread, again and again.
        every_s: seconds between two calls at least; a call that takes long is followed by a longer pause.
        host: address to listen at.
        port: where; 0: a free one.
        token: what the address must hold as `?token=`; None: nothing.
    """

    daemon_threads = True

    def __init__(
        self,
        make: Callable[[], str],
        every_s: float = 5.0,
        host: str = "127.0.0.1",
        port: int = 0,
        token: str | None = None,
    ) -> None:
        if token is None and host not in LOOPBACK:
            raise ConfigError(f"host is {host!r}, which others can reach; do not leave the token out")
        try:
            super().__init__((host, port), _Handler)
        except OSError as error:
            raise ConfigError(f"nothing can be served at {host}, port {port}: {error}; --port takes another") from error
        self.token, self.page = token, _AT_FIRST
        # A page of another site whose name leads to this machine comes with that name
        self.names = {f"{name}:{self.server_port}" for name in LOOPBACK}
        self.host = host
        self._make, self._every_s = make, every_s

    @property
    def url(self) -> str:
        """What to open."""
        return f"http://{self.host}:{self.server_port}/" + (f"?token={self.token}" if self.token else "")

    def run(self) -> None:
        """Serve until Ctrl-C."""
        threading.Thread(target=self._renew, daemon=True).start()
        with self:
            self.serve_forever(poll_interval=0.1)

    def _renew(self) -> None:
        while True:
            began = time.monotonic()
            try:
                self.page = self._make()
            except Exception as error:  # of files that are written at this moment, or made up: the next time may do
                self.page = _AT_FIRST.replace("The runs are being read", escape(f"not readable: {error}"))
            time.sleep(max(self._every_s, 9 * (time.monotonic() - began)))  # a tenth of a core at most


class _Handler(BaseHTTPRequestHandler):
    server: Dashboard
    timeout = 10.0  # who says nothing for so long is gone
    server_version, sys_version = "argosy", ""

    def do_GET(self) -> None:
        """Answer with the page, or with what is wrong."""
        url, token = urlsplit(self.path), self.server.token
        asked = parse_qs(url.query, keep_blank_values=True)
        given = asked.get("token", [""])[0]
        if self.server.host in LOOPBACK and self.headers.get("Host") not in self.server.names:
            self._answer(HTTPStatus.FORBIDDEN, "not a name of this server")
        elif token is not None and not hmac.compare_digest(given.encode(), token.encode()):
            self._answer(HTTPStatus.FORBIDDEN, "open the address that argosy dash has printed: it ends with a token")
        elif url.path != "/":
            self._answer(HTTPStatus.NOT_FOUND, "there is nothing but the page /")
        else:
            page = self.server.page
            self._answer(HTTPStatus.OK, page.replace("<details>", "<details open>") if "open" in asked else page)

    do_HEAD = do_GET  # noqa: N815  # http.server's name

    def _answer(self, status: HTTPStatus, body: str) -> None:
        data = body.encode("utf-8", "replace")
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Write nothing: addresses hold the token."""


def new_token() -> str:
    """Return one that nobody can guess."""
    return secrets.token_urlsafe(24)


def page_maker(places: Sequence[str], threshold: float | None, every_s: float) -> Callable[[], str]:
    """Return what makes the page on the runs in some places; a page of the same runs is not made again."""
    last: tuple[object, str] = (None, "")
    known: Known = {}

    def make() -> str:
        from argosy.report import read_fleets, read_runs, read_studies, render  # here: the server is there at once

        nonlocal last
        studies, said = read_studies(places)
        fleets, of_fleets = read_fleets(places)
        runs, more = read_runs(places, known)
        notes = [*said, *of_fleets, *more]
        if last[0] != (seen := (runs, notes, studies, fleets)):
            last = seen, render(runs, notes, threshold, studies, fleets, refresh_s=every_s)
        return last[1]

    return make
