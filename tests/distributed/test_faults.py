"""Faults during training on Ray, each followed by reaching the goal. Real processes, really killed."""

import contextlib
import functools
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

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
from argosy.presets import preset

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]

SAVE_UPDATES = 3
TINY = Resources(num_cpus=0.1)
GOAL = 150.0


def fleet(inference="inline", stop=None, **changes):
    experiment = preset("ppo", "CartPole-v1", seed=1, trainer={"step_per_collect": 512}, lr=1e-3)
    workers = 1 if inference != "inline" else 0
    settings = {
        "name": "faults",
        "policies": {
            "p": PolicySpec(
                experiment=experiment,
                workers=workers,
                save_updates=SAVE_UPDATES,
                trainer_resources=TINY,
                worker_resources=TINY,
            )
        },
        "agents": (AgentSpec(policy="p", sample_steps=32, inference=inference),),
        "actors": ActorGroup(count=2, resources=TINY),
        "evaluation": EvalGroup(episodes=10, resources=TINY),
        "restart": RestartConfig(watchdog_s=10.0),
        "stop": FleetStop(**(stop or {"wall_s": 300})),
    }
    return Fleet(**settings | changes)


def train_through(driver, fault, victim, after_updates=3):
    """Train, strike, and go on until the victim is back and a later evaluation reaches the goal."""
    snapshots = []
    struck, back_at = False, None
    with driver:
        for snapshot in driver:
            snapshots.append(snapshot)
            worker = snapshot.workers[victim]
            if not struck:
                if snapshot.updates["p"] >= after_updates and victim in driver.supervisor.beats():
                    struck = True
                    fault(snapshot)
            elif back_at is None:
                if worker["restarts"] >= 1 and worker["state"] == "running":
                    back_at = time.time()
            elif any(result.time > back_at and result.return_mean >= GOAL for result in driver.results):
                return snapshots
    raise AssertionError((struck, back_at, snapshots[-1].evaluations, driver.supervisor.failures))


def kill(name, snapshot):
    os.kill(snapshot.workers[name]["pid"], signal.SIGKILL)


def check_counters(snapshots, most_lost):
    """Counters go back once at most, by `most_lost` updates at most."""
    updates = [s.updates["p"] for s in snapshots if s.workers["trainer.p.0"].get("updates") is not None]
    backwards = [a - b for a, b in itertools.pairwise(updates) if b < a]
    assert len(backwards) <= (1 if most_lost else 0)
    assert all(lost <= most_lost for lost in backwards)


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
    driver = FleetRun(fleet(inference), tmp_path / "run", ray_launcher, interval_s=0.5)
    snapshots = train_through(driver, functools.partial(kill, victim), victim)
    assert snapshots[-1].workers[victim]["restarts"] == 1
    assert sum(worker["restarts"] for worker in snapshots[-1].workers.values()) == 1
    check_counters(snapshots, most_lost=0)


def test_kill_the_trainer(ray_launcher, tmp_path):
    """It goes on from its last state; what was learned since is lost, and said to be."""
    driver = FleetRun(fleet(), tmp_path / "run", ray_launcher, interval_s=0.5)
    snapshots = train_through(driver, functools.partial(kill, "trainer.p.0"), "trainer.p.0", after_updates=5)
    trainer = snapshots[-1].workers["trainer.p.0"]
    assert trainer["restarts"] == 1
    assert 0 <= trainer["updates_lost"] <= SAVE_UPDATES
    # nothing is counted twice: what came in is what was learned from, and one rollout that waits for it
    assert 0 <= trainer["env_steps"] - trainer["updates"] * 512 <= 512


def test_hanging_environment(ray_launcher, tmp_path):
    """A stopped process hangs for good: the heartbeat finds it."""

    def stop(snapshot):
        os.kill(snapshot.workers["actor.1"]["pid"], signal.SIGSTOP)

    restart = RestartConfig(silence_s=5.0, watchdog_s=10.0)
    driver = FleetRun(fleet(restart=restart), tmp_path / "run", ray_launcher, interval_s=0.5)
    snapshots = train_through(driver, stop, "actor.1")
    assert snapshots[-1].workers["actor.1"]["restarts"] == 1
    (failure,) = driver.supervisor.failures
    assert failure.role == "actor.1"


FILE = """
import sys
sys.path.insert(0, {folder!r})
from test_faults import fleet
fleet = fleet(stop={{"return_mean": {{"p": {goal}}}, "wall_s": 300}})
"""


def launch(tmp_path, *options, goal=475.0):
    file = tmp_path / "fleet_file.py"
    file.write_text(FILE.format(folder=str(Path(__file__).parent), goal=goal))
    args = ["launch", str(file), "--runs", str(tmp_path / "runs"), *options]
    code = f"import sys; from argosy.cli import main; sys.exit(main({args!r}))"
    return subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
    )


def wait_for_updates(tmp_path, process, updates):
    status = tmp_path / "runs" / "faults" / "status.json"
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(OSError, ValueError):
            seen = json.loads(status.read_text())
            if seen["updates"]["p"] >= updates:
                return seen
        time.sleep(0.2)
    raise AssertionError("the fleet did not learn")


def processes(seen):
    return [worker["pid"] for worker in seen["workers"].values() if "pid" in worker]


def all_gone(pids, timeout_s=40.0):
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if not [pid for pid in pids if Path(f"/proc/{pid}").exists()]:
            return True
        time.sleep(0.2)
    return False


def test_kill_the_driver_and_resume(tmp_path):
    """Its workers end with it; a new driver goes on."""
    first = launch(tmp_path)
    seen = wait_for_updates(tmp_path, first, 4)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    assert all_gone(processes(seen))
    second = launch(tmp_path, "--resume", "--json", goal=GOAL)
    out, _ = second.communicate(timeout=400)
    result = json.loads(out.splitlines()[-1])
    assert result["reason"] == "return reached"
    assert result["test_return_mean"]["p"] >= GOAL
    assert not [path for path in Path("/dev/shm").iterdir() if "argosy" in path.name]


def test_ctrl_c_saves_and_leaves_nothing_behind(tmp_path):
    """As from a terminal: the signal goes to the whole process group."""
    process = launch(tmp_path)
    seen = wait_for_updates(tmp_path, process, 3)
    os.killpg(process.pid, signal.SIGINT)
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "--resume" in out
    assert all_gone(processes(seen))
    assert (tmp_path / "runs" / "faults" / "trainer.p.0.safetensors").is_file()
