"""What workers get of the machine that they run on."""

import contextlib
import os
import stat
import sys
import time
from pathlib import Path

import psutil
import pytest
from small_workers import Placed

from argosy.distributed import Resources
from argosy.distributed.host.base import PeerLostError, end

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="scheduling is Linux's")


def answer(peer, method):
    """What a worker says, as soon as it has been built."""
    deadline = time.monotonic() + 60.0
    while True:
        try:
            return peer.call(method).result(180)
        except PeerLostError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


def test_what_workers_get_of_the_cpu(ray_launcher, monkeypatch):
    monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
    asked = {
        "alone": Resources(num_cpus=2.0),
        "behind": Resources(background=True),
        "told": Resources(num_cpus=2.0, env={"OMP_WAIT_POLICY": "active"}),
    }
    handles = [ray_launcher.start(name, 0, Placed, resources) for name, resources in asked.items()]
    try:
        alone, behind, told = (answer(ray_launcher.connect(name), "told") for name in asked)
        flushing = answer(ray_launcher.connect("alone"), "flushes_denormals")
    finally:
        end(handles, 5.0)
    # its thread, the one that answers, how its threads wait for each other
    assert alone == (os.SCHED_OTHER, os.SCHED_OTHER, "passive")
    assert behind == (os.SCHED_IDLE, os.SCHED_OTHER, None)
    assert told == (os.SCHED_OTHER, os.SCHED_OTHER, "active")
    assert flushing


def test_a_local_ray_listens_on_loopback_alone_and_keeps_its_token_private(ray_launcher):
    own = psutil.Process()
    listening = {}
    for process in [own, *own.children(recursive=True)]:
        with contextlib.suppress(psutil.Error):
            for connection in process.net_connections(kind="inet"):
                if connection.status == psutil.CONN_LISTEN:
                    listening[connection.laddr.ip.removeprefix("::ffff:")] = process.name()
    assert set(listening) == {"127.0.0.1"}
    folder = Path.home() / ".ray"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    token = folder / "auth_token"
    assert not token.exists() or stat.S_IMODE(token.stat().st_mode) == 0o600


def test_ray_keeps_no_record_of_calls(ray_launcher):
    """Its server would grow with each of them."""
    import ray

    @ray.remote
    def recorded():
        return None

    handle = ray_launcher.start("unrecorded", 0, Placed, Resources())
    try:
        peer = ray_launcher.connect("unrecorded")
        for _ in range(20):
            answer(peer, "told")
        ray.get(recorded.remote())
        deadline = time.monotonic() + 30.0
        while not any(event["cat"] == "task::recorded" for event in ray.timeline()):
            assert time.monotonic() < deadline  # what comes later than the calls is there
            time.sleep(0.2)
        assert not [event for event in ray.timeline() if "_HostActor" in event["cat"]]
    finally:
        end([handle], 5.0)
