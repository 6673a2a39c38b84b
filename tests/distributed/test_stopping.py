"""Whatever ends a driver, nothing is left: no thread, no process, no open memory; and what was learned is saved."""

import gc
import json
import os
import threading

import psutil
import pytest

from argosy.distributed import (
    ActorGroup,
    AgentSpec,
    EvalGroup,
    Fleet,
    FleetError,
    FleetRun,
    FleetStop,
    PolicySpec,
    RestartConfig,
)
from argosy.distributed.store.server import ParameterServer
from argosy.distributed.workers.trainer import KIND, TrainerWorker
from argosy.logger import read_jsonl
from argosy.presets import preset
from argosy.trainer.statefile import read_state


def fleet(**changes):
    experiment = preset(
        "ppo",
        "CartPole-v1",
        trainer={"step_per_collect": 64},
        env={"num_envs": 2, "vector": "shmem", "envs_per_worker": 1},
    )
    settings = {
        "name": "stopping",
        "policies": {"p": PolicySpec(experiment=experiment, workers=1, save_updates=1000)},
        "agents": (AgentSpec(policy="p", sample_steps=16, inference="shared"),),
        "actors": ActorGroup(ring=2),
        "evaluation": EvalGroup(count=0),
        "stop": FleetStop(wall_s=60),
    }
    return Fleet(**settings | changes)


def open_memory():
    """Unnamed memory that this process holds, by what tells one piece from another."""
    held = set()
    for fd in os.listdir("/proc/self/fd"):
        try:
            if os.readlink(f"/proc/self/fd/{fd}").startswith("/memfd:argosy"):
                held.add(os.stat(f"/proc/self/fd/{fd}").st_ino)
        except FileNotFoundError:
            continue  # the one that listed the others
    return held


@pytest.fixture
def nothing_is_left():
    threads, memory = set(threading.enumerate()), open_memory()
    processes = set(psutil.Process().children(recursive=True))
    yield
    new = set(psutil.Process().children(recursive=True)) - processes
    assert not psutil.wait_procs(new, timeout=10)[1]
    left = [thread for thread in set(threading.enumerate()) - threads if not thread.join(5.0) and thread.is_alive()]
    assert not left
    gc.collect()
    assert not open_memory() - memory


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, ZeroDivisionError])
def test_driver_ends(error, tmp_path, nothing_is_left):
    """By itself, by Ctrl-C, by an error of whoever iterates."""
    driver = FleetRun(fleet(), tmp_path / "run", interval_s=0.05)
    updates = 0

    def drive():
        nonlocal updates
        with driver:
            for snapshot in driver:
                updates = snapshot.updates["p"]
                if updates >= 2:
                    assert psutil.Process().children()  # the environments'
                    if error is not None:
                        raise error
                    return

    if error is None:
        drive()
    else:
        with pytest.raises(error):
            drive()
    assert not driver.supervisor.failures
    state = read_state(tmp_path / "run" / "trainer.p.0.safetensors", KIND)  # though save_updates is far away
    assert state["counters"]["updates"] >= updates
    told = json.loads((tmp_path / "run" / "status.json").read_text())
    for counter in ("updates", "env_steps"):  # what came in while the workers ended counts
        assert state["counters"][counter] == getattr(driver.last, counter)["p"] == told[counter]["p"]
    assert (told["done"], told["reason"]) == (True, "stopped")


def test_budget_ends(tmp_path, nothing_is_left):
    """A worker that fails again and again ends the fleet, with its traceback, and the others with it."""

    def postprocess(fields, *_):
        raise ArithmeticError("a planted fault")

    description = fleet(
        agents=(AgentSpec(policy="p", sample_steps=16, inference="shared", postprocess=postprocess),),
        restart=RestartConfig(budget=1, backoff_s=0.01, beat_s=0.05),
    )
    driver = FleetRun(description, tmp_path / "run", interval_s=0.05)
    with pytest.raises(FleetError, match=r"actor\.0") as caught, driver:
        list(driver)
    reason = json.loads((tmp_path / "run" / "status.json").read_text())["reason"]
    assert reason.startswith("worker 'actor.0' raised ArithmeticError: a planted fault; it was restarted 1 times")
    assert "a planted fault" in str(caught.value)
    assert "in postprocess" in str(caught.value)
    assert len((tmp_path / "run" / "failures.jsonl").read_text().splitlines()) == 2


def test_a_trainer_that_does_not_end_is_named(tmp_path, monkeypatch):
    monkeypatch.setattr(TrainerWorker, "finish", lambda self, alone: None)
    driver = FleetRun(fleet(restart=RestartConfig(watchdog_s=1.0)), tmp_path / "run", interval_s=0.05)
    with pytest.warns(UserWarning, match=r"trainer\.p\.0 did not end within 1 s \(restart.watchdog_s\)"), driver:
        next(snapshot for snapshot in driver if snapshot.workers["trainer.p.0"]["state"] == "running")


@pytest.mark.parametrize("sync", [False, True])
def test_trainers_end_without_a_parameter_server(sync, tmp_path, monkeypatch, recwarn):
    """At once, and saved: nobody could publish what they have learned last."""
    poll, fails = ParameterServer.poll, threading.Event()

    def failing(self):
        if fails.is_set():
            raise OSError("a planted fault")
        return poll(self)

    monkeypatch.setattr(ParameterServer, "poll", failing)
    agents, never = (AgentSpec(policy="p", sample_steps=16),), RestartConfig(budget=0)
    driver = FleetRun(fleet(agents=agents, sync=sync, restart=never), tmp_path / "run", interval_s=0.1)
    with pytest.raises(FleetError, match="'parameters' raised OSError"), driver:
        any(fails.set() for snapshot in driver if snapshot.updates["p"] >= 3)
    assert not [told for told in recwarn if "did not end" in str(told.message)]
    state = read_state(tmp_path / "run" / "trainer.p.0.safetensors", KIND)
    assert state["counters"]["updates"] == driver.last.updates["p"]


@pytest.mark.parametrize("stop", [FleetStop(updates=3), FleetStop(env_steps=200)])
def test_who_ends_by_steps_has_its_last_version_evaluated(stop, tmp_path):
    """Though the evaluation worker would rest for longer than the fleet lives; it is in the record, too."""
    evaluation = EvalGroup(num_envs=2, episodes=2, share=1e-4)
    driver = FleetRun(fleet(evaluation=evaluation, stop=stop), tmp_path / "run", interval_s=0.05)
    last = driver.run()
    version = driver.store().version_of("p", "latest")
    assert driver.results[-1].version == last.evaluations["p"].version == version > 0
    rows = read_jsonl(tmp_path / "run" / "metrics.jsonl")
    assert rows[-1]["test/version"] == version
