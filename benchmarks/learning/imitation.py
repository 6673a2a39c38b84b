"""Behaviour cloning beside the agent whose data it learns from: trains the agent, collects, clones with several seeds.

    python benchmarks/learning/imitation.py dqn CartPole-v1
    python benchmarks/learning/imitation.py sac Pendulum-v1 --steps 20000

Writes benchmarks/learning/results/imitation/TASK-bc.json. A clone passes whose mean return is at least 95 % of the
agent's, over equally many episodes (where returns are negative: at most 5 % below).
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import argosy

RESULTS = Path(__file__).resolve().parent / "results"
EPISODES = 100


def main(args: Sequence[str] | None = None) -> int:
    """Train, collect, clone, write, print; 1 if a clone is worse than 95 % of the agent."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", help="of the agent that makes the data")
    parser.add_argument("task")
    parser.add_argument("--steps", type=int, default=20_000, help="transitions to collect")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args(args)
    with tempfile.TemporaryDirectory() as folder:
        agent = argosy.train(options.algorithm, options.task, seed=1, runs=folder, show_progress=False)
        expert = float(argosy.evaluate(agent.run_dir, episodes=EPISODES).returns.mean())
        file = Path(folder) / "agent.hdf5"
        argosy.collect_data(agent.run_dir, file, steps=options.steps)
        clones = []
        for seed in range(1, options.seeds + 1):
            clone = argosy.train("bc", options.task, seed=seed, data=str(file), runs=folder, show_progress=False)
            mean = float(argosy.evaluate(clone.run_dir, episodes=EPISODES).returns.mean())
            clones.append({"seed": seed, "return_mean": mean, "updates": clone.gradient_steps, "wall_s": clone.wall_s})
            clones[-1]["passed"] = mean >= expert - 0.05 * abs(expert)
    summary = {
        "task": options.task,
        "agent": options.algorithm,
        "agent_return_mean": expert,
        "steps": options.steps,
        "episodes": EPISODES,
        "date": time.strftime("%Y-%m-%d"),
        "clones": clones,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "imitation").mkdir(exist_ok=True)
    (RESULTS / "imitation" / f"{options.task}-bc.json").write_text(json.dumps(summary, indent=1) + "\n")
    for clone in clones:
        share = clone["return_mean"] / expert
        print(f"seed {clone['seed']}: {clone['return_mean']:.1f}, agent {expert:.1f}, ratio {share:.3f}")
    return 0 if all(clone["passed"] for clone in clones) else 1


if __name__ == "__main__":
    raise SystemExit(main())
