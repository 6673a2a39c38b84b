"""What `--profile` costs: whole runs with and without it, in turn, compared by processor time.

`python benchmarks/profiling.py [PAIRS]` prints each pair and the median of its ratios.
"""

import statistics
import sys
import tempfile
import time

import argosy

STEPS = {"dqn": 4_000, "ppo": 12_288}


def seconds(name, steps, profile):
    """Processor time of one run, of all its threads."""
    settings = {"seed": 1, "threads": 1, "stop": {"test_return": None, "episodes": 1}}
    with tempfile.TemporaryDirectory() as folder:
        began = time.process_time()
        argosy.train(
            name, "CartPole-v1", runs=folder, total_steps=steps, show_progress=False, profile=profile, **settings
        )
        return time.process_time() - began


def main(pairs=30):
    for name, steps in STEPS.items():
        seconds(name, steps, True)  # what is imported and compiled once
        ratios = []
        for number in range(pairs):
            order = (True, False) if number % 2 else (False, True)
            took = {profile: seconds(name, steps, profile) for profile in order}
            ratios.append(took[True] / took[False])
            print(f"{name}: {took[False]:.2f} s without, {took[True]:.2f} s with: {ratios[-1]:.4f}", flush=True)
        print(f"{name}: median of {pairs} pairs {statistics.median(ratios):.4f}", flush=True)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
