"""A soak: a run of hours, whose memory, descriptors, threads and files must not grow.

    python benchmarks/attack/soak.py local --hours 2      samples every 30 s; at the end a line of results and a picture
    python benchmarks/attack/soak.py fleet --hours 2
    python benchmarks/attack/soak.py local --gather       the line and the picture of the samples so far

Looked at is the whole tree of processes, whose numbers are added up; all it writes (its temporary files, too) lies in
one folder. Ray's object store is one mapping of a fixed size, whose pages stay touched when what lay there is gone: of
it, what it holds is counted, as its raylet says. A curve is flat if it grows, by the median of its slopes (Theil and
Sen) after the first quarter, within `BOUNDS`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import psutil
from results import RESULTS, add

BOUNDS = {"memory_mb": 0.02, "shared_mb": 0.02, "descriptors": 1.0, "threads": 1.0, "processes": 1.0, "files": 1.0}
"""Growth allowed per hour: below 1 a part of the curve's median, else a number."""
INTERVAL_S = 30.0
END_S = 120.0

LOCAL = (
    "train dqn --task CartPole-v1 --seed 1 --quiet --threads 1 --net.hidden-sizes 32 --env.vector shmem "
    "--env.num-envs 1 --env.test-num-envs 1 --trainer.step-per-epoch 1000 --trainer.max-epoch 10000000 "
    "--trainer.episode-per-test 1 --buffer.size 5000 --buffer.priority.alpha 0.6 --stop.test-return None "
    "--logger.tensorboard"
)
FLEET = """
import os, pathlib, threading, time
import ray
from ray._private import internal_api, state
from argosy.distributed import ActorGroup, AgentSpec, EvalGroup, Fleet, FleetStop, PolicySpec, Resources
from argosy.presets import preset

tiny = Resources(num_cpus=0.1)
one = {"num_envs": 1, "test_num_envs": 1}
experiment = preset("ppo", "CartPole-v1", seed=1, threads=1, env=one, stop={"test_return": None})
fleet = Fleet(
    name="soak",
    policies={"ppo": PolicySpec(experiment=experiment, trainer_resources=tiny)},
    agents=(AgentSpec(policy="ppo", sample_steps=128),),
    actors=ActorGroup(count=1, resources=tiny),
    evaluation=EvalGroup(episodes=1, resources=tiny),
    stop=FleetStop(wall_s=1e6),
)

def tell_what_the_store_holds():
    while True:
        time.sleep(5)
        if ray.is_initialized():
            held = internal_api.get_memory_info_reply(state.state).store_stats.object_store_bytes_used
            pathlib.Path(os.environ["STORE_FILE"]).write_text(str(held))

threading.Thread(target=tell_what_the_store_holds, daemon=True).start()
"""


def main(args: Sequence[str] | None = None) -> int:
    """Soak or gather; 1 if a curve grows beyond its bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("local", "fleet"))
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument("--gather", action="store_true", help="do not run: count the samples that there are")
    options = parser.parse_args(args)
    if not options.gather:
        soak(options.kind, options.hours)
    counts = gather(options.kind)
    add(f"soak_{options.kind}", counts, seed=1, seconds=counts["tried"] * 3600)
    print(json.dumps(counts))
    return 0 if counts["growing"] == counts["left"] == 0 else 1


def local(count: int, seed: int, folder: Path) -> Mapping[str, float]:
    """Soak a local run for so many hours."""
    soak("local", count)
    return gather("local")


def fleet(count: int, seed: int, folder: Path) -> Mapping[str, float]:
    """Soak a fleet for so many hours."""
    soak("fleet", count)
    return gather("fleet")


def soak(kind: str, hours: float) -> Path:
    """Run for so long and write samples as it goes; returns their file."""
    path = samples_path(kind)
    path.parent.mkdir(parents=True, exist_ok=True)
    # A short path: Ray makes sockets in it
    scratch = tempfile.TemporaryDirectory(prefix="soak-", dir="/tmp", ignore_cleanup_errors=True)
    with scratch as name, path.open("w") as file:
        folder = Path(name)
        process = start(kind, folder)
        begin = time.monotonic()
        ended: dict[str, Any] = {"ended": "of itself"}
        try:
            while process.poll() is None and time.monotonic() - begin < hours * 3600:
                time.sleep(INTERVAL_S)
                sample = {"hours": round((time.monotonic() - begin) / 3600, 6), **sampled(process.pid, folder)}
                file.write(json.dumps(sample) + "\n")
                file.flush()
        finally:
            family = [psutil.Process(process.pid), *tree(process.pid)] if process.poll() is None else []
            if family:
                ended = {"ended": "by us"}
                process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                ended["code"] = process.wait(END_S)
            _, alive = psutil.wait_procs(family, timeout=END_S)
            ended["left"] = len(alive)
            if ended["ended"] == "of itself":
                ended["said"] = (folder / "said.txt").read_text(errors="replace")[-2000:]
            for one in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            file.write(json.dumps(ended) + "\n")
    return path


def start(kind: str, folder: Path) -> subprocess.Popen[bytes]:
    """Start the command, with all that it writes below `folder`."""
    (folder / "tmp").mkdir()
    args = [*LOCAL.split(), "--runs", str(folder / "runs")]
    if kind == "fleet":
        (folder / "fleet.py").write_text(FLEET)
        args = ["launch", str(folder / "fleet.py"), "--runs", str(folder / "runs")]
    environment = {"OMP_NUM_THREADS": "1", "TMPDIR": str(folder / "tmp"), "RAY_TMPDIR": str(folder / "tmp")}
    environment["STORE_FILE"] = str(folder / "store.txt")
    # Ctrl-C, by which it ends, is ignored by what a shell has begun in the background
    heard = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)"
    code = f"{heard}; from argosy.cli import main; sys.exit(main({args!r}))"
    with (folder / "said.txt").open("w") as said:
        return subprocess.Popen(
            [sys.executable, "-c", code],
            env={**os.environ, **environment},
            stdout=said,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


def tree(pid: int) -> list[psutil.Process]:
    """All processes below one."""
    return psutil.Process(pid).children(recursive=True)


def sampled(pid: int, folder: Path) -> dict[str, float]:
    """What the tree of processes holds now."""
    found = dict.fromkeys(BOUNDS, 0.0)
    with contextlib.suppress(psutil.NoSuchProcess):
        for process in [psutil.Process(pid), *tree(pid)]:
            with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied), process.oneshot():
                held = {"descriptors": process.num_fds(), "threads": process.num_threads(), "processes": 1}
                held |= {"memory_mb": process.memory_info().rss / 2**20, "shared_mb": shared_mb(process.pid)}
                for key, value in held.items():
                    found[key] += value
    found["shared_mb"] += store_mb(folder)
    found["files"] = sum(1 for _ in walked(folder))
    return {**{key: round(value, 1) for key, value in found.items()}, "steps": steps(folder)}


def shared_mb(pid: int) -> float:
    """Shared memory that a process has in use, but for the pages of Ray's object store (Linux)."""
    shared_kb, is_store = 0, False
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("RssShmem:"):
                shared_kb += int(line.split()[1])
        for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
            if not line.split()[0].endswith(":"):
                is_store = "/plasma" in line
            elif is_store and line.startswith("Rss:"):
                shared_kb -= int(line.split()[1])
    return shared_kb / 1024


def store_mb(folder: Path) -> float:
    """Bytes of the objects in Ray's store, as the fleet has last told."""
    with contextlib.suppress(OSError, ValueError):
        return int((folder / "store.txt").read_text()) / 2**20
    return 0.0


def walked(folder: Path) -> Iterator[str]:
    """Every file below a folder from which others disappear."""
    for _, _, names in os.walk(folder):
        yield from names


def steps(folder: Path) -> float:
    """Env steps that the run has made, as it says itself."""
    for path in folder.glob("runs/**/metrics.jsonl"):
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - 10_000))
            rows = [line for line in file.read().splitlines() if line.endswith(b"}") and line.startswith(b"{")]
        if rows:
            return float(json.loads(rows[-1]).get("env_step") or 0)
    return 0.0


def samples_path(kind: str) -> Path:
    """Where the samples of a soak lie."""
    return RESULTS / f"soak_{kind}_samples.jsonl"


def gather(kind: str) -> Mapping[str, float]:
    """Test the curves of the samples and draw them; returns what has grown."""
    rows = [json.loads(line) for line in samples_path(kind).read_text().splitlines()]
    samples, end = [row for row in rows if "hours" in row], next((row for row in rows if "ended" in row), {})
    growth = {key: grown(samples, key) for key in BOUNDS}
    over = [key for key, value in growth.items() if value > BOUNDS[key]]
    draw(kind, samples)
    return {
        "tried": samples[-1]["hours"],
        "growing": len(over),
        "left": end.get("left", 0),
        "steps": samples[-1]["steps"],
        **{f"{key}_per_hour": round(value, 4) for key, value in growth.items()},
    }


def grown(samples: Sequence[Mapping[str, float]], key: str) -> float:
    """Growth per hour after the first quarter, in the unit of the key's bound."""
    late = samples[len(samples) // 4 :]
    x, y = (np.array([sample[name] for sample in late]) for name in ("hours", key))
    first, second = np.triu_indices(len(x), k=1)
    slope = float(np.median((y[second] - y[first]) / (x[second] - x[first]))) if len(first) else 0.0
    return slope / max(1.0, float(np.median(y))) if BOUNDS[key] < 1 else slope


def draw(kind: str, samples: Sequence[Mapping[str, float]]) -> None:
    """Draw every curve, with the end of the warm-up."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), dpi=120, layout="constrained")
    axes = figure.subplots(2, 3, sharex=True)
    hours = [sample["hours"] for sample in samples]
    for place, key in zip(axes.flat, BOUNDS, strict=True):
        values = [sample[key] for sample in samples]
        place.plot(hours, values, linewidth=1)
        place.axvline(hours[len(hours) // 4], color="grey", linestyle="--", linewidth=1)
        place.set(title=key.replace("_", ", ").replace("mb", "MB"), ylim=(0, max(1.0, *values) * 1.15))
        place.grid(alpha=0.3)
    figure.supxlabel(f"hours of a {kind} run; dashed: the end of its warm-up")
    figure.savefig(RESULTS / f"soak_{kind}.png")


if __name__ == "__main__":
    raise SystemExit(main())
