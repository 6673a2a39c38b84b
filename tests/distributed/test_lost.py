"""What the workers run on is gone: the fleet ends with one sentence and can be resumed, or says what it waits for."""

import contextlib
import dataclasses
import json

import pytest
from test_faults import SAVE_UPDATES, check_all_gone, fleet, launch, wait_for_updates

from argosy.distributed import ActorGroup, EvalGroup, FleetRun, Resources, RestartConfig
from argosy.distributed.host.supervisor import FleetError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.mark.parametrize("part", ["raylet", "gcs_server"])
def test_a_local_fleet_whose_ray_is_gone_ends_and_goes_on_when_resumed(part, tmp_path, capfd):
    first = launch(tmp_path, stop={"wall_s": 300})
    seen, family = wait_for_updates(tmp_path, first, 2 * SAVE_UPDATES)
    (victim,) = [process for process in family if process.name() == part]
    victim.kill()
    first.communicate(timeout=60)
    assert first.returncode == 1
    (said,) = [line for line in capfd.readouterr().err.splitlines() if line.startswith("argosy: error:")]
    name = {"raylet": "the raylet", "gcs_server": "the control store"}[part]
    assert f"cannot go on: of the local Ray, {name} (process {victim.pid}) has ended." in said
    assert f"about {SAVE_UPDATES} of 'p' (save_updates); go on with --resume" in said
    check_all_gone(family)
    status = json.loads((tmp_path / "runs" / "faults" / "status.json").read_text())
    assert status["done"]
    assert name in status["reason"]
    goal = seen["updates"]["p"] + 5
    second = launch(tmp_path, "--resume", "--json", stop={"updates": goal, "wall_s": 300})
    resumed, family = wait_for_updates(tmp_path, second, SAVE_UPDATES)
    out, _ = second.communicate(timeout=300)
    assert second.returncode == 0
    assert json.loads(out.splitlines()[-1])["reason"] == "updates reached"
    assert resumed["workers"]["trainer.p.0"]["updates_lost"] <= SAVE_UPDATES
    assert resumed["updates"]["p"] >= seen["updates"]["p"] - SAVE_UPDATES
    check_all_gone(family)


@contextlib.contextmanager
def two_nodes():
    """A head that learns and a node that plays."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from argosy.distributed.host.ray import RayLauncher

    ray.shutdown()
    memory = 100 * 2**20
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 4, "resources": {"head": 1}, "object_store_memory": memory}
    )
    cluster.add_node(num_cpus=4, resources={"play": 1}, object_store_memory=memory)
    cluster.wait_for_nodes()
    launcher = RayLauncher(cluster.address, namespace="lost")
    try:
        yield cluster, launcher
    finally:
        launcher.close()
        cluster.shutdown()


def placed(restart):
    head, play = (Resources(num_cpus=0.1, custom={name: 0.1}) for name in ("head", "play"))
    plain = fleet()
    spec = dataclasses.replace(plain.policies["p"], trainer_resources=head)
    evaluation = EvalGroup(count=0)
    return fleet(
        policies={"p": spec}, actors=ActorGroup(count=1, resources=play), evaluation=evaluation, restart=restart
    )


def play_node(cluster):
    (node,) = [node for node in cluster.list_all_nodes() if node is not cluster.head_node]
    return node


def strike_in(run, strike):
    """Strike after a few updates, and go on to the end."""
    with run:
        struck = False
        for snapshot in run:
            if not struck and snapshot.updates["p"] >= 3:
                struck = True
                strike()


def play_on_in(run, cluster):
    """Take the playing node away, give another one when the fleet says what it lacks, and return what it says."""
    said = back_at = None
    for snapshot in run:
        if said is None:
            if snapshot.updates["p"] >= 3:
                cluster.remove_node(play_node(cluster), allow_graceful=False)
                said = ""
        elif not said:
            said = snapshot.standstill
            if said:
                cluster.add_node(num_cpus=4, resources={"play": 1}, object_store_memory=100 * 2**20)
        elif back_at is None:
            if snapshot.workers["actor.0"]["state"] == "running" and not snapshot.standstill:
                back_at = snapshot.updates["p"]
        elif snapshot.updates["p"] >= back_at + 3:
            return said
    return "it did not go on"


def test_a_fleet_says_which_node_it_lacks_and_goes_on_when_that_is_back(tmp_path):
    sentence = "worker 'actor.0' asks for 0.1 CPU, 0.1 play, and no node has as much; there are 4 CPU"
    with (
        two_nodes() as (cluster, launcher),
        FleetRun(placed(RestartConfig()), tmp_path / "run", launcher) as run,
        pytest.warns(UserWarning, match=f"fleet 'faults': {sentence}"),
    ):
        said = play_on_in(run, cluster)
    assert said.startswith(sentence)
    assert "1 head" in said


@pytest.mark.filterwarnings("ignore:.*no node has as much")
def test_a_node_that_is_lost_for_good_ends_the_fleet_with_what_it_lacks(tmp_path):
    with two_nodes() as (cluster, launcher):
        run = FleetRun(placed(RestartConfig()), tmp_path / "run", launcher)

        def strike():
            run.supervisor.config = RestartConfig(start_s=15.0, failed_starts=2)  # two minutes per start are long
            cluster.remove_node(play_node(cluster), allow_graceful=False)

        with pytest.raises(FleetError, match=r"2 starts in a row have failed.* 0\.1 play, and no node has as much"):
            strike_in(run, strike)
    assert (tmp_path / "run" / "trainer.p.0.safetensors").is_file()


@pytest.mark.parametrize(
    ("part", "said"), [("gcs_server", "the head of the cluster, .* is gone"), ("raylet", "this machine has left")]
)
def test_a_cluster_whose_head_is_gone_ends_the_fleet(part, said, tmp_path):
    with two_nodes() as (cluster, launcher):
        run = FleetRun(placed(RestartConfig()), tmp_path / "run", launcher)
        with pytest.raises(FleetError, match=f"cannot go on: {said}.*--resume"):
            strike_in(run, cluster.head_node.all_processes[part][0].process.kill)
    assert (tmp_path / "run" / "trainer.p.0.safetensors").is_file()
