"""Several nodes on one machine: what a node holds once, and what no node has."""

import contextlib
import functools
import os
import sys
import time

import numpy as np
import pytest
from small_workers import Counter

from argosy.distributed import ActorGroup, Fleet, FleetRun, FleetStop, PolicySpec, Resources
from argosy.distributed.host.base import end
from argosy.distributed.host.ray import RayLauncher, ship_module
from argosy.distributed.store.server import ParameterServer
from argosy.errors import ConfigError
from argosy.presets import preset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]


class Reader(Counter):
    """Holds the newest parameters."""

    def read(self):
        return self.context.connect("store").call("newest", "p", 0)

    def fetch(self, shared):
        self.blob = shared().result(30)
        return float(self.blob.sum())

    def place(self):
        """Which file, and where in it, the parameters are mapped from."""
        address = self.blob.__array_interface__["data"][0]
        with open("/proc/self/maps") as maps:
            for line in maps:
                span, _, offset, device, inode = line.split()[:5]
                start, end = (int(part, 16) for part in span.split("-"))
                if start <= address < end:
                    return device, inode, int(offset, 16) + address - start
        return None


@pytest.fixture
def nodes():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    ray.shutdown()
    memory = 100 * 2**20
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 2, "resources": {"a": 9}, "object_store_memory": memory}
    )
    cluster.add_node(num_cpus=3, resources={"b": 9}, object_store_memory=memory)
    cluster.wait_for_nodes()
    ship_module(sys.modules[Reader.__module__])
    ship_module(sys.modules[Counter.__module__])
    with contextlib.ExitStack() as stack:
        stack.callback(cluster.shutdown)
        yield stack.enter_context(RayLauncher(cluster.address, namespace="nodes"))


def test_parameters_reach_a_node_once(nodes):
    def start(name, build, where):
        handles.append(nodes.start(name, 0, build, Resources(num_cpus=0.1, custom={where: 1})))

    handles = []
    start("store", functools.partial(ParameterServer, directory=None), "a")
    for index, where in enumerate(["a", "b", "b", "b"]):
        start(f"reader.{index}", Reader, where)
    deadline = time.monotonic() + 120
    while not all(handle.beat().result(180).ready for handle in handles):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    blob = np.ones(10 * 2**20, np.uint8)
    nodes.connect("store").call("push", "p", blob, 3).result(30)
    readers = [nodes.connect(f"reader.{index}") for index in range(4)]
    for reader in readers:
        _, version, shared = reader.call("read").result(30)
        assert version == 3
        assert reader.call("fetch", shared).result(30) == len(blob)
    here, *there = [reader.call("place").result(30) for reader in readers]
    assert len(set(there)) == 1  # three processes look at the same bytes
    assert here not in there  # of another node's memory
    end(handles, 1.0)


def test_what_no_node_has_is_refused(nodes, tmp_path):
    def fleet(**actors):
        spec = PolicySpec(experiment=preset("ppo", "CartPole-v1"))
        return Fleet(name="big", policies={"p": spec}, actors=ActorGroup(**actors), stop=FleetStop(updates=1))

    for actors, message in [
        ({"resources": Resources(num_cpus=4)}, r"'actor\.0' asks for 4 CPU, and no node has as much"),
        ({"resources": Resources(num_gpus=0.5)}, "0.5 GPU"),
        ({"resources": Resources(memory_bytes=2**60)}, "memory"),
        ({"resources": Resources(custom={"a": 1, "b": 1})}, "1 a, 1 b, and no node"),
        ({"count": 4}, "ask for 6 CPU in all, the cluster has 5 CPU"),
    ]:
        with pytest.raises(ConfigError, match=message):
            FleetRun(fleet(**actors), tmp_path / "run", nodes)
    assert os.listdir(tmp_path) == []
