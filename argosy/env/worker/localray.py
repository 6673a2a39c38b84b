"""A Ray of this process's own, which nothing outside of this machine reaches."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from argosy.errors import require


def start_local_ray(ray: ModuleType, **options: object) -> None:
    """Start it: it listens on 127.0.0.1 alone, keeps its token to this user, and imports what this process can.

    Args:
        ray: the module.
        options: of `ray.init`, beside these.
    """
    _keep_token_private()
    with _on_loopback(), _same_imports():
        # "local": a dead cluster's address may lie around and would be connected to otherwise
        ray.init(address="local", include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1", **options)
    _keep_token_private()


def _keep_token_private() -> None:
    """Let nobody else read the token that Ray makes, and by which it knows this user."""
    folder = Path.home() / ".ray"
    with contextlib.suppress(OSError):  # no home, or another's
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        (folder / "auth_token").chmod(0o600)


@contextlib.contextmanager
def _on_loopback() -> Iterator[None]:
    """Let a local Ray listen on 127.0.0.1 alone; Ray turns that into the address by which everybody reaches it."""
    services: Any = require("ray._private.services", "fleet")
    before = services.resolve_ip_for_localhost
    services.resolve_ip_for_localhost = lambda host: host
    try:
        yield
    finally:
        services.resolve_ip_for_localhost = before


@contextlib.contextmanager
def _same_imports() -> Iterator[None]:
    """Let the processes of a local Ray import what this one can: the tasks and classes that an experiment names."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join(os.path.abspath(entry) for entry in sys.path)
    try:
        yield
    finally:
        if before is None:
            del os.environ["PYTHONPATH"]
        else:
            os.environ["PYTHONPATH"] = before
