"""Runs whose disk is full from a random moment on: they go on or end with one sentence, and are resumed."""

import os
import sys
import time

import commands
import numpy as np
from commands import EPOCHS, ONLINE, STEPS, VECTORS, alone, finish, run_folder, start
from undisturbed import differences, in_peace, outcome, whole

SIZE = 16 * 2**20
ROOM = (0, 4096, 100_000)
"""Bytes that are left: nothing, a page, the half of a checkpoint."""
LONG_S = 600.0


def full_disks(count, seed, folder):
    """Fill the disk of so many runs at a random moment, every other one for a while only.

    Returns:
        How many were `tried`; `torn` files; runs that ended with more than a sentence (`raw`) or not at all
        (`hanging`), that could not be resumed (`lost`), or whose end was `different` from a run's in peace, metrics
        aside; files `left` half-written. And how many `went_on` to their end, and how many `ended` with a sentence.

    Raises:
        OSError: this process may not mount a disk.
    """
    return alone(on_a_small_disk, count, seed, folder)


def on_a_small_disk(count, seed, folder):
    """Do the same in this process."""
    disk, log = folder / "disk", folder / "log"
    disk.mkdir()
    commands.small_disk(disk, SIZE)
    rng = np.random.default_rng(seed)
    counts = dict.fromkeys(("tried", "torn", "raw", "hanging", "lost", "different", "left", "went_on", "ended"), 0)
    for number in range(count):
        peace = in_peace(str(rng.choice(ONLINE)), str(rng.choice(VECTORS)))
        runs = disk / str(number)
        runs.mkdir()
        log.write_text("")
        begin = float(rng.uniform(0, peace.seconds))
        for_s = float(rng.uniform(0, 0.5 * peace.seconds)) if number % 2 else LONG_S
        code = filled(start(peace.args(runs), log), disk, int(rng.choice(ROOM)), begin, for_s)
        counts["tried"] += 1
        judge(code, runs, log, peace, counts)
    return counts


def filled(pid, disk, room, begin_s, for_s):
    """Let a run end whose disk is full in between; returns its exit code, None if it hangs."""
    start_s = time.monotonic()
    ballast = os.open(disk / "ballast", os.O_WRONLY | os.O_CREAT)
    try:
        while (passed := time.monotonic() - start_s) < LONG_S:
            if (code := commands.ended(pid)) is not None:
                return code
            if begin_s < passed < begin_s + for_s:
                fill(ballast, room)
            elif passed > begin_s:
                os.ftruncate(ballast, 0)
            time.sleep(0.001)
        return finish(pid, 0.0)
    finally:
        os.close(ballast)
        (disk / "ballast").unlink()


def fill(ballast, room):
    """Take what is free on the disk but for `room` bytes."""
    disk = os.fstatvfs(ballast)
    more = disk.f_bavail * disk.f_frsize - room
    if more > 0:
        try:
            os.posix_fallocate(ballast, os.fstat(ballast).st_size, more)
        except OSError:  # the run was faster
            return


def judge(code, runs, log, peace, counts):
    """Count what the full disk has done to a run, and what comes of it when there is room again."""
    said = log.read_text()
    sentences = said.count("argosy: error:")
    if code is None:
        counts["hanging"] += 1
    elif "Traceback" in said or sentences != (code != 0) or code not in (0, 1, 2):
        counts["raw"] += 1
        print(f"exit code {code}: {said[-3000:]}", file=sys.stderr)
    run = run_folder(runs)
    torn, steps = ([], 0) if run is None else whole(run)
    counts["torn"] += len(torn)
    if torn:
        print(torn, file=sys.stderr)
    finished = run is not None and (run / "result.json").exists()
    counts["went_on" if finished else "ended"] += 1
    if not finished or steps < STEPS * EPOCHS:  # the last checkpoint may have found no room
        saved = run is not None and (any(run.glob("checkpoint*.safetensors")) or any(run.glob("crash*.safetensors")))
        again = ["resume", str(run), "--quiet"] if saved else peace.args(runs / "anew")
        run = run if saved else runs / "anew"
        if (code := finish(start(again, log))) != 0:
            counts["lost"] += 1
            print(f"exit code {code} of {again}: {log.read_text()[-3000:]}", file=sys.stderr)
            return
        run = run if saved else run_folder(run)
    counts["left"] += len([path for path in run.iterdir() if path.suffix in (".part", ".tmp")])
    ours, theirs = ({k: v for k, v in one.items() if "metrics" not in k} for one in (outcome(run), peace.outcome))
    if ours != theirs:
        counts["different"] += 1
        print(f"{peace.args}: {differences(ours, theirs)}\n{said[-2000:]}", file=sys.stderr)
