"""Two nodes on one machine: learning, and a whole node that dies."""

import contextlib
import time

import psutil
import pytest

from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetRun, FleetStop, PolicySpec, Resources
from argosy.distributed.rayhost import RayLauncher
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
    other = nodes.add_node(num_cpus=4, resources={"other": 1}, object_store_memory=memory)
    nodes.wait_for_nodes()
    launcher = RayLauncher(nodes.address, namespace="cluster")
    try:
        yield nodes, other, launcher, memory
    finally:
        launcher.close()
        nodes.shutdown()


def fleet(algorithm, stop, **changes):
    experiment = preset(algorithm, "CartPole-v1", seed=1, **changes)
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
        stop=stop,
    )  # fmt: skip


@pytest.mark.parametrize("algorithm", ["ppo", "dqn"])
def test_learning_on_two_nodes(algorithm, tmp_path):
    """Actors on one node, the trainer on the other."""
    with cluster() as (_, _, launcher, _):
        driver = FleetRun(fleet(algorithm, FleetStop(return_mean={"p": 475.0}, wall_s=400)), tmp_path / "run", launcher)
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


def test_a_whole_node_dies(tmp_path):
    """Its actors wait until there is a node for them again, and the run goes on."""
    with cluster() as (nodes, other, launcher, memory):
        driver = FleetRun(
            fleet("ppo", FleetStop(wall_s=400), trainer={"step_per_collect": 512}), tmp_path / "run", launcher
        )
        struck = back = None
        with driver:
            for snapshot in driver:
                if struck is None and snapshot.updates["p"] >= 3:
                    struck = time.monotonic()
                    nodes.remove_node(other, allow_graceful=False)
                    nodes.add_node(num_cpus=4, resources={"other": 1}, object_store_memory=memory)
                elif struck is not None and back is None:
                    restarted = [snapshot.workers[f"actor.{i}"] for i in range(2)]
                    if all(worker["restarts"] and worker["state"] == "running" for worker in restarted):
                        back = time.time()
                        print("back after", time.monotonic() - struck)
                elif back is not None and any(r.time > back and r.return_mean >= 100 for r in driver.results):
                    break
            else:
                raise AssertionError((struck, back, driver.supervisor.failures))
        assert snapshot.workers["trainer.p.0"]["restarts"] == 0
