"""What Ray itself is to a fleet: what no worker outlives and none can be started without, and whom it lets in.

The token by which a cluster knows its user is shown only to a cluster that asks for it.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from types import ModuleType

_PARTS = {"gcs_server": "the control store", "raylet": "the raylet"}
_LOOK_S = 5.0
_LOOKS = 4
"""In vain, one after the other, after which the head of a cluster counts as gone."""
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


class VitalSigns:
    """Looks after a Ray; call it as often as you like.

    Args:
        ray: the module, connected.
        is_local: whether this process has started Ray's processes itself.
    """

    def __init__(self, ray: ModuleType, *, is_local: bool) -> None:
        self._ray, self._is_local = ray, is_local
        self._lost = ""
        self._looked_at, self._in_vain = time.monotonic(), 0

    def __call__(self) -> str:
        """Say what is gone for good; "" while all is there."""
        if not self._ray.is_initialized():
            return "Ray was shut down"
        if not self._lost:
            self._lost = self._lost_process() if self._is_local else self._lost_cluster()
        return self._lost

    def _lost_process(self) -> str:
        ended = self._ray._private.worker._global_node.dead_processes()
        gone = [f"{_PARTS[kind]} (process {process.pid})" for kind, process in ended if kind in _PARTS]
        return f"of the local Ray, {' and '.join(gone)} has ended" if gone else ""

    def _lost_cluster(self) -> str:
        now = time.monotonic()
        if now - self._looked_at < _LOOK_S:
            return ""
        self._looked_at = now
        context = self._ray.get_runtime_context()
        host, _, port = context.gcs_address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=2.0).close()  # Ray itself would wait for a minute
        except OSError as error:
            self._in_vain += 1
            return f"the head of the cluster, {host}:{port}, is gone ({error})" if self._in_vain >= _LOOKS else ""
        self._in_vain = 0
        own = context.get_node_id()
        is_in = any(node["NodeID"] == own and node["Alive"] for node in self._ray.nodes())
        return "" if is_in else "this machine has left the Ray cluster (its raylet has ended)"


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
