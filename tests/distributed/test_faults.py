"""Faults during training on Ray, each followed by solving the task. Real processes, really killed."""

import contextlib
import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
import torch
from fragile import FragileCartPole

from argosy.distributed import (
    ActorGroup,
    AgentSpec,
    EvalGroup,
    Fleet,
    FleetRun,
    FleetStop,
    PolicySpec,
    Resources,
    RestartConfig,
)
from argosy.distributed.workers.trainer import KIND
from argosy.env import register, registered_environments
from argosy.presets import preset
from argosy.trainer.statefile import read_state

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

SAVE_UPDATES = 3
ROLLOUT = 512
TINY = Resources(num_cpus=0.1)
GOAL = 475.0  # CartPole-v1 is solved


def fleet(inference="inline", stop=None, env=None, trainers=1, **changes):
    experiment = preset("ppo", "CartPole-v1", seed=1, trainer={"step_per_collect": ROLLOUT}, lr=1e-4, env=env or {})
    spec = PolicySpec(
        experiment=experiment,
        trainers=trainers,
        workers=1 if inference != "inline" else 0,
        save_updates=SAVE_UPDATES,
        trainer_resources=TINY,
        worker_resources=TINY,
    )
    settings = {
        "name": "faults",
        "policies": {"p": spec},
        "agents": (AgentSpec(policy="p", sample_steps=32, inference=inference),),
        "actors": ActorGroup(count=2, resources=TINY),
        "evaluation": EvalGroup(num_envs=10, episodes=10, resources=TINY),
        "restart": RestartConfig(watchdog_s=10.0),
        "stop": FleetStop(**(stop or {"wall_s": 300})),
    }
    return Fleet(**settings | changes)


def fragile_fleet(**env_args):
    """The same with environments that fail."""
    if "fragile" not in registered_environments():
        register("fragile", FragileCartPole)
    plain = fleet()
    spec = plain.policies["p"]
    spec = replace(spec, experiment=replace(spec.experiment, task="fragile"))
    return fleet(policies={"p": spec}, env_args=env_args)


def train_through(driver, fault, victims, after_updates=3, at_the_end=lambda snapshot: None):
    """Train, strike, and go on until the victims are back and a version that was learned later solves the task."""
    snapshots = []
    struck, back_at = False, None
    with driver:
        for snapshot in driver:
            snapshots.append(snapshot)
            if not struck:
                if snapshot.updates["p"] >= after_updates and all("pid" in snapshot.workers[name] for name in victims):
                    assert not any(result.return_mean >= GOAL for result in driver.results), "too late to strike"
                    struck = True
                    fault(snapshot)
            elif back_at is None:
                back = [snapshot.workers[name] for name in victims]
                if all(worker["restarts"] >= 1 and worker["state"] == "running" for worker in back):
                    back_at = time.time()
            elif any(result.time > back_at and result.return_mean >= GOAL for result in driver.results):
                at_the_end(snapshot)
                return snapshots
    raise AssertionError((struck, back_at, snapshots[-1].evaluations, driver.supervisor.failures))


def kill(name, snapshot):
    os.kill(snapshot.workers[name]["pid"], signal.SIGKILL)


def check_counters(snapshots, most_lost, trainers=1):
    """What each trainer counts goes back once at most, by `most_lost` updates; nothing is counted twice."""
    for rank in range(trainers):
        counts = [snapshot.workers[f"trainer.p.{rank}"] for snapshot in snapshots]
        updates = [count.get("updates", 0) for count in counts]
        backwards = [before - after for before, after in itertools.pairwise(updates) if after < before]
        assert len(backwards) <= (1 if most_lost else 0)
        assert all(lost <= most_lost for lost in backwards)
        steps = [count.get("env_steps", 0) for count in counts]
        # What came in is what was learned from, and what waits for the next rollout to be complete. The two numbers
        # are read one after the other while the trainer works, so that one more rollout may be in between.
        assert all(-ROLLOUT <= s - u * ROLLOUT <= 2 * ROLLOUT for s, u in zip(steps, updates, strict=True))
        assert sum(after < before for before, after in itertools.pairwise(steps)) <= len(backwards)
    for snapshot in snapshots:
        counted = [snapshot.workers[f"trainer.p.{rank}"].get("env_steps", 0) for rank in range(trainers)]
        assert snapshot.env_steps["p"] == sum(counted)


@pytest.mark.parametrize(
    ("victim", "inference"),
    [
        ("actor.0", "inline"),
        ("parameters", "inline"),
        ("policy.p.0", "shared"),
        ("policy.p.0", "ray"),
        ("eval.0", "inline"),
    ],
)
def test_kill_a_worker(victim, inference, ray_launcher, tmp_path):
    # Environments in processes of their own must not outlive their actor worker.
    env = {"vector": "shmem", "envs_per_worker": 4} if victim == "actor.0" else {}
    driver = FleetRun(fleet(inference, env=env), tmp_path / "run", ray_launcher, interval_s=0.5)
    children = []

    def strike(snapshot):
        children.extend(psutil.Process(snapshot.workers[victim]["pid"]).children(recursive=True))
        kill(victim, snapshot)

    snapshots = train_through(driver, strike, [victim])
    assert snapshots[-1].workers[victim]["restarts"] == 1
    assert sum(worker["restarts"] for worker in snapshots[-1].workers.values()) == 1
    check_counters(snapshots, most_lost=0)
    assert len(children) >= (2 if env else 0)
    assert not psutil.wait_procs(children, timeout=20)[1]


def test_kill_the_trainer(ray_launcher, tmp_path):
    """It goes on from its last state; what was learned since is lost, and said to be."""
    driver = FleetRun(fleet(), tmp_path / "run", ray_launcher, interval_s=0.5)
    snapshots = train_through(driver, functools.partial(kill, "trainer.p.0"), ["trainer.p.0"], after_updates=5)
    trainer = snapshots[-1].workers["trainer.p.0"]
    assert trainer["restarts"] == 1
    assert 0 <= trainer["updates_lost"] <= SAVE_UPDATES
    assert sum(worker["restarts"] for worker in snapshots[-1].workers.values()) == 1
    check_counters(snapshots, most_lost=SAVE_UPDATES)
    versions = driver.store().versions("p")
    assert driver.store().version_of("p", "latest") == max(versions)


@pytest.mark.parametrize(
    ("victim", "how"),
    [("trainer.p.0", signal.SIGKILL), ("trainer.p.1", signal.SIGKILL), ("trainer.p.1", signal.SIGSTOP)],
)
def test_kill_one_of_two_trainers(victim, how, ray_launcher, tmp_path):
    """Both go on together from the first one's last state, whichever of them dies, or just stops unseen by its peer."""
    patience = RestartConfig(silence_s=5.0)
    driver = FleetRun(fleet(trainers=2, restart=patience), tmp_path / "run", ray_launcher, interval_s=0.5)
    pair = ["trainer.p.0", "trainer.p.1"]

    def strike(snapshot):
        os.kill(snapshot.workers[victim]["pid"], how)

    snapshots = train_through(driver, strike, pair, after_updates=5)
    last = snapshots[-1].workers
    assert [last[name]["restarts"] for name in pair] == [1, 1]
    assert sum(worker["restarts"] for worker in last.values()) == 2
    assert {failure.role for failure in driver.supervisor.failures} <= set(pair)
    assert 0 <= last["trainer.p.0"]["updates_lost"] <= SAVE_UPDATES
    check_counters(snapshots, most_lost=SAVE_UPDATES, trainers=2)
    ends = [read_state(driver.directory / f"{name}.safetensors", KIND) for name in pair]
    assert ends[0]["counters"]["updates"] == ends[1]["counters"]["updates"] >= snapshots[-1].updates["p"]
    policies = [end["algorithm"]["parts"]["policy"] for end in ends]
    assert all(torch.equal(value, policies[1][name]) for name, value in policies[0].items())
    versions = driver.store().versions("p")
    assert driver.store().version_of("p", "latest") == max(versions)


def test_hanging_environment(ray_launcher, tmp_path):
    """The watchdog finds it, and says where it hangs."""
    hang = tmp_path / "hang"
    hang.mkdir()
    driver = FleetRun(fragile_fleet(hang=str(hang)), tmp_path / "run", ray_launcher, interval_s=0.5)
    snapshots = train_through(driver, lambda s: (hang / str(s.workers["actor.1"]["pid"])).touch(), ["actor.1"])
    (failure,) = driver.supervisor.failures
    assert failure.role == "actor.1"
    assert failure.reason.startswith("hangs for 1")
    assert "fragile.py" in failure.traceback
    assert "time.sleep(1.0)" in failure.traceback
    check_counters(snapshots, most_lost=0)


def test_stopped_process(ray_launcher, tmp_path):
    """It cannot even say that it hangs: it gives no sign of life."""

    def stop(snapshot):
        os.kill(snapshot.workers["actor.1"]["pid"], signal.SIGSTOP)

    driver = FleetRun(fleet(restart=RestartConfig(silence_s=5.0)), tmp_path / "run", ray_launcher, interval_s=0.5)
    snapshots = train_through(driver, stop, ["actor.1"])
    (failure,) = driver.supervisor.failures
    assert (failure.role, failure.reason) == ("actor.1", "gave no sign of life for 5 s (restart.silence_s)")
    check_counters(snapshots, most_lost=0)


def test_environment_that_raises_every_500_steps(ray_launcher, tmp_path):
    """In training and in evaluations; the workers live on."""
    description = fragile_fleet(raise_every=501)  # an episode of 500 steps must be possible at all
    few = ActorGroup(count=2, num_envs=2, resources=TINY)  # so that each steps often
    description = replace(description, actors=few, stop=FleetStop(return_mean={"p": GOAL}, wall_s=300))
    with FleetRun(description, tmp_path / "run", ray_launcher, interval_s=0.5) as driver:
        snapshots = list(driver)
    last = snapshots[-1]
    assert last.reason == "return reached", last
    assert sum(last.workers[name]["env_failures"] for name in ("actor.0", "actor.1")) >= 4
    assert sum(worker["restarts"] for worker in last.workers.values()) == 0
    check_counters(snapshots, most_lost=0)


@contextlib.contextmanager
def three_nodes():
    """A head, and two nodes that can play."""
    ray = pytest.importorskip("ray")
    from ray.cluster_utils import Cluster

    from argosy.distributed.host.ray import RayLauncher

    ray.shutdown()
    memory = 100 * 2**20
    cluster = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 4, "resources": {"head": 1}, "object_store_memory": memory}
    )
    players = [cluster.add_node(num_cpus=4, resources={"play": 1}, object_store_memory=memory) for _ in range(2)]
    cluster.wait_for_nodes()
    launcher = RayLauncher(cluster.address, namespace="faults")
    try:
        yield cluster, players, launcher
    finally:
        launcher.close()
        cluster.shutdown()


def test_kill_a_node(tmp_path):
    """Its actors come back on the other one."""
    head, play = (Resources(num_cpus=0.1, custom={name: 0.1}) for name in ("head", "play"))
    with three_nodes() as (cluster, nodes, launcher):
        raylets = {node.all_processes["raylet"][0].process.pid: node for node in nodes}

        def node_of(snapshot, name):
            return psutil.Process(snapshot.workers[name]["pid"]).ppid()

        plain = fleet()
        spec = replace(plain.policies["p"], trainer_resources=head)
        description = fleet(
            policies={"p": spec},
            actors=ActorGroup(count=2, resources=play),
            evaluation=EvalGroup(num_envs=10, episodes=10, resources=head),
        )
        driver = FleetRun(description, tmp_path / "run", launcher, interval_s=0.5)
        struck = []

        def strike(snapshot):
            struck.append(node_of(snapshot, "actor.0"))
            cluster.remove_node(raylets[struck[0]], allow_graceful=False)

        moved = []
        snapshots = train_through(driver, strike, ["actor.0"], at_the_end=lambda s: moved.append(node_of(s, "actor.0")))
        check_counters(snapshots, most_lost=0)
        assert {*struck, *moved} == set(raylets)
        failures = driver.supervisor.failures
        assert {failure.role for failure in failures} <= {"actor.0", "actor.1", "parameters"}, failures


FILE = """
import sys
sys.path.insert(0, {folder!r})
from test_faults import fleet
fleet = fleet(env={{"vector": "shmem", "envs_per_worker": 4}}, stop={stop!r})
"""


def launch(tmp_path, *options, stop):
    file = tmp_path / "fleet_file.py"
    file.write_text(FILE.format(folder=str(Path(__file__).parent), stop=stop))
    args = ["launch", str(file), "--runs", str(tmp_path / "runs"), *options]
    code = f"import sys; from argosy.cli import main; sys.exit(main({args!r}))"
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    )


def wait_for_updates(tmp_path, process, updates):
    """Return the status when so many updates are made, and all processes of the run."""
    status = tmp_path / "runs" / "faults" / "status.json"
    deadline = time.monotonic() + 200
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            seen = json.loads(status.read_text())
            if seen["updates"]["p"] >= updates and "updates_lost" in seen["workers"]["trainer.p.0"]:
                family = psutil.Process(process.pid).children(recursive=True)
                pids = {worker.get("pid") for worker in seen["workers"].values()}
                if pids <= {child.pid for child in family}:  # it is not the last driver's status
                    return seen, family
        time.sleep(0.2)
    raise AssertionError("the fleet did not learn")


def check_all_gone(family):
    """Ray's own processes, the workers, and the workers' environments."""
    _, alive = psutil.wait_procs(family, timeout=30)
    assert not alive, [" ".join(process.cmdline())[:100] for process in alive]
    names = [path.name for path in Path("/dev/shm").iterdir()] if Path("/dev/shm").is_dir() else []
    assert not [name for name in names if "argosy" in name]


def test_kill_the_driver_and_resume(tmp_path):
    """Its workers end with it; a new driver goes on where the trainer has saved."""
    first = launch(tmp_path, stop={"wall_s": 300})
    seen, family = wait_for_updates(tmp_path, first, 2 * SAVE_UPDATES)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    check_all_gone(family)
    second = launch(tmp_path, "--resume", "--json", stop={"return_mean": {"p": GOAL}, "wall_s": 300})
    resumed, family = wait_for_updates(tmp_path, second, SAVE_UPDATES)
    out, _ = second.communicate(timeout=300)
    result = json.loads(out.splitlines()[-1])
    assert result["reason"] == "return reached"
    assert result["test_return_mean"] >= GOAL
    assert result["restarts"] == 0
    assert resumed["workers"]["trainer.p.0"]["updates_lost"] <= SAVE_UPDATES
    rows = [json.loads(line) for line in (tmp_path / "runs/faults/metrics.jsonl").read_text().splitlines()]
    updates = [row["trainer.p.0/updates"] for row in rows if "trainer.p.0/updates" in row]
    backwards = [before - after for before, after in itertools.pairwise(updates) if after < before]
    assert len(backwards) <= 1  # what the first driver's trainer had not saved
    assert all(lost <= SAVE_UPDATES for lost in backwards)
    assert result["env_steps"] > seen["env_steps"]["p"]
    check_all_gone(family)


def test_ctrl_c_saves_and_leaves_nothing_behind(tmp_path):
    """As from a terminal: the signal goes to the whole process group."""
    process = launch(tmp_path, stop={"wall_s": 300})
    seen, family = wait_for_updates(tmp_path, process, 2)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "--resume" in out
    check_all_gone(family)
    assert (tmp_path / "runs" / "faults" / "trainer.p.0.safetensors").is_file()
    status = json.loads((tmp_path / "runs" / "faults" / "status.json").read_text())
    assert status["done"]
    assert status["updates"]["p"] >= seen["updates"]["p"]
