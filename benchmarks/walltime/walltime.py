"""Seconds of training until a policy is as good as the bar, beside peers with the same settings, sides in turn.

    python benchmarks/walltime/walltime.py                       all tasks, 3 seeds (an hour, on a quiet machine)
    python benchmarks/walltime/walltime.py --tasks dqn --seeds 1

What is counted is training: acting, stepping, storing, learning; neither imports nor the tests between (20 episodes,
for all sides by the same plain loop). Results lie in walltime.json, what is there already is not measured again; the
table is written into docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS, DOC = HERE / "walltime.json", HERE.parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- wall time: written by benchmarks/walltime/walltime.py -->", "<!-- end of the wall time -->"
SIDES = {"ours": "argosy", "sb3": "SB3 2.9.2", "tianshou2": "Tianshou 2.0.1"}
EPISODES = 20


@dataclass(frozen=True)
class Task:
    """One line of the table; its settings are those that all sides take."""

    env: str
    bar: float
    every: int
    """Training steps between two tests."""
    most: int
    """Training steps at which a run that has not reached the bar is given up."""
    settings: dict[str, Any]


REPLAY = {"hidden": (64, 64), "batch": 128, "gamma": 0.98, "lr": 1e-3, "tau": 0.005, "start": 1_000, "buffer": 50_000}
TASKS = {
    "dqn": Task(
        "CartPole-v1",
        475.0,
        2_000,
        100_000,
        {
            **REPLAY,
            "hidden": (128, 128),
            "gamma": 0.99,
            "n_step": 3,
            "target_every": 200,
            "eps_steps": 10_000,
            "envs": 8,
        },
    ),
    "ppo": Task(
        "CartPole-v1",
        475.0,
        4_096,
        150_000,
        {"hidden": (64, 64), "batch": 64, "gamma": 0.99, "lr": 3e-4, "rollout": 256, "epochs": 10, "envs": 8},
    ),
    "sac": Task("Pendulum-v1", -200.0, 1_000, 20_000, REPLAY),
    "td3": Task("Pendulum-v1", -200.0, 1_000, 20_000, {**REPLAY, "noise": 0.1}),
}

Train, Act = Callable[[int], None], Callable[[Any], Any]
"""Train so many steps more; best actions [B] of observations [B, ...]."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=list(TASKS))
    parser.add_argument("--seeds", type=int, default=3, help="how many: 1, 2, ...")
    parser.add_argument("--side", choices=SIDES, help="run one side here, with --seed, and print a line of JSON")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(measured(options.side, options.tasks[0], options.seed)))
        return 0
    found = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    for seed in range(1, options.seeds + 1):
        for name in options.tasks:
            for side in list(SIDES)[:: 1 if seed % 2 else -1]:
                key = f"{name} {side} {seed}"
                if key not in found:
                    found[key] = in_its_environment(side, name, seed)
                    print(key, found[key], flush=True)
                    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    write_table(found)
    return 0


def in_its_environment(side: str, task: str, seed: int) -> dict[str, Any]:
    """Run one side with the packages that it needs, on one thread."""
    python = sys.executable if side == "ours" else str(HERE.parent / "peers" / f".env-{side}" / "bin" / "python")
    command = [python, str(HERE / "walltime.py"), "--side", side, "--tasks", task, "--seed", str(seed)]
    environ = os.environ | {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{side} failed at {task}:\n{done.stderr[-3000:]}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def measured(side: str, name: str, seed: int) -> dict[str, Any]:
    """Train until the bar is reached; return seconds, steps and the last return."""
    import torch

    torch.set_num_threads(1)
    task = TASKS[name]
    make = getattr(importlib.import_module(f"walltime_{side}"), name)
    train, act = make(task.env, seed, **task.settings)
    seconds, steps, reached = 0.0, 0, float("-inf")
    while steps < task.most and reached < task.bar:
        begin = time.perf_counter()
        train(task.every)
        seconds += time.perf_counter() - begin
        steps += task.every
        reached = tested(task.env, act, seed)
    return {"seconds": round(seconds, 2), "steps": steps, "return": round(reached, 1), "there": reached >= task.bar}


def tested(env_id: str, act: Act, seed: int) -> float:
    """Mean return of `EPISODES` episodes, side by side."""
    import gymnasium as gym
    import numpy as np

    envs = [gym.make(env_id) for _ in range(EPISODES)]
    obs = [env.reset(seed=10_000 * seed + i)[0] for i, env in enumerate(envs)]
    total, alive = np.zeros(EPISODES), list(range(EPISODES))
    while alive:
        actions = act(np.stack([obs[i] for i in alive]))
        for i, action in zip(tuple(alive), actions, strict=True):
            obs[i], reward, terminated, truncated, _ = envs[i].step(action)
            total[i] += reward
            if terminated or truncated:
                alive.remove(i)
    return float(total.mean())


def write_table(found: dict[str, dict[str, Any]]) -> None:
    """Write the medians into docs/benchmarks.md."""
    lines = [
        f"| task | {' | '.join(f'{name}: seconds (steps)' for name in SIDES.values())} | best of the others / argosy |"
    ]
    lines.append("|" + " --- |" * (len(SIDES) + 2))
    for name, task in TASKS.items():
        cells, seconds = [], {}
        for side in SIDES:
            runs = [run for key, run in found.items() if key.startswith(f"{name} {side} ")]
            there = [run for run in runs if run["there"]]
            if there:
                seconds[side] = statistics.median(run["seconds"] for run in there)
                steps = statistics.median(run["steps"] for run in there)
                missed = f", {len(runs) - len(there)} of {len(runs)} not there" if len(there) < len(runs) else ""
                cells.append(f"{seconds[side]:.1f} ({steps:,.0f}{missed})")
            else:
                cells.append(f"none of {len(runs)} there" if runs else "")
        others = [value for side, value in seconds.items() if side != "ours"]
        ratio = f"{min(others) / seconds['ours']:.2f}" if others and "ours" in seconds else ""
        lines.append(f"| {name} {task.env}, {task.bar:g} | {' | '.join(cells)} | {ratio} |")
    text = DOC.read_text()
    before, rest = text.split(BEGIN, 1)
    DOC.write_text(before + BEGIN + "\n\n" + "\n".join(lines) + "\n\n" + END + rest.split(END, 1)[1])


if __name__ == "__main__":
    raise SystemExit(main())
