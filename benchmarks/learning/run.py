"""Learning curves over several seeds: trains each through `argosy.train`, writes one JSON and one PNG.

What was cut off goes on where it stopped, what has finished is not made again: the runs are kept in
benchmarks/learning/runs/ (ignored by git) until their folder is removed, and a seed that stands in the results with the
same settings is taken from there.

    python benchmarks/learning/run.py dqn CartPole-v1 --bar 475 --max-steps 100000
    python benchmarks/learning/run.py ppo Pong-v5 --seeds 1 --set trainer.max_epoch=20
    python benchmarks/learning/run.py ppo Pong-v5 --gather runs/Pong-v5/ppo

The results lie in benchmarks/learning/results/; docs/benchmarks.md gets one line for each of them.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import metadata
from pathlib import Path
from typing import Any

import h5py
import numpy as np

import argosy
from argosy.data.datasets import read_attributes
from argosy.errors import ConfigError
from argosy.experiment import Experiment
from argosy.logger import read_jsonl
from argosy.report import interval
from argosy.rng import spawn_seeds
from argosy.run.machine import machine
from argosy.run.result import Result

HERE = Path(__file__).resolve().parent
RESULTS, RUNS = HERE / "results", HERE / "runs"
DOC = HERE.parents[1] / "docs" / "benchmarks.md"
BEGIN, END = "<!-- learning table: written by benchmarks/learning/run.py -->", "<!-- end of the learning table -->"
PUBLISHED = HERE / "published.json"
PUBLISHED_STEPS = 1_000_000
PUBLISHED_BEGIN = "<!-- beside published numbers: written by run.py -->"
PUBLISHED_END = "<!-- end of published numbers -->"
VERSIONS = ("torch", "numpy", "gymnasium", "envpool", "ale-py", "mujoco", "minatar", "box2d")


def main(args: Sequence[str] | None = None) -> int:
    """Train or gather, write, print; 1 if a seed missed the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm")
    parser.add_argument("task")
    parser.add_argument("--seeds", type=int, default=5, help="how many: 1, 2, ...")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, one thread each")
    parser.add_argument("--bar", type=float, help="mean test return that every seed has to reach")
    parser.add_argument("--success", type=float, help="share of test episodes that every seed has to succeed in")
    parser.add_argument("--expert", type=Path, metavar="FILE", help="every seed has to come near it, see --share")
    parser.add_argument(
        "--share",
        type=float,
        default=0.95,
        help="of the expert's return in the same episodes; if negative, its inverse",
    )
    parser.add_argument("--max-steps", type=int, help="environment steps within which it has to")
    parser.add_argument("--set", action="append", default=[], metavar="NAME=VALUE", help="change a setting")
    parser.add_argument("--label", default="", help="added to the name of the results, e.g. hidden-gru")
    parser.add_argument("--gather", type=Path, metavar="DIR", help="take finished runs below DIR instead of training")
    options = parser.parse_args(args)
    name = f"{options.task.replace('/', '-').replace(':', '-')}-{options.algorithm}" + f"-{options.label}" * bool(
        options.label
    )
    changes = {name: json.loads(value) for name, value in (entry.split("=", 1) for entry in options.set)}

    if options.gather is not None:
        seeds = [record(folder.parent) for folder in sorted(options.gather.rglob("metrics.jsonl"))]
    else:
        runs = RUNS / name
        experiment = wanted(options.algorithm, options.task, changes)
        known = standing(RESULTS / f"{name}.json", experiment)
        asked = sorted({*range(1, options.seeds + 1), *known})  # what is known stays, however few are asked for
        with ProcessPoolExecutor(options.jobs) as pool:
            jobs = {
                seed: pool.submit(train, experiment.replaced({"seed": seed}), runs / str(seed))
                for seed in asked
                if seed not in known or (runs / str(seed)).exists()
            }
            seeds = [jobs[seed].result() if seed in jobs else known[seed] for seed in asked]
    experiments = [seed.pop("experiment") for seed in seeds]
    for seed, experiment in zip(seeds, experiments, strict=True):
        bar = options.bar
        if options.expert is not None:
            seed["expert_return"] = expert_return(options.expert, seed["seed"], experiment["stop"]["episodes"])
            bar = near(seed["expert_return"], options.share)
        seed["passed"] = passed(seed, bar, options.max_steps, options.success)
        seed["steps_to_bar"] = steps_to(options.bar, seed["test_curve"])
    summary = {
        "algorithm": options.algorithm,
        "task": options.task,
        "label": options.label,
        "bar": options.bar,
        "success": options.success,
        "expert": None if options.expert is None else str(options.expert),
        "expert_share": None if options.expert is None else options.share,
        "max_steps": options.max_steps,
        "changes": changes,
        "data_sha256": None if "data" not in changes else digest(changes["data"]),
        "experiment": experiments[0],
        "seeds": seeds,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(summary, indent=1) + "\n")
    draw(summary, RESULTS / f"{name}.png")
    write_doc()
    for seed in seeds:
        print(
            f"seed {seed['seed']}: return {seed['test_return_mean']:.1f} after {seed['env_steps']:,} steps, "
            f"{seed['wall_s']:.0f} s, {'passed' if seed['passed'] else 'MISSED'}"
        )
    print(f"{sum(seed['passed'] for seed in seeds)} of {len(seeds)} passed; {RESULTS / name}.json, .png")
    return 0 if all(seed["passed"] for seed in seeds) else 1


def _versions() -> dict[str, str]:
    """Return the versions of what is installed of `VERSIONS`."""
    there = {package.metadata["Name"].lower(): package.version for package in metadata.distributions()}
    return {name: there[name] for name in VERSIONS if name in there}


def commit() -> str | None:
    """Return by which commit a run was made, marked if files differed from it; None outside a clone."""
    command = ["git", "-C", str(HERE), "describe", "--always", "--dirty", "--exclude", "*"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip() or None


def wanted(algorithm: str, task: str, changes: Mapping[str, Any]) -> Experiment:
    """Return what is to be run, whatever the seed."""
    experiment = argosy.preset(algorithm, task, **changes)
    if experiment.data is None:
        return experiment
    return experiment.replaced({"data": os.path.realpath(experiment.data)})  # as a run keeps it


def described(experiment: Experiment) -> dict[str, Any]:
    """Return a run's settings as they stand in its result: without its seed, files by their names alone."""
    settings = {key: value for key, value in experiment.to_dict().items() if key != "seed"}
    if experiment.data is not None:
        settings["data"] = "/".join(Path(experiment.data).parts[-2:])  # wherever the machine keeps it
    if experiment.expert is not None:
        settings["expert"] = Path(experiment.expert).name
    return settings


def standing(result: Path, experiment: Experiment) -> dict[int, dict[str, Any]]:
    """Return the seeds of a result, none if it was made with other settings; those that it lacks had their defaults."""
    if not result.is_file():
        return {}
    summary = json.loads(result.read_text())
    settings = summary["experiment"]
    if experiment.data is not None and summary.get("data_sha256") != digest(experiment.data):
        return {}  # another machine makes other data
    try:
        made = Experiment.from_dict(settings)
    except ConfigError:  # of settings that there are no more
        return {}
    # neither matters to what is learned
    free = {"threads": made.threads, "trainer.checkpoint_epochs": made.trainer.checkpoint_epochs}
    if described(made) != described(experiment.replaced(free)):
        return {}
    origin = {"machine": summary.get("machine"), "versions": summary.get("versions")}  # of older seeds: their result's
    return {seed["seed"]: origin | seed | {"experiment": settings} for seed in summary["seeds"]}


def digest(file: str | Path) -> str:
    """Return what tells data from others: a file that `data/make.py` made again elsewhere differs by rounding alone."""
    made = read_attributes(file) if h5py.is_hdf5(file) else {}
    if "recipe" in made and "converted_from" not in made:  # what `argosy data convert` wrote may be a part of it
        return str(made["recipe"])
    with open(file, "rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def train(experiment: Experiment, runs: Path) -> dict[str, Any]:
    """Train one seed, or what is left of it, and return its record."""
    begun = sorted(runs.rglob("config.json"), key=lambda path: any(path.parent.glob("checkpoint*")))
    config = begun[-1] if begun else None  # one that can go on, if there is one
    found = None if config is None else Experiment.load(config, trust=True)
    if found is not None and found.replaced({"threads": experiment.threads}) != experiment:  # found as it begins
        raise SystemExit(f"{config.parent} was made with other settings; remove it, or give this run a --label")
    if config is None or not any(config.parent.glob("checkpoint*")):
        return finished(argosy.train(experiment, runs=runs, show_progress=False))
    try:
        return finished(argosy.resume(config.parent, show_progress=False, trust=True))
    except ConfigError as error:
        if "has finished" not in str(error):
            raise
    return record(config.parent)


def finished(result: Result) -> dict[str, Any]:
    """Return the record of a run that came to its end; what was interrupted gets into no table."""
    if result.interrupted:
        raise SystemExit(f"{result.run_dir} was interrupted; the same command goes on with it")
    return record(Path(result.run_dir))


def record(folder: Path) -> dict[str, Any]:
    """Return what a run's folder says about its seed."""
    experiment = Experiment.load(folder / "config.json", trust=True)
    rows = read_jsonl(folder / "metrics.jsonl")
    clock = "env_step" if experiment.data is None else "gradient_step"
    curve, training = (
        [[int(row[clock] or 0), row[name]] for row in rows if name in row]
        for name in ("test/return_mean", "episode/return_mean")
    )
    result = folder / "result.json"
    if result.is_file():
        ended = json.loads(result.read_text())
    else:
        ended = {"env_steps": rows[-1]["env_step"], "test_return_mean": curve[-1][1] if curve else float("nan")}
        ended["wall_s"] = (folder / "metrics.jsonl").stat().st_mtime - (folder / "config.json").stat().st_mtime
    return {
        "experiment": described(experiment),
        "seed": experiment.seed,
        "device": experiment.device if experiment.device != "auto" else "cpu",
        "env_steps": ended["env_steps"],
        "updates": ended.get("gradient_steps"),
        "wall_s": ended["wall_s"],
        "test_return_mean": ended["test_return_mean"],
        "test_success_rate": ended.get("test_success_rate"),
        "final_return_mean": last_return(folder, experiment) if result.is_file() else None,
        "test_curve": curve,
        "training_curve": training[:: max(1, len(training) // 200)],
        "machine": f"{machine()['processor']}, {os.cpu_count()} cores",
        "versions": {"argosy": argosy.__version__} | _versions(),
        "commit": commit(),
        "date": time.strftime("%Y-%m-%d"),
    }


def last_return(folder: Path, experiment: Experiment) -> float:
    """Mean return of a run's final policy, in the episodes by which its best version is evaluated."""
    seed, episodes = spawn_seeds(experiment.seed, 5)[4], experiment.stop.episodes
    return float(argosy.evaluate(folder, tag="latest", episodes=episodes, seed=seed, trust=True).returns.mean())


def final_return(seed: Mapping[str, Any]) -> float:
    """Mean return of a seed's final policy; of a record that lacks it, the best version's where they are the same one.

    Where they are not, it is that of the last test, which is of fewer episodes.
    """
    if (known := seed.get("final_return_mean")) is not None:
        return float(known)
    tests = [value for _, value in seed.get("test_curve", ())]
    return float(seed["test_return_mean"] if not tests or tests[-1] > max(tests[:-1], default=-np.inf) else tests[-1])


def expert_return(expert: Path, seed: int, episodes: int) -> float:
    """Mean return of an agent in the episodes by which the run with this seed is evaluated."""
    return float(argosy.evaluate(expert, episodes=episodes, seed=spawn_seeds(seed, 5)[4]).returns.mean())


def near(value: float, share: float) -> float:
    """Return what is as good as this share of a return: of -145, 0.95 are -152.3."""
    return share * value if value >= 0 else value - (1 - share) * abs(value)


def passed(seed: Mapping[str, Any], bar: float | None, max_steps: int | None, success: float | None = None) -> bool:
    """Whether the best version of a seed's policy reached the bars within the budget."""
    return (
        (bar is None or seed["test_return_mean"] >= bar)
        and (success is None or seed["test_success_rate"] >= success)
        and (max_steps is None or seed["env_steps"] <= max_steps)
    )


def steps_to(bar: float | None, curve: Sequence[Sequence[float]]) -> float | None:
    """Return the environment steps at the first test that reached the bar."""
    return next((step for step, value in curve if bar is not None and value >= bar), None)


def mean_curve(curves: Sequence[Sequence[Sequence[float]]]) -> tuple[np.ndarray, np.ndarray]:
    """Average curves of (step, return) on a common grid; a run that has ended keeps its last value."""
    grid = np.unique([step for curve in curves for step, _ in curve])
    return grid, np.mean([np.interp(grid, *np.array(curve, dtype=float).T) for curve in curves], axis=0)


def draw(summary: Mapping[str, Any], path: Path) -> None:
    """Draw every seed's curve: tests as lines with marks, training returns faintly behind."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    for number, seed in enumerate(summary["seeds"]):
        color = f"C{number}"
        if seed["training_curve"]:
            axes.plot(*zip(*seed["training_curve"], strict=True), color=color, alpha=0.35, linewidth=1)
        if seed["test_curve"]:
            curve = zip(*seed["test_curve"], strict=True)
            axes.plot(*curve, color=color, marker="o", markersize=3, label=f"seed {seed['seed']}")
    curves = [seed["test_curve"] for seed in summary["seeds"] if seed["test_curve"]]
    if len(curves) > 1:
        axes.plot(*mean_curve(curves), color="black", linewidth=2, label="mean")
    if summary["bar"] is not None:
        axes.axhline(summary["bar"], color="grey", linestyle="--", linewidth=1, label=f"bar {summary['bar']:g}")
    title = f"{summary['algorithm']} on {summary['task']} {summary['label']} (test returns; training returns faint)"
    unit = "environment steps" if summary["experiment"].get("data") is None else "updates"
    axes.set(xlabel=unit, ylabel="return", title=title)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(path)


def write_doc() -> None:
    """Write the table of all results into docs/benchmarks.md."""
    lines = [
        "| task | algorithm | seeds that reached the bar (of an expert: by best versions / by final policies) "
        "| steps, median (most) | seconds per seed, median "
        "| return of the best version: interquartile mean, 95 % interval | of the final policy |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for path in sorted(RESULTS.glob("*.json")):
        summary = json.loads(path.read_text())
        if summary["task"].startswith("MinAtar/") and not summary["label"]:
            continue  # these have a table of their own, see games.py
        seeds = summary["seeds"]
        steps, label = [seed["env_steps"] for seed in seeds], summary.get("label", "")
        offline = summary["experiment"].get("data") is not None
        asked = {"": summary["bar"], "success ": summary.get("success")}
        bars = [f"{what}{least:g}" for what, least in asked.items() if least is not None]
        if share := summary.get("expert_share"):
            bars.append(f"{share:.0%} of the expert's".replace("%", " %"))
        bar = f"{sum(s['passed'] for s in seeds)}{_finals(summary)} of {len(seeds)}" if bars else "no bar"
        if bars:
            within = "" if offline or summary["max_steps"] is None else f" within {summary['max_steps']:,} steps"
            bar += f" ({' and '.join(bars)}{within})"
        took = f"{statistics.median(steps):,.0f} ({max(steps):,})"
        if offline:
            took = f"{seeds[0]['updates']:,} updates" + f", {max(steps):,} steps" * (max(steps) > 0)
        returns = [[seed["test_return_mean"] for seed in seeds], [final_return(seed) for seed in seeds]]
        lines.append(
            f"| {summary['task']}{' (' * bool(label)}{label}{')' * bool(label)} | {summary['algorithm']} | {bar} "
            f"| {took} | "
            f"{statistics.median(seed['wall_s'] for seed in seeds):.0f} | {' | '.join(map(said, returns))} |"
        )
    put(lines, BEGIN, END)
    put(beside_published(), PUBLISHED_BEGIN, PUBLISHED_END)


def _finals(summary: Mapping[str, Any]) -> str:
    """Say how many final policies reached the bar, where an expert sets it."""
    share = summary.get("expert_share")
    if not share:
        return ""
    return f" / {sum(final_return(seed) >= near(seed['expert_return'], share) for seed in summary['seeds'])}"


def said(returns: Sequence[float]) -> str:
    """Return an interquartile mean and its interval as they stand in a table."""
    mean = interval(returns)
    digits = 1 if abs(mean.value) >= 10 else 2
    return f"{mean.value:.{digits}f}" + f" ({mean.low:.{digits}f} to {mean.high:.{digits}f})" * (len(returns) > 1)


def beside_published() -> list[str]:
    """Return the lines of a table: the best point of the mean test curve, which is what was published."""
    lines = [
        "| task | algorithm | Tianshou, published | argosy (seeds) | after steps |",
        "| --- | --- | --- | --- | --- |",
    ]
    for task, published in json.loads(PUBLISHED.read_text()).items():
        for algorithm, (theirs, deviation, *longer) in published.items():
            path = RESULTS / f"{task}-{algorithm}.json"
            seeds = json.loads(path.read_text())["seeds"] if path.exists() else []
            if not seeds or min(seed["env_steps"] for seed in seeds) < PUBLISHED_STEPS:
                continue
            grid, mean = mean_curve([seed["test_curve"] for seed in seeds])
            best = int(mean.argmax())
            ours = [np.interp(grid[best], *np.array(seed["test_curve"], dtype=float).T) for seed in seeds]
            spread = f" ± {np.std(ours):.1f}" if len(ours) > 1 else ""
            within = f" in {longer[0]:,} steps" if longer else ""
            lines.append(
                f"| {task} | {algorithm} | {theirs:.1f} ± {deviation:.1f}{within} | {mean[best]:.1f}{spread} "
                f"({len(seeds)}) | {grid[best]:,.0f} |"
            )
    return lines


def put(lines: Sequence[str], begin: str, end: str) -> None:
    """Write the lines of a table between two marks of docs/benchmarks.md."""
    before, rest = DOC.read_text().split(begin, 1)
    DOC.write_text(before + begin + "\n\n" + "\n".join(lines) + "\n\n" + end + rest.split(end, 1)[1])


if __name__ == "__main__":
    raise SystemExit(main())
