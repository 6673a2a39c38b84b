"""The five games of MinAtar, sticky actions on, 500,000 frames: trains what is missing, writes averages and profiles.

    python benchmarks/learning/games.py dqn rainbow --seeds 3
    python benchmarks/learning/games.py             writes the table and the picture of what is there

Each run is one of run.py's. A score is the mean return of 100 episodes of the best policy; where games are averaged, 0
is the lowest one of a game and 1 the highest, of all runs in the table.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import run

from argosy.report import improvement, interval, profile
from argosy.report.comparison import tables

GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
PICTURE = run.DOC.parent / "images" / "minatar.png"
ALGORITHMS = ("dqn", "c51", "rainbow", "qrdqn", "iqn", "fqf", "ppo", "a2c", "discrete_sac")
BEGIN, END = "<!-- MinAtar: written by benchmarks/learning/games.py -->", "<!-- end of MinAtar -->"


def main(args: Sequence[str] | None = None) -> int:
    """Train, write; 0."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithms", nargs="*", metavar="ALGORITHM", help="to be trained; none: only write")
    parser.add_argument("--games", nargs="+", choices=GAMES, default=GAMES)
    parser.add_argument("--seeds", type=int, default=3, help="how many: 1, 2, ...")
    parser.add_argument("--jobs", type=int, default=2, help="runs at the same time, one thread each")
    options = parser.parse_args(args)
    for algorithm in options.algorithms:
        for game in options.games:
            run.main([algorithm, f"MinAtar/{game}-v1", f"--seeds={options.seeds}", f"--jobs={options.jobs}"])
    write_doc()
    return 0


def found() -> dict[str, dict[str, list[dict[str, Any]]]]:
    """Return the seeds of each algorithm and game, of algorithms that have played all games."""
    there: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for algorithm in ALGORITHMS:
        paths = {game: run.RESULTS / f"MinAtar-{game}-v1-{algorithm}.json" for game in GAMES}
        if all(path.is_file() for path in paths.values()):
            there[algorithm] = {game: json.loads(path.read_text())["seeds"] for game, path in paths.items()}
    return there


def write_doc() -> None:
    """Write the table into docs/benchmarks.md and draw the profiles, of what is there."""
    seeds = found()
    if not seeds:
        return
    scores = {name: {game: [s["test_return_mean"] for s in seeds[name][game]] for game in GAMES} for name in seeds}
    normal = dict(zip(scores, tables(list(scores.values()), GAMES), strict=True))
    lines = [
        f"| algorithm | seeds | {' | '.join(GAMES)} | all games, 0 to 1: interquartile mean, 95 % interval "
        "| probability that a run beats one of DQN | seconds per run, median |",
        "| --- " * (len(GAMES) + 5) + "|",
    ]
    for name, table in normal.items():
        games = " | ".join(f"{np.mean(scores[name][game]):.1f}" for game in GAMES)
        ahead = "" if name == "dqn" or "dqn" not in normal else f"{improvement(table, normal['dqn']):.2f}"
        mean = interval(table)
        bounds = f" ({mean.low:.2f} to {mean.high:.2f})" if len(table) > 1 else ""
        seconds = statistics.median(seed["wall_s"] for game in GAMES for seed in seeds[name][game])
        counts = sorted({len(scores[name][game]) for game in GAMES})  # the mean over the games takes the fewest
        row = (name, " to ".join(map(str, counts)), games, f"{mean.value:.2f}{bounds}", ahead, f"{seconds:.0f}")
        lines.append(f"| {' | '.join(row)} |")
    run.put(lines, BEGIN, END)
    draw(normal)


def draw(normal: dict[str, np.ndarray]) -> None:
    """Draw which share of runs of each algorithm is above a score."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), dpi=120, layout="constrained")
    axes = figure.add_subplot()
    thresholds = np.linspace(0, 1, 101)
    for name, table in normal.items():
        axes.step(thresholds, profile(table, thresholds), where="post", label=f"{name} ({len(table)} x {len(GAMES)})")
    axes.set(
        xlabel="score, each game from its lowest (0) to its highest (1)",
        ylabel="share of runs above it",
        title="MinAtar, 500,000 frames (runs x games)",
    )
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(PICTURE)


if __name__ == "__main__":
    raise SystemExit(main())
