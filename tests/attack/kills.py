"""Runs that are killed again and again, at random moments, and resumed: nothing torn, lost, or left behind."""

import contextlib
import shutil
import sys
import time

import commands
import numpy as np
from commands import (
    EPOCHS,
    ONLINE,
    STEPS,
    VECTORS,
    alone,
    finish,
    in_shared_memory,
    kill,
    left_running,
    run_folder,
    start,
)
from undisturbed import differences, in_peace, outcome, whole

from argosy.logger import read_jsonl

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
    return alone(chains, count, seed, folder)


def chains(count, seed, folder):
    """Do the same in this process."""
    commands.adopt_orphans()
    with contextlib.suppress(OSError):  # who may not have one of his own may find what others leave
        commands.small_disk("/dev/shm", 2**28)
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
        code = strike(pid, runs, float(rng.uniform(0, 0.25 * peace.seconds)), number % 4 == 3, number % 2 == 0)
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
        if writing and time.monotonic() > moment and any(runs.glob("*/*/*/.checkpoint*.tmp")):
            break
        time.sleep(0.0005)
    kill(pid, group=group)
    return None


def look(run, reached, counts):
    """Count what is wrong in the folder of a run that was killed; returns the steps of its newest checkpoint."""
    if run is None:
        counts["starting"] += 1
        return reached
    torn, steps = whole(run)
    metrics = run / "metrics.jsonl"
    logged = max((row["env_step"] for row in read_jsonl(metrics)), default=0) if metrics.exists() else 0
    lost = steps < reached or logged - steps > STEPS
    if torn or lost:
        print(f"{run}: {torn}; checkpoint at {steps}, earlier one at {reached}, logged to {logged}", file=sys.stderr)
    counts["torn"] += len(torn)
    counts["lost"] += lost
    counts["starting"] += steps == 0
    counts["writing"] += any(run.glob(".checkpoint*.tmp"))
    counts["ending"] += steps == STEPS * EPOCHS
    return steps
