"""Train several seeds of an algorithm on a task and keep what came of it.

    python benchmarks/learning/run.py --algorithm dqn --task CartPole-v1 --seeds 5 --jobs 2
    python benchmarks/learning/run.py --from runs/PongNoFrameskip-v4/ppo/*     # of runs that were made before

Writes results/<task>-<algorithm>.json (settings, versions, machine; per seed its curve, the steps to the threshold, the
mean return of the final test episodes, seconds) and a picture of the same name.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"
VERSIONS = ("argosy", "torch", "numpy", "gymnasium", "envpool", "ale-py", "mujoco")
SOLVED = {"CartPole-v1": 475.0, "Pendulum-v1": -200.0, "PongNoFrameskip-v4": 18.0}
"""Mean return from which a task counts as solved."""


def train_seed(algorithm: str, task: str, seed: int, runs: str, changes: dict[str, Any]) -> str:
    """Train one seed in this process; return the run's folder."""
    import argosy

    return argosy.train(algorithm, task, seed=seed, runs=runs, show_progress=False, **changes).run_dir


def summary(run_dir: Path, threshold: float | None) -> dict[str, Any]:
    """Return what a finished run has come to."""
    from argosy.logger import read_jsonl

    result = json.loads((run_dir / "result.json").read_text())
    rows = read_jsonl(run_dir / "metrics.jsonl")
    curve = [[row["env_step"], row["test/return_mean"]] for row in rows if row.get("test/return_mean") is not None]
    reached = [step for step, value in curve if threshold is not None and value is not None and value >= threshold]
    return {
        "seed": result["seed"],
        "env_steps": result["env_steps"],
        "gradient_steps": result["gradient_steps"],
        "wall_s": round(result["wall_s"], 1),
        "steps_per_s": round(result["steps_per_s"], 1),
        "steps_to_threshold": reached[0] if reached else None,
        "final_return_mean": result["test_return_mean"],
        "final_return_std": result["test_return_std"],
        "solved": None if threshold is None else result["test_return_mean"] >= threshold,
        "curve": curve,
    }


def report(run_dirs: Sequence[Path], jobs: int | None) -> dict[str, Any]:
    """Return the document of several runs of one algorithm on one task."""
    experiment = json.loads((run_dirs[0] / "config.json").read_text())
    result = json.loads((run_dirs[0] / "result.json").read_text())
    threshold = SOLVED.get(result["task"])
    seeds = sorted((summary(path, threshold) for path in run_dirs), key=lambda seed: seed["seed"])
    finals = [seed["final_return_mean"] for seed in seeds]
    experiment.pop("seed", None)
    return {
        "task": result["task"],
        "algorithm": result["algorithm"],
        "threshold": threshold,
        "solved": None if threshold is None else f"{sum(seed['solved'] for seed in seeds)} of {len(seeds)}",
        "final_return_mean": float(np.mean(finals)),
        "date": time.strftime("%Y-%m-%d"),
        "machine": machine(),
        "runs_at_a_time": jobs,
        "versions": versions(),
        "experiment": experiment,
        "seeds": seeds,
    }


def versions() -> dict[str, str]:
    """Return the versions of what matters for results."""
    found = {"python": platform.python_version()}
    for package in VERSIONS:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found


def machine() -> str:
    """Describe this machine without naming it."""
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return f"{models[0] if models else platform.machine()}, {os.cpu_count()} cores, {platform.system()}"


def mean_curve(curves: Sequence[Sequence[Sequence[float]]]) -> tuple[np.ndarray, np.ndarray]:
    """Average curves of [step, return] on a common grid; a run that has ended keeps its last value."""
    grid = np.unique(np.concatenate([[step for step, _ in curve] for curve in curves]))
    values = [np.interp(grid, *np.array(curve, dtype=float).T) for curve in curves]
    return grid, np.mean(values, axis=0)


def draw(document: dict[str, Any], path: Path) -> None:
    """Draw every seed, their mean and the threshold."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    curves = [seed["curve"] for seed in document["seeds"] if seed["curve"]]
    for seed in document["seeds"]:
        if seed["curve"]:
            axes.plot(*np.array(seed["curve"], dtype=float).T, color="#9ab", linewidth=1, label=None)
    if len(curves) > 1:
        axes.plot(*mean_curve(curves), color="#d55", linewidth=2, label=f"mean of {len(curves)} seeds")
    if document["threshold"] is not None:
        axes.axhline(document["threshold"], color="#555", linestyle="--", linewidth=1, label="solved")
    axes.set(xlabel="environment steps", ylabel="mean test return")
    axes.set_title(f"{document['algorithm']} on {document['task']}")
    axes.grid(alpha=0.3)
    if axes.get_legend_handles_labels()[0]:
        axes.legend(loc="lower right")
    figure.savefig(path)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algorithm", help="as in `argosy algorithms`")
    parser.add_argument("--task", help="id of the environment")
    parser.add_argument("--seeds", type=int, default=5, help="how many, from --first-seed on (default: 5)")
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1, help="seeds that are trained at the same time (default: 1)")
    parser.add_argument("--set", nargs="*", default=[], metavar="KEY=VALUE", help="settings, e.g. trainer.max_epoch=5")
    parser.add_argument("--runs", type=Path, help="keep the runs' folders here (default: they are removed)")
    parser.add_argument("--from", dest="run_dirs", type=Path, nargs="+", metavar="RUN", help="report on these runs")
    parser.add_argument("--out", type=Path, default=RESULTS, help="where the report goes (default: results/)")
    args = parser.parse_args()
    if args.run_dirs is None and (args.algorithm is None or args.task is None):
        parser.error("--algorithm and --task are needed (or --from)")

    with tempfile.TemporaryDirectory() as scratch:
        run_dirs: list[Path] = args.run_dirs or []
        if not run_dirs:
            changes: dict[str, Any] = {}
            for setting in args.set:
                key, _, value = setting.partition("=")
                try:
                    changes[key] = json.loads(value)
                except ValueError:
                    changes[key] = value
            runs = str(args.runs or scratch)
            seeds = range(args.first_seed, args.first_seed + args.seeds)
            with ProcessPoolExecutor(args.jobs, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
                waiting = [pool.submit(train_seed, args.algorithm, args.task, seed, runs, changes) for seed in seeds]
                run_dirs = [Path(future.result()) for future in tqdm(waiting, unit="seed", disable=None)]
        document = report(run_dirs, None if args.run_dirs else args.jobs)
    args.out.mkdir(parents=True, exist_ok=True)
    stem = args.out / f"{document['task'].replace('/', '-')}-{document['algorithm']}"
    stem.with_name(stem.name + ".json").write_text(json.dumps(document, indent=1) + "\n")
    draw(document, stem.with_name(stem.name + ".png"))
    for seed in document["seeds"]:
        print(
            f"seed {seed['seed']}: {seed['final_return_mean']:.1f} after {seed['env_steps']} steps "
            f"({seed['wall_s']:.0f} s), threshold at {seed['steps_to_threshold']}"
        )
    print(f"solved: {document['solved']}; written to {stem}.json and .png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
