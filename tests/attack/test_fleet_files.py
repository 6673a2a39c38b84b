"""Damaged and made-up files of a fleet's run, and a disk that fills up under its driver: sentences."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest
from tally import none_raw, tally
from test_configs import changed

from argosy.cli.flags import parse
from argosy.cli.fleet import FleetCommand
from argosy.distributed.curriculum import Curriculum, CurriculumStage
from argosy.distributed.folder import FolderClaim, counted_before, results_of
from argosy.errors import ArgosyError
from argosy.logger import read_jsonl

INFO = {"name": "f", "generation": 0, "pid": os.getpid(), "host": "elsewhere"}
STATUS = {
    "wall_s": 3.0, "before_s": 0.0, "steps_per_s": 5.0, "updates_per_s": 1.0, "env_steps": {"p": 10},
    "updates": {"p": 2}, "gradient_steps": {"p": 2}, "done": False, "reason": "", "stage": "",
    "evaluations": {"p": {"return_mean": 1.0, "version": 3}},
    "workers": {"trainer.p": {"state": "running", "restarts": 0}},
}  # fmt: skip
RESULT = {
    "policy": "p", "version": 1, "return_mean": 1.0, "return_std": 0.0, "length_mean": 3.0, "episodes": 3, "time": 0.0,
    "stage": "",
}  # fmt: skip


def text_of(tree, rng):
    """JSON that says other things, and now and then is none."""
    text = json.dumps(changed(tree, rng))
    if rng.random() < 0.2:
        at = int(rng.integers(len(text) + 1))
        text = text[:at] + str(rng.choice(["[", "}", '"', "\\u12", "9" * 5000, "[" * 5000, "\x00"])) + text[at:]
    return text


def command(*args):
    return parse(FleetCommand, args, prog="argosy fleet")()


def made_up_fleets(count, seed, folder):
    """Let the readers of a fleet's folder, in turn, read made-up files."""
    rng, run = np.random.default_rng(seed), folder / "f"
    run.mkdir()
    status, runs = run / "status.json", str(folder)
    stages = [CurriculumStage(name="one", return_mean={"p": 1.0}), CurriculumStage(name="two")]
    readers = [
        lambda: FolderClaim(run, "f", resume=True).release(),
        lambda: command("status", "f", "--runs", runs),
        lambda: command("status", "f", "--runs", runs, "--json"),
        lambda: Curriculum(stages, run, []),
        lambda: command("status", "--runs", runs),
        lambda: command("stop", "f", "--runs", runs, "--wait-s", "0"),
        lambda: counted_before(status),
        lambda: results_of(run / "evaluations.jsonl", ["p"]),
        lambda: read_jsonl(run / "metrics.jsonl"),
    ]

    def reads():
        for number in range(count):
            (run / "fleet.json").write_text(text_of(INFO, rng) if rng.random() < 0.5 else json.dumps(INFO))
            status.write_bytes(text_of(STATUS, rng).encode() + (b"\xff" if rng.random() < 0.1 else b""))
            (run / "stage").write_bytes(rng.choice([b"one", b"two", b"", b"tw\xff", b"three"]))
            (run / "trainer.p.0.safetensors").write_bytes(rng.bytes(20))
            (run / "evaluations.jsonl").write_text("\n".join(text_of(RESULT, rng) for _ in range(2)))
            (run / "metrics.jsonl").write_text("\n".join(text_of({"env_step": 3, "x": 1.0}, rng) for _ in range(2)))
            yield readers[number % len(readers)]

    with contextlib.redirect_stdout(io.StringIO()):
        return tally(reads(), ArgosyError)


@pytest.mark.parametrize(("seed", "count"), [(0, 420), pytest.param(1, 10_000, marks=pytest.mark.slow)])
def test_made_up_files_of_a_fleet_are_named(tmp_path, seed, count):
    counts = made_up_fleets(count, seed, tmp_path)
    assert none_raw(counts)
    assert counts["refused"] > count // 10


FLEET = """
import os, threading, time
from argosy.distributed import AgentSpec, EvalGroup, Fleet, FleetStop, PolicySpec
from argosy.presets import preset

def fill():
    while not os.path.exists({folder!r} + "/f/status.json"):
        time.sleep(0.1)
    while True:
        with open({folder!r} + "/filler", "ab", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                time.sleep(0.01)

threading.Thread(target=fill, daemon=True).start()
experiment = preset("ppo", "CartPole-v1", env={{"num_envs": 2}}, trainer={{"step_per_collect": 64}})
fleet = Fleet(
    name="f", policies={{"p": PolicySpec(experiment=experiment)}}, agents=(AgentSpec(policy="p"),),
    evaluation=EvalGroup(count=0), stop=FleetStop(updates=10**9, wall_s=90),
)
"""


def mounts():
    """Whether this process may mount a small disk, in a name space of its own."""
    if shutil.which("unshare") is None:
        return False
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "x", "/mnt"], capture_output=True).returncode == 0


@pytest.mark.skipif(not mounts(), reason="needs to mount a small disk")
def test_a_driver_whose_disk_is_full_ends_with_one_sentence(tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    file = tmp_path / "full.py"
    file.write_text(FLEET.format(folder=str(disk)))
    launch = f"{sys.executable} -c 'import sys; from argosy.cli import main; sys.exit(main(sys.argv[1:]))'"
    script = f"mount -t tmpfs -o size=8m x {disk} && exec {launch} launch {file} --in-threads --runs {disk}"
    done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=110)
    assert done.returncode == 2, done.stderr
    (line,) = [line for line in done.stderr.splitlines() if line.startswith("argosy: error: ")]
    assert "cannot be written: [Errno 28] No space left on device" in line
    assert "go on with it (--resume)" in line
    assert "Traceback" not in done.stderr
