"""Data sets to learn from: trains an agent in stages, and writes what it does at each of them.

    python benchmarks/learning/data/make.py sac Pendulum-v1 --stages 2000 4000 20000

Writes benchmarks/learning/runs/data/TASK/ (ignored by git): `expert.zip`, the agent after the last stage, and
`expert.hdf5`, what it does; `medium.hdf5`, what it did at the stage in the middle; `mixed.hdf5`, as many transitions,
an equal share of every stage, the earlier ones with random actions (`--eps`) between the agent's own.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

import argosy
from argosy.data import ReplayBuffer
from argosy.data.datasets import DatasetWriter, read_attributes
from argosy.data.join import aggregate

DATA = Path(__file__).resolve().parents[1] / "runs" / "data"


def main(args: Sequence[str] | None = None) -> int:
    """Train, collect, join, print the returns."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("algorithm", help="of the agent")
    parser.add_argument("task")
    parser.add_argument("--stages", type=int, nargs="+", required=True, help="steps of training behind each")
    parser.add_argument("--steps", type=int, default=20_000, help="transitions of each file")
    parser.add_argument("--eps", type=float, default=0.3, help="share of random actions at all stages but the last")
    options = parser.parse_args(args)
    folder, stages = DATA / options.task.replace("/", "-"), sorted(options.stages)
    share = options.steps // len(stages)
    with tempfile.TemporaryDirectory() as runs:
        parts = [Path(runs) / f"{stage}.hdf5" for stage in stages]
        run = None
        for stage, part in zip(stages, parts, strict=True):
            if run is None:
                changes = {"total_steps": stage, "stop": {"test_return": None}}
                result = argosy.train(
                    options.algorithm, options.task, seed=1, runs=runs, show_progress=False, **changes
                )
            else:
                result = argosy.resume(run, total_steps=stage, show_progress=False)
            run, eps = result.run_dir, 0.0 if stage == stages[-1] else options.eps
            argosy.collect_data(run, part, steps=share, eps=eps)
            print(f"after {stage:,} steps, eps {eps}: {described(part)}")
            if stage == stages[len(stages) // 2]:
                argosy.collect_data(run, folder / "medium.hdf5", steps=options.steps)
        argosy.pack(run, folder / "expert.zip", video=False)
        argosy.collect_data(run, folder / "expert.hdf5", steps=options.steps)
        join(parts, folder / "mixed.hdf5")
    for name in ("expert", "medium", "mixed"):
        print(f"{name}: {described(folder / f'{name}.hdf5')}")
    return 0


def join(parts: Sequence[Path], path: Path) -> None:
    """Write files of equally many steps side by side, as if their envs had been stepped together."""
    rollouts = [ReplayBuffer.load_hdf5(part).rollout() for part in parts]
    together = aggregate(rollouts, lambda parts: np.concatenate(parts, axis=1), like=rollouts[0])
    attributes = [read_attributes(part) for part in parts]
    episodes = [int(found["episodes"]) for found in attributes]
    sums = (count * float(found["return_mean"]) for count, found in zip(episodes, attributes, strict=True))
    steps, num_envs = together.rew.shape
    with DatasetWriter(path, num_envs, steps) as writer:
        writer.write(together)
        writer.finish(
            {
                **{name: attributes[-1][name] for name in ("action_scale", "task", "env", "algorithm")},
                "episodes": sum(episodes),
                "return_mean": sum(sums) / sum(episodes),
            }
        )


def described(path: Path) -> str:
    """Say how good the policies were that made a file."""
    found = read_attributes(path)
    return f"{found['return_mean']:.1f} over {found['episodes']} episodes"


if __name__ == "__main__":
    raise SystemExit(main())
