"""Runs that are killed again and again, at random moments, and resumed: nothing torn, lost, or left behind."""

import contextlib
import functools
import json
import shutil
import sys
import tempfile
import time
from pathlib import Path

import commands
import numpy as np
import pytest
from commands import (
    ONLINE,
    STEPS,
    checkpoint,
    finish,
    in_shared_memory,
    kill,
    left_running,
    run_folder,
    start,
    train_args,
)

from argosy.errors import ArgosyError
from argosy.experiment import Experiment
from argosy.files import read_json
from argosy.logger import read_jsonl
from argosy.run.saved import read_file
from argosy.trainer.statefile import read_state

VECTORS = ("dummy", "shmem", "subproc")
CHAIN = 12


def kills(count, seed, folder):
    """Kill runs `count` times: chains of a start, kills and resumes, whose ends are compared with a run's in peace.

    Every other kill leaves the env workers to die by themselves; every fourth waits for a checkpoint that is being
    written.

    Returns:
        How many were `tried`; `torn` files; runs that `lost` more than an epoch since their last checkpoint, or could
        not be resumed; chains whose end is `different`; processes `left_running`; names `left_in_shm`. And kills of
        runs that were `starting`, `writing` a checkpoint, and `ending` (all steps made).
    """
    commands.adopt_orphans()
    rng, before = np.random.default_rng(seed), in_shared_memory()
    counts = dict.fromkeys(
        (
            "tried",
            "torn",
            "lost",
            "different",
            "left_running",
            "left_in_shm",
            "starting",
            "writing",
            "ending",
            "chains",
        ),
        0,
    )
    while counts["tried"] < count:
        algorithm, vector = str(rng.choice(ONLINE)), str(rng.choice(VECTORS))
        peace = in_peace(algorithm, vector)
        chain(min(CHAIN, count - counts["tried"]), peace, rng, folder / str(counts["chains"]), counts)
        counts["left_in_shm"] += len(in_shared_memory() - before)
    return counts


class Peace:
    """A run that nobody disturbs, and how long it took."""

    def __init__(self, algorithm, vector, runs):
        self.args = functools.partial(train_args, algorithm, **{"env.vector": vector})
        begin = time.monotonic()
        code = finish(start(self.args(runs), runs / "log"))
        assert code == 0, (runs / "log").read_text()
        self.seconds = time.monotonic() - begin
        self.outcome = outcome(run_folder(runs))


@functools.cache
def in_peace(algorithm, vector):
    """Make it once for all chains of this process."""
    with tempfile.TemporaryDirectory() as folder:
        if not in_peace.cache_info().misses > 1:  # what is imported late is imported here
            commands.main(train_args(algorithm, folder + "/warm", **{"trainer.max-epoch": 1}))
        return Peace(algorithm, vector, Path(folder))


def chain(length, peace, rng, folder, counts):
    """Start a run, kill and resume it so often, let it end; count what went wrong."""
    folder.mkdir(parents=True)
    runs, log = folder / "runs", folder / "log"
    counts["chains"] += 1
    reached = 0
    for number in range(length + 1):
        run = run_folder(runs) if runs.is_dir() else None
        if run is not None and (run / "result.json").exists():
            code = 0  # killed when all was done
            break
        if run is not None and not list(run.glob("checkpoint*.safetensors")):
            shutil.rmtree(runs)  # killed before its first checkpoint: there is nothing to go on from
            run = None
        pid = start(peace.args(runs) if run is None else ["resume", str(run), "--quiet"], log)
        if number == length:
            code = finish(pid)
            break
        code = strike(pid, runs, float(rng.uniform(0, 0.3 * peace.seconds)), number % 4 == 3, number % 2 == 0)
        if code is not None:
            break
        counts["tried"] += 1
        counts["left_running"] += left_running()
        reached = look(run_folder(runs) if runs.is_dir() else None, reached, counts)
    counts["left_running"] += left_running()
    if code != 0:
        counts["lost"] += 1
        print(f"exit code {code}: {log.read_text()[-3000:]}", file=sys.stderr)
    elif (found := outcome(run_folder(runs))) != peace.outcome:
        counts["different"] += 1
        print(f"{peace.args}: {differences(found, peace.outcome)}", file=sys.stderr)


def strike(pid, runs, after_s, writing, group):
    """Kill a run after so long, or at its next checkpoint then; returns its exit code if it ended before that."""
    moment = time.monotonic() + after_s
    while time.monotonic() < moment + (1.0 if writing else 0.0):
        if (code := commands.ended(pid)) is not None:
            return code
        if writing and time.monotonic() > moment and any(runs.glob("*/*/*/.checkpoint*.part")):
            break
        time.sleep(0.0005)
    kill(pid, group=group)
    return None


def look(run, reached, counts):
    """Count what is wrong in the folder of a run that was killed; returns the steps of its newest checkpoint."""
    if run is None:
        counts["starting"] += 1
        return reached
    counts["writing"] += any(run.glob(".checkpoint*.part"))
    states = []
    for path in run.glob("checkpoint*.safetensors"):
        with torn_counted(counts):
            states.append(read_state(path, "checkpoint")["trainer"])
    if not states:
        counts["starting"] += 1
    with torn_counted(counts):
        Experiment.load(run / "config.json")
        for name in ("policy.json", "result.json"):
            if (run / name).exists():
                read_json(run / name)
        if (run / "policy.safetensors").exists():
            read_file(run / "policy.safetensors")
    steps = max((state["env_step"] for state in states), default=0)
    counts["ending"] += steps == STEPS * commands.EPOCHS
    metrics = run / "metrics.jsonl"
    logged = max((row["env_step"] for row in read_jsonl(metrics)), default=0) if metrics.exists() else 0
    if steps < reached or logged - steps > STEPS:
        counts["lost"] += 1
        print(f"{run}: checkpoint at {steps}, earlier one at {reached}, logged up to {logged}", file=sys.stderr)
    return steps


@contextlib.contextmanager
def torn_counted(counts):
    try:
        yield
    except ArgosyError as error:
        print(f"torn: {error}", file=sys.stderr)
        counts["torn"] += 1


def outcome(run):
    """All that a run has come to, but for clocks and the folder's name."""
    result = read_json(run / "result.json")
    for name in ("run_dir", "wall_s", "steps_per_s"):
        del result[name]
    rows = [{k: v for k, v in row.items() if not k.startswith("time/")} for row in read_jsonl(run / "metrics.jsonl")]
    return {
        **{f"checkpoint{place}": value for place, value in checkpoint(run / "checkpoint.safetensors").items()},
        **{f"metrics.{number}": json.dumps(row) for number, row in enumerate(rows)},
        "policy": (run / "policy.safetensors").read_bytes(),
        "result": json.dumps(result),
    }


def differences(ours, theirs):
    """A few of the things that differ, with both values."""
    names = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    shown = "".join(f"\n  {name}: {ours.get(name)!s:.300}, not {theirs.get(name)!s:.300}" for name in names[:12])
    return f"{len(names)} differences{shown}"


@pytest.mark.parametrize(("seed", "count"), [(0, 6), pytest.param(1, 100, marks=pytest.mark.slow)])
def test_runs_that_are_killed_lose_nothing(tmp_path, seed, count):
    counts = commands.alone(kills, count, seed, tmp_path)
    assert counts["tried"] == count
    assert not any(counts[name] for name in ("torn", "lost", "different", "left_running", "left_in_shm")), counts
