"""The token by which a Ray cluster knows its user: kept private, and shown only to a cluster that asks for it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from types import ModuleType

_AUTH_MODE = "RAY_AUTH_MODE"
_OPEN, _ASKS = 10, 11
_PROBE = f"""
import sys, ray
from ray._private.services import canonicalize_bootstrap_address
try:
    ray._raylet.GcsClient(address=canonicalize_bootstrap_address(sys.argv[1]))
except ray.exceptions.AuthenticationError:
    sys.exit({_ASKS})
sys.exit({_OPEN})
"""


def keep_token_private() -> None:
    """Let nobody else read the token that Ray makes, and by which it knows this user."""
    folder = Path.home() / ".ray"
    with contextlib.suppress(OSError):  # no home, or another's
        folder.mkdir(mode=0o700, exist_ok=True)
        folder.chmod(0o700)
        (folder / "auth_token").chmod(0o600)


def choose_auth_mode(ray: ModuleType, address: str) -> bool:
    """Show this user's token to a cluster that asks for one, and to no other, whose workers it would shut out.

    Ray itself leaves that to RAY_AUTH_MODE, which is respected where it is set. Returns whether it was set here.

    Raises:
        ConnectionError: nobody is at the address.
    """
    if _AUTH_MODE in os.environ or "://" in address:
        return False
    host, _, port = address.rpartition(":")
    if host:
        socket.create_connection((host, int(port)), timeout=10.0).close()  # Ray's own attempt takes a minute
    # In another process: the refusal is also written to the console, and the mode is fixed once Ray has been used.
    command, env = [sys.executable, "-c", _PROBE, address], {**os.environ, _AUTH_MODE: "disabled"}
    try:
        answer = subprocess.run(command, env=env, capture_output=True, timeout=30.0, check=False).returncode
    except subprocess.TimeoutExpired:
        return False
    if answer not in (_OPEN, _ASKS):
        return False
    set_auth_mode(ray, "token" if answer == _ASKS else "disabled")
    return True


def set_auth_mode(ray: ModuleType, mode: str | None) -> None:
    """Let Ray show its token ("token") or not ("disabled"); None: as the environment says."""
    if mode is None:
        os.environ.pop(_AUTH_MODE, None)
    else:
        os.environ[_AUTH_MODE] = mode
    ray._raylet.Config.initialize("")  # Ray has read the old one
