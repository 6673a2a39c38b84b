"""Two nodes on one machine: learning. (A node that dies: `test_faults.py`.)"""

import contextlib

import psutil
import pytest

from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec, Resources
from argosy.distributed.host.ray import RayLauncher
from argosy.presets import preset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]
HEAD = Resources(num_cpus=0.1, custom={"head": 0.1})
OTHER = Resources(num_cpus=0.1, custom={"other": 0.1})


@contextlib.contextmanager
def cluster():
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    ray.shutdown()
    memory = 100 * 2**20
    nodes = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 4, "resources": {"head": 1}, "object_store_memory": memory},
    )
    nodes.add_node(num_cpus=4, resources={"other": 1}, object_store_memory=memory)
    nodes.wait_for_nodes()
    launcher = RayLauncher(nodes.address, namespace="cluster")
    try:
        yield launcher
    finally:
        launcher.close()
        nodes.shutdown()


def fleet(algorithm):
    experiment = preset(algorithm, "CartPole-v1", seed=1)
    return Fleet(
        name="cluster",
        policies={
            "p": PolicySpec(
                experiment=experiment, publish_updates=1 if algorithm == "ppo" else 20, save_updates=50,
                trainer_resources=HEAD,
            )
        },
        agents=(AgentSpec(policy="p", sample_steps=64 if algorithm == "ppo" else 8),),
        actors=ActorGroup(count=2, resources=OTHER),
        evaluation=EvalGroup(episodes=20, resources=HEAD),
        stop=FleetStop(return_mean={"p": 475.0}, wall_s=400),
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_learning_on_two_nodes(algorithm, tmp_path):
    """Actors on one node, the trainer on the other."""
    with cluster() as launcher:
        driver = FleetRun(fleet(algorithm), tmp_path / "run", launcher)
        nodes = {}
        with driver:
            for last in driver:
                nodes |= {name: node_of(worker["pid"]) for name, worker in last.workers.items() if "pid" in worker}
    assert last.reason == "return reached", (last.evaluations, driver.supervisor.failures)
    assert nodes["actor.0"] == nodes["actor.1"] != nodes["trainer.p.0"] == nodes["eval.0"]
    print(algorithm, last.wall_s, dict(last.env_steps), dict(last.updates))


def node_of(pid):
    """Return the process of the node's raylet: it starts all workers of the node (both nodes share one host name)."""
    return psutil.Process(pid).ppid()
