"""Notice that Ray itself is gone: what no worker outlives, and without which none can be started."""

from __future__ import annotations

import socket
import time
from types import ModuleType

_PARTS = {"gcs_server": "the control store", "raylet": "the raylet"}
_LOOK_S = 5.0
_LOOKS = 4
"""In vain, one after the other, after which the head of a cluster counts as gone."""


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
