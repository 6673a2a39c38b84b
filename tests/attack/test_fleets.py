"""A fleet whose processes are killed again and again, at random moments: nothing torn, lost, or left behind.

One run takes all kills of a part. Its workers come back by themselves; when its driver or Ray itself is gone, it is
resumed. For a process of its own, which adopts what a killed one leaves behind.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import commands
import numpy as np
import psutil
import pytest

from argosy.distributed.store.parameters import ParameterStore
from argosy.distributed.workers.trainer import KIND
from argosy.errors import ArgosyError
from argosy.files import read_json
from argosy.trainer.statefile import read_state

pytest.importorskip("ray")

SAVE_UPDATES = 3
NAME = "killed"
ZERO = ("torn", "lost", "stuck", "unclean", "left_running", "left_in_shm")
ROLES = ("actor", "buffer", "envs", "eval", "parameters", "policy", "trainer", "starting", "driver", "ray")
OF_ALL = {"driver", "ray"}
ENDS, EARLY = 0.15, 0.2
"""Shares of kills that end all of the run, and that do not wait until a worker runs."""
PATIENCE_S = 600.0
BETWEEN = 5
"""Kills between two looks whether all came back and learning went on."""
FILE = f"""
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetStop, PolicySpec, Resources, RestartConfig
from argosy.presets import preset


def processed(fields, policy):
    return fields

tiny = Resources(num_cpus=0.1)
experiment = preset(
    "ppo", "CartPole-v1", seed=1, lr=1e-5, net={{"hidden_sizes": (16,)}}, trainer={{"step_per_collect": 128}},
    env={{"num_envs": 2, "test_num_envs": 1, "vector": "shmem", "envs_per_worker": 2}},
)
fleet = Fleet(
    name="{NAME}",
    policies={{
        "p": PolicySpec(
            experiment=experiment, save_updates={SAVE_UPDATES}, workers=1, buffers=1, process=processed,
            trainer_resources=tiny, worker_resources=tiny, buffer_resources=tiny,
        )
    }},
    agents=(AgentSpec(policy="p", sample_steps=32, inference="shared"),),
    actors=ActorGroup(count=2, resources=tiny),
    evaluation=EvalGroup(episodes=1, resources=tiny),
    stop=FleetStop(env_steps=10**9),
    restart=RestartConfig(budget=10**6, failed_starts=10**6, start_s=600.0, backoff_s=0.05, max_backoff_s=0.2),
)
"""


def fleet_kills(count, seed, folder):
    """Kill `count` processes of a fleet, one by one.

    Returns:
        How many were `tried`; files `torn`, kills after which more than `save_updates` updates were `lost`, times that
        learning did not go on (`stuck`), ends of the driver other than the one expected (`unclean`), processes
        `left_running`, names `left_in_shm`; how many of each role; and how often the run was `resumed`.
    """
    commands.adopt_orphans()
    commands.small_disk("/dev/shm", 16 << 30)  # to oneself: others use it, too
    counts = dict.fromkeys(("tried", *ZERO, *ROLES, "resumed"), 0)
    Killed(folder, np.random.default_rng(seed), counts).run(count)
    return counts


class Killed:
    """The run, and what is counted of it."""

    def __init__(self, folder, rng, counts):
        self.folder, self.rng, self.counts = folder, rng, counts
        self.run_dir = folder / "runs" / NAME
        self.file, self.log = folder / "killed_fleet.py", folder / "log"
        self.file.write_text(FILE)
        self.before = commands.in_shared_memory()
        self.saved_updates = 0
        self.launch()

    def run(self, count):
        while self.counts["tried"] < count:
            if self.rng.random() < EARLY or self.waits_for(lambda status: "running" in states(status)):
                time.sleep(float(self.rng.uniform(0.0, 2.0)))
            self.strike()
            if self.counts["tried"] % BETWEEN == 0 or self.counts["tried"] == count:
                self.recovers()
        self.driver.send_signal(signal.SIGINT)
        self.ended({130})

    def launch(self):
        args = ["launch", str(self.file), "--runs", str(self.folder / "runs")]
        args += ["--resume"] if (self.run_dir / "fleet.json").exists() else []
        code = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); "
        code += f"from argosy.cli import main; sys.exit(main({args!r}))"
        self.launched_at = time.time()
        with self.log.open("a") as log:
            self.driver = subprocess.Popen(
                [sys.executable, "-c", code],
                stdout=log,
                stderr=log,
                start_new_session=True,
                env={**os.environ, "OMP_NUM_THREADS": "1"},
            )

    def strike(self):
        """Kill a process at random, each role as likely as the others; see what came of it."""
        if self.driver.poll() is not None:
            self.complain("unclean", f"the driver ended by itself with {self.driver.returncode}")
            self.ended({self.driver.returncode})
            self.launch()
            return
        family = self.family()
        of_all = [role for role in sorted(family) if role in OF_ALL]
        chosen = of_all if len(of_all) == len(family) or self.rng.random() < ENDS else sorted(family.keys() - OF_ALL)
        role = str(self.rng.choice(chosen))
        victim = family[role][int(self.rng.integers(len(family[role])))]
        children, seen = processes(victim) if role not in OF_ALL else [], self.updates()
        try:
            victim.kill()
        except psutil.NoSuchProcess:
            return  # it was faster
        self.counts["tried"] += 1
        self.counts[role] += 1
        if role in OF_ALL:
            self.ended({-signal.SIGKILL} if role == "driver" else {1})
            self.counts["resumed"] += 1
            self.look(seen, quiet=True)
            self.launch()
        else:
            self.left(children)
            self.look(seen, quiet=False)

    def family(self):
        """The fleet's processes by their role; workers that have not said yet what they are, are starting."""
        driver = psutil.Process(self.driver.pid)
        roles, named = {"driver": [driver]}, {}
        with contextlib.suppress(ArgosyError):
            status = read_json(self.run_dir / "status.json")
            named = {worker.get("pid"): name.split(".")[0] for name, worker in status["workers"].items()}
        for process in processes(driver):
            with contextlib.suppress(psutil.NoSuchProcess):
                parent = named.get(process.ppid())
                if process.name() in ("raylet", "gcs_server"):
                    roles.setdefault("ray", []).append(process)
                elif process.pid in named:
                    roles.setdefault(named[process.pid], []).append(process)
                elif parent is not None:
                    roles.setdefault("envs", []).append(process)
                elif "_HostActor" in process.name() or "_HostActor" in " ".join(process.cmdline()[:1]):
                    roles.setdefault("starting", []).append(process)
        return roles

    def look(self, seen, *, quiet):
        """Read all that a resumed run would go on from; compare with the updates that were seen.

        Args:
            seen: updates before the kill.
            quiet: whether nothing writes any more.
        """
        for path in (self.run_dir / "fleet.json", self.run_dir / "status.json"):
            if path.exists():
                with self.torn_counted():
                    read_json(path)
        for path in self.run_dir.glob("*.jsonl"):
            lines = path.read_text().splitlines(keepends=True)
            for line in lines[: len(lines) if quiet else -1]:
                with self.torn_counted():
                    json.loads(line)
        state_file = self.run_dir / "trainer.p.0.safetensors"
        updates = 0
        if state_file.exists():
            with self.torn_counted():
                updates = read_state(state_file, KIND)["counters"]["updates"]
        newest = seen
        if quiet and (self.run_dir / "parameters" / "p").is_dir():
            with self.torn_counted(), warnings.catch_warnings():
                warnings.simplefilter("error")
                store = ParameterStore(self.run_dir / "parameters")
                newest = max((store.metadata("p", v).get("updates", 0) for v in store.versions("p")), default=0)
        if max(seen, newest) - updates > SAVE_UPDATES or updates < self.saved_updates:
            self.complain(
                "lost", f"{seen} updates seen, {newest} published, {updates} saved, {self.saved_updates} before"
            )
        self.saved_updates = updates

    def updates(self):
        """Updates of the trainer that is there now, as far as its driver has heard."""
        with contextlib.suppress(ArgosyError, KeyError):
            return int(read_json(self.run_dir / "status.json")["updates"]["p"])
        return 0

    def recovers(self):
        """Wait until all workers run and updates are made; says whether that comes."""
        start = []

        def goes_on(status):
            if states(status) != {"running"} or not psutil.pid_exists(status["workers"]["trainer.p.0"]["pid"]):
                return False
            start.append(status["updates"]["p"])
            return start[-1] >= start[0] + 2

        return self.waits_for(goes_on)

    def waits_for(self, condition):
        """Wait until the status of this driver meets a condition; False (and a count) if it does not."""
        deadline = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline and self.driver.poll() is None:
            with contextlib.suppress(ArgosyError, KeyError):
                status = read_json(self.run_dir / "status.json")
                if self.run_dir.joinpath("status.json").stat().st_mtime > self.launched_at and condition(status):
                    return True
            time.sleep(0.1)
        self.complain("stuck", self.log.read_text()[-3000:])
        return False

    def ended(self, codes):
        """Wait for the driver's end, and for that of all that it has started."""
        children = processes(psutil.Process())
        try:
            code = self.driver.wait(PATIENCE_S)
        except subprocess.TimeoutExpired:
            self.driver.kill()
            code = self.driver.wait()
        if code not in codes:
            self.complain("unclean", f"the driver ended with {code}, not {codes}: {self.log.read_text()[-3000:]}")
        self.left(children)
        self.left(processes(psutil.Process()))
        self.counts["left_in_shm"] += len(commands.in_shared_memory() - self.before)

    def left(self, expected_to_end, limit_s=60.0):
        """Wait until they have ended; count and kill those that have not."""
        deadline = time.monotonic() + limit_s
        while left := [process for process in expected_to_end if self.is_running(process)]:
            if time.monotonic() > deadline:
                for process in left:
                    self.complain("left_running", f"{process} {process.cmdline()[:3]}")
                    process.kill()
                return
            time.sleep(0.05)

    def is_running(self, process):
        """Whether it runs; what was adopted and has ended is buried."""
        try:
            if process.status() == psutil.STATUS_ZOMBIE:
                if process.pid != self.driver.pid and process.ppid() == os.getpid():
                    os.waitpid(process.pid, os.WNOHANG)
                return False
        except (psutil.NoSuchProcess, ChildProcessError):
            return False
        return process.is_running()

    def complain(self, what, text):
        self.counts[what] += 1
        print(f"{what} at kill {self.counts['tried']}: {text}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def torn_counted(self):
        try:
            yield
        except (ArgosyError, ValueError, UserWarning) as error:
            self.complain("torn", str(error))


def states(status):
    """What the workers are doing."""
    return {worker["state"] for worker in status["workers"].values()}


def processes(root):
    """All that descend from a process."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return root.children(recursive=True)
    return []


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_a_fleet_whose_processes_are_killed_goes_on(tmp_path):
    counts = commands.alone(fleet_kills, 10, 1, Path(tmp_path))
    assert counts["tried"] == 10
    assert not any(counts[name] for name in ZERO), counts
