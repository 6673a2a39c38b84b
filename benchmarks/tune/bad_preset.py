"""From a deliberately bad preset, 30 trials find one that reaches the bar: three studies each on CartPole and Pendulum.

    python benchmarks/tune/bad_preset.py            # hours; Ctrl-C keeps all, the same command goes on
    python benchmarks/tune/bad_preset.py --quick    # one study on CartPole with few trials

Each study's best settings are trained once more with another seed, and played for 100 episodes; results.json beside
this file has what came of it.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import argosy
from argosy.presets import own_settings
from argosy.presets.search import search_space
from argosy.run.tune import Study

HERE = Path(__file__).parent
TASKS = {
    # algorithm, bar, steps of a trial, what is bad
    "CartPole-v1": ("ppo", 475.0, 60_000, {"lr": 1e-5, "gamma": 0.9, "repeat_per_collect": 2, "batch_size": 256}),
    "Pendulum-v1": ("sac", -200.0, 8_000, {"actor_optim.lr": 1e-5, "critic_optim.lr": 1e-5, "gamma": 0.9, "tau": 1e-3}),
}
TRIALS = 30


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="runs/bad-preset", help="folder of the studies")
    parser.add_argument("--jobs", type=int, default=2, help="trials side by side")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2], help="studies of each task")
    parser.add_argument("--quick", action="store_true", help="one study on CartPole, 4 trials of 10,000 steps")
    flags = parser.parse_args()
    rows = []
    for seed in [0] if flags.quick else flags.seeds:
        for task, (algorithm, bar, steps, bad) in TASKS.items():
            if flags.quick and task != "CartPole-v1":
                continue
            length = {"trainer.total_steps": 10_000 if flags.quick else steps, "threads": 1, "seed": seed}
            experiment = argosy.preset(algorithm, task, **bad, **length)
            study = Study(Path(flags.runs) / task / str(seed), experiment, search_space(experiment))
            if not study.run(4 if flags.quick else TRIALS, flags.jobs, lambda trial: print(trial, flush=True)):
                raise SystemExit("stopped; the same command goes on")
            first = next(trial for trial in study.trials if trial.number == 0)
            best = study.best
            confirmed = None
            if best is not None:
                better = argosy.preset(algorithm, task, **own_settings(study.best_preset), threads=1, seed=seed + 100)
                confirmed = argosy.train(better, runs=f"{flags.runs}/confirmed", show_progress=False).test_return_mean
            scores = {"first_trial": first.score, "best_trial": best and best.score, "with_another_seed": confirmed}
            rows.append({"task": task, "algorithm": algorithm, "seed": seed, "bar": bar, **scores})
            print(rows[-1], flush=True)
            if not flags.quick:
                (HERE / "results.json").write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
